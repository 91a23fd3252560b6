#include "written.h"

#include "rules.h"

#include <algorithm>
#include <set>

namespace plumb {

namespace {

// A view's dimensions by rising stride, those of one element first.
void by_stride(const ggml_tensor * view, int by[GGML_MAX_DIMS]) {
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        by[i] = i;
    }
    auto stride = [&](int i) { return view->ne[i] == 1 ? 0 : view->nb[i]; };
    std::stable_sort(by, by + GGML_MAX_DIMS, [&](int i, int j) { return stride(i) < stride(j); });
}

std::vector<int64_t> row_indices(const ggml_tensor * indices, const std::vector<uint8_t> & value) {
    std::vector<int64_t> list(indices->ne[0]);
    for (size_t i = 0; i < list.size(); i++) {
        if (indices->type == GGML_TYPE_I64) {
            memcpy(&list[i], value.data() + i * sizeof(int64_t), sizeof(int64_t));
        } else {
            int32_t index;
            memcpy(&index, value.data() + i * sizeof index, sizeof index);
            list[i] = index;
        }
    }
    return list;
}

} // namespace

std::optional<written_rows> find_written(const differentiation & d, const ggml_tensor * view,
                                         std::initializer_list<int> can_restrict) {
    const ggml_tensor * base = base_of(const_cast<ggml_tensor *>(view));
    if (base == view || base->op != GGML_OP_SET_ROWS || !ggml_is_matrix(base) || !ggml_is_contiguous(base) ||
        !d.needs(base->src[0]) || d.needs(base->src[2]) || !ggml_is_matrix(base->src[0])) {
        return std::nullopt;
    }
    const ggml_tensor *          indices = base->src[1];
    const std::vector<uint8_t> * value   = d.graph.value_of(indices);
    if (!value || !ggml_is_vector(indices)) {
        return std::nullopt;
    }
    int by[GGML_MAX_DIMS];
    by_stride(view, by);

    // The lowest dimensions make up one row, neighbours throughout.
    const int64_t size = (int64_t) ggml_type_size(base->type), n = base->ne[0];
    int64_t       dense = 1;
    int           first = 0; // of the dimensions above a row
    for (; first < GGML_MAX_DIMS && (dense < n || view->ne[by[first]] == 1); first++) {
        if (view->ne[by[first]] > 1 && (int64_t) view->nb[by[first]] != dense * size) {
            return std::nullopt;
        }
        dense *= view->ne[by[first]];
    }
    if (dense != n || first == GGML_MAX_DIMS) {
        return std::nullopt;
    }
    // Where each row is, in the dimensions above.
    written_rows w;
    w.rows                                = base->src[0];
    const std::vector<int64_t>        at  = row_indices(indices, *value);
    const int64_t                     off = (int64_t) (view->view_offs - base->view_offs) / size;
    std::vector<std::vector<int64_t>> coordinate(GGML_MAX_DIMS, std::vector<int64_t>(at.size(), 0));
    for (size_t r = 0; r < at.size(); r++) {
        int64_t e = at[r] * n - off;
        for (int i = GGML_MAX_DIMS - 1; i >= first && e >= 0; i--) {
            const int64_t stride = (int64_t) view->nb[by[i]] / size;
            coordinate[by[i]][r] = e / stride;
            e                    = e % stride;
            if (coordinate[by[i]][r] >= view->ne[by[i]]) {
                return std::nullopt;
            }
        }
        if (e != 0) {
            return std::nullopt; // not shown, or shown in part
        }
    }
    w.dim           = -1;
    double smallest = 1;
    for (int i : can_restrict) {
        const std::set<int64_t> cells(coordinate[i].begin(), coordinate[i].end());
        const double            part  = (double) cells.size() / (double) view->ne[i];
        const bool              above = std::find(by + first, by + GGML_MAX_DIMS, i) != by + GGML_MAX_DIMS;
        if (above && part < smallest) {
            smallest = part;
            w.dim    = i;
            w.cells.assign(cells.begin(), cells.end());
        }
    }
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        w.to[by[i]] = i;
    }
    for (size_t r = 0; r < at.size(); r++) {
        int64_t place = 0;
        for (int i = GGML_MAX_DIMS - 1; i >= first; i--) {
            const bool restricted = by[i] == w.dim;
            int64_t    c          = coordinate[by[i]][r];
            if (restricted) {
                c = std::lower_bound(w.cells.begin(), w.cells.end(), (int32_t) c) - w.cells.begin();
            }
            place = place * (restricted ? (int64_t) w.cells.size() : view->ne[by[i]]) + c;
        }
        w.place.push_back((int32_t) place);
    }
    return w;
}

void add_written(differentiation & d, const written_rows & w, ggml_tensor * g) {
    const int64_t count[] = { (int64_t) w.place.size(), 1, 1, 1 };
    ggml_tensor * place =
        d.graph.constant(GGML_TYPE_I32, count,
                         { (const uint8_t *) w.place.data(), (const uint8_t *) (w.place.data() + w.place.size()) });
    const int64_t n      = w.rows->ne[0];
    const int64_t flat[] = { n, ggml_nelements(g) / n, 1, 1 };
    ggml_tensor * rows   = d.reshaped(ggml_permute(d.ctx, g, w.to[0], w.to[1], w.to[2], w.to[3]), flat);
    d.add(w.rows, ggml_get_rows(d.ctx, rows, place));
}

} // namespace plumb
