// What stands behind a plumb_model.

#pragma once

#include "plumb.h"

#include "ggml/float_weights.h"

#include "ggml-backend.h"
#include "ggml.h"
#include "llama.h"

#include <memory>
#include <string>

struct plumb_model {
    llama_model *       llama      = nullptr;
    const llama_vocab * vocab      = nullptr;
    bool                owns_llama = true;
    int32_t             n_threads  = 1;
    std::string         architecture;
    std::string         devices = "unknown"; // where its blocks are kept, for a person; a caller's own are not known

    // of a small model: its weights as floats; else null
    std::unique_ptr<plumb::float_weights> floats;

    ~plumb_model();
};

namespace plumb {

// A context, or a failure that says why there is none; `purpose` ends "a context of 4096 tokens".
llama_context * new_context(llama_model * model, const llama_context_params & params, const char * purpose = "");

} // namespace plumb
