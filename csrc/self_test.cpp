// Whether Plumb works on a model: a few tokens, before anything is concluded from thousands.

#include "error.h"
#include "hooks.h"
#include "model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

namespace {

using session_ptr = std::unique_ptr<plumb_session, void (*)(plumb_session *)>;

session_ptr small_session(plumb_model * model, int32_t n_batch_rows, bool use_trie) {
    plumb_session_params params = plumb_session_params_default();
    params.n_ctx                = 64;
    params.n_batch_rows         = n_batch_rows;
    params.use_trie             = use_trie;
    plumb_error error;
    session_ptr session(plumb_session_new(model, &params, &error), plumb_session_free);
    if (!session) {
        throw plumb::failure((plumb_status) error.status, error.message);
    }
    return session;
}

// Two prompts that share their start, with continuations of different lengths that share theirs.
struct probe {
    std::vector<int32_t> n_prompt        = { 9, 7 };
    std::vector<int32_t> n_continuations = { 2, 3 };
    std::vector<int32_t> n_tokens        = { 3, 2, 1, 3, 2 };
    std::vector<int32_t> tokens;

    explicit probe(int32_t n_vocab) {
        auto put = [&](std::initializer_list<int> numbers) {
            for (int i : numbers) {
                // spread over the middle of the vocabulary: its start often holds special tokens
                tokens.push_back((int32_t) ((n_vocab / 4 + (int64_t) i * 7919) % n_vocab));
            }
        };
        put({ 1, 2, 3, 4, 5, 6, 7, 8, 9 });
        put({ 10, 11, 12 });
        put({ 10, 13 });
        put({ 1, 2, 3, 4, 5, 14, 15 });
        put({ 16 });
        put({ 17, 18, 19 });
        put({ 17, 20 });
    }

    plumb_requests requests() const {
        return { (int32_t) n_prompt.size(), n_prompt.data(), n_continuations.data(), n_tokens.data(), tokens.data() };
    }
};

std::vector<float> score(plumb_session * session, const probe & p) {
    const plumb_requests requests = p.requests();
    std::vector<float>   logprobs(11);
    std::vector<int32_t> statuses(2);
    plumb_error          error;
    if (plumb_session_score(session, &requests, nullptr, 0, nullptr, logprobs.data(), statuses.data(), nullptr,
                            &error) != PLUMB_OK) {
        throw plumb::failure((plumb_status) error.status, error.message);
    }
    for (int32_t status : statuses) {
        if (status != PLUMB_OK) {
            throw plumb::failure((plumb_status) status, "the model's output is not a number");
        }
    }
    return logprobs;
}

void read_every_layer(plumb_session * session, const plumb_model & model, const probe & p) {
    std::vector<int32_t> layers;
    for (int32_t layer = PLUMB_LAYER_EMBEDDING; layer < llama_model_n_layer(model.llama); layer++) {
        layers.push_back(layer);
    }
    const plumb_requests  requests = p.requests();
    const int32_t         last = requests.n_prompt[0] - 1, one = 1;
    const plumb_sequences sequences = { 1, requests.n_prompt, requests.tokens, &one, &last };
    std::vector<float>    out(layers.size() * llama_model_n_embd(model.llama));
    int32_t               result = PLUMB_OK;
    plumb_error           error;
    if (plumb_session_residuals(session, &sequences, nullptr, 0, layers.data(), (int32_t) layers.size(), nullptr,
                                &result, out.data(), &error) != PLUMB_OK) {
        throw plumb::failure((plumb_status) error.status, error.message);
    }
}

float largest_difference(const std::vector<float> & a, const std::vector<float> & b) {
    float d = 0;
    for (size_t i = 0; i < a.size(); i++) {
        d = std::max(d, std::fabs(a[i] - b[i]));
    }
    return d;
}

} // namespace

plumb_status plumb_model_self_test(plumb_model * model, plumb_self_test * result, plumb_error * error) {
    return plumb::guarded(error, [&] {
        *result      = {};
        auto because = [&](const char * why) { snprintf(result->reason, sizeof result->reason, "%s", why); };

        const probe p(llama_vocab_n_tokens(model->vocab));
        const auto  alone  = small_session(model, 64, false);
        const auto  scores = score(alone.get(), p);
        try {
            read_every_layer(alone.get(), *model, p);
            result->hooks_fire = true;
        } catch (const plumb::failure & f) {
            if (f.status != PLUMB_HOOK_NOT_FIRED) {
                throw;
            }
            because(f.what());
        }
        const auto           shared = small_session(model, 64, true);
        plumb_session_params params;
        plumb_session_get_params(shared.get(), &params);
        if (!params.use_trie) {
            if (result->hooks_fire) {
                because("scoring by token trie was not checked on this architecture: one sequence at a time is used");
            }
            return;
        }
        result->trie_difference = largest_difference(scores, score(shared.get(), p));

        // How many rows a graph has decides by which kernels they are multiplied, and a quantised model rounds what it
        // multiplies: its scores move by themselves. How far, the same sequences in graphs of four rows tell.
        const auto pieces        = small_session(model, 4, false);
        result->graph_difference = largest_difference(scores, score(pieces.get(), p));
        result->trie_matches     = result->trie_difference <= std::max(1e-2f, 5 * result->graph_difference);
        if (!result->trie_matches && result->hooks_fire) {
            because("scores by token trie differ from scores alone: one sequence at a time is used");
        }
    });
}
