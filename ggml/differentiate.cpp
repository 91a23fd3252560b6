#include "differentiate.h"

#include "rules.h"
#include "trace.h"

#include <algorithm>

namespace plumb {

void differentiation::fail(const ggml_tensor * t, const std::string & why) {
    throw graph_error(std::string("no gradient for the operator ") + ggml_op_desc(t) + " at the node " + t->name +
                      ": " + why);
}

bool differentiation::needs(const ggml_tensor * t) const {
    auto it = t ? needed.find(t) : needed.end();
    return it != needed.end() && it->second;
}

bool differentiation::depends(const ggml_tensor * t) const {
    return !is_piecewise_constant(t) &&
           std::any_of(t->src, t->src + GGML_MAX_SRC, [&](const ggml_tensor * s) { return s != t && needs(s); });
}

void differentiation::run(const std::vector<ggml_tensor *> & nodes) {
    for (ggml_tensor * t : nodes) {
        if (!needs(t)) {
            needed[t] = depends(t);
        }
    }
    for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
        ggml_tensor * t = *it;
        ggml_tensor * g = gradient(t);
        if (!g || !depends(t)) {
            continue;
        }
        const rule apply = rule_of(t);
        if (!apply) {
            fail(t, "it has no rule");
        }
        graph.require(max_tensors_a_rule);
        apply(*this, t, g);
    }
}

ggml_tensor * differentiation::gradient(const ggml_tensor * t) const {
    auto it = gradients.find(t);
    return it == gradients.end() ? nullptr : it->second;
}

void differentiation::add(ggml_tensor * t, ggml_tensor * gradient) {
    if (!needs(t)) {
        return;
    }
    if (!ggml_are_same_shape(t, gradient)) {
        fail(t, "a gradient of another shape");
    }
    ggml_tensor *& sum = gradients[t];
    sum                = sum ? ggml_add(ctx, sum, gradient) : gradient;
}

void differentiation::add_to_window(ggml_tensor * t, const ggml_tensor * view, ggml_tensor * gradient) {
    if (!needs(t)) {
        return;
    }
    // ggml_acc walks a window in the order of its dimensions (CUDA's relies on rising strides), in floats, from neighbours
    // in dimension 0. Dimensions of one element have no stride that matters: they go first.
    const size_t size              = ggml_type_size(t->type);
    int          by[GGML_MAX_DIMS] = { 0, 1, 2, 3 };
    auto         stride_of         = [&](int i) { return view->ne[i] == 1 ? 0 : view->nb[i]; };
    std::stable_sort(by, by + GGML_MAX_DIMS, [&](int i, int j) { return stride_of(i) < stride_of(j); });
    int * smallest = std::find_if(by, by + GGML_MAX_DIMS, [&](int i) { return view->ne[i] > 1; });
    if (smallest != by + GGML_MAX_DIMS && view->nb[*smallest] == size) {
        std::rotate(by, smallest, smallest + 1);
    } else if (smallest == by) {
        fail(view, "a view without neighbouring elements");
    }
    int    to[GGML_MAX_DIMS];
    size_t stride[GGML_MAX_DIMS];
    size_t reach = sizeof(float);
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        to[by[i]] = i;
        stride[i] = view->ne[by[i]] == 1 ? reach : view->nb[by[i]] / size * sizeof(float);
        if (stride[i] < reach) {
            fail(view, "a view whose rows overlap");
        }
        reach = stride[i] * view->ne[by[i]];
    }
    const size_t offset = (view->view_offs - t->view_offs) / size * sizeof(float);
    if (offset + reach > (size_t) INT32_MAX) { // ggml_acc keeps these in 32 bits
        fail(view, "a window beyond 2 GiB");
    }
    ggml_tensor *& sum  = gradients[t];
    ggml_tensor *  onto = sum ? contiguous(sum) : zeros(t->ne);
    ggml_tensor *  part = contiguous(ggml_permute(ctx, gradient, to[0], to[1], to[2], to[3]));
    sum                 = ggml_acc(ctx, onto, part, stride[1], stride[2], stride[3], offset);
}

ggml_tensor * differentiation::zeros(const int64_t ne[GGML_MAX_DIMS]) {
    return ggml_fill(ctx, ggml_new_tensor(ctx, GGML_TYPE_F32, GGML_MAX_DIMS, ne), 0.0f);
}

ggml_tensor * differentiation::reshaped(ggml_tensor * t, const int64_t ne[GGML_MAX_DIMS]) {
    return ggml_reshape_4d(ctx, contiguous(t), ne[0], ne[1], ne[2], ne[3]);
}

ggml_tensor * differentiation::summed_to(ggml_tensor * t, const ggml_tensor * like) {
    return ggml_are_same_shape(t, like) ? t : ggml_repeat_back(ctx, contiguous(t), const_cast<ggml_tensor *>(like));
}

ggml_tensor * differentiation::transpose(ggml_tensor * t) {
    if (t->op == GGML_OP_NONE && transposed_weights::is_weight(t)) {
        return weights.of(graph.where(), t);
    }
    if (t->type == GGML_TYPE_F32) {
        return ggml_cont(ctx, ggml_transpose(ctx, t));
    }
    if (t->type != GGML_TYPE_F16 && t->type != GGML_TYPE_BF16) {
        fail(t, std::string("a computed matrix of type ") + ggml_type_name(t->type));
    }
    return ggml_cast(ctx, ggml_transpose(ctx, t), GGML_TYPE_F32);
}

} // namespace plumb
