#include "steered_server.h"

#include "error.h"
#include "plans.h"

#include "common.h"
#include "llama.h"
#include "log.h"

#include <map>

namespace plumb {

namespace {

// The hooks of the one steered context. Decodes come one after the other; each sets the plan and takes it away again, so
// that nothing else that runs with this callback, a warm-up say, is steered.
struct steered_context {
    std::unique_ptr<plumb_hooks, void (*)(plumb_hooks *)> hooks{ nullptr, plumb_hooks_free };

    int32_t     n_layer     = 0;
    bool        keeps_order = false; // rows are computed in the batch's order
    bool        planned     = false; // something is to be steered in this decode
    std::string problem;

    void begin(const std::vector<plumb_hook> & plan, const plumb_batch_rows * rows) {
        plumb_error error;
        problem.clear();
        planned = !plan.empty();
        if (plumb_hooks_begin(hooks.get(), plan.data(), plan.size(), rows, &error) != PLUMB_OK) {
            problem = error.message;
        }
    }
};

steered_context & context() {
    static steered_context c;
    return c;
}

// Every row under one plan.
std::vector<plumb_hook> uniform_hooks(const plan_ptr & p) {
    std::vector<plumb_hook> hooks;
    if (!p) {
        return hooks;
    }
    for (const plan::part & part : p->parts) {
        for (const steering_layer & l : part.what->file.layers) {
            plumb_hook h = {};
            h.layer      = l.layer;
            h.op         = part.what->file.op;
            h.vector     = l.vector.data();
            h.strength   = (float) (part.strength * l.weight);
            hooks.push_back(h);
        }
    }
    return hooks;
}

// The rows of a batch that a steering acts on, and its strength there.
struct steered_rows {
    std::shared_ptr<const steering> what;
    std::vector<int32_t>            rows;
    std::vector<double>             strength;
};

// Rows under plans of their own.
struct mixed_batch {
    std::vector<int32_t>             tokens;
    std::vector<int8_t>              logits;
    std::map<uint64_t, steered_rows> by_id; // in the order in which steerings act
    std::vector<int32_t>             rows;  // of all hooks, one after the other
    std::vector<float>               strengths;

    mixed_batch(const common_batch & batch, const std::vector<plan_ptr> & plan_of_row) {
        for (int32_t row = 0; row < batch.size(); row++) {
            tokens.push_back(batch.tokens[row].id);
            logits.push_back(batch.tokens[row].output);
            if (!plan_of_row[row]) {
                continue;
            }
            for (const plan::part & part : plan_of_row[row]->parts) {
                steered_rows & s = by_id[part.what->id];
                s.what           = part.what;
                s.rows.push_back(row);
                s.strength.push_back(part.strength);
            }
        }
    }

    void begin(steered_context & c) {
        const int32_t last_layer = c.n_layer - 1;
        struct slice {
            size_t first, n;
        };
        std::vector<plumb_hook> hooks;
        std::vector<slice>      slices;
        for (const auto & [id, s] : by_id) {
            (void) id;
            for (const steering_layer & l : s.what->file.layers) {
                const size_t first = rows.size();
                for (size_t i = 0; i < s.rows.size(); i++) {
                    if (l.layer != last_layer || logits[s.rows[i]]) { // others do not reach the last layer's output
                        rows.push_back(s.rows[i]);
                        strengths.push_back((float) (s.strength[i] * l.weight));
                    }
                }
                if (rows.size() > first) {
                    plumb_hook h = {};
                    h.layer      = l.layer;
                    h.op         = s.what->file.op;
                    h.vector     = l.vector.data();
                    h.strength   = 1;
                    h.n_rows     = (int32_t) (rows.size() - first);
                    hooks.push_back(h);
                    slices.push_back({ first, rows.size() - first });
                }
            }
        }
        for (size_t i = 0; i < hooks.size(); i++) {
            hooks[i].rows         = rows.data() + slices[i].first;
            hooks[i].row_strength = strengths.data() + slices[i].first;
        }
        const plumb_batch_rows about = { (int32_t) tokens.size(), tokens.data(), logits.data() };
        c.begin(hooks, &about);
    }
};

} // namespace

bool eval_callback(ggml_tensor * tensor, bool ask, void *) {
    steered_context & c = context();
    return c.hooks ? plumb_hooks_eval(tensor, ask, c.hooks.get()) : !ask;
}

bool model_loaded(const llama_model * model, const common_params & params) {
    steered_context & c = context();
    plumb_error       error;
    c.hooks.reset(plumb_hooks_new(model, &error));
    const auto status =
        c.hooks ? guarded(&error, [&] { loaded_steerings().set_model(facts_of(model)); }) : (plumb_status) error.status;
    c.n_layer     = llama_model_n_layer(model);
    c.keeps_order = (params.kv_unified || params.n_parallel == 1) && !llama_model_is_recurrent(model) &&
                    !llama_model_is_hybrid(model);
    if (status != PLUMB_OK) {
        LOG_ERR("plumb: %s\n", error.message);
    }
    return status == PLUMB_OK;
}

bool can_share_batch(const plan_ptr & a, const plan_ptr & b, bool tokens_alone) {
    return (tokens_alone && context().keeps_order) || same_plan(a, b);
}

void begin_decode(const common_batch & batch, const std::function<plan_ptr(int32_t)> & plan_of_sequence) {
    std::vector<plan_ptr> plan_of_row;
    bool                  mixed = false;
    for (const common_batch::token & token : batch.tokens) {
        plan_of_row.push_back(plan_of_sequence(token.seq_id));
        mixed = mixed || !same_plan(plan_of_row.front(), plan_of_row.back());
    }
    if (mixed) {
        mixed_batch(batch, plan_of_row).begin(context());
    } else if (!plan_of_row.empty()) {
        begin_chunk(plan_of_row.front());
    }
}

void begin_chunk(const plan_ptr & p) {
    context().begin(uniform_hooks(p), nullptr);
}

bool end_decode(int32_t status) {
    steered_context & c = context();
    plumb_error       error;
    if (status == 0 && c.planned && c.problem.empty() && plumb_hooks_end(c.hooks.get(), &error) != PLUMB_OK) {
        c.problem = error.message;
    }
    plumb_hooks_begin(c.hooks.get(), nullptr, 0, nullptr, &error);
    if (status != 0 || c.problem.empty()) {
        return true;
    }
    LOG_ERR("plumb: %s\n", c.problem.c_str());
    return false;
}

std::string steering_problem() {
    const std::string & problem = context().problem;
    return problem.empty() ? "" : " Plumb: " + problem + ".";
}

} // namespace plumb
