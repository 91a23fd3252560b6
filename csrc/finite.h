#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace plumb {

inline bool all_finite(const float * v, size_t n) {
    return std::all_of(v, v + n, [](float x) { return std::isfinite(x); });
}

} // namespace plumb
