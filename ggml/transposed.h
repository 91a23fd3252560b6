// Transposed copies of weights, which a product's gradient is a product with.

#pragma once

#include "device.h"

#include <cstddef>
#include <memory>
#include <unordered_map>

namespace plumb {

// Contiguous F32 copies, [n, k, …] of a weight [k, n, …] of any type, on the weight's own device. Making one costs about
// as much as a product with a few dozen rows, so they are kept while they fit a budget, and shared by graphs.
class transposed_weights {
  public:
    // budget: bytes to keep, over all devices. n_threads: for copies on the host.
    transposed_weights(size_t budget, int32_t n_threads) : budget(budget), n_threads(n_threads) {}

    static bool is_weight(const ggml_tensor * t);

    // The copy; valid until the next release. Uses the device's scratch memory, so it is for graphs not yet prepared.
    // Throws graph_error if the weight cannot be read, std::bad_alloc if there is no memory.
    ggml_tensor * of(device & where, ggml_tensor * weight);

    // Frees what is over the budget.
    void release();

    size_t size() const { return kept_size; }

  private:
    void fill(device & where, ggml_tensor * weight, ggml_tensor * to);

    size_t                                                budget;
    int32_t                                               n_threads;
    size_t                                                kept_size = 0;
    std::unordered_map<const ggml_tensor *, owned_tensor> kept;
    std::unordered_map<const ggml_tensor *, owned_tensor> passing; // over the budget
};

} // namespace plumb
