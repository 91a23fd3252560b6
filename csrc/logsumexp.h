// The normaliser of a row of logits.

#pragma once

#include <cstddef>

namespace plumb {

// log(sum(exp(x))). NaN if the row holds a NaN or nothing but minus infinity; relative error of the sum below 1e-6.
double log_sum_exp(const float * x, size_t n);

} // namespace plumb
