// Tiny models with random weights, made in memory: a real llama_model of a real architecture, without a file.

#pragma once

#include "llama.h"

#include <cstdint>
#include <string>
#include <vector>

namespace plumb {

// The causal language models that tiny_model can make: llama.cpp's architecture names, and "llama-moe" for llama with experts
// (Mixtral). It makes "bert", an encoder, too.
const std::vector<std::string> & tiny_architectures();

// Heads are of n_embd / n_head components, two of them with keys and values.
struct tiny_shape {
    uint32_t n_layer = 4;
    uint32_t n_embd  = 64;
    uint32_t n_head  = 4;
    uint32_t n_ff    = 256;
    uint32_t n_vocab = 128;
};

// A model of that shape with the vocabulary "tok_0", "tok_1", … (llama.cpp's own "test" tokenizer: five bytes of text a
// token). Weights are a function of (architecture, seed) alone, of about the size that
// a trained network's have, so that activations neither vanish nor explode. n_ctx_train is 512.
// Sliding windows, where the architecture has them, are 16 tokens. F32 throughout.
//
// n_gpu_layers and devices (NULL-terminated; NULL: the CPU alone) place it. Freed with llama_model_free.
// Throws std::runtime_error for another name, or if llama.cpp refuses.
llama_model * tiny_model(const std::string & architecture, uint32_t seed, ggml_backend_dev_t * devices = nullptr,
                         int32_t n_gpu_layers = 0, const tiny_shape & shape = {});

// n token ids below the tiny vocabulary, a function of the seed.
std::vector<llama_token> tiny_tokens(size_t n, uint32_t seed);

// Whether the architecture has GELU: an RPC server of the CPU reads it from ggml's table (ggml/exact_gelu.h), Plumb on its own
// CPU does not, and the two differ by the table's rounding.
inline bool server_rounds_gelu(const std::string & architecture) {
    return architecture == "gemma3" || architecture == "gpt2";
}

} // namespace plumb
