#include "row_ops.h"

#include "error.h"

#include "ggml-alloc.h"
#include "ggml-cpu.h"

#include <cmath>

namespace plumb {

struct row_ops::device {
    ggml_backend_t backend = nullptr;
    ggml_gallocr_t alloc   = nullptr;

    explicit device(ggml_backend_dev_t dev) : backend(ggml_backend_dev_init(dev, nullptr)) {
        if (!backend) {
            fail(PLUMB_ERROR, "the device %s cannot be opened a second time", ggml_backend_dev_name(dev));
        }
        if (ggml_backend_is_cpu(backend)) {
            ggml_backend_cpu_set_n_threads(backend, 1); // starting threads takes longer than a few rows do
        }
        alloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    }

    ~device() {
        ggml_gallocr_free(alloc);
        ggml_backend_free(backend);
    }
};

row_ops::row_ops()  = default;
row_ops::~row_ops() = default;

row_ops::device & row_ops::device_of(const ggml_tensor * h) {
    // host memory is the CPU's, whichever device it was allocated through (CUDA keeps the embeddings in a pinned buffer)
    ggml_backend_dev_t dev = ggml_backend_buffer_is_host(h->buffer)
                                 ? ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU)
                                 : ggml_backend_buft_get_device(ggml_backend_buffer_get_type(h->buffer));
    if (!dev) {
        fail(PLUMB_UNSUPPORTED, "the memory of %s belongs to no device", h->name);
    }
    std::unique_ptr<device> & found = devices[dev];
    if (!found) {
        found = std::make_unique<device>(dev);
    }
    return *found;
}

void row_ops::run(ggml_tensor * tensor, const std::vector<float> & v, const std::vector<float> & strength,
                  bool project) {
    device &      dev    = device_of(tensor);
    const int64_t width  = (int64_t) v.size();
    const int64_t n_rows = (int64_t) strength.size();

    ggml_init_params params = { ggml_tensor_overhead() * 16 + ggml_graph_overhead_custom(16, false), nullptr, true };
    std::unique_ptr<ggml_context, void (*)(ggml_context *)> owner(ggml_init(params), ggml_free);
    ggml_context *                                          ctx = owner.get();

    // a fresh tensor on the same memory: a view of the node itself would pull the whole model into this graph
    ggml_tensor * h = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, width, n_rows);
    h->nb[1]        = tensor->nb[1];
    if (ggml_backend_tensor_alloc(tensor->buffer, h, tensor->data) != GGML_STATUS_SUCCESS) {
        fail(PLUMB_ERROR, "%s cannot be addressed on its device", tensor->name);
    }
    ggml_tensor * vec = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, width, 1);
    ggml_tensor * s   = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 1, n_rows);
    ggml_set_input(vec);
    ggml_set_input(s);

    ggml_tensor * factor = project ? ggml_mul(ctx, ggml_mul_mat(ctx, vec, h), s) : s;
    ggml_tensor * outer  = ggml_mul_mat(ctx, ggml_reshape_2d(ctx, vec, 1, width), factor);
    ggml_tensor * result = project ? ggml_sub_inplace(ctx, h, outer) : ggml_add_inplace(ctx, h, outer);

    ggml_cgraph * graph = ggml_new_graph_custom(ctx, 16, false);
    ggml_build_forward_expand(graph, result);
    if (!ggml_gallocr_alloc_graph(dev.alloc, graph)) {
        fail(PLUMB_OUT_OF_MEMORY, "no memory on the device for a hook of %lld rows", (long long) n_rows);
    }
    ggml_backend_tensor_set(vec, v.data(), 0, v.size() * sizeof(float));
    ggml_backend_tensor_set(s, strength.data(), 0, strength.size() * sizeof(float));
    if (ggml_backend_graph_compute(dev.backend, graph) != GGML_STATUS_SUCCESS) {
        fail(PLUMB_ERROR, "the hook on %s failed on its device", tensor->name);
    }
}

void row_ops::add(ggml_tensor * h, const std::vector<float> & v, const std::vector<float> & strength) {
    run(h, v, strength, false);
}

void row_ops::project_out(ggml_tensor * h, const std::vector<float> & u, const std::vector<float> & strength) {
    run(h, u, strength, true);
}

namespace {

// SplitMix64 (Steele, Lea, Flood 2014), used as a hash of a counter.
uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// Uniform in (0, 1): never 0, whose logarithm is infinite.
double uniform(uint64_t bits) {
    return ((double) (bits >> 11) + 0.5) * 0x1p-53;
}

} // namespace

float gaussian(uint64_t seed, uint64_t row, uint64_t i) {
    // Box and Muller (1958)
    const uint64_t key = mix(mix(mix(seed) ^ row) ^ i);
    const double   r   = std::sqrt(-2.0 * std::log(uniform(mix(key))));
    return (float) (r * std::cos(2.0 * M_PI * uniform(mix(key ^ 0xd1b54a32d192ed03u))));
}

} // namespace plumb
