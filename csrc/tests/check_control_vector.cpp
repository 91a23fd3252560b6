// check_control_vector MODEL.gguf VECTOR.gguf TOKEN TOKEN…: the log-probability of each token after those before it, under
// llama.cpp's own control vector, a line each. VECTOR.gguf is read as llama.cpp reads it: F32 tensors direction.L of one
// dimension, L from 1 on, and nothing else; "-" is no control vector.

#include "error.h"

#include "gguf.h"
#include "llama.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace {

// Layer 1 comes first in llama.cpp's layout. Empty if the file is not a control vector of the width.
std::vector<float> read_vector(const char * path, int32_t n_embd, int32_t n_layer) {
    ggml_context *                                                tensors = nullptr;
    const gguf_init_params                                        params  = { /*no_alloc =*/false, /*ctx =*/&tensors };
    const std::unique_ptr<gguf_context, void (*)(gguf_context *)> file(gguf_init_from_file(path, params), gguf_free);
    const std::unique_ptr<ggml_context, void (*)(ggml_context *)> owner(tensors, ggml_free);
    if (!file) {
        return {};
    }
    std::vector<float> data((size_t) n_embd * (n_layer - 1), 0.0f);
    for (int64_t i = 0; i < gguf_get_n_tensors(file.get()); i++) {
        const char *        name  = gguf_get_tensor_name(file.get(), i);
        const ggml_tensor * t     = ggml_get_tensor(tensors, name);
        int                 layer = 0;
        if (sscanf(name, "direction.%d", &layer) != 1 || layer < 1 || layer >= n_layer || t->type != GGML_TYPE_F32 ||
            ggml_n_dims(t) != 1 || t->ne[0] != n_embd) {
            fprintf(stderr, "check_control_vector: %s is no direction for the model\n", name);
            return {};
        }
        memcpy(&data[(size_t) n_embd * (layer - 1)], t->data, ggml_nbytes(t));
    }
    return data;
}

int run(const char * model_path, const char * vector_path, std::vector<llama_token> tokens) {
    llama_model_params mp = llama_model_default_params();
    mp.n_gpu_layers       = 0;
    const std::unique_ptr<llama_model, void (*)(llama_model *)> model(llama_model_load_from_file(model_path, mp),
                                                                      llama_model_free);
    if (!model) {
        fprintf(stderr, "check_control_vector: llama.cpp does not load %s\n", model_path);
        return 1;
    }
    llama_context_params cp = llama_context_default_params();
    cp.n_ctx = cp.n_batch = cp.n_ubatch = 512;
    cp.n_threads = cp.n_threads_batch = 1;
    cp.type_k = cp.type_v = GGML_TYPE_F32;
    cp.flash_attn_type    = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    const std::unique_ptr<llama_context, void (*)(llama_context *)> context(llama_init_from_model(model.get(), cp),
                                                                            llama_free);
    const int32_t n_embd = llama_model_n_embd(model.get()), n_layer = llama_model_n_layer(model.get());
    const int32_t n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model.get()));
    if (strcmp(vector_path, "-") != 0) {
        const std::vector<float> data = read_vector(vector_path, n_embd, n_layer);
        if (data.empty() || llama_set_adapter_cvec(context.get(), data.data(), data.size(), n_embd, 1, n_layer) != 0) {
            fprintf(stderr, "check_control_vector: %s is no control vector for the model\n", vector_path);
            return 1;
        }
    }
    // One token a graph: the plainest way to have every token's logits.
    for (size_t i = 0; i + 1 < tokens.size(); i++) {
        if (llama_decode(context.get(), llama_batch_get_one(&tokens[i], 1)) != 0) {
            fprintf(stderr, "check_control_vector: llama_decode fails\n");
            return 1;
        }
        const float * logits = llama_get_logits_ith(context.get(), -1);
        long double   sum    = 0;
        for (int32_t v = 0; v < n_vocab; v++) {
            sum += std::exp((long double) logits[v]);
        }
        printf("%.9g\n", (double) (logits[tokens[i + 1]] - std::log(sum)));
    }
    return 0;
}

} // namespace

int main(int argc, char ** argv) {
    if (argc < 5) {
        fprintf(stderr, "usage: check_control_vector MODEL.gguf VECTOR.gguf TOKEN TOKEN...\n");
        return 2;
    }
    plumb::install_log_and_abort_handlers();
    std::vector<llama_token> tokens;
    for (int i = 3; i < argc; i++) {
        tokens.push_back((llama_token) atoi(argv[i]));
    }
    return run(argv[1], argv[2], std::move(tokens));
}
