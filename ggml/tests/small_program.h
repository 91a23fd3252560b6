// A small program that runs ggml graphs as llama.cpp does, through a scheduler: three blocks and a head over rows of 8
// numbers, with a cache that block 1 writes and block 2 reads too, and a value of block 0 that block 2 reads.

#pragma once

#include "ggml-backend.h"
#include "ggml.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace plumb {

class small_program {
  public:
    static constexpr int64_t width = 8, n_rows = 3, n_cells = 6, n_out = 20;

    enum kind {
        plain,
        recurrent,   // block 1 reads a state that it then replaces
        overwritten, // block 1 reads something after an operator in place has changed it
        ruleless,    // block 1 holds an operator that has no derivative
        ambiguous,   // block 1 reads what looks like a copy, from another device, of one of two nodes of a name
    };

    explicit small_program(kind k = plain);

    static std::vector<std::string> boundaries() { return { "out-0", "out-1", "out-2", "result" }; }

    using callback = std::function<bool(ggml_tensor *, bool)>;

    // Runs the graph under an evaluation callback; returns the result, [n_rows][n_out].
    std::vector<float> run(const callback & on_node);

    // Adds a vector to a row of the node's result while it runs.
    std::vector<float> run_nudged(const std::string & node, int64_t row, const std::vector<float> & by);

  private:
    using context_ptr = std::unique_ptr<ggml_context, void (*)(ggml_context *)>;
    using buffer_ptr  = std::unique_ptr<ggml_backend_buffer, void (*)(ggml_backend_buffer_t)>;

    ggml_tensor * weight(int64_t n, int64_t m);
    ggml_tensor * build(ggml_context * ctx, ggml_cgraph * graph);
    ggml_tensor * attention(ggml_context * ctx, ggml_tensor * query, ggml_tensor * cells);

    kind                                                                what;
    std::unique_ptr<ggml_backend, void (*)(ggml_backend_t)>             backend;
    std::unique_ptr<ggml_backend_sched, void (*)(ggml_backend_sched_t)> sched;
    context_ptr                                                         weights, states;
    buffer_ptr weight_buffer{ nullptr, ggml_backend_buffer_free }, state_buffer{ nullptr, ggml_backend_buffer_free };
    std::vector<ggml_tensor *> w;
    ggml_tensor *              cache = nullptr;
    ggml_tensor *              input = nullptr, *cells = nullptr, *other = nullptr; // of the graph that runs
    const callback *           running = nullptr;
};

} // namespace plumb
