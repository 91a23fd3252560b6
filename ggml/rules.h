// The derivative of each operator. A rule gets a node and the gradient with respect to it (F32, of its shape, perhaps not
// contiguous), and adds to the gradients with respect to those sources that need one.

#pragma once

#include "differentiate.h"

#include <cstring>
#include <string>

namespace plumb {

using rule = void (*)(differentiation & d, ggml_tensor * t, ggml_tensor * g);

// The i-th of an operator's parameters, where it is a float.
inline float param(const ggml_tensor * t, int i) {
    float value;
    memcpy(&value, (const char *) t->op_params + i * sizeof value, sizeof value);
    return value;
}

inline bool is_view(const ggml_tensor * t) {
    return t->op == GGML_OP_VIEW || t->op == GGML_OP_RESHAPE || t->op == GGML_OP_PERMUTE || t->op == GGML_OP_TRANSPOSE;
}

// What t is a view of, in the end; t itself if it is none.
inline ggml_tensor * base_of(ggml_tensor * t) {
    while (is_view(t)) {
        t = t->src[0];
    }
    return t;
}

// Null for an operator that has none.
rule rule_of(const ggml_tensor * t);

// Whether the result does not change when the sources move a little: orders, choices, constants.
bool is_piecewise_constant(const ggml_tensor * t);

// rules_arithmetic.cpp
void rule_add(differentiation &, ggml_tensor *, ggml_tensor *);
void rule_sub(differentiation &, ggml_tensor *, ggml_tensor *);
void rule_mul(differentiation &, ggml_tensor *, ggml_tensor *);
void rule_div(differentiation &, ggml_tensor *, ggml_tensor *);
void rule_scale(differentiation &, ggml_tensor *, ggml_tensor *);
void rule_sqr(differentiation &, ggml_tensor *, ggml_tensor *);
void rule_sqrt(differentiation &, ggml_tensor *, ggml_tensor *);
void rule_log(differentiation &, ggml_tensor *, ggml_tensor *);
void rule_sin(differentiation &, ggml_tensor *, ggml_tensor *);
void rule_cos(differentiation &, ggml_tensor *, ggml_tensor *);
void rule_clamp(differentiation &, ggml_tensor *, ggml_tensor *);
void rule_sum(differentiation &, ggml_tensor *, ggml_tensor *);
void rule_mean(differentiation &, ggml_tensor *, ggml_tensor *);

// rules_layout.cpp
void rule_copy(differentiation &, ggml_tensor *, ggml_tensor *);
void rule_view(differentiation &, ggml_tensor *, ggml_tensor *);
void rule_permute(differentiation &, ggml_tensor *, ggml_tensor *);
void rule_transpose(differentiation &, ggml_tensor *, ggml_tensor *);
void rule_repeat(differentiation &, ggml_tensor *, ggml_tensor *);
void rule_concat(differentiation &, ggml_tensor *, ggml_tensor *);
void rule_pad(differentiation &, ggml_tensor *, ggml_tensor *);
void rule_get_rows(differentiation &, ggml_tensor *, ggml_tensor *);
void rule_set_rows(differentiation &, ggml_tensor *, ggml_tensor *);

// rules_norm.cpp
void rule_norm(differentiation &, ggml_tensor *, ggml_tensor *);
void rule_rms_norm(differentiation &, ggml_tensor *, ggml_tensor *);
void rule_l2_norm(differentiation &, ggml_tensor *, ggml_tensor *);

// rules_product.cpp
void rule_mul_mat(differentiation &, ggml_tensor *, ggml_tensor *);
void rule_mul_mat_id(differentiation &, ggml_tensor *, ggml_tensor *);
void rule_add_id(differentiation &, ggml_tensor *, ggml_tensor *);

// rules_attention.cpp
void rule_soft_max(differentiation &, ggml_tensor *, ggml_tensor *);
void rule_rope(differentiation &, ggml_tensor *, ggml_tensor *);

// rules_activation.cpp
void rule_unary(differentiation &, ggml_tensor *, ggml_tensor *);
void rule_leaky_relu(differentiation &, ggml_tensor *, ggml_tensor *);
void rule_glu(differentiation &, ggml_tensor *, ggml_tensor *);
bool has_unary_rule(ggml_unary_op op);
bool has_glu_rule(ggml_glu_op op);

} // namespace plumb
