// Continuing a prompt, steered.

#include "error.h"
#include "session.h"

#include <algorithm>

using plumb::fail;

namespace {

using sampler_ptr = std::unique_ptr<llama_sampler, void (*)(llama_sampler *)>;

sampler_ptr make_sampler(const plumb_sampling & sampling) {
    sampler_ptr chain(llama_sampler_chain_init(llama_sampler_chain_default_params()), llama_sampler_free);
    if (!(sampling.temperature > 1e-6f)) { // below, logits over it would overflow
        llama_sampler_chain_add(chain.get(), llama_sampler_init_greedy());
        return chain;
    }
    if (sampling.top_p < 1) {
        llama_sampler_chain_add(chain.get(), llama_sampler_init_top_p(sampling.top_p, 1));
    }
    llama_sampler_chain_add(chain.get(), llama_sampler_init_temp(sampling.temperature));
    llama_sampler_chain_add(chain.get(), llama_sampler_init_dist(sampling.seed));
    return chain;
}

// Decodes tokens of the one sequence from position pos on; the last one's logits are asked for.
void decode(plumb_session & session, const int32_t * tokens, int32_t n, int32_t pos) {
    if (plumb::is_cancelled(session.cancel)) {
        fail(PLUMB_CANCELLED, "cancelled");
    }
    llama_batch batch = llama_batch_init(n, 0, 1);
    batch.n_tokens    = n;
    for (int32_t i = 0; i < n; i++) {
        batch.token[i]     = tokens[i];
        batch.pos[i]       = pos + i;
        batch.n_seq_id[i]  = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i]    = i == n - 1;
    }
    const int32_t status = llama_decode(session.context.get(), batch);
    llama_batch_free(batch);
    if (status == 2 || plumb::is_cancelled(session.cancel)) {
        fail(PLUMB_CANCELLED, "cancelled");
    }
    if (status != 0) {
        fail(PLUMB_ERROR, "llama.cpp cannot decode %d tokens at position %d (status %d)", n, pos, status);
    }
}

} // namespace

plumb_status plumb_session_generate(plumb_session * session, const int32_t * prompt, int32_t n_prompt,
                                    const plumb_steering * steering, size_t n_steering, const plumb_sampling * sampling,
                                    int32_t n_max, plumb_cancel * cancel, int32_t * out, int32_t * n_out,
                                    plumb_error * error) {
    const plumb::during<const plumb_cancel *> cancelled_by(session->cancel, cancel);
    const plumb::during<bool>                 generating(session->generating, true);
    return plumb::guarded(error, [&] {
        const int32_t n_vocab = llama_vocab_n_tokens(session->model->vocab);
        if (n_prompt < 1 || n_max < 1) {
            fail(PLUMB_INVALID, "a prompt and what is generated have at least one token each");
        }
        for (int32_t i = 0; i < n_prompt; i++) {
            if (prompt[i] < 0 || prompt[i] >= n_vocab) {
                fail(PLUMB_INVALID, "the prompt holds the token %d; the vocabulary has %d", prompt[i], n_vocab);
            }
        }
        if (n_prompt > session->params.n_ctx - n_max) {
            fail(PLUMB_TOO_LONG, "the prompt is %d tokens and %d more are asked for; the context holds %d", n_prompt,
                 n_max, session->params.n_ctx);
        }
        llama_memory_clear(llama_get_memory(session->context.get()), true);
        const auto  plan = plumb::plan_of(steering, n_steering);
        plumb_error reason;
        if (plumb_hooks_begin(session->hooks.get(), plan.data(), plan.size(), nullptr, &reason) != PLUMB_OK) {
            throw plumb::failure((plumb_status) reason.status, reason.message);
        }
        for (int32_t pos = 0; pos < n_prompt; pos += session->params.n_batch_rows) {
            decode(*session, prompt + pos, std::min(session->params.n_batch_rows, n_prompt - pos), pos);
        }
        const sampler_ptr sampler = make_sampler(*sampling);
        *n_out                    = 0;
        while (*n_out < n_max) {
            const llama_token token = llama_sampler_sample(sampler.get(), session->context.get(), -1);
            if (llama_vocab_is_eog(session->model->vocab, token)) {
                break;
            }
            out[(*n_out)++] = token;
            if (*n_out < n_max) {
                decode(*session, &token, 1, n_prompt + *n_out - 1);
            }
        }
        if (plumb_hooks_end(session->hooks.get(), &reason) != PLUMB_OK) {
            throw plumb::failure((plumb_status) reason.status, reason.message);
        }
    });
}
