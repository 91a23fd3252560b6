// GELU and its logistic approximation ("quick"), without ggml's table.
//
// ggml's CPU kernels round these functions' argument to a half float and read the result from a table of half floats. A
// gradient through that differs from the function's own by up to a few parts in a thousand. Here a graph that llama.cpp made
// is changed, as it runs, to compute them in F32; a replay builds them of operators that are exact.

#pragma once

#include "ggml.h"

#include <functional>

namespace plumb {

// Whether ggml's CPU kernel of this operator (a unary one or a gated unit) reads the table.
bool reads_gelu_table(ggml_op op, const int32_t * op_params);

// For the callback of a graph that is about to run: has the node, if it is such an operator on F32 in host memory, compute
// exactly. Any other node is left alone.
void compute_gelu_exactly(ggml_tensor * node);

// Takes that back: a graph that runs again is described as llama.cpp made it.
void forget_exact_gelu(ggml_tensor * node);

// The same function of x and, for a gated unit of two tensors, the linear part (else null), as operators that are exact and
// have rules. Each but the result is handed to `list` as it is made: eight at most.
ggml_tensor * gelu_of_exact_operators(ggml_context * ctx, ggml_op op, const int32_t * op_params, ggml_tensor * x,
                                      ggml_tensor * linear, const std::function<ggml_tensor *(ggml_tensor *)> & list);

} // namespace plumb
