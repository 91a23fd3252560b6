#include "fused_attention.h"

#include <cstring>

namespace plumb {

ggml_tensor * attention_of_operators(ggml_context * ctx, const int32_t * op_params, ggml_tensor * queries,
                                     ggml_tensor * keys, ggml_tensor * values, ggml_tensor * mask, ggml_tensor * sinks,
                                     const std::function<ggml_tensor *(ggml_tensor *)> & list) {
    float parameters[3];
    memcpy(parameters, op_params, sizeof parameters);
    float       scale    = parameters[0];
    const float max_bias = parameters[1], soft_cap = parameters[2];

    ggml_tensor * scores = list(ggml_mul_mat(ctx, keys, queries));
    if (soft_cap != 0.0f) {
        scores = list(ggml_tanh(ctx, list(ggml_scale(ctx, scores, scale / soft_cap))));
        scores = list(ggml_scale(ctx, scores, soft_cap));
        scale  = 1.0f;
    }
    ggml_tensor * weights = ggml_soft_max_ext(ctx, scores, mask, scale, max_bias);
    ggml_soft_max_add_sinks(weights, sinks);
    list(weights);
    ggml_tensor * by_cell = list(ggml_cont(ctx, list(ggml_transpose(ctx, values))));
    ggml_tensor * by_head = list(ggml_mul_mat(ctx, by_cell, weights));
    return ggml_cont(ctx, list(ggml_permute(ctx, by_head, 0, 2, 1, 3)));
}

} // namespace plumb
