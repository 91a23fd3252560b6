// What stands behind a plumb_hooks: a plan of operators on the residual stream, carried out from llama.cpp's evaluation
// callback.
//
// The scheduler asks for every node of a graph whether the callback wants it. For a wanted one it computes the graph up to
// it, waits, and calls again; what is written into the tensor then is what the next node reads.

#pragma once

#include "plumb.h"
#include "row_ops.h"

#include <optional>
#include <string>
#include <vector>

namespace plumb {

struct planned_hook {
    plumb_hook         hook;         // its pointers are not used, but for out
    std::vector<float> vector;       // ADD: as given. PROJECT_OUT: of unit length. RESTORE: a row each
    std::vector<int>   rows;         // empty: every row
    std::vector<float> row_strength; // one a named row; empty: 1
};

// The nodes that llama.cpp's graph of n_layer blocks is cut at: every block's output, and the logits.
std::vector<std::string> block_outputs(int32_t n_layer);

// Where the graph that is running stands in the batch.
struct graph_progress {
    int  n_graphs   = 0;
    int  first_row  = 0; // of the batch, in the graph that is running
    int  n_rows     = 0; // in the graph that is running
    bool layer_seen = false;
};

} // namespace plumb

struct plumb_hooks {
    std::string architecture;
    int32_t     n_layer = 0;
    int32_t     n_embd  = 0;

    std::vector<std::vector<plumb::planned_hook>> plan;  // by layer + 1
    std::vector<int>                              fired; // by layer + 1
    bool                                          has_plan  = false;
    bool                                          has_batch = false;
    std::vector<int8_t>                           logits; // of the batch's rows: whether asked for
    std::vector<int32_t>                          tokens; // of the batch's rows
    plumb::graph_progress                         progress;
    std::string                                   problem;    // the first thing that went wrong while decoding
    std::optional<int32_t>                        stop_after; // the layer that the graph may end after
    bool                                          stopped = false;
    plumb::row_ops                                ops;

    bool wants(int32_t layer) const { return !plan[layer + 1].empty(); }
    bool asked(const ggml_tensor * tensor);
    bool computed(ggml_tensor * tensor); // false: the graph may end here

    // Lets the graph of this plan's one decode end after the highest layer that is hooked: its logits are then not computed.
    void stop_after_plan();

    // Does what the plan says of a layer to its residual stream, wherever that is kept. Throws failure.
    void apply(ggml_tensor * tensor, int32_t layer);

  private:
    void             apply_one(ggml_tensor * tensor, const plumb::planned_hook & h, const std::vector<int> & batch_row);
    std::vector<int> batch_rows(const ggml_tensor * tensor) const;
    void             check_tokens(const ggml_tensor * leaf);
    bool             is_embedding(const ggml_tensor * tensor) const;

    const ggml_tensor * embedding = nullptr; // this graph's
};
