// Operators that move elements and do not change them.

#include "rules.h"
#include "written.h"

#include <algorithm>

namespace plumb {

// Copies, also into another shape or type. The gradient is F32 throughout.
void rule_copy(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    ggml_tensor * a = t->src[0];
    d.add(a, ggml_are_same_shape(a, g) ? g : d.reshaped(g, a->ne));
}

// A view is a window on the memory of its base. That is contiguous; views between need not be.
void rule_view(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    ggml_tensor * base = base_of(t);
    if (!ggml_is_contiguous(base)) {
        d.fail(t, "a view of scattered memory");
    }
    if (const auto w = find_written(d, t, {})) {
        add_written(d, *w, g);
    } else {
        d.add_to_window(base, t, g);
    }
}

void rule_permute(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    int back[GGML_MAX_DIMS];
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        back[t->op_params[i]] = i;
    }
    d.add(t->src[0], ggml_permute(d.ctx, g, back[0], back[1], back[2], back[3]));
}

void rule_transpose(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    d.add(t->src[0], ggml_transpose(d.ctx, g));
}

void rule_repeat(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    d.add(t->src[0], d.summed_to(g, t->src[0]));
}

// The part of g of the given shape that starts at an offset.
static ggml_tensor * part(differentiation & d, ggml_tensor * g, const int64_t ne[GGML_MAX_DIMS], size_t offset) {
    return ggml_view_4d(d.ctx, g, ne[0], ne[1], ne[2], ne[3], g->nb[1], g->nb[2], g->nb[3], offset);
}

void rule_concat(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    const int    dim = t->op_params[0];
    ggml_tensor *a = t->src[0], *b = t->src[1];
    g = d.contiguous(g);
    d.add(a, part(d, g, a->ne, 0));
    d.add(b, part(d, g, b->ne, a->ne[dim] * g->nb[dim]));
}

void rule_pad(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    if (t->op_params[8] != 0) {
        d.fail(t, "circular padding");
    }
    g             = d.contiguous(g);
    size_t offset = 0;
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        offset += (size_t) t->op_params[2 * i] * g->nb[i];
    }
    d.add(t->src[0], part(d, g, t->src[0]->ne, offset));
}

// Whether no row is read twice: then reading goes back by writing.
static bool rows_differ(differentiation & d, ggml_tensor * indices) {
    const std::vector<uint8_t> * value = d.graph.value_of(indices);
    if (!value) {
        const ggml_tensor * order = base_of(indices);
        return order->op == GGML_OP_ARGSORT || order->op == GGML_OP_TOP_K;
    }
    std::vector<int32_t> list(indices->ne[0]);
    const size_t         bytes = list.size() * sizeof(int32_t);
    for (int64_t i = 0; i < ggml_nrows(indices); i++) {
        memcpy(list.data(), value->data() + i * bytes, bytes);
        std::sort(list.begin(), list.end());
        if (std::adjacent_find(list.begin(), list.end()) != list.end()) {
            return false;
        }
    }
    return true;
}

void rule_get_rows(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    ggml_tensor *a = t->src[0], *indices = t->src[1];
    g = d.contiguous(g);
    if (rows_differ(d, indices)) {
        d.add(a, ggml_set_rows(d.ctx, d.zeros(a->ne), g, indices));
    } else if (ggml_is_matrix(a) && ggml_is_vector(indices)) {
        d.add(a, ggml_get_rows_back(d.ctx, g, indices, a));
    } else {
        d.fail(t, "rows that are read more than once");
    }
}

// Rows of src[2] are replaced by those of src[0]; the rest is kept.
void rule_set_rows(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    ggml_tensor *rows = t->src[0], *indices = t->src[1], *into = t->src[2];
    g = d.contiguous(g);
    if (d.needs(rows)) {
        if (indices->ne[1] != g->ne[2] || indices->ne[2] != g->ne[3]) {
            d.fail(t, "indices that several matrices share");
        }
        d.add(rows, ggml_get_rows(d.ctx, g, d.graph.as_i32(indices)));
    }
    if (d.needs(into)) {
        ggml_tensor * kept = ggml_cont(d.ctx, g); // of its own: set_rows writes into it
        d.add(into, ggml_set_rows(d.ctx, kept, d.zeros(rows->ne), indices));
    }
}

} // namespace plumb
