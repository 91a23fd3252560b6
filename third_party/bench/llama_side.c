//go:build bench

#include "llama_side.h"

#include "ggml-cpu.h"
#include "llama.h"
#include "plumb.h"

#include <stdlib.h>

enum { MAX_TOKENS = 512 }; // what llama.cpp's own benchmark takes, and its default for one graph

struct llama_side {
    struct llama_model *     model;
    struct llama_context *   context;
    struct ggml_threadpool * threads;
    plumb_hooks *            hooks;
    float *                  direction;
};

static void drop_log(enum ggml_log_level level, const char * text, void * user) {
    (void) level, (void) text, (void) user;
}

llama_side * llama_side_open(const char * path, int32_t n_threads) {
    llama_side * side = calloc(1, sizeof(*side));
    if (!side) {
        return NULL;
    }
    llama_log_set(drop_log, NULL);
    side->model = llama_model_load_from_file(path, llama_model_default_params());
    if (!side->model) {
        llama_side_free(side);
        return NULL;
    }
    side->hooks = plumb_hooks_new(side->model, NULL);

    struct llama_context_params params = llama_context_default_params();
    params.n_ctx                       = MAX_TOKENS;
    params.n_batch                     = MAX_TOKENS;
    params.n_ubatch                    = MAX_TOKENS;
    params.n_threads                   = n_threads;
    params.n_threads_batch             = n_threads;
    params.cb_eval                     = plumb_hooks_eval;
    params.cb_eval_user_data           = side->hooks;
    side->context                      = llama_init_from_model(side->model, params);

    struct ggml_threadpool_params pool = ggml_threadpool_params_default(n_threads);
    side->threads                      = ggml_threadpool_new(&pool);

    const int32_t n_embd = llama_model_n_embd(side->model);
    side->direction      = malloc(n_embd * sizeof(float));
    if (!side->hooks || !side->context || !side->threads || !side->direction) {
        llama_side_free(side);
        return NULL;
    }
    for (int32_t i = 0; i < n_embd; i++) {
        side->direction[i] = i % 2 ? 1.0f : -1.0f;
    }
    llama_attach_threadpool(side->context, side->threads, side->threads);
    return side;
}

void llama_side_free(llama_side * side) {
    llama_free(side->context);
    plumb_hooks_free(side->hooks);
    ggml_threadpool_free(side->threads);
    llama_model_free(side->model);
    free(side->direction);
    free(side);
}

double llama_side_decode(llama_side * side, int32_t n, int32_t batch, int32_t hook_layer) {
    if (n < 1 || n > MAX_TOKENS || batch < 1 || n % batch != 0) {
        return -1;
    }
    const plumb_hook hook   = { .layer = hook_layer, .op = PLUMB_HOOK_PROJECT_OUT, .vector = side->direction, .strength = 1 };
    const size_t     hooked = hook_layer == LLAMA_SIDE_NO_HOOK ? 0 : 1;
    if (plumb_hooks_begin(side->hooks, &hook, hooked, NULL, NULL) != PLUMB_OK) {
        return -1;
    }
    const int32_t n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(side->model));
    llama_token   tokens[MAX_TOKENS];
    for (int32_t i = 0; i < n; i++) {
        tokens[i] = (int32_t) ((uint32_t) i * 2654435761u % (uint32_t) n_vocab);
    }
    llama_memory_clear(llama_get_memory(side->context), true);

    const int64_t start = llama_time_us();
    for (int32_t i = 0; i < n; i += batch) {
        if (llama_decode(side->context, llama_batch_get_one(tokens + i, batch)) != 0) {
            return -1;
        }
    }
    llama_synchronize(side->context);
    const double seconds = 1e-6 * (double) (llama_time_us() - start);
    return plumb_hooks_end(side->hooks, NULL) == PLUMB_OK ? seconds : -1;
}
