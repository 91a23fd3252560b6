// Scoring and residual streams on tiny models, against llama.cpp used plainly: one sequence, one decode.

#include "plumb.h"
#include "sequences.h"
#include "tiny_model.h"

#include "ggml/exact_gelu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <thread>

using namespace plumb;

namespace {

struct tiny {
    llama_model * llama;
    plumb_model * model;

    explicit tiny(const std::string & architecture)
        : llama(tiny_model(architecture, 1)), model(plumb_model_borrow(llama, 1, nullptr)) {}

    ~tiny() {
        plumb_model_free(model);
        llama_model_free(llama);
    }
};

using session_ptr = std::unique_ptr<plumb_session, void (*)(plumb_session *)>;

session_ptr session_of(const tiny & t, const plumb_session_params & params) {
    plumb_error error;
    session_ptr session(plumb_session_new(t.model, &params, &error), plumb_session_free);
    EXPECT_TRUE(session) << error.message;
    return session;
}

struct batch_of_requests {
    std::vector<int32_t> n_prompt, n_continuations, n_tokens, tokens;

    void add(const std::vector<llama_token> & prompt, const std::vector<std::vector<llama_token>> & continuations) {
        n_prompt.push_back((int32_t) prompt.size());
        n_continuations.push_back((int32_t) continuations.size());
        tokens.insert(tokens.end(), prompt.begin(), prompt.end());
        for (const auto & c : continuations) {
            n_tokens.push_back((int32_t) c.size());
            tokens.insert(tokens.end(), c.begin(), c.end());
        }
    }

    plumb_requests get() const {
        return { (int32_t) n_prompt.size(), n_prompt.data(), n_continuations.data(), n_tokens.data(), tokens.data() };
    }

    size_t n_scores() const {
        size_t n = 0;
        for (int32_t k : n_tokens) {
            n += k;
        }
        return n;
    }
};

batch_of_requests some_requests() {
    batch_of_requests        b;
    const auto               a = tiny_tokens(30, 5), c = tiny_tokens(40, 6);
    std::vector<llama_token> long_prompt(a.begin(), a.begin() + 20);
    std::vector<llama_token> sibling(a.begin(), a.begin() + 17);
    sibling.push_back(3);
    b.add(long_prompt, { { c[0], c[1], c[2] }, { c[0], c[3] }, { c[4] } });
    b.add(sibling, { { c[5], c[6] }, { c[5], c[7], c[8], c[9] } });
    b.add({ c.begin() + 10, c.begin() + 13 }, { { c[20] }, { c[21], c[22] } });
    return b;
}

// log p of every continuation's tokens, by llama.cpp alone.
std::vector<float> plain_scores(llama_model * model, const batch_of_requests & b,
                                const std::vector<float> * steer = nullptr) {
    llama_context_params cp = llama_context_default_params();
    cp.n_ctx = cp.n_batch = cp.n_ubatch = 512;
    cp.n_threads = cp.n_threads_batch = 1;
    cp.type_k = cp.type_v = GGML_TYPE_F32;
    cp.flash_attn_type    = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    cp.cb_eval            = [](ggml_tensor * t, bool, void *) {
        plumb::compute_gelu_exactly(t); // as Plumb does: half floats would hide smaller differences
        return false;
    };
    std::unique_ptr<llama_context, void (*)(llama_context *)> ctx(llama_init_from_model(model, cp), llama_free);
    const int32_t n_embd = llama_model_n_embd(model), n_layer = llama_model_n_layer(model);
    if (steer) {
        // a control vector adds steer after block 2: its data starts with layer 1
        std::vector<float> data((size_t) n_embd * (n_layer - 1), 0.0f);
        std::copy(steer->begin(), steer->end(), data.begin() + n_embd);
        EXPECT_EQ(llama_set_adapter_cvec(ctx.get(), data.data(), data.size(), n_embd, 1, n_layer), 0);
    }
    const int32_t      n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
    std::vector<float> scores;
    const int32_t *    token = b.tokens.data();
    size_t             c     = 0;
    for (size_t r = 0; r < b.n_prompt.size(); r++) {
        const std::vector<int32_t> prompt(token, token + b.n_prompt[r]);
        token += b.n_prompt[r];
        for (int32_t i = 0; i < b.n_continuations[r]; i++, c++) {
            std::vector<int32_t> whole = prompt;
            whole.insert(whole.end(), token, token + b.n_tokens[c]);
            token += b.n_tokens[c];
            llama_memory_clear(llama_get_memory(ctx.get()), true);
            llama_batch batch = llama_batch_init((int32_t) whole.size(), 0, 1);
            batch.n_tokens    = (int32_t) whole.size();
            for (int32_t k = 0; k < batch.n_tokens; k++) {
                batch.token[k]     = whole[k];
                batch.pos[k]       = k;
                batch.n_seq_id[k]  = 1;
                batch.seq_id[k][0] = 0;
                batch.logits[k]    = 1;
            }
            EXPECT_EQ(llama_decode(ctx.get(), batch), 0);
            for (size_t k = prompt.size(); k < whole.size(); k++) {
                const float * logits = llama_get_logits_ith(ctx.get(), (int32_t) k - 1);
                long double   sum    = 0;
                for (int32_t v = 0; v < n_vocab; v++) {
                    sum += std::exp((long double) logits[v]);
                }
                scores.push_back((float) (logits[whole[k]] - std::log(sum)));
            }
            llama_batch_free(batch);
        }
    }
    return scores;
}

std::vector<float> plumb_scores(plumb_model * model, const batch_of_requests & b, plumb_session_params params,
                                const std::vector<plumb_steering> & steering = {}, int64_t * n_computed = nullptr) {
    plumb_error                                               error;
    std::unique_ptr<plumb_session, void (*)(plumb_session *)> session(plumb_session_new(model, &params, &error),
                                                                      plumb_session_free);
    EXPECT_TRUE(session) << error.message;
    const plumb_requests requests = b.get();
    std::vector<float>   scores(b.n_scores());
    std::vector<int32_t> statuses(b.n_prompt.size(), -1);
    EXPECT_EQ(plumb_session_score(session.get(), &requests, steering.data(), steering.size(), nullptr, scores.data(),
                                  statuses.data(), n_computed, &error),
              PLUMB_OK)
        << error.message;
    for (int32_t status : statuses) {
        EXPECT_EQ(status, PLUMB_OK);
    }
    return scores;
}

plumb_session_params params_of(int32_t n_ctx, int32_t n_batch_rows, bool use_trie) {
    plumb_session_params p = plumb_session_params_default();
    p.n_ctx                = n_ctx;
    p.n_batch_rows         = n_batch_rows;
    p.use_trie             = use_trie;
    p.n_threads            = 1; // a thread more waits longer for the other than it computes, in models this small
    return p;
}

} // namespace

class score : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(architectures, score, testing::ValuesIn(tiny_architectures()), [](const auto & info) {
    std::string n = info.param;
    for (char & c : n) {
        if (!isalnum(c)) {
            c = '_';
        }
    }
    return n;
});

TEST_P(score, equals_plain_llama_cpp_however_it_is_batched) {
    const tiny              t(GetParam());
    const batch_of_requests b        = some_requests();
    const auto              expected = plain_scores(t.llama, b);
    struct {
        int32_t n_ctx, n_rows;
        bool    trie;
    } layouts[] = {
        { 256, 256, true },                    // one graph
        { 256, 256, false },                   // one sequence at a time
        { 256, 7, true },                      // several graphs a sequence
        { 256, 7, false },   { 32, 32, true }, // the third request does not fit beside the others
    };
    for (const auto & l : layouts) {
        const auto scores = plumb_scores(t.model, b, params_of(l.n_ctx, l.n_rows, l.trie));
        for (size_t i = 0; i < expected.size(); i++) {
            EXPECT_NEAR(scores[i], expected[i], 2e-3) << "token " << i << ", " << l.n_rows << " rows, trie " << l.trie;
        }
    }
}

TEST_P(score, additive_steering_equals_a_control_vector) {
    const tiny         t(GetParam());
    std::vector<float> v(llama_model_n_embd(t.llama));
    for (size_t i = 0; i < v.size(); i++) {
        v[i] = std::sin(1.0f + i) * 0.5f;
    }
    const batch_of_requests b         = some_requests();
    const auto              expected  = plain_scores(t.llama, b, &v);
    const auto              unsteered = plain_scores(t.llama, b);
    const auto scores = plumb_scores(t.model, b, params_of(256, 256, true), { { 2, PLUMB_HOOK_ADD, 1.0f, v.data() } });
    float      moved  = 0;
    for (size_t i = 0; i < expected.size(); i++) {
        EXPECT_NEAR(scores[i], expected[i], 2e-3);
        moved = std::max(moved, std::fabs(expected[i] - unsteered[i]));
    }
    EXPECT_GT(moved, 0.02) << "the steering must do something for the test to mean something";
}

TEST_P(score, zero_strength_changes_no_bit) {
    const tiny               t(GetParam());
    const std::vector<float> v(llama_model_n_embd(t.llama), 1.0f);
    const batch_of_requests  b      = some_requests();
    const auto               p      = params_of(256, 256, true);
    const auto               before = plumb_scores(t.model, b, p);
    for (plumb_hook_op op : { PLUMB_HOOK_ADD, PLUMB_HOOK_PROJECT_OUT }) {
        std::vector<plumb_steering> everywhere;
        for (int32_t layer = PLUMB_LAYER_EMBEDDING; layer < llama_model_n_layer(t.llama); layer++) {
            everywhere.push_back({ layer, op, 0.0f, v.data() });
        }
        const auto after = plumb_scores(t.model, b, p, everywhere);
        EXPECT_EQ(memcmp(before.data(), after.data(), before.size() * sizeof(float)), 0);
    }
}

// Blocks below what is steered are computed once, and the scores are those of each steering alone.
TEST_P(score, under_several_steerings_equals_one_by_one) {
    const tiny         t(GetParam());
    std::vector<float> v(llama_model_n_embd(t.llama)), w(v.size());
    for (size_t i = 0; i < v.size(); i++) {
        v[i] = std::sin(1.0f + i) * 0.5f;
        w[i] = std::cos(2.0f * i);
    }
    const std::vector<std::vector<plumb_steering>> sets = {
        {},
        { { 0, PLUMB_HOOK_ADD, 1.0f, v.data() } },
        { { 1, PLUMB_HOOK_PROJECT_OUT, 0.0f, v.data() } },
        { { 1, PLUMB_HOOK_PROJECT_OUT, 1.0f, v.data() } },
        { { 3, PLUMB_HOOK_ADD, -1.0f, v.data() }, { 1, PLUMB_HOOK_ADD, 0.5f, w.data() } },
        { { 2, PLUMB_HOOK_PROJECT_OUT, 1.0f, v.data() }, { 2, PLUMB_HOOK_ADD, 2.0f, w.data() } },
        {},
    };
    std::vector<plumb_steering_set> c_sets;
    for (const auto & set : sets) {
        c_sets.push_back({ set.data(), set.size() });
    }
    const batch_of_requests b        = some_requests();
    const plumb_requests    requests = b.get();
    const size_t            n        = b.n_scores();
    // The last layout's graphs are smaller than the batch: there each steering is decoded by itself.
    for (const auto & params : { params_of(256, 256, true), params_of(256, 256, false), params_of(256, 7, true) }) {
        plumb_error          error;
        const session_ptr    session = session_of(t, params);
        std::vector<float>   scores(sets.size() * n);
        std::vector<int32_t> statuses(sets.size() * b.n_prompt.size(), -1);
        int64_t              n_computed = 0, n_alone = 0;
        ASSERT_EQ(plumb_session_score_sets(session.get(), &requests, c_sets.data(), c_sets.size(), nullptr,
                                           scores.data(), statuses.data(), &n_computed, &error),
                  PLUMB_OK)
            << error.message;
        EXPECT_EQ(std::count(statuses.begin(), statuses.end(), PLUMB_OK), (long) statuses.size());
        float moved = 0;
        for (size_t s = 0; s < sets.size(); s++) {
            const auto alone = plumb_scores(t.model, b, params, sets[s], &n_alone);
            for (size_t i = 0; i < n; i++) {
                EXPECT_NEAR(scores[s * n + i], alone[i], 1e-4) << "steering " << s << ", token " << i;
                if (s == 2 || s == 6) { // the last unsteered set is replayed too
                    EXPECT_EQ(scores[s * n + i], scores[i]) << "steering " << s << ", token " << i;
                }
                moved = std::max(moved, std::fabs(alone[i] - scores[i])); // of the first, unsteered one
            }
        }
        EXPECT_GT(moved, 0.02);
        if (params.n_batch_rows == 256) {
            EXPECT_EQ(n_computed, n_alone);
        }
    }
}

TEST_P(score, projection_leaves_nothing_along_the_direction) {
    const tiny         t(GetParam());
    const int32_t      n_embd = llama_model_n_embd(t.llama), n_layer = llama_model_n_layer(t.llama);
    std::vector<float> v(n_embd);
    for (int32_t i = 0; i < n_embd; i++) {
        v[i] = std::cos(0.7f * i) * 3.0f;
    }
    const double            norm = std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0));
    plumb_error             error;
    const auto              params   = params_of(256, 256, true);
    const session_ptr       session  = session_of(t, params);
    const batch_of_requests b        = some_requests();
    const plumb_requests    requests = b.get();
    sequences               some     = ends_of(requests);
    some.add(tiny_tokens(30, 5), { 0, 3, 19, 29 }); // shares 20 rows with others
    const plumb_sequences read = some.get();
    const size_t          n    = some.positions.size();
    std::vector<int32_t>  statuses(some.n_tokens.size());
    for (int32_t layer = PLUMB_LAYER_EMBEDDING; layer < n_layer; layer++) {
        std::vector<float>   before(n * n_embd), after(n * n_embd);
        const plumb_steering s = { layer, PLUMB_HOOK_PROJECT_OUT, 1.0f, v.data() };
        ASSERT_EQ(plumb_session_residuals(session.get(), &read, nullptr, 0, &layer, 1, nullptr, statuses.data(),
                                          before.data(), &error),
                  PLUMB_OK)
            << error.message;
        ASSERT_EQ(plumb_session_residuals(session.get(), &read, &s, 1, &layer, 1, nullptr, statuses.data(),
                                          after.data(), &error),
                  PLUMB_OK)
            << error.message;
        for (size_t i = 0; i < n; i++) {
            const float * x     = before.data() + i * n_embd;
            const float * y     = after.data() + i * n_embd;
            double        along = 0, length = 0, was = 0;
            for (int32_t k = 0; k < n_embd; k++) {
                along += y[k] * v[k] / norm;
                was += x[k] * v[k] / norm;
                length += (double) x[k] * x[k];
            }
            EXPECT_LT(std::fabs(along), 1e-5 * std::sqrt(length)) << "layer " << layer;
            for (int32_t k = 0; k < n_embd; k++) {
                EXPECT_NEAR(y[k], x[k] - was * v[k] / norm, 1e-4 * std::sqrt(length));
            }
        }
    }
}

// Reading one layer leaves out the blocks above it: that changes nothing in what is read, and nothing in what is scored next.
TEST_P(score, reads_a_layer_by_itself_as_all_together) {
    const tiny              t(GetParam());
    const int32_t           n_embd = llama_model_n_embd(t.llama), n_layer = llama_model_n_layer(t.llama);
    plumb_error             error;
    const auto              params   = params_of(256, 256, true);
    const session_ptr       session  = session_of(t, params);
    const batch_of_requests b        = some_requests();
    const plumb_requests    requests = b.get();
    std::vector<float>      before(b.n_scores()), after(b.n_scores());
    std::vector<int32_t>    statuses(8);
    auto                    score_all = [&](std::vector<float> & logprobs) {
        ASSERT_EQ(plumb_session_score(session.get(), &requests, nullptr, 0, nullptr, logprobs.data(), statuses.data(),
                                                         nullptr, &error),
                                     PLUMB_OK)
            << error.message;
    };
    score_all(before);
    sequences some = ends_of(requests);
    some.add(tiny_tokens(300, 9), { 0, 299 }); // longer than the context
    some.add(tiny_tokens(30, 5), { 0, 3, 19, 29 });
    const plumb_sequences read = some.get();
    const size_t          n    = some.positions.size();
    std::vector<int32_t>  layers;
    for (int32_t layer = n_layer - 1; layer >= PLUMB_LAYER_EMBEDDING; layer--) {
        layers.push_back(layer);
    }
    std::vector<float> all(n * layers.size() * n_embd), one(n * n_embd);
    auto               read_layers = [&](const int32_t * which, size_t n_which, std::vector<float> & out) {
        statuses.assign(some.n_tokens.size(), -1);
        ASSERT_EQ(plumb_session_residuals(session.get(), &read, nullptr, 0, which, (int32_t) n_which, nullptr,
                                                        statuses.data(), out.data(), &error),
                                PLUMB_OK)
            << error.message;
        for (size_t i = 0; i < statuses.size(); i++) {
            EXPECT_EQ(statuses[i], i + 2 == statuses.size() ? PLUMB_TOO_LONG : PLUMB_OK) << i;
        }
    };
    read_layers(layers.data(), layers.size(), all);
    for (size_t l = 0; l < layers.size(); l++) {
        read_layers(&layers[l], 1, one);
        for (size_t i = 0; i < n; i++) {
            for (int32_t k = 0; k < n_embd; k++) {
                ASSERT_NEAR(one[i * n_embd + k], all[(i * layers.size() + l) * n_embd + k], 1e-5)
                    << "layer " << layers[l] << ", position " << i;
            }
        }
    }
    score_all(after);
    EXPECT_EQ(before, after);
}

TEST(residuals, refuse_what_cannot_be_read) {
    const tiny         t("llama");
    plumb_error        error;
    const auto         params  = params_of(64, 64, true);
    const session_ptr  session = session_of(t, params);
    std::vector<float> out(4 * 4 * llama_model_n_embd(t.llama));
    auto refused = [&](const std::vector<int32_t> & tokens, const std::vector<int32_t> & at, int32_t layer) {
        sequences one;
        one.add(tokens, at);
        const plumb_sequences s = one.get();
        int32_t               read;
        return plumb_session_residuals(session.get(), &s, nullptr, 0, &layer, 1, nullptr, &read, out.data(), &error) ==
               PLUMB_INVALID;
    };
    EXPECT_FALSE(refused({ 1, 2, 3 }, { 0, 2 }, 1));
    EXPECT_TRUE(refused({}, { 0 }, 1));
    EXPECT_TRUE(refused({ 1, 2, 3 }, {}, 1));
    EXPECT_TRUE(refused({ 1, 2, 3 }, { 3 }, 1));
    EXPECT_TRUE(refused({ 1, 2, 3 }, { 2, 0 }, 1));
    EXPECT_TRUE(refused({ 1, 2, 3 }, { -1 }, 1));
    EXPECT_TRUE(refused({ 1, 1 << 30 }, { 0 }, 1));
    EXPECT_TRUE(refused({ 1, 2, 3 }, { 0 }, llama_model_n_layer(t.llama)));
}

TEST(batches, depend_on_the_tokens_alone) {
    const tiny        t("llama");
    plumb_error       error;
    const auto        params  = params_of(64, 64, true);
    const session_ptr session = session_of(t, params);
    batch_of_requests b;
    for (int i = 0; i < 12; i++) {
        b.add(tiny_tokens(11, 100 + i), { { 1, 2, 3 }, { 4, 5 } });
    }
    plumb_requests requests = b.get();
    int32_t        n        = 0;
    ASSERT_EQ(plumb_session_batch(session.get(), &requests, &n, &error), PLUMB_OK);
    EXPECT_EQ(n, 4); // 11 + 2 + 1 rows a request, 64 a batch
    int64_t computed = 0;
    plumb_scores(t.model, b, params, {}, &computed);
    EXPECT_EQ(computed, 12 * 14);
}

TEST(score_errors, are_a_requests_own) {
    const tiny        t("llama");
    plumb_error       error;
    const auto        params  = params_of(64, 64, true);
    const session_ptr session = session_of(t, params);
    batch_of_requests b;
    b.add(tiny_tokens(11, 1), { { 1, 2, 3 } });
    b.add(tiny_tokens(80, 2), { { 1, 2, 3 } });                           // longer than the context
    b.add(tiny_tokens(60, 3), { { 1, 2, 3 }, { 4, 5, 6, 7 }, { 8, 9 } }); // together too long, one by one not
    const auto           requests = b.get();
    std::vector<float>   scores(b.n_scores(), 7.0f);
    std::vector<int32_t> statuses(3);
    ASSERT_EQ(plumb_session_score(session.get(), &requests, nullptr, 0, nullptr, scores.data(), statuses.data(),
                                  nullptr, &error),
              PLUMB_OK)
        << error.message;
    EXPECT_EQ(statuses, (std::vector<int32_t>{ PLUMB_OK, PLUMB_TOO_LONG, PLUMB_OK }));
    EXPECT_LT(scores[0], 0);
    EXPECT_EQ(scores[3], 7.0f);
    for (size_t i = 6; i < scores.size(); i++) {
        EXPECT_LT(scores[i], 0);
    }

    // an intervention that breaks the model is told from a score
    std::vector<float> v(llama_model_n_embd(t.llama), 1.0f);
    plumb_steering     s = { 1, PLUMB_HOOK_PROJECT_OUT, 3e38f, v.data() };
    ASSERT_EQ(
        plumb_session_score(session.get(), &requests, &s, 1, nullptr, scores.data(), statuses.data(), nullptr, &error),
        PLUMB_OK)
        << error.message;
    EXPECT_EQ(statuses[0], PLUMB_NOT_FINITE);

    // squares that overflow would give every token the same log-probability
    s = { 1, PLUMB_HOOK_ADD, 1e38f, v.data() };
    EXPECT_EQ(
        plumb_session_score(session.get(), &requests, &s, 1, nullptr, scores.data(), statuses.data(), nullptr, &error),
        PLUMB_INVALID);
    EXPECT_NE(std::string(error.message).find("beyond what floats can bear"), std::string::npos);
}

TEST(cancel, ends_a_call_and_not_the_next) {
    const tiny        t("llama");
    plumb_error       error;
    const auto        params  = params_of(64, 16, true);
    const session_ptr session = session_of(t, params);
    batch_of_requests b;
    for (int i = 0; i < 3000; i++) {
        b.add(tiny_tokens(11, i), { { 1, 2, 3 } });
    }
    const auto           requests = b.get();
    std::vector<float>   scores(b.n_scores());
    std::vector<int32_t> statuses(3000);
    plumb_cancel *       cancel = plumb_cancel_new();
    std::thread          other([&] { plumb_cancel_now(cancel); });
    EXPECT_EQ(plumb_session_score(session.get(), &requests, nullptr, 0, cancel, scores.data(), statuses.data(), nullptr,
                                  &error),
              PLUMB_CANCELLED);
    other.join();
    plumb_cancel_free(cancel);
    const plumb_requests one = { 1, b.n_prompt.data(), b.n_continuations.data(), b.n_tokens.data(), b.tokens.data() };
    EXPECT_EQ(
        plumb_session_score(session.get(), &one, nullptr, 0, nullptr, scores.data(), statuses.data(), nullptr, &error),
        PLUMB_OK)
        << error.message;
}

TEST(self_test, finds_nothing_wrong) {
    for (const std::string & architecture : tiny_architectures()) {
        const tiny      t(architecture);
        plumb_self_test result;
        plumb_error     error;
        ASSERT_EQ(plumb_model_self_test(t.model, &result, &error), PLUMB_OK) << architecture << ": " << error.message;
        EXPECT_TRUE(result.hooks_fire) << architecture << ": " << result.reason;
        EXPECT_TRUE(result.trie_matches) << architecture << ": " << result.reason;
    }
}
