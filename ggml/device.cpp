#include "device.h"

#include "trace.h"

#include <cstring>
#include <new>
#include <string>

namespace plumb {

device::device(ggml_backend_t b) : backend(b, ggml_backend_free) {
    scratch.reset(ggml_gallocr_new(ggml_backend_get_default_buffer_type(b)));
}

owned_tensor::owned_tensor(ggml_type type, const int64_t ne[GGML_MAX_DIMS], ggml_backend_buffer_type_t where)
    : context(ggml_init({ ggml_tensor_overhead(), nullptr, /*no_alloc =*/true }), ggml_free),
      buffer(nullptr, ggml_backend_buffer_free) {
    if (!context) {
        throw std::bad_alloc();
    }
    tensor = ggml_new_tensor(context.get(), type, GGML_MAX_DIMS, ne);
    buffer.reset(ggml_backend_alloc_ctx_tensors_from_buft(context.get(), where));
    if (!buffer) {
        throw std::bad_alloc();
    }
}

static ggml_backend_buffer_t buffer_of(const ggml_tensor * tensor) {
    return tensor->view_src ? tensor->view_src->buffer : tensor->buffer;
}

bool is_in_host_memory(const ggml_tensor * tensor) {
    const ggml_backend_buffer_t buffer = buffer_of(tensor);
    return buffer && ggml_backend_buffer_is_host(buffer);
}

bool device::reads(const ggml_tensor * tensor) const {
    return ggml_backend_supports_buft(backend.get(), ggml_backend_buffer_get_type(buffer_of(tensor)));
}

device & devices::open(ggml_backend_dev_t dev) {
    std::unique_ptr<device> & d = open_devices[dev];
    if (!d) {
        ggml_backend_t backend = ggml_backend_dev_init(dev, nullptr);
        if (!backend) {
            throw graph_error(std::string("the device ") + ggml_backend_dev_name(dev) + " cannot be opened");
        }
        if (ggml_backend_is_cpu(backend)) {
            ggml_backend_cpu_set_n_threads(backend, n_threads);
            ggml_backend_cpu_set_threadpool(backend, threads);
        }
        d = std::make_unique<device>(backend);
    }
    return *d;
}

device & devices::cpu() {
    ggml_backend_dev_t dev = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (!dev) {
        throw graph_error("ggml has no CPU device");
    }
    return open(dev);
}

device & devices::holding(const ggml_tensor * tensor) {
    ggml_backend_buffer_t buffer = buffer_of(tensor);
    if (!buffer) {
        throw graph_error(std::string(tensor->name) + ": has no memory");
    }
    ggml_backend_dev_t dev = ggml_backend_buft_get_device(ggml_backend_buffer_get_type(buffer));
    return ggml_backend_buffer_is_host(buffer) || !dev ? cpu() : open(dev);
}

workspace::workspace(device & where, size_t n_tensors) : on(where), ctx(nullptr, ggml_free), n_max(n_tensors) {
    const size_t bytes = n_tensors * ggml_tensor_overhead() + ggml_graph_overhead_custom(n_tensors, false);
    ctx.reset(ggml_init({ bytes, nullptr, /*no_alloc =*/true }));
    if (!ctx) {
        throw std::bad_alloc();
    }
    cgraph = ggml_new_graph_custom(ctx.get(), n_tensors, false);
}

void workspace::require(size_t n) const {
    if (ggml_used_mem(ctx.get()) + n * ggml_tensor_overhead() > ggml_get_mem_size(ctx.get())) {
        throw graph_error("a graph of more than " + std::to_string(n_max) + " tensors");
    }
}

ggml_tensor * workspace::input(ggml_type type, const int64_t ne[GGML_MAX_DIMS]) {
    require(1);
    ggml_tensor * t = ggml_new_tensor(ctx.get(), type, GGML_MAX_DIMS, ne);
    ggml_set_input(t);
    ggml_set_output(t); // its memory is used for nothing else: a graph may run again
    return t;
}

ggml_tensor * workspace::constant(ggml_type type, const int64_t ne[GGML_MAX_DIMS], std::vector<uint8_t> value) {
    ggml_tensor * t = input(type, ne);
    constant_of[t]  = constants.size();
    constants.push_back({ t, std::move(value) });
    return t;
}

const std::vector<uint8_t> * workspace::value_of(const ggml_tensor * tensor) const {
    auto it = constant_of.find(tensor);
    return it == constant_of.end() ? nullptr : &constants[it->second].value;
}

ggml_tensor * workspace::as_i32(ggml_tensor * indices) {
    if (indices->type == GGML_TYPE_I32) {
        return indices;
    }
    ggml_tensor *& twin = i32_of[indices];
    if (!twin) {
        const std::vector<uint8_t> * value = value_of(indices);
        if (!value || indices->type != GGML_TYPE_I64) {
            throw graph_error(std::string(indices->name) + ": row indices of type " + ggml_type_name(indices->type) +
                              " that the graph computes");
        }
        std::vector<uint8_t> narrow(value->size() / 2);
        for (size_t i = 0; i < narrow.size() / sizeof(int32_t); i++) {
            int64_t wide;
            memcpy(&wide, value->data() + i * sizeof wide, sizeof wide);
            const int32_t index = (int32_t) wide;
            memcpy(narrow.data() + i * sizeof index, &index, sizeof index);
        }
        twin = constant(GGML_TYPE_I32, indices->ne, std::move(narrow));
    }
    return twin;
}

void workspace::output(ggml_tensor * tensor) {
    ggml_set_output(tensor);
    compute(tensor);
}

void workspace::prepare() {
    for (ggml_tensor * t : wanted) {
        ggml_build_forward_expand(cgraph, t);
    }
    for (int i = 0; i < ggml_graph_n_nodes(cgraph); i++) {
        const ggml_tensor * t = ggml_graph_node(cgraph, i);
        if (!ggml_backend_supports_op(on.backend.get(), t)) {
            throw graph_error(std::string("the device ") + ggml_backend_name(on.backend.get()) + " has no operator " +
                              ggml_op_desc(t) + " for the node " + t->name);
        }
    }
    // Reserving plans anew: without it an allocator keeps the plan of another graph that happens to have as many nodes.
    if (!ggml_gallocr_reserve(on.scratch.get(), cgraph) || !ggml_gallocr_alloc_graph(on.scratch.get(), cgraph)) {
        throw std::bad_alloc();
    }
    for (const filled & c : constants) {
        if (c.tensor->buffer) { // not allocated: nothing reads it
            ggml_backend_tensor_set(c.tensor, c.value.data(), 0, c.value.size());
        }
    }
}

void workspace::run() {
    const ggml_status status = ggml_backend_graph_compute(on.backend.get(), cgraph);
    if (status != GGML_STATUS_SUCCESS) {
        throw graph_error(std::string("a graph failed: ") + ggml_status_to_string(status));
    }
}

} // namespace plumb
