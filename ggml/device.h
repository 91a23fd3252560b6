// The devices on which graphs of our own run, and graphs under construction on one of them.

#pragma once

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace plumb {

// One device: a backend instance of our own, and scratch memory that graphs use in turn.
struct device {
    std::unique_ptr<ggml_backend, void (*)(ggml_backend_t)> backend{ nullptr, ggml_backend_free };
    std::unique_ptr<ggml_gallocr, void (*)(ggml_gallocr_t)> scratch{ nullptr, ggml_gallocr_free };

    explicit device(ggml_backend_t backend);

    bool is_cpu() const { return ggml_backend_is_cpu(backend.get()); }

    bool reads(const ggml_tensor * tensor) const; // whether the tensor's memory can be a source of its operators
};

// Whether the tensor, or what it is a view of, is in host memory.
bool is_in_host_memory(const ggml_tensor * tensor);

// A tensor with memory of its own. Throws std::bad_alloc where there is none.
struct owned_tensor {
    owned_tensor(ggml_type type, const int64_t ne[GGML_MAX_DIMS], ggml_backend_buffer_type_t where);

    std::unique_ptr<ggml_context, void (*)(ggml_context *)>               context;
    std::unique_ptr<ggml_backend_buffer, void (*)(ggml_backend_buffer_t)> buffer;
    ggml_tensor *                                                         tensor;
};

// The devices in use, made when first asked for.
class devices {
  public:
    // CPU graphs run on n_threads threads, those of `threads` if it is not null (which then outlives this object).
    explicit devices(int32_t n_threads, ggml_threadpool * threads = nullptr) : n_threads(n_threads), threads(threads) {}

    device & cpu();

    // Where the tensor's memory is: the CPU for any host memory.
    device & holding(const ggml_tensor * tensor);

  private:
    device & open(ggml_backend_dev_t dev);

    int32_t                                                         n_threads;
    ggml_threadpool *                                               threads;
    std::unordered_map<ggml_backend_dev_t, std::unique_ptr<device>> open_devices;
};

// A graph of our own: built in a context, then allocated on a device, filled and run.
class workspace {
  public:
    // Room for n_tensors tensors.
    workspace(device & where, size_t n_tensors);

    device &       where() { return on; }
    ggml_context * context() { return ctx.get(); }

    // Throws graph_error if the room does not suffice for n more tensors; ggml itself would abort.
    void require(size_t n) const;

    // A leaf that is filled before each run.
    ggml_tensor * input(ggml_type type, const int64_t ne[GGML_MAX_DIMS]);

    // A leaf with a value of its own.
    ggml_tensor * constant(ggml_type type, const int64_t ne[GGML_MAX_DIMS], std::vector<uint8_t> value);

    // A constant's value; null for anything else.
    const std::vector<uint8_t> * value_of(const ggml_tensor * tensor) const;

    // Row indices as operators that take only I32 want them: the tensor itself, or an I32 twin of an I64 constant.
    ggml_tensor * as_i32(ggml_tensor * indices);

    // Has the tensor computed, after those added before it.
    void compute(ggml_tensor * tensor) { wanted.push_back(tensor); }

    // Has it computed, and kept until the next run.
    void output(ggml_tensor * tensor);

    // No more tensors after this: checks that the device has every operator, allocates, fills the constants.
    void prepare();

    void run();

    ggml_cgraph * graph() { return cgraph; }

  private:
    struct filled {
        ggml_tensor *        tensor;
        std::vector<uint8_t> value;
    };

    device &                                                on;
    std::unique_ptr<ggml_context, void (*)(ggml_context *)> ctx;
    size_t                                                  n_max;
    std::vector<filled>                                     constants;
    std::unordered_map<const ggml_tensor *, size_t>         constant_of;
    std::unordered_map<const ggml_tensor *, ggml_tensor *>  i32_of;
    std::vector<ggml_tensor *>                              wanted;
    ggml_cgraph *                                           cgraph = nullptr;
};

} // namespace plumb
