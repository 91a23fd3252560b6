// Gradients of tiny models: right on each architecture, and the same however they are asked for.

#include "error.h"
#include "gradient.h"
#include "gradient_check.h"
#include "tiny_model.h"

#include <cmath>
#include <gtest/gtest.h>
#include <memory>

using namespace plumb;

namespace {

const bool quiet = (install_log_and_abort_handlers(), true);

using model_ptr = std::unique_ptr<llama_model, void (*)(llama_model *)>;

// Requests that own their tokens.
struct request_set {
    std::vector<std::vector<llama_token>> tokens; // kept by address: filled before views are made
    std::vector<request_view>             views;
    int32_t                               n_continuations = 0;

    explicit request_set(const std::vector<std::vector<std::vector<llama_token>>> & requests) {
        for (const auto & r : requests) {
            tokens.insert(tokens.end(), r.begin(), r.end());
        }
        size_t at = 0;
        for (const auto & r : requests) {
            request_view v = { tokens[at].data(), (int32_t) tokens[at].size(), n_continuations, 0, {} };
            for (size_t c = 1; c < r.size(); c++) {
                v.continuations.push_back({ tokens[at + c].data(), (int32_t) tokens[at + c].size() });
            }
            at += r.size();
            n_continuations += (int32_t) r.size() - 1;
            views.push_back(v);
        }
    }
};

// Prompts that share beginnings, of several lengths, with one to four continuations.
request_set mixed_requests() {
    auto with = [](std::vector<llama_token> t, std::vector<llama_token> more) {
        t.insert(t.end(), more.begin(), more.end());
        return t;
    };
    const auto start = tiny_tokens(20, 1), end = tiny_tokens(9, 2);
    return request_set({
        { start, { 5, 6, 7 }, { 5, 9 }, { 77 } },
        { with(start, end), { 1, 2, 3, 4, 5 }, { 8 } },
        { with(start, { 3 }), { 11, 12 } },
        { end, { 1 }, { 2 }, { 3, 4 }, { 5, 6, 7, 8 } },
        { { 42 }, { 1, 2 } }, // nothing before the last prompt token
    });
}

struct result {
    std::vector<float>   gradients; // [continuation][layer][n_embd]
    std::vector<int32_t> statuses;
};

result run(gradient_engine & engine, const request_set & requests, std::vector<int32_t> layers,
           bool log_probability = false, bool all_positions = false, const plumb_cancel * cancel = nullptr) {
    result r;
    r.gradients.resize((size_t) requests.n_continuations * layers.size() * 64);
    r.statuses.resize(requests.views.size(), -1);
    engine.run(requests.views, { layers.data(), (int32_t) layers.size(), log_probability, all_positions, cancel,
                                 r.gradients.data(), r.statuses.data() });
    return r;
}

double relative_difference(const std::vector<float> & a, const std::vector<float> & b) {
    double difference = 0, size = 0;
    EXPECT_EQ(a.size(), b.size());
    for (size_t i = 0; i < std::min(a.size(), b.size()); i++) {
        difference = std::max(difference, std::fabs((double) a[i] - b[i]));
        size       = std::max(size, (double) std::fabs(a[i]));
    }
    return difference / size;
}

gradient_params params(int32_t n_rows = 0, bool share = true) {
    gradient_params p;
    p.n_ctx  = 256;
    p.n_rows = n_rows;
    p.share  = share;
    return p;
}

class architectures : public testing::TestWithParam<std::string> {};

TEST_P(architectures, are_replayed_and_differentiated_right) {
    const model_ptr        model(tiny_model(GetParam(), 1), llama_model_free);
    const gradient_verdict v = check_gradients(model.get(), 7);
    EXPECT_EQ(v.verdict, gradient_verdict::right) << v.reason;
    EXPECT_LE(v.logits, logits_tolerance);
    EXPECT_LE(v.at_answer, gradient_tolerance);
    EXPECT_LE(v.at_all, gradient_tolerance);
    EXPECT_LE(v.shared, shared_tolerance);
}

INSTANTIATE_TEST_SUITE_P(tiny, architectures, testing::ValuesIn(tiny_architectures()), [](const auto & info) {
    std::string name = info.param;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
});

class gradients : public testing::Test {
  protected:
    model_ptr model{ tiny_model("llama", 3), llama_model_free };
};

// Batches differ in shape, and with it the order in which sums are taken, but in nothing else.
TEST_F(gradients, do_not_depend_on_the_batch) {
    const request_set requests = mixed_requests();
    for (bool all_positions : { false, true }) {
        gradient_engine at_once(model.get(), params());
        const result    expected = run(at_once, requests, { 0, 2, 3 }, false, all_positions);
        EXPECT_EQ(expected.statuses, std::vector<int32_t>(5, PLUMB_OK));
        // 33 rows: at all positions the longest sequence alone. 6 rows: requests are split over batches.
        for (int32_t n_rows : { 33, 6 }) {
            if (n_rows == 6 && all_positions) {
                continue;
            }
            gradient_engine small(model.get(), params(n_rows));
            EXPECT_LT(relative_difference(expected.gradients,
                                          run(small, requests, { 0, 2, 3 }, false, all_positions).gradients),
                      1e-5)
                << n_rows;
        }
        gradient_engine one_by_one(model.get(), params(0, false));
        EXPECT_LT(relative_difference(expected.gradients,
                                      run(one_by_one, requests, { 0, 2, 3 }, false, all_positions).gradients),
                  1e-5);
    }
}

TEST_F(gradients, are_the_same_a_second_time) {
    const request_set requests = mixed_requests();
    gradient_engine   engine(model.get(), params());
    const result      first = run(engine, requests, { 0, 1, 2, 3 });
    EXPECT_EQ(first.gradients, run(engine, requests, { 0, 1, 2, 3 }).gradients);
    gradient_params without_copies = params();
    without_copies.transposed_size = 0;
    gradient_engine other(model.get(), without_copies);
    EXPECT_EQ(first.gradients, run(other, requests, { 0, 1, 2, 3 }).gradients);
}

TEST_F(gradients, at_all_layers_are_those_at_each) {
    const request_set requests = mixed_requests();
    gradient_engine   engine(model.get(), params());
    const result      all = run(engine, requests, { 0, 1, 2, 3 });
    for (int32_t layer = 0; layer < 4; layer++) {
        const result one = run(engine, requests, { layer });
        for (int32_t c = 0; c < requests.n_continuations; c++) {
            for (int i = 0; i < 64; i++) {
                ASSERT_EQ(one.gradients[c * 64 + i], all.gradients[(c * 4 + layer) * 64 + i]);
            }
        }
    }
}

// What sequences share is computed once; the last prompt token, once a continuation.
TEST_F(gradients, compute_few_rows) {
    const request_set requests = mixed_requests();
    gradient_engine   engine(model.get(), params());
    run(engine, requests, { 2 });
    EXPECT_EQ(engine.n_traced_rows(), 3 + 2 + 1 + 5 + 1 + 2 + 1 + 1 + 2 + 4 + 2);
    EXPECT_EQ(engine.n_prompt_rows(), 19 + (1 + 8) + 0 + 8 + 0);
    gradient_engine one_by_one(model.get(), params(0, false));
    run(one_by_one, requests, { 2 });
    EXPECT_EQ(one_by_one.n_traced_rows(), engine.n_traced_rows());
    EXPECT_EQ(one_by_one.n_prompt_rows(), 19 + 9 + 0 + 8 + 0);
}

// d log softmax(z)_t = dz_t - sum_v p_v dz_v, with the gradients of all 128 logits.
TEST_F(gradients, of_log_probabilities_follow_from_those_of_logits) {
    const auto                                         prompt = tiny_tokens(12, 5);
    std::vector<std::vector<std::vector<llama_token>>> one    = { { prompt } };
    for (llama_token t = 0; t < 128; t++) {
        one[0].push_back({ t });
    }
    const request_set requests(one);
    gradient_engine   engine(model.get(), params(128));
    const result      of_logit = run(engine, requests, { 1 }), of_logprob = run(engine, requests, { 1 }, true);

    llama_context_params cp = llama_context_default_params();
    cp.n_ctx                = 64;
    cp.n_threads = cp.n_threads_batch = 1;
    cp.type_k = cp.type_v = GGML_TYPE_F32;
    cp.flash_attn_type    = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    std::unique_ptr<llama_context, void (*)(llama_context *)> context(llama_init_from_model(model.get(), cp),
                                                                      llama_free);
    std::vector<llama_token>                                  tokens = prompt;
    ASSERT_EQ(llama_decode(context.get(), llama_batch_get_one(tokens.data(), (int32_t) tokens.size())), 0);
    const float *       z = llama_get_logits_ith(context.get(), -1);
    std::vector<double> p(128);
    double              sum = 0;
    for (int v = 0; v < 128; v++) {
        sum += p[v] = std::exp((double) z[v]);
    }
    std::vector<double> mean(64, 0.0);
    for (int v = 0; v < 128; v++) {
        for (int i = 0; i < 64; i++) {
            mean[i] += p[v] / sum * of_logit.gradients[v * 64 + i];
        }
    }
    std::vector<float> expected(128 * 64);
    for (int v = 0; v < 128; v++) {
        for (int i = 0; i < 64; i++) {
            expected[v * 64 + i] = (float) (of_logit.gradients[v * 64 + i] - mean[i]);
        }
    }
    EXPECT_LT(relative_difference(expected, of_logprob.gradients), 1e-5);
}

TEST_F(gradients, of_what_is_too_long_are_refused_and_others_taken) {
    const request_set requests({
        { tiny_tokens(300, 1), { 1, 2 } }, // more than the context
        { tiny_tokens(10, 1), { 1, 2 } },
        { tiny_tokens(10, 1), tiny_tokens(40, 2) }, // more rows of logits than a graph has
        { tiny_tokens(30, 1), { 1 }, { 2, 3 } },    // at all positions, more rows than go together, but one graph
    });
    gradient_engine   engine(model.get(), params(16));
    for (bool all_positions : { false, true }) {
        EXPECT_EQ(run(engine, requests, { 1 }, false, all_positions).statuses,
                  (std::vector<int32_t>{ PLUMB_TOO_LONG, PLUMB_OK, PLUMB_TOO_LONG, PLUMB_OK }));
    }
}

TEST_F(gradients, at_layers_that_are_not_there_are_an_error) {
    const request_set requests = mixed_requests();
    gradient_engine   engine(model.get(), params());
    for (const std::vector<int32_t> & layers : { std::vector<int32_t>{}, { -1 }, { 4 }, { 2, 2 }, { 3, 1 } }) {
        try {
            run(engine, requests, layers);
            FAIL() << "no error";
        } catch (const failure & e) {
            EXPECT_EQ(e.status, PLUMB_INVALID);
        }
    }
}

TEST_F(gradients, can_be_cancelled_and_taken_again) {
    const request_set requests = mixed_requests();
    gradient_engine   engine(model.get(), params());
    const result      expected = run(engine, requests, { 1 });
    plumb_cancel      cancel;
    cancel.requested = true;
    try {
        run(engine, requests, { 1 }, false, false, &cancel);
        FAIL() << "no error";
    } catch (const failure & e) {
        EXPECT_EQ(e.status, PLUMB_CANCELLED);
    }
    EXPECT_EQ(run(engine, requests, { 1 }).gradients, expected.gradients);
}

} // namespace
