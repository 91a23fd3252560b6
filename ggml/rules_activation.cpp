// Activation functions, and gated units built on them. `x` is always contiguous, and so is a slope.

#include "rules.h"

#include <cmath>

namespace plumb {

namespace {

constexpr float sqrt_2_over_pi = 0.79788456080286535588f;
constexpr float gelu_cubic     = 0.044715f;
constexpr float quick_slope    = 1.702f;

ggml_tensor * affine(differentiation & d, ggml_tensor * x, float scale, float bias) {
    return ggml_scale_bias(d.ctx, x, scale, bias);
}

// s(1 - s)
ggml_tensor * logistic_slope(differentiation & d, ggml_tensor * s) {
    return ggml_mul(d.ctx, s, affine(d, s, -1.0f, 1.0f));
}

// x s(k x), differentiated: s (1 + k x (1 - s))
ggml_tensor * swish_slope(differentiation & d, ggml_tensor * x, float k) {
    ggml_tensor * s = ggml_sigmoid(d.ctx, ggml_scale(d.ctx, x, k));
    ggml_tensor * r = ggml_mul(d.ctx, ggml_scale(d.ctx, x, k), affine(d, s, -1.0f, 1.0f));
    return ggml_mul(d.ctx, s, affine(d, r, 1.0f, 1.0f));
}

// x (1 + tanh u)/2 with u = sqrt(2/pi) (x + 0.044715 x^3)
ggml_tensor * gelu_slope(differentiation & d, ggml_tensor * x) {
    ggml_tensor * x2 = ggml_sqr(d.ctx, x);
    ggml_tensor * u  = ggml_mul(d.ctx, ggml_scale(d.ctx, x, sqrt_2_over_pi), affine(d, x2, gelu_cubic, 1.0f));
    ggml_tensor * th = ggml_tanh(d.ctx, u);
    ggml_tensor * du = affine(d, x2, 3.0f * gelu_cubic * sqrt_2_over_pi, sqrt_2_over_pi);
    ggml_tensor * dt = affine(d, ggml_sqr(d.ctx, th), -1.0f, 1.0f);
    ggml_tensor * r  = ggml_mul(d.ctx, ggml_scale(d.ctx, x, 0.5f), ggml_mul(d.ctx, dt, du));
    return ggml_add(d.ctx, affine(d, th, 0.5f, 0.5f), r);
}

// x P(x), with the normal distribution P and its density p: P(x) + x p(x). ggml has no error function, so P is read from
// the unit itself, P(z) = gelu_erf(z)/z, at a z = x that is kept off zero, and one step of Taylor's series from z to x.
ggml_tensor * gelu_erf_slope(differentiation & d, ggml_tensor * x) {
    ggml_tensor * sign    = affine(d, ggml_step(d.ctx, x), 2.0f, -1.0f);
    ggml_tensor * z       = ggml_mul(d.ctx, sign, ggml_clamp(d.ctx, ggml_abs(d.ctx, x), 1e-2f, INFINITY));
    ggml_tensor * at_z    = ggml_div(d.ctx, ggml_gelu_erf(d.ctx, z), z);
    ggml_tensor * density = ggml_exp(d.ctx, ggml_scale(d.ctx, ggml_sqr(d.ctx, x), -0.5f));
    ggml_tensor * factor  = ggml_scale(d.ctx, density, 0.5f * sqrt_2_over_pi); // 1/sqrt(2 pi)
    ggml_tensor * steps   = ggml_sub(d.ctx, ggml_scale(d.ctx, x, 2.0f), z);    // x, and x - z for the series
    return ggml_add(d.ctx, at_z, ggml_mul(d.ctx, factor, steps));
}

// beta + 2 alpha_p max(x, 0) + alpha_n (exp(min(x, 0)) - 1)
ggml_tensor * xielu_slope(differentiation & d, ggml_tensor * t, ggml_tensor * x) {
    const float   alpha_n = param(t, 1), alpha_p = param(t, 2), beta = param(t, 3);
    ggml_tensor * above = ggml_relu(d.ctx, x);
    ggml_tensor * below = ggml_exp(d.ctx, ggml_sub(d.ctx, x, above));
    return ggml_add(d.ctx, ggml_scale(d.ctx, above, 2.0f * alpha_p), affine(d, below, alpha_n, beta - alpha_n));
}

ggml_tensor * unary_slope(differentiation & d, ggml_tensor * t, ggml_tensor * x) {
    switch (ggml_get_unary_op(t)) {
        case GGML_UNARY_OP_ABS:
            return ggml_sgn(d.ctx, x);
        case GGML_UNARY_OP_TANH:
            return affine(d, ggml_sqr(d.ctx, t), -1.0f, 1.0f);
        case GGML_UNARY_OP_ELU:
            return ggml_exp(d.ctx, ggml_sub(d.ctx, x, ggml_relu(d.ctx, x)));
        case GGML_UNARY_OP_RELU:
            return ggml_step(d.ctx, x);
        case GGML_UNARY_OP_SIGMOID:
            return logistic_slope(d, t);
        case GGML_UNARY_OP_GELU:
            return gelu_slope(d, x);
        case GGML_UNARY_OP_GELU_ERF:
            return gelu_erf_slope(d, x);
        case GGML_UNARY_OP_GELU_QUICK:
            return swish_slope(d, x, quick_slope);
        case GGML_UNARY_OP_EXP:
            return t;
        case GGML_UNARY_OP_EXPM1:
            return affine(d, t, 1.0f, 1.0f);
        case GGML_UNARY_OP_SOFTPLUS:
            return ggml_sigmoid(d.ctx, x);
        case GGML_UNARY_OP_XIELU:
            return xielu_slope(d, t, x);
        default:
            return nullptr;
    }
}

ggml_tensor * opened(differentiation & d, ggml_glu_op op, ggml_tensor * x) {
    switch (op) {
        case GGML_GLU_OP_REGLU:
            return ggml_relu(d.ctx, x);
        case GGML_GLU_OP_GEGLU:
            return ggml_gelu(d.ctx, x);
        case GGML_GLU_OP_SWIGLU:
            return ggml_silu(d.ctx, x);
        case GGML_GLU_OP_GEGLU_ERF:
            return ggml_gelu_erf(d.ctx, x);
        case GGML_GLU_OP_GEGLU_QUICK:
            return ggml_gelu_quick(d.ctx, x);
        default:
            return nullptr;
    }
}

// g times the slope of the gate's activation
ggml_tensor * through_gate(differentiation & d, ggml_glu_op op, ggml_tensor * x, ggml_tensor * g) {
    switch (op) {
        case GGML_GLU_OP_REGLU:
            return ggml_mul(d.ctx, g, ggml_step(d.ctx, x));
        case GGML_GLU_OP_GEGLU:
            return ggml_mul(d.ctx, g, gelu_slope(d, x));
        case GGML_GLU_OP_SWIGLU:
            return ggml_silu_back(d.ctx, g, x);
        case GGML_GLU_OP_GEGLU_ERF:
            return ggml_mul(d.ctx, g, gelu_erf_slope(d, x));
        case GGML_GLU_OP_GEGLU_QUICK:
            return ggml_mul(d.ctx, g, swish_slope(d, x, quick_slope));
        default:
            return nullptr;
    }
}

struct halves {
    ggml_tensor * gate;
    ggml_tensor * linear;
};

// With x = min(gate, limit) and y = clamp(linear, -limit, limit): x s(alpha x) (y + bias)
halves through_limited_swiglu(differentiation & d, ggml_tensor * t, halves in, ggml_tensor * g) {
    const bool    oai   = ggml_get_glu_op(t) == GGML_GLU_OP_SWIGLU_OAI;
    const float   alpha = oai ? param(t, 2) : 1.0f, bias = oai ? 1.0f : 0.0f, limit = param(t, 3);
    ggml_tensor * x         = ggml_clamp(d.ctx, in.gate, -INFINITY, limit);
    ggml_tensor * y         = ggml_clamp(d.ctx, in.linear, -limit, limit);
    ggml_tensor * x_free    = ggml_step(d.ctx, affine(d, in.gate, -1.0f, limit));
    ggml_tensor * y_free    = ggml_step(d.ctx, affine(d, ggml_abs(d.ctx, in.linear), -1.0f, limit));
    ggml_tensor * gate      = ggml_mul(d.ctx, x, ggml_sigmoid(d.ctx, ggml_scale(d.ctx, x, alpha)));
    ggml_tensor * to_gate   = ggml_mul(d.ctx, ggml_mul(d.ctx, g, affine(d, y, 1.0f, bias)), swish_slope(d, x, alpha));
    ggml_tensor * to_linear = ggml_mul(d.ctx, g, gate);
    return { ggml_mul(d.ctx, to_gate, x_free), ggml_mul(d.ctx, to_linear, y_free) };
}

} // namespace

bool has_unary_rule(ggml_unary_op op) {
    switch (op) {
        case GGML_UNARY_OP_NEG:
        case GGML_UNARY_OP_SILU:
        case GGML_UNARY_OP_ABS:
        case GGML_UNARY_OP_TANH:
        case GGML_UNARY_OP_ELU:
        case GGML_UNARY_OP_RELU:
        case GGML_UNARY_OP_SIGMOID:
        case GGML_UNARY_OP_GELU:
        case GGML_UNARY_OP_GELU_ERF:
        case GGML_UNARY_OP_GELU_QUICK:
        case GGML_UNARY_OP_EXP:
        case GGML_UNARY_OP_EXPM1:
        case GGML_UNARY_OP_SOFTPLUS:
        case GGML_UNARY_OP_XIELU:
            return true;
        default:
            return false;
    }
}

bool has_glu_rule(ggml_glu_op op) {
    switch (op) {
        case GGML_GLU_OP_REGLU:
        case GGML_GLU_OP_GEGLU:
        case GGML_GLU_OP_SWIGLU:
        case GGML_GLU_OP_SWIGLU_OAI:
        case GGML_GLU_OP_GEGLU_ERF:
        case GGML_GLU_OP_GEGLU_QUICK:
        case GGML_GLU_OP_SWIGLU_CLAMP:
            return true;
        default:
            return false;
    }
}

void rule_unary(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    ggml_tensor * a = t->src[0];
    g               = d.contiguous(g);
    switch (ggml_get_unary_op(t)) {
        case GGML_UNARY_OP_NEG:
            d.add(a, ggml_neg(d.ctx, g));
            break;
        case GGML_UNARY_OP_SILU:
            d.add(a, ggml_silu_back(d.ctx, g, d.contiguous(a)));
            break;
        default:
            d.add(a, ggml_mul(d.ctx, g, unary_slope(d, t, d.contiguous(a))));
    }
}

void rule_leaky_relu(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    const float   slope = param(t, 0);
    ggml_tensor * above = ggml_step(d.ctx, d.contiguous(t->src[0]));
    d.add(t->src[0], ggml_mul(d.ctx, g, affine(d, above, 1.0f - slope, slope)));
}

// act(gate) * linear. Gate and linear are two tensors, or the halves of one row ("swapped": the linear half first).
void rule_glu(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    ggml_tensor *     a = t->src[0], *b = t->src[1];
    const ggml_glu_op op      = ggml_get_glu_op(t);
    const bool        swapped = t->op_params[1] != 0;
    g                         = d.contiguous(g);

    auto half = [&](int i) {
        const size_t offset = i * t->ne[0] * a->nb[0];
        return d.contiguous(
            ggml_view_4d(d.ctx, a, t->ne[0], a->ne[1], a->ne[2], a->ne[3], a->nb[1], a->nb[2], a->nb[3], offset));
    };
    const halves in = b ? halves{ d.contiguous(a), d.contiguous(b) } : halves{ half(swapped), half(!swapped) };
    halves       out;
    if (op == GGML_GLU_OP_SWIGLU_OAI || op == GGML_GLU_OP_SWIGLU_CLAMP) {
        out = through_limited_swiglu(d, t, in, g);
    } else {
        out = { through_gate(d, op, in.gate, ggml_mul(d.ctx, g, in.linear)),
                ggml_mul(d.ctx, g, opened(d, op, in.gate)) };
    }
    if (b) {
        d.add(a, out.gate);
        d.add(b, out.linear);
    } else {
        d.add(a, swapped ? ggml_concat(d.ctx, out.linear, out.gate, 0) : ggml_concat(d.ctx, out.gate, out.linear, 0));
    }
}

} // namespace plumb
