#include "logsumexp.h"

#include "ggml/vector_exp.h"

#include <cmath>
#include <limits>

namespace plumb {

double log_sum_exp(const float * x, size_t n) {
    float max = -std::numeric_limits<float>::infinity();
    bool  nan = false;
    for (size_t i = 0; i < n; i++) {
        max = x[i] > max ? x[i] : max;
        nan |= x[i] != x[i];
    }
    if (nan || !std::isfinite(max)) {
        return std::numeric_limits<double>::quiet_NaN();
    }
    // floats within a block, doubles across: the sum's error does not grow with the vocabulary
    double sum = 0;
    for (size_t start = 0; start < n; start += 1024) {
        const size_t end     = start + 1024 < n ? start + 1024 : n;
        float        lane[8] = {};
        size_t       i       = start;
        for (; i + 8 <= end; i += 8) {
            for (size_t j = 0; j < 8; j++) {
                lane[j] += exp_nonpositive(x[i + j] - max);
            }
        }
        for (; i < end; i++) {
            lane[0] += exp_nonpositive(x[i] - max);
        }
        for (float l : lane) {
            sum += l;
        }
    }
    return max + std::log(sum);
}

} // namespace plumb
