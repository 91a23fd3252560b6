// One block of a recorded graph again, as a graph of our own.
//
// A block (trace.h) is a function: from the boundary below it, its input, and from whatever else was computed below and is
// read in it (its frontier), to the boundary above. A replay is that function's clone on the device that holds the block's
// weights. Weights and caches are read where they are, other inputs as they were recorded. The rows of the recorded batch
// are written into the real cache again, as the program did it: with a changed input the cache changes.

#pragma once

#include "device.h"
#include "trace.h"

#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace plumb {

// What block b reads that was computed below its input: nodes whose values must have been captured, and writes to caches
// that layers share (their values are in the cache).
std::vector<const traced *> frontier(const trace & recorded, int32_t b);

class replay {
  public:
    // Clones all of block b. room_a_node: for how many tensors more, a node of the block, the graph has room; with any, to
    // be differentiated, it holds nothing but operators that have rules. Throws graph_error where the block cannot be
    // replayed.
    //
    // picks, if not null, holds a column for each row of the block's output, which is then [1, rows]: the picked elements
    // alone. That saves most of a language model's head. Where the output is not, in the end, a product with a weight,
    // it is whole all the same: see picked.
    replay(const trace & recorded, int32_t b, devices & all, size_t room_a_node = 0,
           const std::vector<int32_t> * picks = nullptr);

    workspace & graph() { return *work; }

    // Makes the graph ready to be run forwards alone, by the kernels that the recorded graph ran by: to the same bits.
    void prepare();

    // The block's input: fill it before each run, then the output is the boundary above.
    ggml_tensor * input() { return residual; }
    ggml_tensor * output() { return of(recorded.boundary(b)); }

    bool picked() const { return !narrow.empty(); }

    // The clone of a node of the block or its frontier; null for any other.
    ggml_tensor * of(const traced & t) const;

    // The clones of the block's nodes, in the order of computation.
    const std::vector<ggml_tensor *> & nodes() const { return order; }

  private:
    ggml_tensor * source(const traced * s);
    ggml_tensor * leaf(const traced * s);
    ggml_tensor * state_after(const traced * state, const traced * written);
    ggml_tensor * view_of_state(const traced & t);
    ggml_tensor * clone(const traced & t);
    ggml_tensor * clone_view(const traced & t);
    ggml_tensor * clone_operator(const traced & t);
    void          find_narrow(const std::vector<int32_t> & picks);
    ggml_tensor * clone_narrow(const traced & t);
    ggml_tensor * listed(ggml_tensor * c, const std::string & name);

    const trace &                                     recorded;
    int32_t                                           b;
    const bool                                        forwards_only;
    std::unique_ptr<workspace>                        work;
    ggml_tensor *                                     residual = nullptr;
    std::unordered_map<const traced *, ggml_tensor *> clones;
    std::vector<ggml_tensor *>                        order;
    std::unordered_set<const traced *>                narrow;            // from the head's product on
    ggml_tensor *                                     columns = nullptr; // the picks
};

} // namespace plumb
