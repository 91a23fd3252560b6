// llama.cpp's fused attention, without the rounding of keys and values to F16 that it puts before it.

#pragma once

#include "ggml.h"

namespace plumb {

// Whether fused attention can be kept in F32: where every layer is computed on the CPU, whose kernel takes F32 keys and
// values as they are. Other devices' kernels need the rounded ones.
bool fused_attention_is_exact();

// For the callback of a graph that is about to run: lets a fused attention on the CPU read an F32 cache itself instead of a
// copy of it in F16. Any other node is left alone.
void keep_attention_in_f32(ggml_tensor * node);

} // namespace plumb
