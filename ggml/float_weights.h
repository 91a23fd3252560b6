// Weights of other types as floats, on the CPU.
//
// Before ggml multiplies by a quantised weight it rounds the other factor, mostly to eight bits, and how it does that depends
// on how many columns the product has: a score then depends on what else is in its batch. A product of floats rounds nothing,
// and takes about as long for many rows; of the types for which ggml has no kernel that multiplies several rows at a time, half
// as long. For a single column, which takes as long as the weight takes to read, the quantised product is faster.

#pragma once

#include "device.h"

#include <atomic>
#include <mutex>
#include <unordered_map>

namespace plumb {

// F32 copies of a model's weights, each made when it is first needed. May be used by several threads. To be freed before the
// model and after every context on it.
class float_weights {
  public:
    // For the callback of a graph that is about to run: has the node, if it is a product with a weight of another type in host
    // memory, read the copy, which to whoever looks at the node after that is a weight as others are. Any other node is left
    // alone.
    void use_in(ggml_tensor * node) noexcept;

    // Takes that back, in a graph that runs again.
    static void forget_in(ggml_tensor * node);

    // After the graph ran. Throws std::bad_alloc if there was no memory for a copy.
    void check() const;

  private:
    ggml_tensor * of(ggml_tensor * weight);

    std::mutex                                            mutex;
    std::unordered_map<const ggml_tensor *, owned_tensor> copies;
    std::atomic<bool>                                     out_of_memory{ false };
};

} // namespace plumb
