#include "hooks.h"

#include "error.h"
#include "finite.h"

#include "llama.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

using plumb::all_finite;
using plumb::fail;
using plumb::planned_hook;

namespace {

// The block whose output the node is, or -1. Only the whole name counts: "l_out-3 (view)" is another node.
int32_t layer_of(const char * name) {
    static const char prefix[] = "l_out-";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) {
        return -1;
    }
    const char * digits = name + sizeof prefix - 1;
    char *       end    = nullptr;
    const long   layer  = strtol(digits, &end, 10);
    return end == digits || *end != 0 || layer < 0 ? -1 : (int32_t) layer;
}

// The scheduler calls its copy of an input "DEVICE#name#number".
bool is_named(const ggml_tensor * tensor, const char * name) {
    const char * hash = strchr(tensor->name, '#');
    if (!hash) {
        return strcmp(tensor->name, name) == 0;
    }
    const size_t n = strlen(name);
    return strncmp(hash + 1, name, n) == 0 && hash[1 + n] == '#';
}

planned_hook checked(const plumb_hooks & hooks, const plumb_hook & h, const plumb_batch_rows * batch) {
    const int32_t layer = h.layer;
    if (layer < PLUMB_LAYER_EMBEDDING || layer >= hooks.n_layer) {
        fail(PLUMB_INVALID, "there is no layer %d: the model has layers 0 to %d (and -1, the embeddings)", layer,
             hooks.n_layer - 1);
    }
    if (h.op < PLUMB_HOOK_READ || h.op > PLUMB_HOOK_NOISE) {
        fail(PLUMB_INVALID, "unknown hook operator %d", (int) h.op);
    }
    const bool uniform = !h.rows && (h.op == PLUMB_HOOK_ADD || h.op == PLUMB_HOOK_PROJECT_OUT);
    if (!batch && !uniform) {
        fail(PLUMB_INVALID,
             "a hook on chosen rows, or one that reads, restores or adds noise, needs the batch it is for");
    }
    if (!std::isfinite(h.strength)) {
        fail(PLUMB_INVALID, "the strength at layer %d is not a number", layer);
    }
    planned_hook p;
    p.hook = h;
    if (h.rows) {
        if (h.n_rows < 1) {
            fail(PLUMB_INVALID, "a hook at layer %d names no row", layer);
        }
        p.rows.assign(h.rows, h.rows + h.n_rows);
        for (int32_t i = 0; i < h.n_rows; i++) {
            if (p.rows[i] < (i ? p.rows[i - 1] + 1 : 0) || p.rows[i] >= batch->n_rows) {
                fail(PLUMB_INVALID, "the rows of a hook at layer %d are not ascending indices below %d", layer,
                     batch->n_rows);
            }
            if (layer == hooks.n_layer - 1 && !batch->logits[p.rows[i]]) {
                fail(PLUMB_INVALID, "row %d does not reach the output of the last layer: its logits are not asked for",
                     p.rows[i]);
            }
        }
        if (h.row_strength) {
            p.row_strength.assign(h.row_strength, h.row_strength + h.n_rows);
        }
    } else if (h.row_strength) {
        fail(PLUMB_INVALID, "row strengths at layer %d without rows", layer);
    }
    if (!all_finite(p.row_strength.data(), p.row_strength.size())) {
        fail(PLUMB_INVALID, "a row strength at layer %d is not a number", layer);
    }
    const size_t width = hooks.n_embd;
    switch (h.op) {
        case PLUMB_HOOK_READ:
            if (!h.out) {
                fail(PLUMB_INVALID, "nowhere to read layer %d to", layer);
            }
            if (!h.rows && layer == hooks.n_layer - 1 &&
                std::find(batch->logits, batch->logits + batch->n_rows, 0) != batch->logits + batch->n_rows) {
                fail(PLUMB_INVALID,
                     "only rows whose logits are asked for reach the output of the last layer: name them");
            }
            break;
        case PLUMB_HOOK_NOISE:
            break;
        case PLUMB_HOOK_RESTORE:
            if (!h.rows) {
                fail(PLUMB_INVALID, "a restoring hook at layer %d must name its rows", layer);
            }
            [[fallthrough]];
        case PLUMB_HOOK_ADD:
        case PLUMB_HOOK_PROJECT_OUT: {
            const size_t n = h.op == PLUMB_HOOK_RESTORE ? width * h.n_rows : width;
            if (!h.vector || !all_finite(h.vector, n)) {
                fail(PLUMB_INVALID, "the vector at layer %d %s", layer,
                     h.vector ? "holds a NaN or an infinity" : "is missing");
            }
            p.vector.assign(h.vector, h.vector + n);
            // Beyond this the squares that a norm adds up overflow, and a model then says nothing without saying so.
            for (size_t i = 0; h.op == PLUMB_HOOK_ADD && i < n; i++) {
                if (std::fabs((double) h.strength * p.vector[i]) > 1e15) {
                    fail(PLUMB_INVALID,
                         "the strength %g at layer %d is beyond what floats can bear; take a smaller one", h.strength,
                         layer);
                }
            }
            break;
        }
    }
    if (h.op == PLUMB_HOOK_PROJECT_OUT) {
        double norm = 0;
        for (float x : p.vector) {
            norm += (double) x * x;
        }
        norm = std::sqrt(norm);
        if (!(norm > 0)) {
            fail(PLUMB_INVALID, "the vector to project out at layer %d is zero", layer);
        }
        for (float & x : p.vector) {
            x = (float) (x / norm);
        }
    }
    return p;
}

} // namespace

std::vector<std::string> plumb::block_outputs(int32_t n_layer) {
    std::vector<std::string> names;
    for (int32_t layer = 0; layer < n_layer; layer++) {
        names.push_back("l_out-" + std::to_string(layer));
    }
    names.push_back("result_output");
    return names;
}

bool plumb_hooks::is_embedding(const ggml_tensor * tensor) const {
    return tensor->op == GGML_OP_GET_ROWS && tensor->src[1] && is_named(tensor->src[1], "inp_tokens");
}

bool plumb_hooks::asked(const ggml_tensor * tensor) {
    if (!has_plan) {
        return false;
    }
    if (stopped) {
        return true; // the rest of the graph, on another device, ends at once
    }
    if (is_embedding(tensor)) {
        // some models read the tokens again, for embeddings of each layer: only the first reading is the residual stream's
        if (progress.n_graphs > 0 && !progress.layer_seen) {
            return false;
        }
        progress.first_row += progress.n_rows;
        progress.n_rows     = (int) tensor->src[1]->ne[0];
        progress.layer_seen = false;
        progress.n_graphs++;
        embedding = tensor;
        check_tokens(tensor->src[1]);
        return wants(PLUMB_LAYER_EMBEDDING);
    }
    const int32_t layer = layer_of(tensor->name);
    if (layer < 0 || layer >= n_layer) {
        return false;
    }
    progress.layer_seen = true;
    return wants(layer);
}

// The graph must read the plan's batch, in its order.
void plumb_hooks::check_tokens(const ggml_tensor * leaf) {
    if (!has_batch || !problem.empty()) {
        return;
    }
    std::vector<int32_t> read(progress.n_rows);
    ggml_backend_tensor_get(leaf, read.data(), 0, read.size() * sizeof(int32_t));
    if (progress.first_row + read.size() > tokens.size() ||
        !std::equal(read.begin(), read.end(), tokens.begin() + progress.first_row)) {
        problem = "llama.cpp computes other rows, or in another order, than the plan's batch has; a llama_context with "
                  "kv_unified keeps the order";
    }
}

bool plumb_hooks::computed(ggml_tensor * tensor) {
    if (stopped) {
        return false;
    }
    const int32_t layer = tensor == embedding ? PLUMB_LAYER_EMBEDDING : layer_of(tensor->name);
    if (!problem.empty() || layer >= n_layer) {
        return true;
    }
    plumb_error error;
    if (plumb::guarded(&error, [&] { apply(tensor, layer); }) != PLUMB_OK) {
        problem = error.message;
    }
    fired[layer + 1]++;
    stopped = layer == stop_after;
    return !stopped;
}

void plumb_hooks::stop_after_plan() {
    for (int32_t layer = PLUMB_LAYER_EMBEDDING; layer < n_layer; layer++) {
        if (wants(layer)) {
            stop_after = layer;
        }
    }
}

// Which row of the batch each row of the tensor is. Empty if the plan is not about a batch.
std::vector<int> plumb_hooks::batch_rows(const ggml_tensor * tensor) const {
    std::vector<int> rows;
    if (!has_batch) {
        return rows;
    }
    const int end = progress.first_row + progress.n_rows;
    if (end > (int) logits.size()) {
        fail(PLUMB_INVALID, "more rows were decoded than the plan's batch has (%zu)", logits.size());
    }
    const bool all = tensor->ne[1] == progress.n_rows;
    for (int row = progress.first_row; row < end; row++) {
        if (all || logits[row]) {
            rows.push_back(row);
        }
    }
    if ((int64_t) rows.size() != tensor->ne[1]) {
        fail(PLUMB_HOOK_NOT_FIRED, "%s of the architecture %s has %lld rows where the batch has %d (%zu with logits)",
             tensor->name, architecture.c_str(), (long long) tensor->ne[1], progress.n_rows, rows.size());
    }
    return rows;
}

void plumb_hooks::apply(ggml_tensor * tensor, int32_t layer) {
    if (tensor->type != GGML_TYPE_F32 || tensor->ne[0] != n_embd || tensor->ne[2] != 1 || tensor->ne[3] != 1 ||
        !ggml_is_contiguous(tensor)) {
        fail(PLUMB_HOOK_NOT_FIRED, "%s of the architecture %s is %lld x %lld x %lld %s, not rows of %d floats",
             tensor->name, architecture.c_str(), (long long) tensor->ne[0], (long long) tensor->ne[1],
             (long long) tensor->ne[2], ggml_type_name(tensor->type), n_embd);
    }
    if (tensor->ne[1] == 0) {
        return;
    }
    const std::vector<int> rows = batch_rows(tensor);
    for (const planned_hook & h : plan[layer + 1]) {
        apply_one(tensor, h, rows);
    }
}

void plumb_hooks::apply_one(ggml_tensor * tensor, const planned_hook & h, const std::vector<int> & batch_row) {
    const int64_t n_rows   = tensor->ne[1];
    const size_t  row_size = n_embd * sizeof(float);

    // calls f(row of the tensor, index into the hook's rows) for the hook's rows that are in this graph
    auto each_row = [&](auto && f) {
        for (int64_t r = 0; r < n_rows; r++) {
            const int row = batch_row.empty() ? (int) r : batch_row[r];
            if (h.rows.empty()) {
                f(r, (size_t) row);
            } else {
                auto it = std::lower_bound(h.rows.begin(), h.rows.end(), row);
                if (it != h.rows.end() && *it == row) {
                    f(r, (size_t) (it - h.rows.begin()));
                }
            }
        }
    };
    auto strength_of = [&](size_t i) { return h.hook.strength * (h.row_strength.empty() ? 1.0f : h.row_strength[i]); };

    switch (h.hook.op) {
        case PLUMB_HOOK_READ:
            each_row([&](int64_t r, size_t i) {
                ggml_backend_tensor_get(tensor, h.hook.out + i * n_embd, r * tensor->nb[1], row_size);
            });
            break;
        case PLUMB_HOOK_RESTORE:
            each_row([&](int64_t r, size_t i) {
                ggml_backend_tensor_set(tensor, h.vector.data() + i * n_embd, r * tensor->nb[1], row_size);
            });
            break;
        case PLUMB_HOOK_NOISE:
            each_row([&](int64_t r, size_t i) {
                std::vector<float> row(n_embd);
                ggml_backend_tensor_get(tensor, row.data(), r * tensor->nb[1], row_size);
                for (int32_t c = 0; c < n_embd; c++) {
                    row[c] += strength_of(i) * plumb::gaussian(h.hook.seed, i, c);
                }
                ggml_backend_tensor_set(tensor, row.data(), r * tensor->nb[1], row_size);
            });
            break;
        case PLUMB_HOOK_ADD:
        case PLUMB_HOOK_PROJECT_OUT: {
            std::vector<float> strength(n_rows, 0.0f);
            each_row([&](int64_t r, size_t i) { strength[r] = strength_of(i); });
            if (h.hook.op == PLUMB_HOOK_ADD) {
                ops.add(tensor, h.vector, strength);
            } else {
                ops.project_out(tensor, h.vector, strength);
            }
            break;
        }
    }
}

plumb_hooks * plumb_hooks_new(const struct llama_model * model, plumb_error * error) {
    std::unique_ptr<plumb_hooks> hooks;
    plumb::guarded(error, [&] {
        hooks          = std::make_unique<plumb_hooks>();
        hooks->n_layer = llama_model_n_layer(model);
        hooks->n_embd  = llama_model_n_embd(model);
        char name[64]  = "unknown";
        llama_model_meta_val_str(model, "general.architecture", name, sizeof name);
        hooks->architecture = name;
        hooks->plan.resize(hooks->n_layer + 1);
        hooks->fired.resize(hooks->n_layer + 1);
    });
    return hooks.release();
}

void plumb_hooks_free(plumb_hooks * hooks) {
    delete hooks;
}

bool plumb_hooks_eval(struct ggml_tensor * tensor, bool ask, void * user_data) {
    plumb_hooks * hooks = (plumb_hooks *) user_data;
    if (ask) {
        return hooks->asked(tensor);
    }
    return hooks->computed(tensor);
}

plumb_status plumb_hooks_begin(plumb_hooks * hooks, const plumb_hook * plan, size_t n_hooks,
                               const plumb_batch_rows * batch, plumb_error * error) {
    return plumb::guarded(error, [&] {
        std::vector<std::vector<planned_hook>> by_layer(hooks->n_layer + 1);
        for (size_t i = 0; i < n_hooks; i++) {
            planned_hook h = checked(*hooks, plan[i], batch);
            by_layer[plan[i].layer + 1].push_back(std::move(h));
        }
        hooks->plan      = std::move(by_layer);
        hooks->has_plan  = n_hooks > 0;
        hooks->has_batch = batch != nullptr;
        hooks->logits.clear();
        hooks->tokens.clear();
        if (batch) {
            hooks->logits.assign(batch->logits, batch->logits + batch->n_rows);
            hooks->tokens.assign(batch->tokens, batch->tokens + batch->n_rows);
        }
        hooks->progress = {};
        hooks->stop_after.reset();
        hooks->stopped = false;
        hooks->problem.clear();
        std::fill(hooks->fired.begin(), hooks->fired.end(), 0);
    });
}

plumb_status plumb_hooks_end(plumb_hooks * hooks, plumb_error * error) {
    return plumb::guarded(error, [&] {
        if (!hooks->problem.empty()) {
            fail(PLUMB_HOOK_NOT_FIRED, "%s", hooks->problem.c_str());
        }
        for (int32_t layer = PLUMB_LAYER_EMBEDDING; layer < hooks->n_layer; layer++) {
            if (hooks->wants(layer) &&
                (hooks->progress.n_graphs == 0 || hooks->fired[layer + 1] != hooks->progress.n_graphs)) {
                fail(PLUMB_HOOK_NOT_FIRED,
                     "the hook at layer %d fired %d times in %d graphs of the architecture %s, which Plumb cannot "
                     "steer there",
                     layer, hooks->fired[layer + 1], hooks->progress.n_graphs, hooks->architecture.c_str());
            }
        }
        const auto & p = hooks->progress;
        if (hooks->has_plan && hooks->has_batch && p.first_row + p.n_rows != (int) hooks->logits.size()) {
            fail(PLUMB_HOOK_NOT_FIRED, "%d rows were decoded where the plan's batch has %zu", p.first_row + p.n_rows,
                 hooks->logits.size());
        }
    });
}
