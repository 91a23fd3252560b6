// Fused attention as operators that have rules.

#pragma once

#include "ggml.h"

#include <functional>

namespace plumb {

// What a fused attention of these parameters computes: of queries [d, rows, heads], keys [d, cells, key heads], values
// [e, cells, key heads], a mask [cells, rows] and attention sinks [heads] (both may be null), [e, heads, rows]. Each tensor
// but the result is handed to `list` as it is made: nine at most.
ggml_tensor * attention_of_operators(ggml_context * ctx, const int32_t * op_params, ggml_tensor * queries,
                                     ggml_tensor * keys, ggml_tensor * values, ggml_tensor * mask, ggml_tensor * sinks,
                                     const std::function<ggml_tensor *(ggml_tensor *)> & list);

} // namespace plumb
