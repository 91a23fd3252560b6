// Reverse-mode differentiation of a ggml graph, in ggml's own operators.
//
// There is one rule an operator (rules.h): it extends the graph by the gradients with respect to the operator's sources,
// given the one with respect to its result. Integer results, and choices such as the experts that a router picks, are held
// fixed. Gradients are F32. Nothing is computed here: the extended graph is.

#pragma once

#include "device.h"
#include "transposed.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace plumb {

// The most tensors that one rule adds to a graph.
constexpr size_t max_tensors_a_rule = 40;

class differentiation {
  public:
    differentiation(workspace & graph, transposed_weights & weights)
        : graph(graph), ctx(graph.context()), weights(weights) {}

    // Before run: a tensor with respect to which gradients are wanted, and the gradient (F32, of t's shape) with respect to
    // a tensor that the loss reads.
    void variable(ggml_tensor * t) { needed[t] = true; }
    void seed(ggml_tensor * t, ggml_tensor * gradient) { gradients[t] = gradient; }

    // Adds the backward pass. nodes: the graph's, in the order of computation, up to the last that was seeded.
    // Throws graph_error, with operator and node, where an operator on the way has no rule.
    void run(const std::vector<ggml_tensor *> & nodes);

    // After run: the gradient with respect to t, of t's shape, perhaps not contiguous; null where the loss does not depend
    // on t.
    ggml_tensor * gradient(const ggml_tensor * t) const;

    // What rules use.

    // Whether a gradient with respect to t is wanted on the way to a variable.
    bool needs(const ggml_tensor * t) const;

    // Adds to the gradient with respect to t, which has t's shape.
    void add(ggml_tensor * t, ggml_tensor * gradient);

    // Adds to the gradient with respect to that part of contiguous t's memory which view (of t, directly or not) shows.
    void add_to_window(ggml_tensor * t, const ggml_tensor * view, ggml_tensor * gradient);

    ggml_tensor * contiguous(ggml_tensor * t) { return ggml_is_contiguous(t) ? t : ggml_cont(ctx, t); }
    ggml_tensor * zeros(const int64_t ne[GGML_MAX_DIMS]);
    ggml_tensor * reshaped(ggml_tensor * t, const int64_t ne[GGML_MAX_DIMS]);

    // Sums what broadcasting had repeated: to the shape of `like`.
    ggml_tensor * summed_to(ggml_tensor * t, const ggml_tensor * like);

    // The contiguous F32 transpose, in the first two dimensions, of anything that is not needed itself.
    ggml_tensor * transpose(ggml_tensor * t);

    [[noreturn]] static void fail(const ggml_tensor * t, const std::string & why);

    workspace &    graph;
    ggml_context * ctx;

  private:
    bool depends(const ggml_tensor * t) const;

    transposed_weights &                                   weights;
    std::unordered_map<const ggml_tensor *, bool>          needed;
    std::unordered_map<const ggml_tensor *, ggml_tensor *> gradients;
};

} // namespace plumb
