#include "exact_gelu.h"

#include "device.h"
#include "vector_exp.h"

#include "ggml-backend.h"

#include <array>
#include <cmath>
#include <cstring>
#include <memory>

namespace plumb {

namespace {

// gelu(x) = x s(x q(x)) with the logistic function s, since (1 + tanh u)/2 = s(2u): q = 2 sqrt(2/pi) (1 + 0.044715 x^2).
// Quick, q is constant.
constexpr float q_constant = 1.59576912160573071176f;
constexpr float q_square   = q_constant * 0.044715f;
constexpr float q_quick    = 1.702f;

// Which of the operators, as a small number: the custom operator's user data.
constexpr uintptr_t swapped = 1, quick = 2, gated = 4, n_kinds = 8;

uintptr_t kind_of(ggml_op op, const int32_t * op_params) {
    if (op == GGML_OP_GLU) {
        return gated | (op_params[0] == GGML_GLU_OP_GEGLU_QUICK ? quick : 0) | (op_params[1] ? swapped : 0);
    }
    return op_params[0] == GGML_UNARY_OP_GELU_QUICK ? quick : 0;
}

inline float logistic(float z) {
    const float e = exp_nonpositive(-std::fabs(z));
    return (z < 0.0f ? e : 1.0f) / (1.0f + e);
}

void compute_row(float * y, const float * x, const float * linear, int64_t n, float constant, float square) {
    if (linear) {
        for (int64_t i = 0; i < n; i++) {
            y[i] = x[i] * logistic(x[i] * (constant + square * x[i] * x[i])) * linear[i];
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            y[i] = x[i] * logistic(x[i] * (constant + square * x[i] * x[i]));
        }
    }
}

const float * row_of(const ggml_tensor * t, int64_t i1, int64_t i2, int64_t i3) {
    return (const float *) ((const char *) t->data + i1 * t->nb[1] + i2 * t->nb[2] + i3 * t->nb[3]);
}

// ggml's custom operator. The result may share its source's memory.
void compute(ggml_tensor * node, int thread, int n_threads, void * user_data) {
    const uintptr_t     kind     = (uintptr_t) user_data;
    const float         constant = kind & quick ? q_quick : q_constant, square = kind & quick ? 0.0f : q_square;
    const ggml_tensor * a = node->src[0];
    const ggml_tensor * b = kind & gated ? node->src[1] : nullptr;
    const int64_t       n = node->ne[0], n_rows = ggml_nrows(node);
    for (int64_t r = n_rows * thread / n_threads; r < n_rows * (thread + 1) / n_threads; r++) {
        const int64_t i1 = r % node->ne[1], i2 = r / node->ne[1] % node->ne[2], i3 = r / (node->ne[1] * node->ne[2]);
        const float * x      = row_of(a, i1, i2, i3);
        const float * linear = nullptr;
        if (b) {
            linear = row_of(b, i1, i2, i3);
        } else if (kind & gated) { // halves of one row
            linear = kind & swapped ? x : x + n;
            x      = kind & swapped ? x + n : x;
        }
        compute_row((float *) row_of(node, i1, i2, i3), x, linear, n, constant, square);
    }
}

using parameters = std::array<int32_t, GGML_MAX_OP_PARAMS / sizeof(int32_t)>;

// The parameters of ggml's custom operator that calls `compute`, of each kind. ggml alone knows how they are laid out.
const std::array<parameters, n_kinds> & custom_parameters() {
    static const std::array<parameters, n_kinds> made = [] {
        std::array<parameters, n_kinds>                         all;
        std::unique_ptr<ggml_context, void (*)(ggml_context *)> ctx(
            ggml_init({ n_kinds * ggml_tensor_overhead(), nullptr, true }), ggml_free);
        for (uintptr_t kind = 0; kind < n_kinds; kind++) {
            const ggml_tensor * t = ggml_custom_4d(ctx.get(), GGML_TYPE_F32, 1, 1, 1, 1, nullptr, 0, compute,
                                                   GGML_N_TASKS_MAX, (void *) kind);
            memcpy(all[kind].data(), t->op_params, sizeof t->op_params);
        }
        return all;
    }();
    return made;
}

bool is_floats_in_host_memory(const ggml_tensor * t) {
    return t->type == GGML_TYPE_F32 && t->nb[0] == sizeof(float) && is_in_host_memory(t);
}

} // namespace

bool reads_gelu_table(ggml_op op, const int32_t * op_params) {
    switch (op) {
        case GGML_OP_UNARY:
            return op_params[0] == GGML_UNARY_OP_GELU || op_params[0] == GGML_UNARY_OP_GELU_QUICK;
        case GGML_OP_GLU:
            return op_params[0] == GGML_GLU_OP_GEGLU || op_params[0] == GGML_GLU_OP_GEGLU_QUICK;
        default:
            return false;
    }
}

void compute_gelu_exactly(ggml_tensor * node) {
    const bool on_cpu = reads_gelu_table(node->op, node->op_params) && is_floats_in_host_memory(node) &&
                        is_floats_in_host_memory(node->src[0]) &&
                        (!node->src[1] || is_floats_in_host_memory(node->src[1]));
    if (on_cpu) {
        memcpy(node->op_params, custom_parameters()[kind_of(node->op, node->op_params)].data(), sizeof node->op_params);
        node->op = GGML_OP_CUSTOM;
    }
}

void forget_exact_gelu(ggml_tensor * node) {
    for (uintptr_t kind = 0; node->op == GGML_OP_CUSTOM && kind < n_kinds; kind++) {
        if (memcmp(node->op_params, custom_parameters()[kind].data(), sizeof node->op_params) == 0) {
            memset(node->op_params, 0, sizeof node->op_params);
            node->op = kind & gated ? GGML_OP_GLU : GGML_OP_UNARY;
            if (kind & gated) {
                node->op_params[0] = kind & quick ? GGML_GLU_OP_GEGLU_QUICK : GGML_GLU_OP_GEGLU;
                node->op_params[1] = kind & swapped;
            } else {
                node->op_params[0] = kind & quick ? GGML_UNARY_OP_GELU_QUICK : GGML_UNARY_OP_GELU;
            }
        }
    }
}

ggml_tensor * gelu_of_exact_operators(ggml_context * ctx, ggml_op op, const int32_t * op_params, ggml_tensor * x,
                                      ggml_tensor * linear, const std::function<ggml_tensor *(ggml_tensor *)> & list) {
    const uintptr_t kind      = kind_of(op, op_params);
    auto            half_of_x = [&](bool second) {
        const size_t offset = second ? x->ne[0] / 2 * x->nb[0] : 0;
        return list(
            ggml_view_4d(ctx, x, x->ne[0] / 2, x->ne[1], x->ne[2], x->ne[3], x->nb[1], x->nb[2], x->nb[3], offset));
    };
    if (kind & gated && !linear) {
        linear = half_of_x(!(kind & swapped));
        x      = half_of_x(kind & swapped);
    }
    if (!ggml_is_contiguous(x)) {
        x = list(ggml_cont(ctx, x));
    }
    // x s(x q) = silu(x q) / q: ggml has a fast kernel for silu and its derivative
    ggml_tensor * y;
    if (kind & quick) {
        y = ggml_scale(ctx, list(ggml_silu(ctx, list(ggml_scale(ctx, x, q_quick)))), 1.0f / q_quick);
    } else {
        ggml_tensor * q = list(ggml_scale_bias(ctx, list(ggml_sqr(ctx, x)), q_square, q_constant));
        y               = ggml_div(ctx, list(ggml_silu(ctx, list(ggml_mul(ctx, x, q)))), q);
    }
    return kind & gated ? ggml_mul(ctx, list(y), linear) : y;
}

} // namespace plumb
