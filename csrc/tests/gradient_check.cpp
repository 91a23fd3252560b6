#include "gradient_check.h"

#include "error.h"
#include "gradient.h"

#include "ggml/replay.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>

namespace plumb {

namespace {

using context_ptr = std::unique_ptr<llama_context, void (*)(llama_context *)>;

constexpr int32_t n_prompt       = 14;
constexpr int32_t n_continuation = 4;

// Adds one vector to a row of a block's output, or to every row.
struct nudge {
    std::string        node;
    std::vector<float> by; // empty: only reads
    int32_t            row          = -1;
    int64_t            n_batch_rows = 0;
    double             norm         = 0; // of the row, or the mean over rows, before

    bool on_node(ggml_tensor * t, bool ask) {
        if (node != t->name) {
            return !ask;
        }
        if (ask) {
            return true;
        }
        std::vector<float> h(ggml_nelements(t));
        ggml_backend_tensor_get(t, h.data(), 0, ggml_nbytes(t));
        // The last block may keep the outputs' rows alone, the first of which is the last prompt token's.
        const int64_t first = row < 0 ? 0 : t->ne[1] == n_batch_rows ? row : 0, last = row < 0 ? t->ne[1] : first + 1;
        norm = 0;
        for (int64_t r = first; r < last; r++) {
            double sum = 0;
            for (int64_t i = 0; i < t->ne[0]; i++) {
                float & x = h[r * t->ne[0] + i];
                sum += (double) x * x;
                x += by.empty() ? 0.0f : by[i];
            }
            norm += std::sqrt(sum) / (double) (last - first);
        }
        ggml_backend_tensor_set(t, h.data(), 0, ggml_nbytes(t));
        return true;
    }
};

context_ptr new_context(llama_model * model, ggml_backend_sched_eval_callback callback, void * data) {
    llama_context_params cp = llama_context_default_params();
    cp.n_ctx = cp.n_batch = cp.n_ubatch = 256;
    cp.n_threads = cp.n_threads_batch = 1;
    cp.kv_unified = cp.swa_full = true;
    cp.op_offload               = false;
    cp.type_k = cp.type_v = GGML_TYPE_F32;
    cp.flash_attn_type    = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    cp.cb_eval            = callback;
    cp.cb_eval_user_data  = data;
    context_ptr context(llama_init_from_model(model, cp), llama_free);
    if (!context) {
        throw graph_error("llama.cpp makes no context: " + take_logged_error());
    }
    return context;
}

// Decodes a sequence in one batch; logits from the last prompt token to the last token but one.
void decode(llama_context * context, const std::vector<llama_token> & tokens) {
    llama_memory_clear(llama_get_memory(context), true);
    const int32_t n     = (int32_t) tokens.size() - 1;
    llama_batch   batch = llama_batch_init(n, 0, 1);
    batch.n_tokens      = n;
    for (int32_t i = 0; i < n; i++) {
        batch.token[i]     = tokens[i];
        batch.pos[i]       = i;
        batch.n_seq_id[i]  = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i]    = i >= n_prompt - 1;
    }
    const int rc = llama_decode(context, batch);
    llama_batch_free(batch);
    if (rc != 0) {
        throw graph_error("llama_decode says " + std::to_string(rc));
    }
}

std::vector<float> logits_of(llama_context * context, int32_t n_vocab) {
    const float * l = llama_get_logits(context);
    return { l, l + (size_t) n_continuation * n_vocab };
}

// Chains the replay of all blocks above the first boundary, and compares what comes out.
double replayed_logits(llama_model * model, const std::vector<llama_token> & tokens, int32_t n_vocab) {
    const int32_t            n_layer = llama_model_n_layer(model);
    std::vector<std::string> names;
    for (int32_t il = 0; il < n_layer; il++) {
        names.push_back("l_out-" + std::to_string(il));
    }
    names.push_back("result_output");
    trace       recorded(names);
    auto        callback = [](ggml_tensor * t, bool ask, void * r) { return ((trace *) r)->on_node(t, ask); };
    context_ptr context  = new_context(model, callback, &recorded);
    for (int attempt = 0; attempt < 2; attempt++) {
        recorded.begin(1);
        decode(context.get(), tokens);
        recorded.finish();
        for (const traced * missing : missing_values(recorded, 0)) {
            recorded.capture(*missing);
        }
    }
    devices              all(1);
    std::vector<uint8_t> x = recorded.boundary(0).value;
    for (int32_t b = 1; b <= n_layer; b++) {
        replay block(recorded, b, all);
        block.graph().output(block.output());
        block.prepare();
        ggml_backend_tensor_set(block.input(), x.data(), 0, x.size());
        block.graph().run();
        x.resize(ggml_nbytes(block.output()));
        ggml_backend_tensor_get(block.output(), x.data(), 0, x.size());
    }
    const std::vector<float> expected = logits_of(context.get(), n_vocab);
    std::vector<float>       replayed(x.size() / sizeof(float));
    memcpy(replayed.data(), x.data(), x.size());
    if (replayed.size() != expected.size()) {
        throw graph_error("the replay's logits have another shape");
    }
    double difference = 0, largest = 0;
    for (size_t i = 0; i < expected.size(); i++) {
        const double d = std::fabs((double) expected[i] - replayed[i]);
        difference     = std::isfinite(d) ? std::max(difference, d) : INFINITY;
        largest        = std::max(largest, (double) std::fabs(expected[i]));
    }
    return difference / largest;
}

double dot(const std::vector<float> & a, const std::vector<float> & b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); i++) {
        sum += (double) a[i] * b[i];
    }
    return sum;
}

// The error of the slope along a unit direction, best of three steps, relative to the gradient's norm.
double slope_error(llama_context * context, nudge & hook, const std::vector<llama_token> & tokens, int32_t n_vocab,
                   const std::vector<float> & gradient, const std::vector<float> & direction) {
    auto loss = [&](double by) {
        hook.by.resize(direction.size());
        for (size_t i = 0; i < direction.size(); i++) {
            hook.by[i] = (float) (by * direction[i]);
        }
        decode(context, tokens);
        const std::vector<float> l   = logits_of(context, n_vocab);
        double                   sum = 0;
        for (int32_t k = 0; k < n_continuation; k++) {
            sum += l[(size_t) k * n_vocab + tokens[n_prompt + k]] / (double) n_continuation;
        }
        return sum;
    };
    hook.by.clear();
    decode(context, tokens);
    const double norm  = hook.norm;
    const double slope = dot(gradient, direction);
    const double scale = std::sqrt(dot(gradient, gradient));
    double       best  = INFINITY;
    // Four points, whose error falls with the fourth power of the step, and the mean over three sizes near it: ggml's CPU reads
    // gelu from a table of half floats, and only steps well above its grain see the slope, with some noise.
    for (double relative : { 8e-3, 3e-4, 4e-2 }) {
        if (best <= gradient_tolerance / 100) {
            break; // each step takes twelve runs of the model
        }
        double difference = 0;
        for (double size : { 0.8, 1.0, 1.25 }) {
            const double h = norm * relative * size;
            difference += (8 * (loss(h) - loss(-h)) - (loss(2 * h) - loss(-2 * h))) / (12 * h) / 3;
        }
        best = std::min(best, std::fabs(difference - slope) / scale);
    }
    return best;
}

// [continuation][layer][n_embd], of raw logits.
std::vector<float> gradients_of(llama_model * model, const request_view & request, const std::vector<int32_t> & layers,
                                bool all_positions, bool share) {
    gradient_params params;
    params.n_ctx = params.n_rows = 256;
    params.share                 = share;
    gradient_engine    engine(model, params);
    std::vector<float> g(request.continuations.size() * layers.size() * llama_model_n_embd(model));
    int32_t            status = PLUMB_OK;
    engine.run({ request },
               { layers.data(), (int32_t) layers.size(), false, all_positions, nullptr, g.data(), &status });
    if (status != PLUMB_OK) {
        throw failure((plumb_status) status, "gradients have this status");
    }
    return g;
}

// The largest relative error of one layer's gradient of one continuation, when sequences share a batch.
double shared_error(llama_model * model, const request_view & request, const std::vector<int32_t> & layers,
                    bool all_positions, const std::vector<float> & alone) {
    const size_t n_embd = llama_model_n_embd(model);
    double       worst  = 0;
    try {
        const std::vector<float> g = gradients_of(model, request, layers, all_positions, /*share =*/true);
        for (size_t at = 0; at < g.size(); at += n_embd) {
            double difference = 0, size = 0;
            for (size_t i = at; i < at + n_embd; i++) {
                difference += ((double) g[i] - alone[i]) * ((double) g[i] - alone[i]);
                size += (double) alone[i] * alone[i];
            }
            const double error = std::sqrt(difference / size);
            worst              = std::isfinite(error) ? std::max(worst, error) : INFINITY;
        }
    } catch (const std::exception &) {
        return INFINITY;
    }
    return worst;
}

} // namespace

gradient_verdict check_gradients(llama_model * model, uint32_t seed) {
    gradient_verdict v;
    try {
        const int32_t n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
        const int32_t n_layer = llama_model_n_layer(model), n_embd = llama_model_n_embd(model);
        std::mt19937  random(seed);
        auto          draw = [&](int32_t n) {
            std::vector<llama_token> t(n);
            for (llama_token & token : t) {
                token = (llama_token) (random() % n_vocab);
            }
            return t;
        };
        const std::vector<llama_token> prompt = draw(n_prompt), one = draw(n_continuation), other = draw(2);
        std::vector<llama_token>       tokens = prompt;
        tokens.insert(tokens.end(), one.begin(), one.end());

        std::vector<int32_t> layers = { 0, n_layer / 2, n_layer - 1 };
        layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
        // The other continuation comes first: what it adds to the one that is checked would be seen.
        const request_view request = {
            prompt.data(), n_prompt, 0, 0, { { other.data(), 2 }, { one.data(), n_continuation } }
        };
        const std::vector<float> at_answer = gradients_of(model, request, layers, /*all =*/false, /*share =*/false);
        const std::vector<float> at_all    = gradients_of(model, request, layers, /*all =*/true, /*share =*/false);
        v.logits                           = replayed_logits(model, tokens, n_vocab);

        nudge       hook;
        auto        callback = [](ggml_tensor * t, bool ask, void * h) { return ((nudge *) h)->on_node(t, ask); };
        context_ptr context  = new_context(model, callback, &hook);
        hook.n_batch_rows    = (int64_t) tokens.size() - 1;
        for (size_t l = 0; l < layers.size(); l++) {
            hook.node = "l_out-" + std::to_string(layers[l]);
            std::vector<float> sideways(n_embd);
            for (float & x : sideways) {
                x = (float) ((double) random() / 4294967296.0 - 0.5);
            }
            for (bool all : { false, true }) {
                // the second continuation's
                const float *            from = (all ? at_all : at_answer).data() + (layers.size() + l) * n_embd;
                const std::vector<float> gradient(from, from + n_embd);
                hook.row       = all ? -1 : n_prompt - 1;
                double & error = all ? v.at_all : v.at_answer;
                for (std::vector<float> direction : { gradient, sideways }) {
                    const double norm = std::sqrt(dot(direction, direction));
                    if (norm == 0) {
                        v.reason = "the gradient is zero at layer " + std::to_string(layers[l]);
                        return v;
                    }
                    for (float & x : direction) {
                        x = (float) (x / norm);
                    }
                    error = std::max(error, slope_error(context.get(), hook, tokens, n_vocab, gradient, direction));
                }
            }
        }
        const bool ok =
            v.logits <= logits_tolerance && v.at_answer <= gradient_tolerance && v.at_all <= gradient_tolerance;
        v.verdict = ok ? gradient_verdict::right : gradient_verdict::wrong;
        v.reason  = ok ? "" : "differs";
        v.shared  = std::max(shared_error(model, request, layers, false, at_answer),
                             shared_error(model, request, layers, true, at_all));
    } catch (const failure & e) {
        v.verdict = e.status == PLUMB_UNSUPPORTED ? gradient_verdict::refused : gradient_verdict::wrong;
        v.reason  = e.message;
    } catch (const graph_error & e) {
        v.verdict = gradient_verdict::refused;
        v.reason  = e.what();
    }
    return v;
}

} // namespace plumb
