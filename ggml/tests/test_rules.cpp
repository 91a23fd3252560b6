// Each rule alone, in F32, on the CPU and on a device whose memory is another process's.

#include "ggml/tests/rpc_server.h"
#include "ggml/tests/rule_check.h"
#include "ggml/trace.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace plumb;

namespace {

rpc_server * server = nullptr;

// gelu and quick gelu are read from a table of half floats on ggml's CPU: only large differences see their slope.
constexpr float  table_step      = 0.2f;
constexpr double table_tolerance = 2e-2;

class rules : public testing::TestWithParam<const char *> {
  protected:
    rules() : all(1), remote(open()), where(remote ? *remote : all.cpu()), off(where) {}

    static std::unique_ptr<device> open() {
        return strcmp(GetParam(), "rpc") == 0
                   ? std::make_unique<device>(ggml_backend_dev_init(server->device(), nullptr))
                   : nullptr;
    }

    devices                 all; // one thread: more would only wait for each other on graphs as small as these
    std::unique_ptr<device> remote;
    device &                where;
    rule_check              off; // what a rule is off by
};

// ---- element by element ----------------------------------------------------------------------------------------------

TEST_P(rules, add_sub_mul_div) {
    for (auto op : { ggml_add, ggml_sub, ggml_mul, ggml_div }) {
        EXPECT_EQ(off([&](problem & p) { return op(p.ctx, p.variable({ 5, 3 }), p.variable({ 5, 3 }, 0.7f, 2.0f)); }),
                  "");
        // broadcast over rows, and over columns
        EXPECT_EQ(off([&](problem & p) { return op(p.ctx, p.variable({ 5, 3, 2 }), p.variable({ 5 }, 0.7f, 2.0f)); }),
                  "");
        EXPECT_EQ(off([&](problem & p) { return op(p.ctx, p.variable({ 5, 3 }), p.variable({ 1, 3 }, 0.7f, 2.0f)); }),
                  "");
    }
    // the same tensor more than once
    EXPECT_EQ(off([](problem & p) {
                  ggml_tensor * x = p.variable({ 5, 3 });
                  return ggml_mul(p.ctx, x, ggml_add(p.ctx, x, x));
              }),
              "");
}

TEST_P(rules, functions_of_one_number) {
    EXPECT_EQ(off([](problem & p) { return ggml_scale_bias(p.ctx, p.variable({ 5, 3 }), -1.7f, 0.4f); }), "");
    EXPECT_EQ(off([](problem & p) { return ggml_sqr(p.ctx, p.variable({ 5, 3 })); }), "");
    EXPECT_EQ(off([](problem & p) { return ggml_sqrt(p.ctx, p.variable({ 5, 3 }, 0.5f, 2.0f)); }), "");
    EXPECT_EQ(off([](problem & p) { return ggml_log(p.ctx, p.variable({ 5, 3 }, 0.5f, 2.0f)); }), "");
    EXPECT_EQ(off([](problem & p) { return ggml_sin(p.ctx, p.variable({ 5, 3 })); }), "");
    EXPECT_EQ(off([](problem & p) { return ggml_cos(p.ctx, p.variable({ 5, 3 })); }), "");
}

TEST_P(rules, clamp) {
    for (auto bounds : { std::pair(-0.8f, 0.8f), std::pair(-INFINITY, 0.8f), std::pair(-0.8f, INFINITY) }) {
        EXPECT_EQ(off([&](problem & p) {
                      ggml_tensor * x = p.variable({ 6, 4 });
                      p.avoid(-0.8f, 0.1f);
                      p.avoid(0.8f, 0.1f);
                      return ggml_clamp(p.ctx, x, bounds.first, bounds.second);
                  }),
                  "");
    }
}

TEST_P(rules, sums) {
    EXPECT_EQ(off([](problem & p) { return ggml_sum_rows(p.ctx, ggml_sqr(p.ctx, p.variable({ 5, 3, 2 }))); }), "");
    EXPECT_EQ(off([](problem & p) { return ggml_sum(p.ctx, ggml_sqr(p.ctx, p.variable({ 5, 3 }))); }), "");
    EXPECT_EQ(off([](problem & p) { return ggml_mean(p.ctx, ggml_sqr(p.ctx, p.variable({ 5, 3, 2 }))); }), "");
}

TEST_P(rules, soft_cap) {
    EXPECT_EQ(off([](problem & p) {
                  ggml_tensor * x = ggml_scale(p.ctx, p.variable({ 5, 3 }), 1.0f / 0.7f);
                  return ggml_scale(p.ctx, ggml_tanh(p.ctx, x), 0.7f);
              }),
              "");
}

// ---- activations -------------------------------------------------------------------------------------------------------

TEST_P(rules, smooth_activations) {
    for (auto op :
         { ggml_silu, ggml_tanh, ggml_sigmoid, ggml_exp, ggml_neg, ggml_softplus, ggml_expm1, ggml_gelu_erf }) {
        EXPECT_EQ(off([&](problem & p) { return op(p.ctx, p.variable({ 6, 4 })); }), "");
    }
    EXPECT_EQ(off([](problem & p) { return ggml_gelu_erf(p.ctx, p.variable({ 6, 4 }, -0.03f, 0.03f)); }), "");
    for (auto op : { ggml_gelu, ggml_gelu_quick }) {
        EXPECT_EQ(off([&](problem & p) { return op(p.ctx, p.variable({ 6, 4 })); }, table_step, table_tolerance), "");
    }
}

TEST_P(rules, activations_with_a_corner) {
    auto off_zero = [](problem & p) {
        ggml_tensor * x = p.variable({ 6, 4 });
        p.avoid(0.0f, 0.1f);
        return x;
    };
    for (auto op : { ggml_relu, ggml_abs, ggml_elu }) {
        EXPECT_EQ(off([&](problem & p) { return op(p.ctx, off_zero(p)); }), "");
    }
    EXPECT_EQ(off([&](problem & p) { return ggml_leaky_relu(p.ctx, off_zero(p), 0.2f, false); }), "");
    EXPECT_EQ(off([&](problem & p) { return ggml_xielu(p.ctx, off_zero(p), 0.6f, 0.9f, 0.5f, 1e-6f); }), "");
}

TEST_P(rules, gated_units) {
    for (ggml_glu_op op :
         { GGML_GLU_OP_REGLU, GGML_GLU_OP_GEGLU, GGML_GLU_OP_SWIGLU, GGML_GLU_OP_GEGLU_ERF, GGML_GLU_OP_GEGLU_QUICK }) {
        const bool   table     = op == GGML_GLU_OP_GEGLU || op == GGML_GLU_OP_GEGLU_QUICK;
        const float  step      = table ? table_step : 2e-2f;
        const double tolerance = table ? table_tolerance : 1e-3;
        auto         gate      = [](problem & p, int64_t n) {
            ggml_tensor * x = p.variable({ n, 3 });
            p.avoid(0.0f, 0.1f);
            return x;
        };
        for (bool swapped : { false, true }) {
            EXPECT_EQ(off([&](problem & p) { return ggml_glu(p.ctx, gate(p, 10), op, swapped); }, step, tolerance), "")
                << ggml_glu_op_name(op);
        }
        EXPECT_EQ(off(
                      [&](problem & p) {
                          ggml_tensor * x = gate(p, 5);
                          return ggml_glu_split(p.ctx, x, p.variable({ 5, 3 }), op);
                      },
                      step, tolerance),
                  "")
            << ggml_glu_op_name(op);
    }
}

TEST_P(rules, limited_gated_units) {
    for (bool oai : { true, false }) {
        auto unit = [&](problem & p, ggml_tensor * gate, ggml_tensor * linear) {
            p.avoid(-2.0f, 0.1f);
            p.avoid(2.0f, 0.1f);
            return oai ? ggml_swiglu_oai(p.ctx, gate, linear, 1.702f, 2.0f)
                       : ggml_swiglu_clamp(p.ctx, gate, linear, 2.0f);
        };
        EXPECT_EQ(off([&](problem & p) {
                      ggml_tensor * gate = p.variable({ 8, 4 }, -3.0f, 3.0f);
                      return unit(p, gate, p.constant({ 8, 4 }, -3.0f, 3.0f));
                  }),
                  "");
        EXPECT_EQ(off([&](problem & p) {
                      ggml_tensor * linear = p.variable({ 8, 4 }, -3.0f, 3.0f);
                      return unit(p, p.constant({ 8, 4 }, -3.0f, 3.0f), linear);
                  }),
                  "");
    }
}

// ---- norms -------------------------------------------------------------------------------------------------------------

TEST_P(rules, norms) {
    for (auto op : { ggml_rms_norm, ggml_norm, ggml_l2_norm }) {
        EXPECT_EQ(off([&](problem & p) { return op(p.ctx, p.variable({ 7, 3, 2 }), 1e-5f); }), "");
        // of a view that is not contiguous, as query and key norms have
        EXPECT_EQ(off([&](problem & p) {
                      ggml_tensor * x = p.variable({ 16, 3 });
                      ggml_tensor * v = ggml_view_3d(p.ctx, x, 4, 2, 3, 4 * sizeof(float), x->nb[1], 4 * sizeof(float));
                      return op(p.ctx, v, 1e-5f);
                  }),
                  "");
    }
}

// ---- layout ------------------------------------------------------------------------------------------------------------

TEST_P(rules, views) {
    // fused query, key and value
    EXPECT_EQ(off([](problem & p) {
                  ggml_tensor * x = ggml_sqr(p.ctx, p.variable({ 12, 3 }));
                  auto part = [&](int i) { return ggml_view_2d(p.ctx, x, 4, 3, x->nb[1], i * 4 * sizeof(float)); };
                  return ggml_add(p.ctx, ggml_mul(p.ctx, part(0), part(1)), part(2));
              }),
              "");
    // a view of a permuted view: strides that do not rise
    EXPECT_EQ(off([](problem & p) {
                  ggml_tensor * x = ggml_permute(p.ctx, ggml_sqr(p.ctx, p.variable({ 4, 3, 2 })), 0, 2, 1, 3);
                  ggml_tensor * v = ggml_view_3d(p.ctx, x, 3, 2, 2, x->nb[1], x->nb[2], sizeof(float));
                  return ggml_sqr(p.ctx, ggml_cont(p.ctx, v));
              }),
              "");
    // a column
    EXPECT_EQ(off([](problem & p) {
                  ggml_tensor * x = ggml_sqr(p.ctx, p.variable({ 4, 5 }));
                  ggml_tensor * v = ggml_cont(p.ctx, ggml_view_2d(p.ctx, x, 1, 5, x->nb[1], 2 * sizeof(float)));
                  return ggml_add(p.ctx, ggml_cont(p.ctx, ggml_view_2d(p.ctx, x, 1, 5, x->nb[1], 0)), v);
              }),
              "");
}

TEST_P(rules, other_layouts) {
    EXPECT_EQ(off([](problem & p) { return ggml_sqr(p.ctx, ggml_reshape_2d(p.ctx, p.variable({ 4, 3, 2 }), 8, 3)); }),
              "");
    EXPECT_EQ(off([](problem & p) {
                  ggml_tensor * x = ggml_permute(p.ctx, p.variable({ 4, 3, 2, 2 }), 2, 0, 3, 1);
                  return ggml_sqr(p.ctx, ggml_cont(p.ctx, x));
              }),
              "");
    EXPECT_EQ(off([](problem & p) {
                  return ggml_sqr(p.ctx, ggml_cont(p.ctx, ggml_transpose(p.ctx, p.variable({ 4, 3, 2 }))));
              }),
              "");
    EXPECT_EQ(off([](problem & p) {
                  ggml_tensor * x = ggml_permute(p.ctx, p.variable({ 4, 3, 2 }), 0, 2, 1, 3);
                  return ggml_sqr(p.ctx, ggml_cont_2d(p.ctx, x, 8, 3));
              }),
              "");
    EXPECT_EQ(
        off([](problem & p) { return ggml_sqr(p.ctx, ggml_cpy(p.ctx, p.variable({ 4, 3 }), p.constant({ 12 }))); }),
        "");
    EXPECT_EQ(off([](problem & p) { return ggml_sqr(p.ctx, ggml_dup(p.ctx, p.variable({ 4, 3 }))); }), "");
}

TEST_P(rules, repeat_concat_pad) {
    EXPECT_EQ(off([](problem & p) { return ggml_repeat_4d(p.ctx, p.variable({ 4, 1, 2 }), 8, 3, 2, 1); }), "");
    for (int dim : { 0, 1, 2 }) {
        EXPECT_EQ(off([&](problem & p) {
                      std::vector<int64_t> a = { 4, 3, 2 }, b = a;
                      b[dim]          = 5;
                      ggml_tensor * x = p.variable(a);
                      return ggml_sqr(p.ctx, ggml_concat(p.ctx, x, p.variable(b), dim));
                  }),
                  "");
    }
    EXPECT_EQ(off([](problem & p) { return ggml_sqr(p.ctx, ggml_pad(p.ctx, p.variable({ 4, 3 }), 2, 1, 0, 0)); }), "");
}

// Three rows of four scores that keep clear of each other, so that differences do not change their order.
ggml_tensor * scores(problem & p) {
    ggml_tensor * x = p.variable({ 4, 3 });
    p.values[0]     = { 0.1f, 0.9f, -0.5f, 1.4f, -1.0f, 0.2f, 0.7f, -0.3f, 1.2f, 0.4f, -0.9f, -0.2f };
    return x;
}

TEST_P(rules, get_rows) {
    for (const std::vector<int32_t> & rows : { std::vector<int32_t>{ 3, 0, 4 }, { 3, 0, 3, 3 } }) {
        EXPECT_EQ(off([&](problem & p) {
                      ggml_tensor * x = p.variable({ 4, 5 });
                      return ggml_get_rows(p.ctx, x, p.filled(GGML_TYPE_I32, { (int64_t) rows.size() }, rows));
                  }),
                  "");
    }
    // a router's weights of the experts that it chose
    EXPECT_EQ(off([](problem & p) {
                  ggml_tensor * x = scores(p);
                  return ggml_get_rows(p.ctx, ggml_reshape_3d(p.ctx, ggml_sqr(p.ctx, x), 1, 4, 3),
                                       ggml_top_k(p.ctx, x, 2));
              }),
              "");
}

// All of a mixture's routing: the chosen experts' probabilities, normalised, weigh their outputs, which are added up.
TEST_P(rules, mixture_of_experts) {
    auto weights = [](problem & p) {
        ggml_tensor * x     = scores(p);
        ggml_tensor * probs = ggml_reshape_3d(p.ctx, ggml_soft_max(p.ctx, x), 1, 4, 3);
        ggml_tensor * w   = ggml_reshape_2d(p.ctx, ggml_get_rows(p.ctx, probs, ggml_argsort_top_k(p.ctx, x, 2)), 2, 3);
        ggml_tensor * sum = ggml_clamp(p.ctx, ggml_sum_rows(p.ctx, w), 6e-5f, INFINITY);
        return ggml_reshape_3d(p.ctx, ggml_div(p.ctx, w, sum), 1, 2, 3);
    };
    EXPECT_EQ(off(weights), "");
    EXPECT_EQ(off([&](problem & p) {
                  ggml_tensor * w    = weights(p);
                  ggml_tensor * e    = ggml_mul(p.ctx, p.variable({ 5, 2, 3 }), w);
                  auto          part = [&](int i) { return ggml_view_2d(p.ctx, e, 5, 3, e->nb[2], i * e->nb[1]); };
                  return ggml_add(p.ctx, part(0), part(1));
              }),
              "");
}

TEST_P(rules, set_rows) {
    const std::vector<int64_t> rows = { 5, 1, 2 };
    // into a cache that is read through a view afterwards
    EXPECT_EQ(off([&](problem & p) {
                  ggml_tensor * cache = ggml_dup(p.ctx, p.constant({ 4, 6 }));
                  ggml_tensor * x     = p.variable({ 4, 3 });
                  ggml_tensor * kept  = ggml_set_rows(p.ctx, cache, x, p.filled(GGML_TYPE_I64, { 3 }, rows));
                  ggml_tensor * v     = ggml_view_3d(p.ctx, kept, 2, 5, 2, kept->nb[1], 2 * sizeof(float), kept->nb[1]);
                  return ggml_sqr(p.ctx, ggml_cont(p.ctx, v));
              }),
              "");
    // keys and values as attention caches them: a row a token, and an element each, transposed
    EXPECT_EQ(off([&](problem & p) {
                  ggml_tensor * cache = ggml_dup(p.ctx, p.constant({ 4, 8 }));
                  ggml_tensor * x     = p.variable({ 4, 3 });
                  ggml_tensor * kept  = ggml_set_rows(p.ctx, cache, x, p.filled(GGML_TYPE_I64, { 3 }, rows));
                  ggml_tensor * k     = ggml_view_3d(p.ctx, kept, 2, 2, 7, 2 * sizeof(float), kept->nb[1], 0);
                  return ggml_mul_mat(p.ctx, ggml_permute(p.ctx, k, 0, 2, 1, 3), p.variable({ 2, 5, 4 }));
              }),
              "");
    EXPECT_EQ(off([&](problem & p) {
                  std::vector<int64_t> elements;
                  for (int64_t cell : rows) {
                      for (int64_t i = 0; i < 4; i++) {
                          elements.push_back(i * 8 + cell);
                      }
                  }
                  ggml_tensor * cache = ggml_dup(p.ctx, p.constant({ 1, 32 }));
                  ggml_tensor * x     = ggml_reshape_2d(p.ctx, p.variable({ 4, 3 }), 1, 12);
                  ggml_tensor * kept  = ggml_set_rows(p.ctx, cache, x, p.filled(GGML_TYPE_I64, { 12 }, elements));
                  ggml_tensor * v     = ggml_view_3d(p.ctx, kept, 7, 2, 2, 16 * sizeof(float), 8 * sizeof(float), 0);
                  return ggml_mul_mat(p.ctx, ggml_permute(p.ctx, v, 0, 2, 1, 3), p.variable({ 7, 5, 4 }));
              }),
              "");
    // a view that does not show all of the rows
    EXPECT_EQ(off([&](problem & p) {
                  ggml_tensor * cache = ggml_dup(p.ctx, p.constant({ 4, 6 }));
                  ggml_tensor * x     = p.variable({ 4, 3 });
                  ggml_tensor * kept  = ggml_set_rows(p.ctx, cache, x, p.filled(GGML_TYPE_I64, { 3 }, rows));
                  return ggml_mul_mat(p.ctx, ggml_view_2d(p.ctx, kept, 4, 4, kept->nb[1], 0), p.variable({ 4, 2 }));
              }),
              "");
    // into something computed
    EXPECT_EQ(off([&](problem & p) {
                  ggml_tensor * into = ggml_sqr(p.ctx, p.variable({ 4, 6 }));
                  ggml_tensor * x    = p.variable({ 4, 3 });
                  return ggml_sqr(p.ctx, ggml_set_rows(p.ctx, into, x, p.filled(GGML_TYPE_I64, { 3 }, rows)));
              }),
              "");
}

// ---- products ----------------------------------------------------------------------------------------------------------

TEST_P(rules, mul_mat_by_weight) {
    // Quantised weights are multiplied with quantised rows, which differences cannot see through; their transposed copies
    // are tested below.
    EXPECT_EQ(off([&](problem & p) {
                  return ggml_mul_mat(p.ctx, off.weight(p, GGML_TYPE_F32, { 32, 7 }), p.variable({ 32, 3 }));
              }),
              "");
    EXPECT_EQ(off(
                  [&](problem & p) {
                      return ggml_mul_mat(p.ctx, off.weight(p, GGML_TYPE_F16, { 32, 7 }), p.variable({ 32, 3 }));
                  },
                  0.25f, 5e-3),
              "");
    EXPECT_EQ(off([&](problem & p) { // a vocabulary's length, summed over in parts, and a rest
                  return ggml_mul_mat(p.ctx, off.weight(p, GGML_TYPE_F32, { 4, 16 * 1024 + 3 }), p.variable({ 4, 2 }));
              }),
              "");
    EXPECT_EQ(off([&](problem & p) { // one matrix for two heads
                  return ggml_mul_mat(p.ctx, off.weight(p, GGML_TYPE_F32, { 8, 5, 2 }), p.variable({ 8, 3, 4 }));
              }),
              "");
}

TEST_P(rules, mul_mat_of_activations) {
    for (const auto & [a, b] : std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>>{
             { { 4, 5 }, { 4, 3 } },
             { { 4, 5, 2 }, { 4, 3, 6 } }, // grouped queries: two key heads, six query heads
             { { 4, 5 }, { 4, 3, 2, 2 } },
         }) {
        EXPECT_EQ(off([&, a = a, b = b](problem & p) {
                      ggml_tensor * x = p.variable(a);
                      return ggml_mul_mat(p.ctx, x, p.variable(b));
                  }),
                  "");
    }
    EXPECT_EQ(off([](problem & p) { // keys and queries as attention reads them
                  ggml_tensor * k = ggml_permute(p.ctx, p.variable({ 4, 2, 5 }), 0, 2, 1, 3);
                  return ggml_mul_mat(p.ctx, k, ggml_permute(p.ctx, p.variable({ 4, 4, 3 }), 0, 2, 1, 3));
              }),
              "");
}

TEST_P(rules, experts) {
    const std::vector<int32_t> ids = { 0, 2, 3, 1, 2, 0 }; // two for each of three tokens
    for (int64_t n : { 2, 1 }) {                           // a row an expert, one row for both
        EXPECT_EQ(off([&](problem & p) {
                      return ggml_mul_mat_id(p.ctx, off.weight(p, GGML_TYPE_F32, { 8, 5, 4 }), p.variable({ 8, n, 3 }),
                                             p.filled(GGML_TYPE_I32, { 2, 3 }, ids));
                  }),
                  "");
    }
    EXPECT_EQ(off([&](problem & p) {
                  ggml_tensor * x = p.variable({ 5, 2, 3 });
                  return ggml_add_id(p.ctx, x, p.constant({ 5, 4 }), p.filled(GGML_TYPE_I32, { 2, 3 }, ids));
              }),
              "");
}

// The copy holds the same numbers as the weight does, type by type.
TEST_P(rules, transposed_copies) {
    for (ggml_type type : { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1,
                            GGML_TYPE_Q5_0, GGML_TYPE_Q8_0, GGML_TYPE_Q4_K, GGML_TYPE_Q6_K }) {
        workspace            work(where, 10);
        problem              p(work);
        const int64_t        k = 256, n = 70, m = 2;
        ggml_tensor *        w = off.weight(p, type, { k, n, m });
        std::vector<uint8_t> raw(ggml_nbytes(w));
        ggml_backend_tensor_get(w, raw.data(), 0, raw.size());
        std::vector<float> expected(k * n * m);
        if (type == GGML_TYPE_F32) {
            memcpy(expected.data(), raw.data(), raw.size());
        } else {
            ggml_get_type_traits(type)->to_float(raw.data(), expected.data(), expected.size());
        }
        const std::vector<float> copied = values_of(off.transposed().of(where, w));
        for (int64_t i = 0; i < (int64_t) copied.size(); i++) {
            const int64_t row = i % n, column = i / n % k, matrix = i / n / k;
            ASSERT_EQ(copied[i], expected[(matrix * n + row) * k + column]) << ggml_type_name(type) << " " << i;
        }
    }
}

// ---- attention ---------------------------------------------------------------------------------------------------------

TEST_P(rules, soft_max) {
    EXPECT_EQ(off([](problem & p) { return ggml_soft_max(p.ctx, p.variable({ 6, 3, 2 })); }), "");
    // ALiBi, and entries that the mask excludes
    EXPECT_EQ(off([](problem & p) {
                  std::vector<float> mask = p.draw(18, -1.0f, 1.0f);
                  mask[2] = mask[9] = mask[17] = -INFINITY;
                  ggml_tensor * m              = p.filled(GGML_TYPE_F32, { 6, 3 }, mask);
                  return ggml_soft_max_ext(p.ctx, p.variable({ 6, 3, 4 }), m, 0.7f, 8.0f);
              }),
              "");
    EXPECT_EQ(off([](problem & p) {
                  ggml_tensor * y = ggml_soft_max_ext(p.ctx, p.variable({ 6, 3, 4 }), p.constant({ 6, 3 }), 0.7f, 0.0f);
                  ggml_soft_max_add_sinks(y, p.constant({ 4 }));
                  return y;
              }),
              "");
}

TEST_P(rules, rope) {
    const std::vector<int32_t> positions = { 3, 7, 20 };
    for (int mode : { GGML_ROPE_TYPE_NORMAL, GGML_ROPE_TYPE_NEOX }) {
        for (int n_dims : { 8, 4 }) { // whole and partial, with frequency factors and YaRN
            EXPECT_EQ(off([&](problem & p) {
                          ggml_tensor * x = p.variable({ 8, 2, 3 });
                          return ggml_rope_ext(p.ctx, x, p.filled(GGML_TYPE_I32, { 3 }, positions),
                                               p.constant({ n_dims / 2 }, 0.8f, 1.2f), n_dims, mode, 64, 1000.0f, 0.5f,
                                               1.0f, 1.1f, 32.0f, 1.0f);
                      }),
                      "");
        }
    }
    const std::vector<int32_t> four = { 0, 5, 10, 4, 9, 3, 8, 2, 7, 1, 6, 0 };
    for (int mode : { GGML_ROPE_TYPE_MROPE, GGML_ROPE_TYPE_IMROPE }) {
        EXPECT_EQ(off([&](problem & p) {
                      int           sections[4] = { 2, 1, 1, 0 };
                      ggml_tensor * x           = p.variable({ 8, 2, 3 });
                      return ggml_rope_multi(p.ctx, x, p.filled(GGML_TYPE_I32, { 12 }, four), nullptr, 8, sections,
                                             mode, 64, 1000.0f, 1.0f, 0.0f, 1.0f, 32.0f, 1.0f);
                  }),
                  "");
    }
}

// ---- what has no gradient ----------------------------------------------------------------------------------------------

// What differentiating the result y of x says.
std::string refusal(device & where, transposed_weights & copies,
                    const std::function<ggml_tensor *(ggml_context *, ggml_tensor *)> & op) {
    workspace       work(where, 200);
    problem         p(work);
    ggml_tensor *   x = p.variable({ 8, 3 });
    ggml_tensor *   y = op(work.context(), x);
    differentiation d(work, copies);
    d.variable(x);
    d.seed(y, work.input(GGML_TYPE_F32, y->ne));
    std::vector<ggml_tensor *> nodes;
    for (ggml_tensor * t = y; t != x; t = t->src[0]) {
        nodes.insert(nodes.begin(), t);
    }
    try {
        d.run(nodes);
    } catch (const graph_error & e) {
        return e.what();
    }
    return "";
}

TEST_P(rules, an_operator_without_a_rule_is_named) {
    const std::string said = refusal(where, off.transposed(), [](ggml_context * ctx, ggml_tensor * x) {
        return ggml_set_name(ggml_cumsum(ctx, x), "running total");
    });
    EXPECT_EQ(said, "no gradient for the operator CUMSUM at the node running total: it has no rule");
}

TEST_P(rules, an_overlapping_view_is_refused) {
    const std::string said = refusal(where, off.transposed(), [](ggml_context * ctx, ggml_tensor * x) {
        return ggml_set_name(ggml_view_2d(ctx, x, 4, 3, 2 * sizeof(float), 0), "window");
    });
    EXPECT_EQ(said, "no gradient for the operator VIEW at the node window: a view whose rows overlap");
}

// Off the path from the variables to the loss no rule is needed: a choice is held fixed.
TEST_P(rules, choices_are_held_fixed) {
    EXPECT_EQ(off([](problem & p) {
                  ggml_tensor * x     = scores(p);
                  ggml_tensor * order = ggml_argsort(p.ctx, ggml_cumsum(p.ctx, x), GGML_SORT_ORDER_DESC);
                  return ggml_get_rows(p.ctx, ggml_reshape_3d(p.ctx, ggml_sqr(p.ctx, x), 1, 4, 3), order);
              }),
              "");
}

INSTANTIATE_TEST_SUITE_P(device, rules, testing::Values("cpu", "rpc"),
                         [](const auto & info) { return std::string(info.param); });

} // namespace

int main(int argc, char ** argv) {
    rpc_server here; // before anything makes a thread
    server = &here;
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
