// Arithmetic on the rows of a tensor where its memory is, by small ggml graphs on a second backend of the same device.

#pragma once

#include "ggml-backend.h"
#include "ggml.h"

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace plumb {

class row_ops {
  public:
    row_ops();
    ~row_ops();

    // h[r] += strength[r] * v, for a 2-D float32 tensor of width v.size() and strength.size() rows.
    void add(ggml_tensor * h, const std::vector<float> & v, const std::vector<float> & strength);

    // h[r] -= strength[r] * <h[r], u> * u, with u of unit length.
    void project_out(ggml_tensor * h, const std::vector<float> & u, const std::vector<float> & strength);

  private:
    struct device;
    device & device_of(const ggml_tensor * h);
    void     run(ggml_tensor * h, const std::vector<float> & v, const std::vector<float> & strength, bool project);

    std::map<ggml_backend_dev_t, std::unique_ptr<device>> devices;
};

// Component i of the standard Gaussian vector that belongs to (seed, row): a function of these alone.
float gaussian(uint64_t seed, uint64_t row, uint64_t i);

} // namespace plumb
