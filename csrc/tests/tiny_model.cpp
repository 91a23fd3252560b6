#include "tiny_model.h"

#include "ggml-backend.h"
#include "ggml.h"
#include "gguf.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>

namespace plumb {

namespace {

// Metadata under the architecture's own prefix.
struct metadata {
    gguf_context * gguf;
    std::string    prefix;

    void set(const char * key, uint32_t value) { gguf_set_val_u32(gguf, (prefix + "." + key).c_str(), value); }
    void set(const char * key, float value) { gguf_set_val_f32(gguf, (prefix + "." + key).c_str(), value); }
    void set(const char * key, bool value) { gguf_set_val_bool(gguf, (prefix + "." + key).c_str(), value); }
};

void set_vocabulary(gguf_context * gguf, uint32_t n_vocab) {
    std::vector<std::string>  words(n_vocab);
    std::vector<const char *> pointers(n_vocab);
    std::vector<float>        scores(n_vocab, 0.0f);
    for (uint32_t i = 0; i < n_vocab; i++) {
        words[i]    = "tok_" + std::to_string(i);
        pointers[i] = words[i].c_str();
    }
    gguf_set_val_str(gguf, "tokenizer.ggml.model", "test");
    gguf_set_arr_str(gguf, "tokenizer.ggml.tokens", pointers.data(), n_vocab);
    gguf_set_arr_data(gguf, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, scores.data(), n_vocab);
    gguf_set_val_u32(gguf, "tokenizer.ggml.token_type_count", 2);
}

// What every architecture is told; each reads the keys that it knows.
void set_shape(metadata & m, const tiny_shape & shape, bool experts) {
    const bool one_kv_head = m.prefix == "falcon";
    m.set("vocab_size", shape.n_vocab);
    m.set("context_length", 512u);
    m.set("embedding_length", shape.n_embd);
    m.set("block_count", shape.n_layer);
    m.set("feed_forward_length", shape.n_ff);
    m.set("attention.head_count", shape.n_head);
    m.set("attention.head_count_kv", one_kv_head ? 1u : 2u);
    m.set("attention.layer_norm_epsilon", 1e-5f);
    m.set("attention.layer_norm_rms_epsilon", 1e-5f);
    m.set("attention.sliding_window", 16u);
    m.set("attention.sliding_window_pattern", 2u);
    m.set("rope.freq_base", 10000.0f);
    m.set("rope.freq_base_swa", 1000.0f);
    m.set("attn_logit_softcapping", 20.0f);
    m.set("final_logit_softcapping", 10.0f);
    m.set("use_parallel_residual", false);
    m.set("logit_scale", 0.5f);
    m.set("attention.clamp_kqv", 4.0f);
    if (experts) {
        m.set("expert_count", 4u);
        m.set("expert_used_count", 2u);
        m.set("expert_feed_forward_length", 48u);
        m.set("expert_shared_feed_forward_length", 32u);
    }
}

bool has(const char * name, const char * part) {
    return strstr(name, part) != nullptr;
}

// Norm weights near one, biases small, matrices scaled by their input width.
void set_weights(ggml_tensor * tensor, void * seed) {
    uint64_t hash = 14695981039346656037ull ^ *(const uint32_t *) seed; // FNV-1a: the same on every platform
    for (const char * c = tensor->name; *c; c++) {
        hash = (hash ^ (uint8_t) *c) * 1099511628211ull;
    }
    std::mt19937_64 generator(hash);
    auto            normal = [&] { // Box-Muller, since std::normal_distribution differs between libraries
        const double u = ((double) (generator() >> 11) + 0.5) / 9007199254740992.0;
        const double v = ((double) (generator() >> 11) + 0.5) / 9007199254740992.0;
        return (float) (std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * M_PI * v));
    };
    const bool  factors = has(tensor->name, "rope_f");
    const bool  norm    = has(tensor->name, "norm") && has(tensor->name, ".weight");
    const bool  bias    = has(tensor->name, ".bias");
    const float width   = 1.0f / std::sqrt((float) tensor->ne[0]);
    const float unit    = has(tensor->name, "token_embd") || has(tensor->name, "position_embd") ? 0.25f : 1.5f * width;

    std::vector<float> values(ggml_nelements(tensor));
    for (float & value : values) {
        const float n = normal();
        value         = factors ? 1.0f + 0.2f * std::fabs(n) : norm ? 1.0f + 0.1f * n : bias ? 0.1f * n : unit * n;
    }
    ggml_backend_tensor_set(tensor, values.data(), 0, ggml_nbytes(tensor));
}

} // namespace

const std::vector<std::string> & tiny_architectures() {
    static const std::vector<std::string> names = { "llama",  "llama-moe", "qwen2",   "qwen3",  "qwen2moe",
                                                    "gemma2", "gemma3",    "phi2",    "phi3",   "gpt2",
                                                    "olmo2",  "falcon",    "cohere2", "gptneox" };
    return names;
}

llama_model * tiny_model(const std::string & architecture, uint32_t seed, ggml_backend_dev_t * devices,
                         int32_t n_gpu_layers, const tiny_shape & shape) {
    bool known = architecture == "bert";
    for (const std::string & name : tiny_architectures()) {
        known = known || name == architecture;
    }
    if (!known) {
        throw std::runtime_error("no tiny model of architecture " + architecture);
    }
    const bool        mixtral = architecture == "llama-moe";
    const std::string name    = mixtral ? "llama" : architecture;

    std::unique_ptr<gguf_context, void (*)(gguf_context *)> gguf(gguf_init_empty(), gguf_free);
    gguf_set_val_str(gguf.get(), "general.architecture", name.c_str());
    metadata m{ gguf.get(), name };
    set_shape(m, shape, mixtral || name == "qwen2moe");
    set_vocabulary(gguf.get(), shape.n_vocab);

    ggml_backend_dev_t none[] = { nullptr };
    llama_model_params params = llama_model_default_params();
    params.devices            = devices ? devices : none;
    params.n_gpu_layers       = n_gpu_layers;
    params.use_extra_bufts    = false;
    params.progress_callback  = [](float, void *) { return true; };

    llama_model * model = llama_model_init_from_user(gguf.get(), set_weights, &seed, params);
    if (!model) {
        throw std::runtime_error("llama.cpp made no tiny model of architecture " + architecture);
    }
    return model;
}

std::vector<llama_token> tiny_tokens(size_t n, uint32_t seed) {
    std::mt19937             generator(seed);
    std::vector<llama_token> tokens(n);
    for (llama_token & token : tokens) {
        token = (llama_token) (generator() % tiny_shape{}.n_vocab);
    }
    return tokens;
}

} // namespace plumb
