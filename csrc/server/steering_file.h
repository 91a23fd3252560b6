// A steering file of Plumb's, as steer/file_gguf.go writes it.

#pragma once

#include "plumb.h"

#include <cstdint>
#include <string>
#include <vector>

struct llama_model;

namespace plumb {

struct steering_layer {
    int32_t            layer;
    double             weight; // factor of the strength; 1 where the vector holds it already
    std::vector<float> vector; // n_embd floats
};

struct steering_file {
    plumb_hook_op               op; // ADD or PROJECT_OUT
    double                      strength;
    std::string                 method;
    std::string                 architecture; // of the model it was fitted on; empty: unknown
    int32_t                     n_embd;
    int32_t                     n_layer; // 0: unknown
    std::vector<steering_layer> layers;  // ascending
};

// What a steering file is held against.
struct model_facts {
    std::string architecture;
    int32_t     n_embd;
    int32_t     n_layer;
};

model_facts facts_of(const llama_model * model);

// Throws failure: no such file, not a steering file, values that are not finite.
steering_file read_steering_file(const std::string & path);

// Throws failure if the file, named path, does not fit the model.
void check_fit(const steering_file & file, const std::string & path, const model_facts & model);

} // namespace plumb
