#include "logsumexp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

// The reference: the definition, in long double.
static double reference(const std::vector<float> & x) {
    long double max = -INFINITY, sum = 0;
    for (float v : x) {
        max = std::max<long double>(max, v);
    }
    for (float v : x) {
        sum += std::exp((long double) v - max);
    }
    return (double) (max + std::log(sum));
}

TEST(log_sum_exp, equals_its_definition) {
    std::mt19937                    random(1);
    std::normal_distribution<float> normal;
    for (size_t n : { 1, 7, 8, 9, 1023, 1024, 1025, 49152, 262144 }) {
        for (float spread : { 0.0f, 1.0f, 10.0f, 60.0f }) {
            std::vector<float> x(n);
            for (float & v : x) {
                v = normal(random) * spread + 3.0f;
            }
            EXPECT_NEAR(plumb::log_sum_exp(x.data(), n), reference(x), 1e-6) << n << " values, spread " << spread;
        }
    }
}

TEST(log_sum_exp, does_not_overflow) {
    const std::vector<float> x = { 3e38f, 3e38f, -3e38f };
    EXPECT_NEAR(plumb::log_sum_exp(x.data(), x.size()), reference(x), 1e31);
    const std::vector<float> masked = { 2.0f, -std::numeric_limits<float>::infinity() };
    EXPECT_NEAR(plumb::log_sum_exp(masked.data(), 2), 2.0, 1e-12);
}

TEST(log_sum_exp, says_when_there_is_no_answer) {
    const float inf = std::numeric_limits<float>::infinity();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (const std::vector<float> & x : { std::vector<float>{ 1.0f, nan, 2.0f }, std::vector<float>{ nan },
                                          std::vector<float>{ 0.0f, inf }, std::vector<float>{ -inf, -inf } }) {
        EXPECT_TRUE(std::isnan(plumb::log_sum_exp(x.data(), x.size())));
    }
}
