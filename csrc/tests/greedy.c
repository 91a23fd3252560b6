/* A program of llama.cpp's that knows nothing of Plumb: continues a prompt, always with the likeliest token.

     greedy MODEL.gguf N PROMPT */

#include "llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char ** argv) {
    if (argc != 4) {
        return 2;
    }
    struct llama_model *        model  = llama_model_load_from_file(argv[1], llama_model_default_params());
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx                       = 512;
    params.type_k                      = GGML_TYPE_F32;
    params.type_v                      = GGML_TYPE_F32;
    params.flash_attn_type             = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    params.n_threads = params.n_threads_batch = 1;
    struct llama_context * ctx                = model ? llama_init_from_model(model, params) : NULL;
    if (!ctx) {
        return 1;
    }
    const struct llama_vocab * vocab = llama_model_get_vocab(model);
    llama_token                tokens[512];
    int32_t n = llama_tokenize(vocab, argv[3], (int32_t) strlen(argv[3]), tokens, 256, true, false);
    for (int left = atoi(argv[2]); left > 0; left--) {
        if (llama_decode(ctx, llama_batch_get_one(tokens, n)) != 0) {
            return 1;
        }
        const float * l = llama_get_logits_ith(ctx, -1);
        tokens[0]       = 0;
        for (llama_token t = 1; t < llama_vocab_n_tokens(vocab); t++) {
            tokens[0] = l[t] > l[tokens[0]] ? t : tokens[0];
        }
        n = 1;
        char          text[64];
        const int32_t size = llama_token_to_piece(vocab, tokens[0], text, sizeof text, 0, true);
        fwrite(text, 1, size > 0 ? size : 0, stdout);
    }
    llama_free(ctx);
    llama_model_free(model);
    return 0;
}
