#include "attention.h"

#include "ggml-backend.h"

namespace plumb {

bool fused_attention_is_exact() {
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        const enum ggml_backend_dev_type type = ggml_backend_dev_type(ggml_backend_dev_get(i));
        if (type == GGML_BACKEND_DEVICE_TYPE_GPU || type == GGML_BACKEND_DEVICE_TYPE_IGPU) {
            return false;
        }
    }
    return true;
}

void keep_attention_in_f32(ggml_tensor * node) {
    if (node->op != GGML_OP_FLASH_ATTN_EXT) {
        return;
    }
    // keys and values have to be of one type, so both change or neither
    ggml_tensor * rounded[2] = { node->src[1], node->src[2] };
    for (const ggml_tensor * r : rounded) {
        if (r->op != GGML_OP_CPY || r->type != GGML_TYPE_F16 || r->src[0]->type != GGML_TYPE_F32 ||
            r->src[0]->nb[0] != sizeof(float) || !ggml_backend_buffer_is_host(r->buffer) ||
            !ggml_are_same_shape(r, r->src[0])) {
            return;
        }
    }
    node->src[1] = rounded[0]->src[0];
    node->src[2] = rounded[1]->src[0];
}

} // namespace plumb
