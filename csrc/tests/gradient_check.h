// Whether replay and gradients are right on a model: replayed logits against llama.cpp's own, gradients against central
// differences through a hook on the residual stream.

#pragma once

#include "llama.h"

#include <cstdint>
#include <string>

namespace plumb {

struct gradient_verdict {
    enum { right, refused, wrong } verdict = wrong;
    std::string reason;        // why refused, or what is wrong
    double      logits    = 0; // largest difference of a replayed logit, over the largest logit
    double      at_answer = 0; // relative errors of slopes along the gradient and along a random direction, the
    double      at_all    = 0; // larger one: at the last prompt token, and summed over all positions
    double      shared = 0; // largest relative error of a gradient when sequences share a batch; infinite: they cannot
};

constexpr double logits_tolerance   = 1e-5;
constexpr double gradient_tolerance = 1e-2;
constexpr double shared_tolerance   = 1e-4;

// A random prompt and two continuations, raw logits; layers 0, the middle one and the last.
gradient_verdict check_gradients(llama_model * model, uint32_t seed);

} // namespace plumb
