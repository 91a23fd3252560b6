#include "architectures.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace plumb {

namespace {

// Sorted. From the self-test of the tiny random models that llama.cpp's test-llama-archs writes: trie and alone agreed to
// 1e-4. Missing are diffusion models, Mamba (one sequence at a time), cogvlm, deepseek4, minimax-01, plamo2 and qwen4exp
// (wrong, or an abort in ggml).
const char * const trie_checked[] = {
    "afmoe",        "arcee",        "arctic",        "baichuan",    "bailingmoe",    "bailingmoe2",    "bailingmoe3",
    "bloom",        "chatglm",      "codeshell",     "cohere2",     "cohere2moe",    "command-r",      "dbrx",
    "deci",         "deepseek",     "deepseek2",     "deepseek32",  "dots1",         "dots3note",      "ernie4_5",
    "ernie4_5-moe", "exaone",       "exaone-moe",    "exaone4",     "falcon",        "falcon-h1",      "gemma",
    "gemma2",       "gemma3",       "glm-dsa",       "glm4",        "glm4moe",       "glm5-next",      "gpt-oss",
    "gpt2",         "gptneox",      "granite",       "granite_swa", "granitehybrid", "granitemoe",     "grok",
    "grovemoe",     "hrm_text",     "hunyuan-dense", "hunyuan-moe", "hunyuan_vl",    "hy_v3",          "hy_v4",
    "internlm2",    "jais",         "jais2",         "jamba",       "kimi-k3",       "kimi-linear",    "laguna",
    "lfm2",         "lfm2moe",      "llama",         "llama4",      "maincoder",     "maple",          "mellum",
    "mimo2",        "minicpm",      "minicpm3",      "minimax-m2",  "minimax-m3",    "mistral3",       "mistral4",
    "mpt",          "muse-glimmer", "nanbeige",      "nemotron",    "nemotron_h",    "nemotron_h_moe", "olmo",
    "olmo2",        "olmoe",        "openelm",       "orion",       "paddleocr",     "pangu-embedded", "phi2",
    "phi3",         "phimoe",       "plamo",         "plamo3",      "pockettts",     "qwen",           "qwen2",
    "qwen2moe",     "qwen2vl",      "qwen3",         "qwen35",      "qwen35moe",     "qwen3moe",       "qwen3next",
    "qwen3tts",     "qwen3vl",      "qwen3vlmoe",    "refact",      "seed_oss",      "smallthinker",   "smollm3",
    "spark2_5",     "stablelm",     "starcoder",     "starcoder2",  "talkie",        "xverse",
};

// Sorted: those that llama.cpp runs without a cache of keys and values, all tokens in one graph, to give embeddings.
const char * const encoders[] = {
    "bert",        "eurobert", "gemma-embedding", "jina-bert-v2",   "jina-bert-v3",
    "modern-bert", "neo-bert", "nomic-bert",      "nomic-bert-moe", "t5encoder",
};

template <size_t n> bool is_among(const char * const (&sorted)[n], const std::string & name) {
    return std::binary_search(std::begin(sorted), std::end(sorted), name.c_str(),
                              [](const char * a, const char * b) { return strcmp(a, b) < 0; });
}

} // namespace

bool trie_scoring_was_checked(const std::string & architecture) {
    return is_among(trie_checked, architecture);
}

bool is_encoder(const std::string & architecture) {
    return is_among(encoders, architecture);
}

} // namespace plumb
