// Recording, replaying and differentiating a small program's graph, with what is awkward about real ones.

#include "ggml/backward.h"
#include "ggml/replay.h"
#include "ggml/tests/rule_check.h"
#include "ggml/tests/small_program.h"
#include "ggml/trace.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace plumb;

namespace {

constexpr int64_t width = small_program::width, n_rows = small_program::n_rows, n_out = small_program::n_out;

// Records a run, and what blocks read from each other on the way.
std::vector<float> record(small_program & program, trace & recorded, int32_t first_block) {
    recorded.begin(first_block);
    const auto result = program.run([&](ggml_tensor * t, bool ask) { return recorded.on_node(t, ask); });
    recorded.finish();
    return result;
}

// What the recording, or the replay of block b, says is wrong.
std::string refusal(small_program::kind kind, int32_t b) {
    small_program program(kind);
    trace         recorded(small_program::boundaries());
    devices       all(1);
    try {
        record(program, recorded, 1);
        replay block(recorded, b, all);
    } catch (const graph_error & e) {
        return e.what();
    }
    return "";
}

TEST(trace, cuts_the_graph_into_blocks) {
    small_program program;
    trace         recorded(small_program::boundaries());
    record(program, recorded, 0);
    ASSERT_EQ(recorded.n_blocks(), 4u);
    EXPECT_EQ(recorded.block_begin(0), 0);
    EXPECT_EQ(recorded.block_end(3), (int32_t) recorded.nodes().size());
    for (int32_t b = 0; b < 4; b++) {
        EXPECT_EQ(recorded.boundary(b).name, small_program::boundaries()[b]);
        EXPECT_EQ(recorded.block_of(recorded.boundary(b)), b);
        if (b > 0) {
            EXPECT_EQ(recorded.block_begin(b), recorded.block_end(b - 1));
            EXPECT_EQ(recorded.block_of(*recorded.nodes()[recorded.block_begin(b)]), b);
        }
    }
}

TEST(trace, keeps_values_of_the_blocks_asked_for_only) {
    small_program program;
    trace         recorded(small_program::boundaries());
    record(program, recorded, 2);
    EXPECT_TRUE(recorded.boundary(0).value.empty());
    EXPECT_FALSE(recorded.boundary(1).value.empty());
    EXPECT_FALSE(recorded.boundary(2).value.empty());
    EXPECT_TRUE(recorded.boundary(3).value.empty());
}

TEST(trace, tells_missing_and_repeated_boundaries_and_several_graphs) {
    small_program program;
    for (const auto & [names, message] : std::vector<std::pair<std::vector<std::string>, std::string>>{
             { { "out-0", "out-7", "result" }, "result is computed before out-7" },
             { { "out-0", "nothing" }, "no node of the graph is called nothing" },
             { { "out-1", "out-0" }, "out-0 is computed before out-1" },
         }) {
        trace recorded(names);
        try {
            record(program, recorded, 0);
            FAIL() << message;
        } catch (const graph_error & e) {
            EXPECT_EQ(e.what(), message);
        }
    }
    small_program twins(small_program::ambiguous);
    trace         repeated({ "twin", "result" });
    try {
        repeated.begin(0);
        twins.run([&](ggml_tensor * t, bool ask) { return repeated.on_node(t, ask); });
        repeated.finish();
        FAIL();
    } catch (const graph_error & e) {
        EXPECT_STREQ(e.what(), "twin is computed more than once in a graph");
    }
}

TEST(replay, finds_what_blocks_read_from_each_other) {
    small_program program;
    trace         recorded(small_program::boundaries());
    record(program, recorded, 1);
    EXPECT_TRUE(frontier(recorded, 1).empty());
    EXPECT_TRUE(frontier(recorded, 3).empty());
    const auto across = frontier(recorded, 2);
    ASSERT_EQ(across.size(), 2u);
    EXPECT_EQ(across[0]->op, GGML_OP_SET_ROWS); // the cache that block 1 wrote
    EXPECT_EQ(across[1]->name, "early");
    const auto missing = missing_values(recorded, 0);
    ASSERT_EQ(missing.size(), 1u);
    EXPECT_EQ(missing[0]->name, "early");
    devices all(1);
    EXPECT_THROW(replay(recorded, 2, all), graph_error);
}

// Records what is missing too.
std::vector<float> record_all(small_program & program, trace & recorded) {
    record(program, recorded, 1);
    for (const traced * t : missing_values(recorded, 0)) {
        recorded.capture(*t);
    }
    const auto result = record(program, recorded, 1);
    EXPECT_TRUE(missing_values(recorded, 0).empty());
    return result;
}

TEST(replay, gives_what_the_program_computed_bit_for_bit) {
    small_program program;
    trace         recorded(small_program::boundaries());
    const auto    result = record_all(program, recorded);
    devices       all(1);
    for (int32_t b = 1; b < 4; b++) {
        replay block(recorded, b, all);
        block.graph().output(block.output());
        block.prepare();
        for (int again = 0; again < 2; again++) {
            const auto & in = recorded.boundary(b - 1).value;
            ggml_backend_tensor_set(block.input(), in.data(), 0, in.size());
            block.graph().run();
            const std::vector<float> out = values_of(block.output());
            if (b == 3) {
                EXPECT_EQ(out, result);
            } else {
                ASSERT_EQ(out.size() * sizeof(float), recorded.boundary(b).value.size());
                EXPECT_EQ(memcmp(out.data(), recorded.boundary(b).value.data(), out.size() * sizeof(float)), 0);
            }
        }
    }
}

TEST(replay, of_picked_elements_is_those_of_the_whole) {
    small_program              program;
    trace                      recorded(small_program::boundaries());
    const auto                 result = record_all(program, recorded);
    devices                    all(1);
    const std::vector<int32_t> columns = { 19, 0, 7 };
    replay                     block(recorded, 3, all, 0, &columns);
    ASSERT_TRUE(block.picked());
    block.graph().output(block.output());
    block.prepare();
    const auto & in = recorded.boundary(2).value;
    ggml_backend_tensor_set(block.input(), in.data(), 0, in.size());
    block.graph().run();
    const std::vector<float> out = values_of(block.output());
    ASSERT_EQ(out.size(), 3u);
    for (int r = 0; r < 3; r++) {
        EXPECT_NEAR(out[r], result[r * n_out + columns[r]], 1e-6);
    }
}

TEST(replay, refuses_what_it_cannot_repeat) {
    EXPECT_EQ(refusal(small_program::recurrent, 1),
              "update: the operator ADD reads the state cache, which the graph replaces");
    EXPECT_EQ(refusal(small_program::overwritten, 1), "too late: reads memory that was written over in place");
    EXPECT_EQ(refusal(small_program::ambiguous, 1),
              "CPU#twin#0: a copy between devices of one of several nodes of that name");
}

// Gradients through an attention over a cache, a cache that blocks share, a value read two blocks up, and a capped head.
TEST(backward, equals_central_differences) {
    small_program program;
    trace         recorded(small_program::boundaries());
    record_all(program, recorded);
    for (bool log_softmax : { false, true }) {
        output_loss loss;
        loss.columns     = { 19, 0, 7 };
        loss.weights     = { 1.0f, -0.5f, 2.0f };
        loss.log_softmax = log_softmax;
        auto value       = [&](const std::vector<float> & result) {
            double sum = 0;
            for (int r = 0; r < n_rows; r++) {
                const float * row = &result[r * n_out];
                double        z   = 0;
                for (int i = 0; i < n_out; i++) {
                    z += std::exp((double) row[i]);
                }
                sum += loss.weights[r] * (row[loss.columns[r]] - (log_softmax ? std::log(z) : 0.0));
            }
            return sum;
        };
        devices                         all(1);
        transposed_weights              weights(1 << 20, 1);
        std::vector<std::vector<float>> gradients(3);
        backward(recorded, loss, 0, all, weights, [&](int32_t b, const std::vector<float> & g) { gradients[b] = g; });
        for (int b = 0; b < 3; b++) {
            ASSERT_EQ(gradients[b].size(), (size_t) (width * n_rows));
            double largest = 0, worst = 0;
            for (int64_t i = 0; i < width * n_rows; i++) {
                auto at = [&](float by) {
                    std::vector<float> v(width, 0.0f);
                    v[i % width] = by;
                    return value(program.run_nudged(small_program::boundaries()[b], i / width, v));
                };
                const float  h     = 2e-2f;
                const double slope = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12.0 * h);
                largest            = std::max(largest, std::fabs(slope));
                worst              = std::max(worst, std::fabs(slope - gradients[b][i]));
            }
            EXPECT_GT(largest, 1e-2);
            EXPECT_LT(worst, 1e-3 * largest) << small_program::boundaries()[b];
        }
    }
}

TEST(backward, refuses_an_operator_without_a_rule_where_it_is_on_the_way) {
    small_program program(small_program::ruleless);
    trace         recorded(small_program::boundaries());
    record_all(program, recorded);
    devices            all(1);
    transposed_weights weights(1 << 20, 1);
    output_loss        loss;
    loss.columns = { 19, 0, 7 };
    loss.weights = { 1, 1, 1 };
    std::vector<int32_t> reached;
    auto                 note = [&](int32_t b, const std::vector<float> &) { reached.push_back(b); };
    backward(recorded, loss, 1, all, weights, note);
    EXPECT_EQ(reached, (std::vector<int32_t>{ 2, 1 }));
    try {
        backward(recorded, loss, 0, all, weights, note);
        FAIL() << "no error";
    } catch (const graph_error & e) {
        EXPECT_STREQ(e.what(), "no gradient for the operator CUMSUM at the node running total: it has no rule");
    }
}

TEST(backward, refuses_a_loss_that_does_not_fit) {
    small_program program;
    trace         recorded(small_program::boundaries());
    record_all(program, recorded);
    devices            all(1);
    transposed_weights weights(0, 1);
    auto               nothing = [](int32_t, const std::vector<float> &) {};
    output_loss        loss;
    loss.weights = { 1, 1, 1 };
    loss.columns = { 1, 2, (int32_t) n_out };
    EXPECT_THROW(backward(recorded, loss, 0, all, weights, nothing), graph_error);
    loss.columns = { 1, 2 };
    EXPECT_THROW(backward(recorded, loss, 0, all, weights, nothing), graph_error);
    loss.columns = { 1, 2, 3 };
    EXPECT_THROW(backward(recorded, loss, 3, all, weights, nothing), graph_error);
    EXPECT_NO_THROW(backward(recorded, loss, 2, all, weights, nothing));
}

} // namespace
