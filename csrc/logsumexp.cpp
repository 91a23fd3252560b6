#include "logsumexp.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace plumb {

namespace {

// exp for x <= 0, written so that a compiler turns the loop around it into vector instructions: 2^k times a polynomial of
// degree 6 on [-ln 2 / 2, ln 2 / 2] (Taylor's: error below 2e-7 there). Below -87 it is 0: such terms vanish in the sum.
inline float exp_nonpositive(float x) {
    const float clamped = x < -87.0f ? -87.0f : x;
    const float k       = (clamped * 1.44269504f + 12582912.0f) - 12582912.0f; // nearest integer, by 1.5 * 2^23
    const float r       = (clamped - k * 0.693359375f) + k * 2.12194440e-4f;   // ln 2 in two parts (Cody and Waite)
    const float p =
        1.0f +
        r * (1.0f + r * (0.5f + r * (0.16666667f + r * (0.041666668f + r * (0.0083333338f + r * 0.0013888889f)))));
    const int32_t bits = ((int32_t) k + 127) << 23;
    float         scale;
    memcpy(&scale, &bits, sizeof scale);
    return x < -87.0f ? 0.0f : p * scale;
}

} // namespace

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
