// The test of one rule: the gradient of a weighted sum of an operator's result, against central differences of that sum.

#pragma once

#include "ggml/device.h"
#include "ggml/differentiate.h"
#include "ggml/transposed.h"

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace plumb {

// A small graph under construction: variables and constants hold seeded uniform values between low and high.
struct problem {
    workspace &                     work;
    ggml_context *                  ctx;
    std::vector<ggml_tensor *>      variables;
    std::vector<std::vector<float>> values; // of the variables
    std::mt19937                    random{ 1 };

    explicit problem(workspace & work) : work(work), ctx(work.context()) {}

    std::vector<float> draw(int64_t n, float low, float high);
    ggml_tensor *      variable(std::vector<int64_t> ne, float low = -1.5f, float high = 1.5f);
    ggml_tensor *      constant(std::vector<int64_t> ne, float low = -1.5f, float high = 1.5f);

    template <typename T> ggml_tensor * filled(ggml_type type, std::vector<int64_t> ne, const std::vector<T> & v) {
        ne.resize(GGML_MAX_DIMS, 1);
        return work.constant(type, ne.data(), { (const uint8_t *) v.data(), (const uint8_t *) (v.data() + v.size()) });
    }

    // Moves the first variable's values away from a point where the operator has a corner.
    void avoid(float point, float distance);
};

class rule_check {
  public:
    explicit rule_check(device & where) : where(where), copies(1 << 20, 1) {}

    // Differences with that step, four points a component; a tolerance relative to the largest component of a variable's
    // gradient. Returns what is wrong, or an empty string.
    std::string operator()(const std::function<ggml_tensor *(problem &)> & build, float step = 2e-2f,
                           double tolerance = 1e-3);

    // A tensor of any type in a buffer of weights on the device.
    ggml_tensor * weight(problem & p, ggml_type type, std::vector<int64_t> ne);

    transposed_weights & transposed() { return copies; }

  private:
    using context_ptr = std::unique_ptr<ggml_context, void (*)(ggml_context *)>;
    using buffer_ptr  = std::unique_ptr<ggml_backend_buffer, void (*)(ggml_backend_buffer_t)>;

    device &                 where;
    transposed_weights       copies;
    std::vector<context_ptr> contexts;
    std::vector<buffer_ptr>  buffers;
};

// The values of a contiguous F32 tensor, wherever it is.
std::vector<float> values_of(const ggml_tensor * t);

} // namespace plumb
