// Matrix products. ggml's mul_mat(a, b) takes rows: result[i, j] = <row i of a, row j of b>, for each matrix of dimensions
// 2 and 3, where consecutive matrices of b may share one of a.

#include "rules.h"
#include "written.h"

namespace plumb {

// Rows of consecutive matrices that share one of a, laid under each other: as many matrices as a has.
static ggml_tensor * stacked(differentiation & d, ggml_tensor * t, ggml_tensor * b, const ggml_tensor * a) {
    if (b->ne[3] != a->ne[3] && a->ne[2] * a->ne[3] != 1) {
        d.fail(t, "a product whose fourth dimension is broadcast");
    }
    const int64_t ne[] = { b->ne[0], b->ne[1] * b->ne[2] * b->ne[3] / (a->ne[2] * a->ne[3]), a->ne[2], a->ne[3] };
    return d.reshaped(b, ne);
}

// The same rows of each matrix.
static ggml_tensor * picked_rows(differentiation & d, ggml_tensor * t, const std::vector<int32_t> & rows) {
    std::vector<uint8_t> indices;
    for (int64_t i = 0; i < t->ne[2] * t->ne[3]; i++) {
        indices.insert(indices.end(), (const uint8_t *) rows.data(), (const uint8_t *) (rows.data() + rows.size()));
    }
    const int64_t ne[] = { (int64_t) rows.size(), t->ne[2], t->ne[3], 1 };
    return ggml_get_rows(d.ctx, t, d.graph.constant(GGML_TYPE_I32, ne, std::move(indices)));
}

void rule_mul_mat(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    ggml_tensor *a = t->src[0], *b = t->src[1];
    g = d.contiguous(g);
    if (d.needs(b)) {
        d.add(b, ggml_mul_mat(d.ctx, d.transpose(a), g));
    }
    if (d.needs(a)) {
        ggml_tensor * columns_b = d.transpose(stacked(d, t, b, a));
        ggml_tensor * columns_g = d.transpose(stacked(d, t, g, a));
        if (const auto w = find_written(d, a, { 0, 1 })) {
            ggml_tensor *& restricted = w->dim == 0 ? columns_b : columns_g;
            restricted                = w->dim < 0 ? restricted : picked_rows(d, restricted, w->cells);
            add_written(d, *w, ggml_mul_mat(d.ctx, columns_b, columns_g));
        } else {
            d.add(a, ggml_mul_mat(d.ctx, columns_b, columns_g));
        }
    }
}

// For each token, the product with each of the experts it was routed to. The routing is held fixed.
void rule_mul_mat_id(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    ggml_tensor *experts = t->src[0], *b = t->src[1], *ids = t->src[2];
    if (d.needs(experts)) {
        d.fail(t, "experts that the graph computes");
    }
    if (d.needs(b)) {
        d.add(b, d.summed_to(ggml_mul_mat_id(d.ctx, d.transpose(experts), d.contiguous(g), ids), b));
    }
}

// Biases of the experts.
void rule_add_id(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    if (d.needs(t->src[1])) {
        d.fail(t, "biases that the graph computes");
    }
    d.add(t->src[0], g);
}

} // namespace plumb
