/* Steering inside a program that has its own llama_context.

   The program sets two context parameters from plumb.h, and swaps the plan when it likes: here it reads a prompt's
   residual stream at one layer, projects that very direction out at the same layer, and shows what comes next with and
   without.

     own_context MODEL.gguf LAYER PROMPT */

#include "llama.h"
#include "plumb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void quiet(enum ggml_log_level level, const char * text, void * unused) {
    (void) unused;
    if (level == GGML_LOG_LEVEL_ERROR) {
        fputs(text, stderr);
    }
}

static void check(plumb_status status, const plumb_error * error) {
    if (status != PLUMB_OK) {
        fprintf(stderr, "own_context: %s\n", error->message);
        exit(1);
    }
}

int main(int argc, char ** argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: own_context MODEL.gguf LAYER PROMPT\n");
        return 2;
    }
    llama_log_set(quiet, NULL);
    llama_backend_init();
    struct llama_model * model = llama_model_load_from_file(argv[1], llama_model_default_params());
    if (!model) {
        return 1;
    }
    const struct llama_vocab * vocab = llama_model_get_vocab(model);

    plumb_error   error;
    plumb_hooks * hooks = plumb_hooks_new(model, &error);

    struct llama_context_params params = llama_context_default_params();
    params.n_ctx                       = 512;
    params.n_batch                     = 512;
    params.cb_eval                     = plumb_hooks_eval; /* the two parameters */
    params.cb_eval_user_data           = hooks;
    struct llama_context * ctx         = llama_init_from_model(model, params);

    llama_token   tokens[512];
    const int32_t n = llama_tokenize(vocab, argv[3], (int32_t) strlen(argv[3]), tokens, 512, true, false);
    if (!hooks || !ctx || n < 1) {
        fprintf(stderr, "own_context: no hooks, no context, or no prompt\n");
        return 1;
    }
    struct llama_batch batch = llama_batch_get_one(tokens, n);
    int8_t *           logits = calloc(n, 1);
    logits[n - 1]             = 1; /* what llama_batch_get_one asks for */
    batch.logits              = logits;

    const int32_t layer = atoi(argv[2]), last = n - 1;
    float *       direction = malloc(sizeof(float) * llama_model_n_embd(model));

    plumb_hook read = { .layer = layer, .op = PLUMB_HOOK_READ, .rows = &last, .n_rows = 1, .out = direction };
    plumb_hook project = { .layer = layer, .op = PLUMB_HOOK_PROJECT_OUT, .vector = direction, .strength = 1.0f };
    const plumb_batch_rows rows = { n, tokens, logits };

    for (int steered = 0; steered < 2; steered++) {
        const plumb_hook * plan = steered ? &project : &read;
        check(plumb_hooks_begin(hooks, plan, 1, steered ? NULL : &rows, &error), &error);
        llama_memory_clear(llama_get_memory(ctx), true);
        if (llama_decode(ctx, batch) != 0) {
            return 1;
        }
        check(plumb_hooks_end(hooks, &error), &error);

        const float * l = llama_get_logits_ith(ctx, -1);
        llama_token   best = 0;
        for (llama_token t = 1; t < llama_vocab_n_tokens(vocab); t++) {
            best = l[t] > l[best] ? t : best;
        }
        char text[64];
        const int32_t size = llama_token_to_piece(vocab, best, text, sizeof text, 0, true);
        printf("%s: token %d \"%.*s\", logit %.4f\n", steered ? "steered" : "plain  ", best, size > 0 ? size : 0, text, l[best]);
    }
    free(direction);
    free(logits);
    llama_free(ctx);
    plumb_hooks_free(hooks); /* after the context that calls it */
    llama_model_free(model);
    return 0;
}
