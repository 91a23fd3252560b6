#include "float_weights.h"

#include "transposed.h"

#include <new>

namespace plumb {

namespace {

bool is_rounding_weight(const ggml_tensor * t) {
    return t->op == GGML_OP_NONE && t->type != GGML_TYPE_F32 && ggml_get_type_traits(t->type)->to_float &&
           transposed_weights::is_weight(t) && is_in_host_memory(t) && ggml_is_contiguous(t);
}

bool is_product(const ggml_tensor * t) {
    return t->op == GGML_OP_MUL_MAT || t->op == GGML_OP_MUL_MAT_ID;
}

} // namespace

void float_weights::use_in(ggml_tensor * node) noexcept {
    if (!is_product(node) || !is_rounding_weight(node->src[0]) || !is_in_host_memory(node)) {
        return;
    }
    try {
        node->src[0] = of(node->src[0]);
    } catch (const std::bad_alloc &) {
        out_of_memory = true;
    }
}

void float_weights::forget_in(ggml_tensor * node) {
    // no other leaf has a source
    if (is_product(node) && node->src[0]->op == GGML_OP_NONE && node->src[0]->src[0]) {
        node->src[0] = node->src[0]->src[0];
    }
}

void float_weights::check() const {
    if (out_of_memory) {
        throw std::bad_alloc();
    }
}

ggml_tensor * float_weights::of(ggml_tensor * weight) {
    const std::lock_guard<std::mutex> lock(mutex);
    auto                              it = copies.find(weight);
    if (it != copies.end()) {
        return it->second.tensor;
    }
    owned_tensor  copy(GGML_TYPE_F32, weight->ne, ggml_backend_cpu_buffer_type());
    ggml_tensor * t = copy.tensor;
    ggml_backend_buffer_set_usage(copy.buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_set_name(t, weight->name);
    t->src[0] = weight;
    ggml_get_type_traits(weight->type)->to_float(weight->data, (float *) t->data, ggml_nelements(weight));
    copies.emplace(weight, std::move(copy));
    return t;
}

} // namespace plumb
