// exp in float32, for loops that a compiler should turn into vector instructions.

#pragma once

#include <cstdint>
#include <cstring>

namespace plumb {

// exp for x <= 0: 2^k times a polynomial of degree 6 on [-ln 2 / 2, ln 2 / 2] (Taylor's: error below 2e-7 there). Below -87,
// and for a NaN, it is 0.
inline float exp_nonpositive(float x) {
    const float clamped = x > -87.0f ? x : -87.0f;
    const float k       = (clamped * 1.44269504f + 12582912.0f) - 12582912.0f; // nearest integer, by 1.5 * 2^23
    const float r       = (clamped - k * 0.693359375f) + k * 2.12194440e-4f;   // ln 2 in two parts (Cody and Waite)
    const float p =
        1.0f +
        r * (1.0f + r * (0.5f + r * (0.16666667f + r * (0.041666668f + r * (0.0083333338f + r * 0.0013888889f)))));
    const int32_t bits = ((int32_t) k + 127) << 23;
    float         scale;
    memcpy(&scale, &bits, sizeof scale);
    return x > -87.0f ? p * scale : 0.0f;
}

} // namespace plumb
