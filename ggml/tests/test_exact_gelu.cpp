// GELU without ggml's table: as llama.cpp's graph computes it once it is changed, and of exact operators, against doubles.

#include "ggml/device.h"
#include "ggml/exact_gelu.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace plumb;

namespace {

constexpr int64_t width = 37, n_rows = 5;

double gelu(double x) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

double quick(double x) {
    return x / (1 + std::exp(-1.702 * x));
}

struct operator_case {
    const char * name;
    ggml_tensor * (*make)(ggml_context *, ggml_tensor * x, ggml_tensor * linear, ggml_tensor * both);
    double (*expected)(double);
    bool gated, swapped, halves;
};

const operator_case cases[] = {
    { "gelu", [](auto c, auto x, auto, auto) { return ggml_gelu(c, x); }, gelu, false, false, false },
    { "gelu in place", [](auto c, auto x, auto, auto) { return ggml_gelu_inplace(c, x); }, gelu, false, false, false },
    { "gelu_quick", [](auto c, auto x, auto, auto) { return ggml_gelu_quick(c, x); }, quick, false, false, false },
    { "geglu_split", [](auto c, auto x, auto l, auto) { return ggml_geglu_split(c, x, l); }, gelu, true, false, false },
    { "geglu_quick_split", [](auto c, auto x, auto l, auto) { return ggml_geglu_quick_split(c, x, l); }, quick, true,
      false, false },
    { "geglu", [](auto c, auto, auto, auto b) { return ggml_geglu(c, b); }, gelu, true, false, true },
    { "geglu_swapped", [](auto c, auto, auto, auto b) { return ggml_geglu_swapped(c, b); }, gelu, true, true, true },
};

// Runs one operator on numbers from -12 to 12, with `build` between making it and running it, and returns the largest error
// relative to 1 + |expected|.
template <typename F> double largest_error(const operator_case & of, F && build) {
    devices       all(2);
    workspace     work(all.cpu(), 40);
    const int64_t ne[] = { width, n_rows, 1, 1 }, ne_both[] = { 2 * width, n_rows, 1, 1 };
    ggml_tensor * x      = work.input(GGML_TYPE_F32, ne);
    ggml_tensor * linear = work.input(GGML_TYPE_F32, ne);
    ggml_tensor * both   = work.input(GGML_TYPE_F32, ne_both);
    ggml_tensor * result = build(work, of.make(work.context(), x, linear, both));
    work.output(x), work.output(linear), work.output(both), work.output(result);
    work.prepare();
    std::vector<float> xs(width * n_rows), ls(width * n_rows), bs(2 * width * n_rows);
    for (int64_t i = 0; i < width * n_rows; i++) {
        xs[i]             = -12.0f + 24.0f * i / (width * n_rows - 1);
        ls[i]             = 0.5f + std::sin((float) i);
        const int64_t row = i / width, column = i % width;
        bs[row * 2 * width + column + (of.swapped ? width : 0)] = xs[i];
        bs[row * 2 * width + column + (of.swapped ? 0 : width)] = ls[i];
    }
    ggml_backend_tensor_set(x, xs.data(), 0, ggml_nbytes(x));
    ggml_backend_tensor_set(linear, ls.data(), 0, ggml_nbytes(linear));
    ggml_backend_tensor_set(both, bs.data(), 0, ggml_nbytes(both));
    if (result->op == GGML_OP_UNARY || result->op == GGML_OP_GLU) {
        compute_gelu_exactly(result);
    }
    work.run();
    std::vector<float> ys(width * n_rows);
    ggml_backend_tensor_get(result, ys.data(), 0, ggml_nbytes(result));
    double worst = 0;
    for (int64_t i = 0; i < width * n_rows; i++) {
        const double expected = of.expected(xs[i]) * (of.gated ? ls[i] : 1);
        worst                 = std::fmax(worst, std::fabs(ys[i] - expected) / (1 + std::fabs(expected)));
    }
    return worst;
}

TEST(exact_gelu, of_a_graph_that_runs) {
    for (const operator_case & of : cases) {
        EXPECT_LT(largest_error(of, [](workspace &, ggml_tensor * t) { return t; }), 3e-7) << of.name;
    }
}

TEST(exact_gelu, of_exact_operators) {
    for (const operator_case & of : cases) {
        const auto build = [](workspace & work, ggml_tensor * t) {
            return gelu_of_exact_operators(work.context(), t->op, t->op_params, t->src[0], t->src[1],
                                           [](ggml_tensor * part) { return part; });
        };
        EXPECT_LT(largest_error(of, build), 3e-7) << of.name;
    }
}

TEST(exact_gelu, is_taken_back) {
    for (const operator_case & of : cases) {
        devices       all(1);
        workspace     work(all.cpu(), 10);
        const int64_t ne[] = { width, n_rows, 1, 1 }, ne_both[] = { 2 * width, n_rows, 1, 1 };
        ggml_tensor * t = of.make(work.context(), work.input(GGML_TYPE_F32, ne), work.input(GGML_TYPE_F32, ne),
                                  work.input(GGML_TYPE_F32, ne_both));
        work.output(t);
        work.prepare();
        const ggml_tensor before = *t;
        compute_gelu_exactly(t);
        EXPECT_EQ(t->op, GGML_OP_CUSTOM) << of.name;
        forget_exact_gelu(t);
        EXPECT_EQ(t->op, before.op) << of.name;
        EXPECT_EQ(memcmp(t->op_params, before.op_params, sizeof before.op_params), 0) << of.name;
    }
}

TEST(exact_gelu, leaves_other_operators_alone) {
    devices       all(1);
    workspace     work(all.cpu(), 10);
    const int64_t ne[] = { width, n_rows, 1, 1 };
    ggml_tensor * t    = ggml_silu(work.context(), work.input(GGML_TYPE_F32, ne));
    work.output(t);
    work.prepare();
    compute_gelu_exactly(t);
    forget_exact_gelu(t);
    EXPECT_EQ(t->op, GGML_OP_UNARY);
    EXPECT_EQ(ggml_get_unary_op(t), GGML_UNARY_OP_SILU);
}

} // namespace
