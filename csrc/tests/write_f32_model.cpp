// write_f32_model IN.gguf OUT.gguf: a copy with every weight as F32, for comparisons with programs that compute in F32.

#include "ggml.h"
#include "gguf.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

static bool copy(const char * in, const char * out) {
    ggml_context *                                                tensors = nullptr;
    const gguf_init_params                                        params  = { /*no_alloc =*/false, /*ctx =*/&tensors };
    const std::unique_ptr<gguf_context, void (*)(gguf_context *)> from(gguf_init_from_file(in, params), gguf_free);
    const std::unique_ptr<ggml_context, void (*)(ggml_context *)> owner(tensors, ggml_free);
    if (!from) {
        return false;
    }
    const std::unique_ptr<gguf_context, void (*)(gguf_context *)> to(gguf_init_empty(), gguf_free);
    gguf_set_kv(to.get(), from.get());
    gguf_set_val_u32(to.get(), "general.file_type", 0); // all F32

    size_t size = 0;
    for (ggml_tensor * t = ggml_get_first_tensor(tensors); t; t = ggml_get_next_tensor(tensors, t)) {
        size += ggml_nelements(t) * sizeof(float) + ggml_tensor_overhead() + 64;
    }
    const std::unique_ptr<ggml_context, void (*)(ggml_context *)> copies(ggml_init({ size, nullptr, false }),
                                                                         ggml_free);
    for (int64_t i = 0; i < gguf_get_n_tensors(from.get()); i++) {
        const ggml_tensor * t = ggml_get_tensor(tensors, gguf_get_tensor_name(from.get(), i));
        ggml_tensor *       c = ggml_new_tensor(copies.get(), GGML_TYPE_F32, ggml_n_dims(t), t->ne);
        ggml_set_name(c, t->name);
        const auto to_float = ggml_get_type_traits(t->type)->to_float;
        if (t->type == GGML_TYPE_F32) {
            memcpy(c->data, t->data, ggml_nbytes(t));
        } else if (to_float) {
            to_float(t->data, (float *) c->data, ggml_nelements(t));
        } else {
            fprintf(stderr, "write_f32_model: %s has the type %s\n", t->name, ggml_type_name(t->type));
            return false;
        }
        gguf_add_tensor(to.get(), c);
    }
    return gguf_write_to_file(to.get(), out, false);
}

int main(int argc, char ** argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: write_f32_model IN.gguf OUT.gguf\n");
        return 2;
    }
    if (!copy(argv[1], argv[2])) {
        fprintf(stderr, "write_f32_model: %s cannot be copied to %s\n", argv[1], argv[2]);
        return 1;
    }
    return 0;
}
