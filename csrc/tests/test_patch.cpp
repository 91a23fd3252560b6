// Causal tracing on tiny models: the identities that hold whatever the weights are.

#include "plumb.h"
#include "sequences.h"
#include "session.h"
#include "tiny_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

using namespace plumb;

namespace {

constexpr float TOLERANCE = 1e-4f; // of log-probabilities

// A request of one prompt and two continuations, whose beginnings are the same, in a session of a tiny model.
struct traced_request {
    llama_model *                                             llama;
    plumb_model *                                             model;
    std::unique_ptr<plumb_session, void (*)(plumb_session *)> session{ nullptr, plumb_session_free };

    std::vector<int32_t> prompt     = tiny_tokens(14, 21);
    std::vector<int32_t> n_tokens   = { 4, 3 };
    std::vector<int32_t> tokens     = { 7, 8, 9, 10, 7, 8, 11 };
    std::vector<int32_t> noisy      = { 5, 6, 9 };
    int32_t              one_prompt = (int32_t) prompt.size();
    int32_t              n_conts    = 2;
    std::vector<int32_t> all        = prompt;
    plumb_error          error      = {};
    std::vector<float>   clean_states; // [position][layer + 1][n_embd]
    std::vector<float>   clean = std::vector<float>(tokens.size());

    explicit traced_request(const std::string & architecture, int32_t n_batch_rows = 256)
        : llama(tiny_model(architecture, 3)), model(plumb_model_borrow(llama, 1, nullptr)) {
        plumb_session_params params = plumb_session_params_default();
        params.n_ctx                = 512;
        params.n_batch_rows         = n_batch_rows;
        params.n_threads            = 1;
        session.reset(plumb_session_new(model, &params, &error));
        all.insert(all.end(), tokens.begin(), tokens.end());
        read_clean();
    }

    ~traced_request() {
        session.reset();
        plumb_model_free(model);
        llama_model_free(llama);
    }

    int32_t n_layer() const { return llama_model_n_layer(llama); }
    int32_t n_embd() const { return llama_model_n_embd(llama); }

    plumb_requests request() const { return { 1, &one_prompt, &n_conts, n_tokens.data(), all.data() }; }

    // The states of every prompt token; and the clean scores.
    void read_clean() {
        std::vector<int32_t> layers, everywhere;
        for (int32_t l = PLUMB_LAYER_EMBEDDING; l < n_layer(); l++) {
            layers.push_back(l);
        }
        for (int32_t p = 0; p < one_prompt; p++) {
            everywhere.push_back(p);
        }
        sequences one;
        one.add(prompt, everywhere);
        const plumb_sequences s = one.get();
        int32_t               read;
        clean_states.resize(everywhere.size() * layers.size() * n_embd());
        EXPECT_EQ(plumb_session_residuals(session.get(), &s, nullptr, 0, layers.data(), (int32_t) layers.size(),
                                          nullptr, &read, clean_states.data(), &error),
                  PLUMB_OK)
            << error.message;
        std::vector<int32_t> statuses(1);
        const plumb_requests whole = request();
        EXPECT_EQ(plumb_session_score(session.get(), &whole, nullptr, 0, nullptr, clean.data(), statuses.data(),
                                      nullptr, &error),
                  PLUMB_OK)
            << error.message;
    }

    plumb_patch patch(int32_t layer, int32_t position) const {
        return { layer, position, clean_states.data() + ((size_t) position * (n_layer() + 1) + layer + 1) * n_embd() };
    }

    plumb_status run(const std::vector<plumb_patch> & patches, float strength, std::vector<float> & logprobs) {
        const plumb_requests whole = request();
        const plumb_noise    noise = { noisy.data(), (int32_t) noisy.size(), strength, 77 };
        logprobs.assign(patches.size() * tokens.size(), NAN);
        return plumb_session_patch(session.get(), &whole, &noise, patches.data(), (int32_t) patches.size(), nullptr,
                                   logprobs.data(), &error);
    }

    std::vector<float> run(const std::vector<plumb_patch> & patches, float strength = 2.0f) {
        std::vector<float> logprobs;
        EXPECT_EQ(run(patches, strength, logprobs), PLUMB_OK) << error.message;
        return logprobs;
    }
};

float apart(const float * a, const float * b, size_t n) {
    float d = 0;
    for (size_t i = 0; i < n; i++) {
        d = std::max(d, std::fabs(a[i] - b[i]));
    }
    return d;
}

const plumb_patch nothing = { 0, -1, nullptr };

} // namespace

class patch : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(architectures, patch, testing::ValuesIn(tiny_architectures()), [](const auto & info) {
    std::string n = info.param;
    std::replace_if(n.begin(), n.end(), [](char c) { return !isalnum(c); }, '_');
    return n;
});

TEST_P(patch, replays_equal_full_passes) {
    traced_request           t(GetParam());
    std::vector<plumb_patch> patches = { nothing };
    for (int32_t position : { 0, 4, 5, 6, 7, 9, 13 }) {
        for (int32_t layer = 0; layer < t.n_layer(); layer++) {
            patches.push_back(t.patch(layer, position));
        }
    }
    std::reverse(patches.begin() + 5, patches.end()); // in no order
    const size_t n        = t.tokens.size();
    const auto   replayed = t.run(patches);
    ASSERT_TRUE(t.session->can_replay) << "it fell back on full passes";
    t.session->can_replay = false;
    const auto passed     = t.run(patches);
    float      moved      = 0;
    for (size_t p = 0; p < patches.size(); p++) {
        EXPECT_LT(apart(&replayed[p * n], &passed[p * n], n), TOLERANCE)
            << "layer " << patches[p].layer << ", position " << patches[p].position;
        moved = std::max(moved, apart(&passed[p * n], &passed[0], n));
    }
    EXPECT_GT(moved, 0.02) << "restoring must do something for the test to mean something";
    EXPECT_GT(apart(&passed[0], t.clean.data(), n), 0.02) << "so must the noise";
}

TEST_P(patch, nothing_restored_is_the_corrupted_run_and_no_noise_the_clean_one) {
    traced_request t(GetParam());
    const size_t   n    = t.tokens.size();
    const auto     runs = t.run({ nothing, t.patch(1, 2), t.patch(t.n_layer() - 1, 7), nothing });
    for (size_t p = 1; p < 4; p++) {
        // before the first corrupted token, and where no output is reached
        EXPECT_LT(apart(&runs[p * n], runs.data(), n), TOLERANCE) << p;
    }
    std::vector<plumb_patch> everywhere = { nothing };
    for (int32_t layer = 0; layer < t.n_layer(); layer++) {
        for (int32_t position = 4; position < 10; position++) {
            everywhere.push_back(t.patch(layer, position));
        }
    }
    const auto silent = t.run(everywhere, 0.0f);
    for (size_t p = 0; p < everywhere.size(); p++) {
        EXPECT_LT(apart(&silent[p * n], t.clean.data(), n), TOLERANCE) << "sigma = 0, site " << p;
    }
}

// The only corrupted token is the last of the prompt. Its output of any block decides the next token, and restored it is
// all that differs from the clean run there; tokens after that see it through the blocks below, too, but for its embedding's.
TEST_P(patch, every_position_restored_is_the_clean_run_from_there_on) {
    traced_request t(GetParam());
    t.noisy                          = { t.one_prompt - 1 };
    std::vector<plumb_patch> patches = { nothing };
    for (int32_t layer = 0; layer < t.n_layer(); layer++) {
        patches.push_back(t.patch(layer, t.one_prompt - 1));
    }
    const size_t n    = t.tokens.size();
    const auto   runs = t.run(patches);
    for (int32_t first : { 0, t.n_tokens[0] }) {
        EXPECT_GT(std::fabs(runs[first] - t.clean[first]), 0.02);
        for (size_t p = 1; p < patches.size(); p++) {
            EXPECT_NEAR(runs[p * n + first], t.clean[first], TOLERANCE) << "layer " << patches[p].layer;
        }
    }
    patches        = { t.patch(PLUMB_LAYER_EMBEDDING, t.one_prompt - 1) };
    const auto all = t.run(patches);
    EXPECT_LT(apart(all.data(), t.clean.data(), n), TOLERANCE);
}

TEST(patches, do_not_depend_on_how_many_share_a_graph) {
    traced_request           wide("llama"), narrow("llama", 24);
    std::vector<plumb_patch> patches = { nothing };
    for (int32_t layer = 0; layer < wide.n_layer(); layer++) {
        for (int32_t position = 3; position < 14; position++) {
            patches.push_back(wide.patch(layer, position));
        }
    }
    const auto a = wide.run(patches), b = narrow.run(patches);
    EXPECT_LT(apart(a.data(), b.data(), a.size()), 1e-4f);
    EXPECT_TRUE(narrow.session->can_replay);
    // one site is as good as many
    const auto alone = wide.run({ patches[7] });
    EXPECT_LT(apart(alone.data(), &a[7 * wide.tokens.size()], alone.size()), 1e-4f);
}

TEST(patches, are_refused_with_a_reason) {
    traced_request     t("llama");
    std::vector<float> logprobs;
    plumb_patch        bad = t.patch(0, 5);
    bad.layer              = 9;
    EXPECT_EQ(t.run({ bad }, 1.0f, logprobs), PLUMB_INVALID);
    EXPECT_NE(std::string(t.error.message).find("no layer 9"), std::string::npos);
    bad.layer = 0, bad.position = 14;
    EXPECT_EQ(t.run({ bad }, 1.0f, logprobs), PLUMB_INVALID);
    std::vector<float> nan(t.n_embd(), NAN);
    for (int32_t layer = 0; layer < t.n_layer(); layer++) {
        EXPECT_EQ(t.run({ t.patch(0, 5), { layer, 5, nan.data() } }, 1.0f, logprobs), PLUMB_INVALID);
    }
    t.noisy = { 6, 5 };
    EXPECT_EQ(t.run({ nothing }, 1.0f, logprobs), PLUMB_INVALID);
    traced_request small("llama", 16); // fewer rows than prompt and continuations
    EXPECT_EQ(small.run({ nothing }, 1.0f, logprobs), PLUMB_TOO_LONG);
}
