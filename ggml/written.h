// Gradients through a cache: rows are written into memory that was there before (SET_ROWS), and a view shows all of it.
//
// Only the written rows' gradient is of use, a few of thousands, so it is not taken for the whole cache: a rule computes
// that part of the view's gradient in which rows were written, and add_written picks the rows out of it.

#pragma once

#include "differentiate.h"

#include <initializer_list>
#include <optional>
#include <vector>

namespace plumb {

struct written_rows {
    ggml_tensor *        rows;  // what was written, [n, count]
    int                  dim;   // the dimension of the view that is restricted, or -1…
    std::vector<int32_t> cells; // …to these places: where rows were written, ascending
    int to[GGML_MAX_DIMS];      // a permutation of the view's dimensions by which rows lie one after the other
    std::vector<int32_t> place; // of each row among those, in the restricted view
};

// For a view of a SET_ROWS' result: where in it the rows are. None if it is anything else, if what was there before needs a
// gradient too, or if the view does not show every row whole. Of the dimensions that the caller can restrict, it is the one
// of which rows take the smallest part.
std::optional<written_rows> find_written(const differentiation & d, const ggml_tensor * view,
                                         std::initializer_list<int> can_restrict);

// Adds the rows' gradient. g is the gradient with respect to the view, restricted to the cells in dimension dim, or whole.
void add_written(differentiation & d, const written_rows & w, ggml_tensor * g);

} // namespace plumb
