// Quantised weights whose products are computed as floats: a model then scores as its copy in F32 does, to the last bit.

#include "plumb.h"
#include "tiny_model.h"

#include "ggml/float_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <unistd.h>

using namespace plumb;

namespace {

struct quantised {
    std::string architecture, name;
    llama_ftype type;
};

// A model file of the architecture and type, and its copy in F32.
class float_weights_of : public testing::TestWithParam<quantised> {
  protected:
    void SetUp() override {
        llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr); // a line for every tensor
        // one a process: ctest runs several at a time
        folder = std::filesystem::path(testing::TempDir()) / ("float_weights_" + std::to_string(getpid()));
        std::filesystem::create_directories(folder);
        llama_model * model = tiny_model(GetParam().architecture, 1);
        llama_model_save_to_file(model, path("tiny").c_str());
        llama_model_free(model);
        convert("tiny", "quantised", GetParam().type);
        convert("quantised", "f32", LLAMA_FTYPE_ALL_F32);
    }

    void TearDown() override { std::filesystem::remove_all(folder); }

    std::string path(const char * name) const { return (folder / name).string() + ".gguf"; }

    void convert(const char * from, const char * to, llama_ftype type) const {
        llama_model_quantize_params params = llama_model_quantize_default_params();
        params.ftype                       = type;
        params.allow_requantize            = true;
        params.pure                        = true; // one type throughout
        params.nthread                     = 1;
        ASSERT_EQ(llama_model_quantize(path(from).c_str(), path(to).c_str(), &params), 0u);
    }

    using model_ptr   = std::unique_ptr<plumb_model, void (*)(plumb_model *)>;
    using session_ptr = std::unique_ptr<plumb_session, void (*)(plumb_session *)>;

    model_ptr open(const char * name) const {
        plumb_model_params params = plumb_model_params_default();
        params.n_threads          = 1;
        plumb_error error         = {};
        model_ptr   model(plumb_model_open(path(name).c_str(), &params, &error), plumb_model_free);
        EXPECT_TRUE(model) << error.message;
        return model;
    }

    static session_ptr session_of(plumb_model * model) {
        plumb_error error = {};
        session_ptr session(plumb_session_new(model, nullptr, &error), plumb_session_free);
        EXPECT_TRUE(session) << error.message;
        return session;
    }

    // Under no steering, and at two strengths, so that blocks are replayed.
    static std::vector<float> scores(plumb_session * session, size_t n_embd) {
        std::vector<int32_t> tokens = tiny_tokens(20, 4), n_tokens = { 6, 1 };
        int32_t              n_prompt = 13, n_continuations = 2;
        const plumb_requests requests = { 1, &n_prompt, &n_continuations, n_tokens.data(), tokens.data() };
        std::vector<float>   direction(n_embd, 0.25f);
        plumb_steering       weak = {}, strong = {};
        weak.op = strong.op = PLUMB_HOOK_ADD;
        weak.layer = strong.layer = 1;
        weak.vector = strong.vector                = direction.data();
        weak.strength                              = 0.5f;
        strong.strength                            = 2.0f;
        const std::vector<plumb_steering_set> sets = { { nullptr, 0 }, { &weak, 1 }, { &strong, 1 } };
        std::vector<float>                    logprobs(sets.size() * 7);
        std::vector<int32_t>                  statuses(sets.size());
        plumb_error                           error = {};
        EXPECT_EQ(plumb_session_score_sets(session, &requests, sets.data(), sets.size(), nullptr, logprobs.data(),
                                           statuses.data(), nullptr, &error),
                  PLUMB_OK)
            << error.message;
        return logprobs;
    }

    static std::vector<int32_t> generated(plumb_session * session) {
        const std::vector<int32_t> prompt   = tiny_tokens(1, 4);
        const plumb_sampling       sampling = { 1, 0.0f, 1.0f };
        std::vector<int32_t>       out(30);
        int32_t                    n     = 0;
        plumb_error                error = {};
        EXPECT_EQ(plumb_session_generate(session, prompt.data(), 1, nullptr, 0, &sampling, 30, nullptr, out.data(), &n,
                                         &error),
                  PLUMB_OK)
            << error.message;
        out.resize(n);
        return out;
    }

    std::filesystem::path folder;
};

TEST_P(float_weights_of, score_as_floats_do) {
    const model_ptr   quantised = open("quantised"), floats = open("f32");
    const session_ptr a = session_of(quantised.get()), b = session_of(floats.get());
    plumb_model_info  info;
    plumb_model_get_info(floats.get(), &info);
    EXPECT_EQ(scores(a.get(), info.n_embd), scores(b.get(), info.n_embd));
}

// Generating multiplies by the quantised weights, whatever the session did before.
TEST_P(float_weights_of, generate_as_before) {
    const model_ptr  model = open("quantised");
    plumb_model_info info;
    plumb_model_get_info(model.get(), &info);
    const session_ptr          fresh = session_of(model.get()), used = session_of(model.get());
    const std::vector<int32_t> expected = generated(fresh.get());
    const std::vector<float>   before   = scores(used.get(), info.n_embd);
    EXPECT_EQ(generated(used.get()), expected);
    EXPECT_EQ(scores(used.get(), info.n_embd), before);
}

INSTANTIATE_TEST_SUITE_P(tiny, float_weights_of,
                         testing::Values(quantised{ "llama", "q4_1", LLAMA_FTYPE_MOSTLY_Q4_1 },
                                         quantised{ "llama", "q4_0", LLAMA_FTYPE_MOSTLY_Q4_0 }, // which ggml repacks
                                         quantised{ "gemma3", "q8_0", LLAMA_FTYPE_MOSTLY_Q8_0 },
                                         quantised{ "gemma3", "q5_0", LLAMA_FTYPE_MOSTLY_Q5_0 },
                                         quantised{ "qwen2", "f16", LLAMA_FTYPE_MOSTLY_F16 },
                                         quantised{ "llama-moe", "bf16", LLAMA_FTYPE_MOSTLY_BF16 }),
                         [](const auto & info) {
                             std::string name = info.param.architecture + "_" + info.param.name;
                             std::replace(name.begin(), name.end(), '-', '_'); // as GoogleTest wants
                             return name;
                         });

ggml_tensor * product(ggml_context * ctx, ggml_type type) {
    return ggml_mul_mat(ctx, ggml_new_tensor_2d(ctx, type, 256, 8), ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 256, 4));
}

TEST(float_weights, are_used_in_products_with_weights_of_other_types_alone) {
    const struct {
        ggml_type                 type;
        ggml_backend_buffer_usage usage;
        bool                      used;
    } cases[] = {
        { GGML_TYPE_Q4_1, GGML_BACKEND_BUFFER_USAGE_WEIGHTS, true },
        { GGML_TYPE_Q6_K, GGML_BACKEND_BUFFER_USAGE_WEIGHTS, true },
        { GGML_TYPE_Q4_1, GGML_BACKEND_BUFFER_USAGE_COMPUTE, false }, // no weight: its value may change
        { GGML_TYPE_Q8_0, GGML_BACKEND_BUFFER_USAGE_WEIGHTS, true },
        { GGML_TYPE_BF16, GGML_BACKEND_BUFFER_USAGE_WEIGHTS, true },
        { GGML_TYPE_F32, GGML_BACKEND_BUFFER_USAGE_WEIGHTS, false },
    };
    for (const auto & c : cases) {
        std::unique_ptr<ggml_context, void (*)(ggml_context *)> ctx(ggml_init({ 1 << 16, nullptr, true }), ggml_free);
        ggml_tensor *                                           node   = product(ctx.get(), c.type);
        ggml_tensor *                                           weight = node->src[0];
        std::unique_ptr<ggml_backend_buffer, void (*)(ggml_backend_buffer_t)> buffer(
            ggml_backend_alloc_ctx_tensors_from_buft(ctx.get(), ggml_backend_cpu_buffer_type()),
            ggml_backend_buffer_free);
        ggml_backend_buffer_clear(buffer.get(), 0);
        ggml_backend_buffer_set_usage(buffer.get(), c.usage);
        float_weights floats;
        floats.use_in(node);
        EXPECT_EQ(node->src[0] != weight, c.used) << ggml_type_name(c.type);
        EXPECT_TRUE(!c.used || (node->src[0]->type == GGML_TYPE_F32 && ggml_are_same_shape(node->src[0], weight)));
        const ggml_tensor * copy = node->src[0];
        floats.use_in(node); // the graph runs again
        EXPECT_EQ(node->src[0], copy);
        float_weights::forget_in(node);
        EXPECT_EQ(node->src[0], weight);
        floats.check();
    }
}

} // namespace
