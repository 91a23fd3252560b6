// Gradients through a recorded graph, block by block from the top down.
//
// Each block is cloned, run forwards from its recorded input, and differentiated, given the gradient with respect to what
// it computes; then it is freed. So the gradient with respect to every boundary costs one pass and the memory of one block,
// and no graph spans devices.

#pragma once

#include "device.h"
#include "trace.h"
#include "transposed.h"

#include <functional>
#include <vector>

namespace plumb {

// A loss on the last boundary's rows [columns, rows], a language model's logits: the sum over rows of
// weight * element[column], or of weight * log-softmax(row)[column].
struct output_loss {
    std::vector<int32_t> columns; // one a row
    std::vector<float>   weights;
    bool                 log_softmax = false;
};

// Gets boundary b's gradient: boundary(b).ne[0] * ne[1] floats, row by row. Called from the top down.
using gradient_sink = std::function<void(int32_t b, const std::vector<float> & gradient)>;

// What must be captured, in another recording of the same graph, before `backward` can go down to the boundary `lowest`;
// mostly nothing.
std::vector<const traced *> missing_values(const trace & recorded, int32_t lowest);

// Gradients with respect to the boundaries from the last but one down to `lowest`.
// Throws graph_error where the graph cannot be replayed or differentiated.
void backward(const trace & recorded, const output_loss & loss, int32_t lowest, devices & all,
              transposed_weights & weights, const gradient_sink & sink);

} // namespace plumb
