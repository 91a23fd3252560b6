// Recording a ggml graph while a scheduler runs it.
//
// The scheduler's evaluation callback is asked about every node, in the order of computation, before the node is computed.
// A trace keeps a copy of each node's description, and of the inputs' values while they still hold (the memory of an input
// is used again after its last reader). Afterwards the running program's graph may be gone: the trace is complete, but for
// weights and caches, to which it points.

#pragma once

#include "ggml-backend.h"
#include "ggml.h"

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace plumb {

// A graph that cannot be recorded, replayed or differentiated. The message is one line and names the node.
struct graph_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct traced {
    enum kind_t {
        node,   // computed by the graph
        input,  // a leaf that the program filled before the run: positions, masks, row indices. Its value is kept
        weight, // a leaf in a buffer of weights
        state,  // a leaf that outlives the graph and is not a weight: a key/value cache
    };

    kind_t      kind;
    int32_t     index = -1; // place in the graph, nodes only
    ggml_type   type;
    int64_t     ne[GGML_MAX_DIMS];
    size_t      nb[GGML_MAX_DIMS];
    ggml_op     op;
    int32_t     op_params[GGML_MAX_OP_PARAMS / sizeof(int32_t)];
    std::string name;

    std::array<const traced *, GGML_MAX_SRC> src{};
    const traced *                           view_src  = nullptr; // whose memory a view shares; never itself a view
    size_t                                   view_offs = 0;       // in that memory
    const traced *                           written =
        nullptr; // if that memory is a state: the node that last wrote to it before this one, if any
    bool                 stale    = false;   // reads memory that an operator has overwritten meanwhile, in place
    ggml_tensor *        original = nullptr; // weights and states: the tensor itself
    std::vector<uint8_t> value;              // inputs, boundaries, captured nodes

    bool is_view() const {
        return op == GGML_OP_VIEW || op == GGML_OP_RESHAPE || op == GGML_OP_PERMUTE || op == GGML_OP_TRANSPOSE;
    }
};

class trace {
  public:
    // The nodes that cut the graph into blocks, in graph order. Block b is what is computed after boundary b - 1, up to
    // boundary b itself; what comes after the last boundary belongs to no block.
    explicit trace(std::vector<std::string> boundaries);

    // Before the graph runs: forgets the last one. Kept are the values of what blocks from first_block on read: inputs, and
    // every boundary from first_block - 1 to the last but one; and those of the nodes that `capture` listed.
    void begin(int32_t first_block);

    // Has the value of this node kept in later recordings of the same graph.
    void capture(const traced & node) { captured.insert(node.index); }

    // The evaluation callback's body. Never throws: what goes wrong is told by finish.
    bool on_node(ggml_tensor * tensor, bool ask) noexcept;

    // While it runs: whether the node that is asked about comes after the last boundary but one.
    bool in_last_block() const { return n_cuts + 1 == (int32_t) names.size(); }

    // After the graph ran. Throws graph_error unless one graph ran and every boundary was in it exactly once, in order.
    void finish() const;

    size_t                              n_blocks() const { return names.size(); }
    const std::vector<const traced *> & nodes() const { return order; }
    const traced &                      boundary(int32_t b) const { return *cuts[b]; }

    // Block b's nodes are [begin, end) in nodes().
    int32_t block_begin(int32_t b) const { return b == 0 ? 0 : cuts[b - 1]->index + 1; }
    int32_t block_end(int32_t b) const { return cuts[b]->index + 1; }

    // The block in which a node is computed.
    int32_t block_of(const traced & node) const;

    // The node that wrote to a state last in the whole graph, or null.
    const traced * last_writer(const traced * state) const;

  private:
    traced * record_node(ggml_tensor * tensor);
    traced * record_leaf(ggml_tensor * tensor);
    traced * resolve_copy(const ggml_tensor * leaf);
    void     keep_value(traced & t, const ggml_tensor * tensor);

    std::vector<std::string>                           names;
    std::map<std::string, int32_t>                     boundary_of;
    std::set<int32_t>                                  captured; // node indices
    int32_t                                            first_block = 0;
    std::deque<traced>                                 storage; // addresses stay
    std::vector<const traced *>                        order;
    std::vector<const traced *>                        cuts; // one a boundary, null until it is seen
    int32_t                                            n_cuts = 0;
    std::unordered_map<const ggml_tensor *, traced *>  seen;
    std::unordered_map<const traced *, const traced *> writer; // memory -> the operator that wrote to it in place, last
    std::string                                        error;
};

// The tensor whose memory t shares: t itself unless it is a view.
inline const traced * memory_of(const traced * t) {
    return t->view_src ? t->view_src : t;
}

// What t is a view of: the first that is computed or a leaf.
inline const traced * computed_of(const traced * t) {
    while (t->is_view()) {
        t = t->src[0];
    }
    return t;
}

} // namespace plumb
