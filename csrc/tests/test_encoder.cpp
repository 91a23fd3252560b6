// Encoders: what they embed, and what they refuse. Values are checked against transformers in bindings.

#include "plumb.h"
#include "tiny_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

using namespace plumb;

namespace {

struct opened {
    llama_model * llama;
    plumb_model * model;

    explicit opened(const char * architecture)
        : llama(tiny_model(architecture, 7)), model(plumb_model_borrow(llama, 1, nullptr)) {}
    ~opened() {
        plumb_model_free(model);
        llama_model_free(llama);
    }
};

using encoder_ptr = std::unique_ptr<plumb_encoder, void (*)(plumb_encoder *)>;

struct encoder : testing::Test {
    opened      bert{ "bert" };
    plumb_error error = {};
    encoder_ptr e{ plumb_encoder_new(bert.model, false, &error), plumb_encoder_free };

    std::vector<float> embed(const std::vector<llama_token> & tokens) {
        std::vector<float> out(tokens.size() * plumb_encoder_width(e.get()));
        EXPECT_EQ(plumb_encoder_run(e.get(), tokens.data(), tokens.size(), nullptr, out.data(), &error), PLUMB_OK)
            << error.message;
        return out;
    }
};

TEST_F(encoder, attends_to_what_follows_and_to_nothing_before_the_call) {
    ASSERT_TRUE(e) << error.message;
    EXPECT_EQ(plumb_encoder_width(e.get()), 64);
    EXPECT_EQ(plumb_encoder_n_ctx(e.get()), 512);
    auto       tokens = tiny_tokens(9, 1);
    const auto first  = embed(tokens);
    embed(tiny_tokens(30, 2));
    EXPECT_EQ(embed(tokens), first);
    tokens.back()    = (tokens.back() + 1) % 128;
    const auto other = embed(tokens);
    float      moved = 0;
    for (int i = 0; i < 64; i++) {
        moved = std::max(moved, std::fabs(other[i] - first[i]));
    }
    EXPECT_GT(moved, 1e-4) << "the first token does not see the last one";
}

TEST_F(encoder, refuses_in_one_line) {
    ASSERT_TRUE(e) << error.message;
    std::vector<float> out(513 * 64);
    const auto         run = [&](std::vector<llama_token> tokens, plumb_cancel * cancel) {
        return plumb_encoder_run(e.get(), tokens.data(), (int32_t) tokens.size(), cancel, out.data(), &error);
    };
    EXPECT_EQ(run(tiny_tokens(512, 1), nullptr), PLUMB_OK) << error.message;
    EXPECT_EQ(run(tiny_tokens(513, 1), nullptr), PLUMB_TOO_LONG);
    EXPECT_STREQ(error.message, "the text is 513 tokens; the encoder's context holds 512");
    EXPECT_EQ(run({}, nullptr), PLUMB_INVALID);
    EXPECT_EQ(run({ 1, 128 }, nullptr), PLUMB_INVALID);
    EXPECT_EQ(run({ -1 }, nullptr), PLUMB_INVALID);
    plumb_cancel * cancel = plumb_cancel_new();
    plumb_cancel_now(cancel);
    EXPECT_EQ(run({ 1, 2 }, cancel), PLUMB_CANCELLED);
    plumb_cancel_free(cancel);
    EXPECT_EQ(run({ 1, 2 }, nullptr), PLUMB_OK) << error.message;

    EXPECT_EQ(plumb_model_n_labels(bert.model), 0);
    EXPECT_EQ(plumb_model_label(bert.model, 0), nullptr);
    EXPECT_FALSE(plumb_encoder_new(bert.model, true, &error));
    EXPECT_EQ(error.status, PLUMB_UNSUPPORTED);
    EXPECT_NE(std::string(error.message).find("names no labels"), std::string::npos) << error.message;
}

TEST_F(encoder, is_neither_scored_nor_differentiated) {
    EXPECT_FALSE(plumb_session_new(bert.model, nullptr, &error));
    EXPECT_EQ(error.status, PLUMB_UNSUPPORTED);
    EXPECT_FALSE(plumb_gradients_new(bert.model, nullptr, &error));
    EXPECT_EQ(error.status, PLUMB_UNSUPPORTED);
    plumb_model_info info;
    plumb_model_get_info(bert.model, &info);
    EXPECT_TRUE(info.is_encoder);

    opened llama("llama");
    plumb_model_get_info(llama.model, &info);
    EXPECT_FALSE(info.is_encoder);
    EXPECT_FALSE(plumb_encoder_new(llama.model, false, &error));
    EXPECT_EQ(error.status, PLUMB_UNSUPPORTED);
    EXPECT_STREQ(error.message, "the architecture llama is no encoder that Plumb serves");
}

} // namespace
