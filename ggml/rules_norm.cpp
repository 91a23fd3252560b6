// Normalisation of rows.

#include "rules.h"

#include <cmath>

namespace plumb {

static ggml_tensor * row_mean(differentiation & d, ggml_tensor * t) {
    return ggml_scale(d.ctx, ggml_sum_rows(d.ctx, t), 1.0f / (float) t->ne[0]);
}

// y = (x - m)/s with s = sqrt(var + eps):  dx = (dy - mean(dy) - y mean(y dy))/s
void rule_norm(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    g                      = d.contiguous(g);
    ggml_tensor * x        = d.contiguous(t->src[0]);
    ggml_tensor * centred  = ggml_sub(d.ctx, x, row_mean(d, x));
    ggml_tensor * variance = ggml_sum_rows(d.ctx, ggml_sqr(d.ctx, centred));
    ggml_tensor * s        = ggml_sqrt(d.ctx, ggml_scale_bias(d.ctx, variance, 1.0f / (float) x->ne[0], param(t, 0)));
    ggml_tensor * along    = ggml_mul(d.ctx, t, row_mean(d, ggml_mul(d.ctx, t, g)));
    ggml_tensor * across   = ggml_sub(d.ctx, ggml_sub(d.ctx, g, row_mean(d, g)), along);
    d.add(t->src[0], ggml_div(d.ctx, across, s));
}

// Both made contiguous: CUDA's kernel reads the second as if it were.
void rule_rms_norm(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    d.add(t->src[0], ggml_rms_norm_back(d.ctx, d.contiguous(g), d.contiguous(t->src[0]), param(t, 0)));
}

// y = x/s with s = |x|:  dx = (dy - y <y, dy>)/s. Where |x| is below eps, s is eps and y as good as zero.
void rule_l2_norm(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    g                   = d.contiguous(g);
    ggml_tensor * x     = d.contiguous(t->src[0]);
    ggml_tensor * norm  = ggml_sqrt(d.ctx, ggml_sum_rows(d.ctx, ggml_sqr(d.ctx, x)));
    ggml_tensor * along = ggml_mul(d.ctx, t, ggml_sum_rows(d.ctx, ggml_mul(d.ctx, t, g)));
    ggml_tensor * s     = ggml_clamp(d.ctx, norm, param(t, 0), INFINITY);
    d.add(t->src[0], ggml_div(d.ctx, ggml_sub(d.ctx, g, along), s));
}

} // namespace plumb
