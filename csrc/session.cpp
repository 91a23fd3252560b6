#include "session.h"

#include "architectures.h"
#include "attention.h"
#include "error.h"

#include "ggml/exact_gelu.h"

#include "ggml-cpu.h"

#include <algorithm>

using plumb::fail;

plumb_session::~plumb_session() {
    if (context) {
        llama_detach_threadpool(context.get());
    }
}

plumb_cancel * plumb_cancel_new(void) {
    return new (std::nothrow) plumb_cancel;
}

void plumb_cancel_now(plumb_cancel * cancel) {
    cancel->requested.store(true, std::memory_order_relaxed);
}

void plumb_cancel_free(plumb_cancel * cancel) {
    delete cancel;
}

// What is recorded is the residual stream before it is steered.
static bool on_node(ggml_tensor * node, bool ask, void * user_data) {
    plumb_session & session = *(plumb_session *) user_data;
    if (ask) {
        plumb::keep_attention_in_f32(node);
        plumb::compute_gelu_exactly(node);
        if (session.generating) {
            plumb::float_weights::forget_in(node);
        } else if (session.model->floats) {
            session.model->floats->use_in(node);
        }
        session.hooks_want_it = plumb_hooks_eval(node, true, session.hooks.get());
        return (session.recording && session.recording->on_node(node, true)) || session.hooks_want_it;
    }
    const bool go_on = !session.recording || session.recording->on_node(node, false);
    return (!session.hooks_want_it || plumb_hooks_eval(node, false, session.hooks.get())) && go_on;
}

plumb_session_params plumb_session_params_default(void) {
    plumb_session_params params = {};
    params.use_trie             = true;
    return params;
}

plumb_session * plumb_session_new(plumb_model * model, const plumb_session_params * params, plumb_error * error) {
    std::unique_ptr<plumb_session> session;
    const plumb_status             made = plumb::guarded(error, [&] {
        session        = std::make_unique<plumb_session>();
        session->model = model;
        auto & p       = session->params;
        p              = params ? *params : plumb_session_params_default();

        const int32_t n_train = llama_model_n_ctx_train(model->llama);
        if (plumb::is_encoder(model->architecture) || llama_model_has_encoder(model->llama)) {
            fail(PLUMB_UNSUPPORTED, "the architecture %s is an encoder; scoring needs a causal language model",
                             model->architecture.c_str());
        }
        if (llama_model_is_diffusion(model->llama)) {
            fail(PLUMB_UNSUPPORTED, "the architecture %s is a diffusion model; scoring needs a causal language model",
                             model->architecture.c_str());
        }
        p.n_batch_rows = p.n_batch_rows > 0 ? p.n_batch_rows : 512;
        p.n_ctx        = p.n_ctx > 0 ? p.n_ctx : std::min(n_train, 4096);
        p.n_batch_rows = std::min(p.n_batch_rows, p.n_ctx);
        p.n_threads    = p.n_threads > 0 ? p.n_threads : model->n_threads;
        // llama.cpp splits a trie of a recurrent model into a graph a level, and reorders its rows for that
        p.use_trie = p.use_trie && plumb::trie_scoring_was_checked(model->architecture) &&
                     !llama_model_is_recurrent(model->llama) && !llama_model_is_hybrid(model->llama);

        session->hooks.reset(plumb_hooks_new(model->llama, error));
        if (!session->hooks) {
            throw plumb::failure(PLUMB_ERROR, error ? error->message : "no hooks");
        }
        session->n_outputs_max = std::min(p.n_batch_rows, 256);

        llama_context_params cp = llama_context_default_params();
        cp.n_ctx                = p.n_ctx;
        cp.n_batch              = p.n_batch_rows;
        cp.n_ubatch             = p.n_batch_rows; // one llama_decode is one graph
        cp.n_seq_max            = p.use_trie ? std::min(p.n_batch_rows, PLUMB_MAX_SEQUENCES) : 1;
        cp.n_outputs_max        = session->n_outputs_max;
        cp.n_threads            = p.n_threads;
        cp.n_threads_batch      = p.n_threads;
        cp.kv_unified           = true;
        cp.swa_full = true; // a window's cache that is cut while sequences still differ would lose keys
        cp.no_perf  = true;
        // scores must not depend on how a cache is rounded
        cp.type_k = GGML_TYPE_F32;
        cp.type_v = GGML_TYPE_F32;
        cp.flash_attn_type =
            plumb::fused_attention_is_exact() ? LLAMA_FLASH_ATTN_TYPE_AUTO : LLAMA_FLASH_ATTN_TYPE_DISABLED;
        cp.cb_eval_user_data   = session.get();
        cp.cb_eval             = on_node;
        cp.abort_callback_data = session.get();
        cp.abort_callback = [](void * s) { return plumb::is_cancelled(((plumb_session *) s)->cancel); };

        session->context.reset(plumb::new_context(model->llama, cp));
        p.n_ctx = std::min<int32_t>(p.n_ctx, llama_n_ctx(session->context.get()));

        ggml_threadpool_params tp = ggml_threadpool_params_default(p.n_threads);
        session->threads          = { ggml_threadpool_new(&tp), ggml_threadpool_free };
        llama_attach_threadpool(session->context.get(), session->threads.get(), session->threads.get());
    });
    return made == PLUMB_OK ? session.release() : nullptr;
}

void plumb_session_free(plumb_session * session) {
    delete session;
}

void plumb_session_get_params(const plumb_session * session, plumb_session_params * params) {
    *params = session->params;
}

plumb_status plumb_session_batch(const plumb_session * session, const plumb_requests * requests, int32_t * n,
                                 plumb_error * error) {
    return plumb::guarded(error, [&] {
        const auto views = plumb::view_requests(*requests, llama_vocab_n_tokens(session->model->vocab));
        *n               = views.empty() ? 0 : plumb::count_that_share_a_batch(*session, views, 0);
    });
}

static plumb_status score(plumb_session * session, const plumb_requests * requests,
                          std::vector<plumb::steered_scores> steerings, plumb_cancel * cancel, int64_t * n_computed,
                          plumb_error * error) {
    const plumb::during<const plumb_cancel *> cancelled_by(session->cancel, cancel);
    return plumb::guarded(error, [&] {
        const auto       views = plumb::view_requests(*requests, llama_vocab_n_tokens(session->model->vocab));
        plumb::score_job job   = { *session, views, std::move(steerings) };
        job.run();
        if (n_computed) {
            *n_computed = job.n_computed;
        }
    });
}

plumb_status plumb_session_score(plumb_session * session, const plumb_requests * requests,
                                 const plumb_steering * steering, size_t n_steering, plumb_cancel * cancel,
                                 float * logprobs, int32_t * statuses, int64_t * n_computed, plumb_error * error) {
    return score(session, requests, { { steering, n_steering, logprobs, statuses } }, cancel, n_computed, error);
}

plumb_status plumb_session_score_sets(plumb_session * session, const plumb_requests * requests,
                                      const plumb_steering_set * sets, size_t n_sets, plumb_cancel * cancel,
                                      float * logprobs, int32_t * statuses, int64_t * n_computed, plumb_error * error) {
    size_t n_tokens = 0;
    for (int32_t r = 0, c = 0; r < requests->n_requests; r++) {
        for (int32_t i = 0; i < requests->n_continuations[r]; i++) {
            n_tokens += requests->n_tokens[c++];
        }
    }
    std::vector<plumb::steered_scores> steerings;
    for (size_t i = 0; i < n_sets; i++) {
        steerings.push_back(
            { sets[i].steering, sets[i].n_steering, logprobs + i * n_tokens, statuses + i * requests->n_requests });
    }
    return score(session, requests, std::move(steerings), cancel, n_computed, error);
}
