// Element by element, and sums.

#include "rules.h"

#include <cmath>

namespace plumb {

void rule_add(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    d.add(t->src[0], g);
    if (d.needs(t->src[1])) {
        d.add(t->src[1], d.summed_to(g, t->src[1]));
    }
}

void rule_sub(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    d.add(t->src[0], g);
    if (d.needs(t->src[1])) {
        d.add(t->src[1], ggml_neg(d.ctx, d.contiguous(d.summed_to(g, t->src[1]))));
    }
}

void rule_mul(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    ggml_tensor *a = t->src[0], *b = t->src[1];
    if (d.needs(a)) {
        d.add(a, ggml_mul(d.ctx, g, b));
    }
    if (d.needs(b)) {
        d.add(b, d.summed_to(ggml_mul(d.ctx, g, a), b));
    }
}

// d(a/b) = da/b - (a/b) db/b
void rule_div(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    ggml_tensor * a = t->src[0], *b = t->src[1];
    ggml_tensor * over = ggml_div(d.ctx, g, b);
    d.add(a, over);
    if (d.needs(b)) {
        d.add(b, ggml_neg(d.ctx, d.summed_to(ggml_mul(d.ctx, over, t), b)));
    }
}

void rule_scale(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    d.add(t->src[0], ggml_scale(d.ctx, d.contiguous(g), param(t, 0)));
}

void rule_sqr(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    d.add(t->src[0], ggml_scale(d.ctx, ggml_mul(d.ctx, g, t->src[0]), 2.0f));
}

void rule_sqrt(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    d.add(t->src[0], ggml_scale(d.ctx, ggml_div(d.ctx, g, t), 0.5f));
}

void rule_log(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    d.add(t->src[0], ggml_div(d.ctx, g, t->src[0]));
}

void rule_sin(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    d.add(t->src[0], ggml_mul(d.ctx, g, ggml_cos(d.ctx, d.contiguous(t->src[0]))));
}

void rule_cos(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    d.add(t->src[0], ggml_neg(d.ctx, ggml_mul(d.ctx, g, ggml_sin(d.ctx, d.contiguous(t->src[0])))));
}

// One inside the bounds, zero outside.
void rule_clamp(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    const float   min = param(t, 0), max = param(t, 1);
    ggml_tensor * x = d.contiguous(t->src[0]);
    if (std::isfinite(min)) {
        g = ggml_mul(d.ctx, g, ggml_step(d.ctx, ggml_scale_bias(d.ctx, x, 1.0f, -min)));
    }
    if (std::isfinite(max)) {
        g = ggml_mul(d.ctx, g, ggml_step(d.ctx, ggml_scale_bias(d.ctx, x, -1.0f, max)));
    }
    d.add(t->src[0], g);
}

void rule_sum(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    d.add(t->src[0], ggml_repeat(d.ctx, d.contiguous(g), t->src[0]));
}

void rule_mean(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    ggml_tensor * each = ggml_scale(d.ctx, d.contiguous(g), 1.0f / (float) t->src[0]->ne[0]);
    d.add(t->src[0], ggml_repeat(d.ctx, each, t->src[0]));
}

} // namespace plumb
