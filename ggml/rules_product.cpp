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

// mul_mat(a, b) with a sum over a whole vocabulary taken in parts. A log-probability's gradient is the small difference of
// two large terms there, and ggml's CPU adds floats one after the other: the parts keep an order of magnitude of it.
static ggml_tensor * long_product(differentiation & d, ggml_tensor * a, ggml_tensor * b) {
    constexpr int64_t part = 1024;
    const int64_t     n = a->ne[0], whole = n / part;
    const bool        one_matrix = a->ne[2] * a->ne[3] * b->ne[2] * b->ne[3] == 1;
    if (whole < 16 || !one_matrix || !ggml_backend_is_cpu(d.graph.where().backend.get())) {
        return ggml_mul_mat(d.ctx, a, b);
    }
    d.graph.require(16);
    auto parts_of = [&](ggml_tensor * t) {
        return ggml_view_3d(d.ctx, t, part, t->ne[1], whole, t->nb[1], part * sizeof(float), 0);
    };
    ggml_tensor * each  = ggml_mul_mat(d.ctx, parts_of(a), ggml_cont(d.ctx, parts_of(b)));
    const int64_t rows  = a->ne[1] * b->ne[1];
    ggml_tensor * table = ggml_cont(d.ctx, ggml_transpose(d.ctx, ggml_reshape_2d(d.ctx, each, rows, whole)));
    ggml_tensor * sum   = ggml_reshape_2d(d.ctx, ggml_sum_rows(d.ctx, table), a->ne[1], b->ne[1]);
    if (n % part == 0) {
        return sum;
    }
    auto rest_of = [&](ggml_tensor * t) {
        return ggml_view_2d(d.ctx, t, n % part, t->ne[1], t->nb[1], whole * part * sizeof(float));
    };
    return ggml_add(d.ctx, sum, ggml_mul_mat(d.ctx, rest_of(a), ggml_cont(d.ctx, rest_of(b))));
}

void rule_mul_mat(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    ggml_tensor *a = t->src[0], *b = t->src[1];
    g = d.contiguous(g);
    if (d.needs(b)) {
        d.add(b, long_product(d, d.transpose(a), g));
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
