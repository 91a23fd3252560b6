#include "steering_file.h"

#include "error.h"

#include "gguf.h"
#include "llama.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <sys/stat.h>

namespace plumb {

namespace {

const char * control_vector_prefix = "direction.";
const char * own_prefix            = "plumb.direction.";

// By name, where the pointer to the function would have to be resolved when a library that holds this is loaded.
struct free_gguf {
    void operator()(gguf_context * gguf) const { gguf_free(gguf); }
};

// ggml aborts where a value is asked for by a type that it does not have, so every type is looked at first.
struct reader {
    const char *                             path;
    std::unique_ptr<FILE, int (*)(FILE *)>   file{ nullptr, fclose };
    std::unique_ptr<gguf_context, free_gguf> gguf;
    int64_t                                  n_bytes = 0;

    explicit reader(const std::string & name) : path(name.c_str()) {
        struct stat info;
        if (stat(path, &info) != 0) {
            fail(errno == ENOENT ? PLUMB_NOT_FOUND : PLUMB_ERROR, "%s: %s", path, strerror(errno));
        }
        if (!S_ISREG(info.st_mode)) {
            fail(PLUMB_FORMAT, "%s is not a file", path);
        }
        n_bytes = info.st_size;
        file.reset(fopen(path, "rb"));
        if (!file) {
            fail(PLUMB_ERROR, "%s: %s", path, strerror(errno));
        }
        gguf_init_params params = {};
        params.no_alloc         = true;
        gguf.reset(gguf_init_from_file(path, params));
        if (!gguf) {
            fail(PLUMB_FORMAT, "%s is not a whole GGUF file", path);
        }
    }

    // The key's number, or -1 where there is none. Throws where its type is another.
    int64_t find(const char * key, gguf_type type) const {
        const int64_t id = gguf_find_key(gguf.get(), key);
        if (id >= 0 && gguf_get_kv_type(gguf.get(), id) != type) {
            fail(PLUMB_FORMAT, "%s: the key %s is not of the type %s", path, key, gguf_type_name(type));
        }
        return id;
    }

    std::string text(const char * key) const {
        const int64_t id = find(key, GGUF_TYPE_STRING);
        return id < 0 ? "" : gguf_get_val_str(gguf.get(), id);
    }

    uint32_t number(const char * key) const {
        const int64_t id = find(key, GGUF_TYPE_UINT32);
        return id < 0 ? 0 : gguf_get_val_u32(gguf.get(), id);
    }

    template <typename T> std::vector<T> list(const char * key, gguf_type type) const {
        const int64_t id = find(key, GGUF_TYPE_ARRAY);
        if (id < 0) {
            return {};
        }
        if (gguf_get_arr_type(gguf.get(), id) != type) {
            fail(PLUMB_FORMAT, "%s: the key %s does not list %s", path, key, gguf_type_name(type));
        }
        const T * data = (const T *) gguf_get_arr_data(gguf.get(), id);
        return { data, data + gguf_get_arr_n(gguf.get(), id) };
    }

    std::vector<float> vector(int64_t tensor, int32_t n_embd) const {
        const char *    name = gguf_get_tensor_name(gguf.get(), tensor);
        const int64_t * ne   = gguf_get_tensor_ne(gguf.get(), tensor);
        if (gguf_get_tensor_type(gguf.get(), tensor) != GGML_TYPE_F32 || ne[0] != n_embd || ne[1] != 1 || ne[2] != 1 ||
            ne[3] != 1) {
            fail(PLUMB_FORMAT, "%s: %s is not %d floats", path, name, n_embd);
        }
        const int64_t      at = gguf_get_data_offset(gguf.get()) + gguf_get_tensor_offset(gguf.get(), tensor);
        std::vector<float> values;
        if (at < 0 || at + (int64_t) sizeof(float) * n_embd > n_bytes) {
            fail(PLUMB_FORMAT, "%s is cut short", path);
        }
        values.resize(n_embd);
        if (fseeko(file.get(), at, SEEK_SET) != 0 ||
            fread(values.data(), sizeof(float), n_embd, file.get()) != (size_t) n_embd) {
            fail(PLUMB_ERROR, "%s: %s", path, strerror(errno));
        }
        double square = 0;
        for (float x : values) {
            square += (double) x * x;
        }
        // the bound is that of plumb_hooks_begin; a NaN is not below it either
        if (!(square > 0) || !(square < 1e30)) {
            fail(PLUMB_FORMAT, "%s: %s is zero, too large, or holds a value that is not finite", path, name);
        }
        return values;
    }

    // The tensor of each layer.
    std::map<int32_t, int64_t> tensors() const {
        std::map<int32_t, int64_t> by_layer;
        for (int64_t i = 0; i < gguf_get_n_tensors(gguf.get()); i++) {
            const std::string name = gguf_get_tensor_name(gguf.get(), i);
            std::string       digits;
            for (const char * prefix : { own_prefix, control_vector_prefix }) {
                if (name.rfind(prefix, 0) == 0) {
                    digits = name.substr(strlen(prefix));
                    break;
                }
            }
            if (digits.empty() || digits.size() > 6 || digits.find_first_not_of("0123456789") != std::string::npos) {
                fail(PLUMB_FORMAT, "%s: the tensor %s is not named like a direction", path, name.c_str());
            }
            if (!by_layer.emplace(std::stoi(digits), i).second) {
                fail(PLUMB_FORMAT, "%s has two directions for layer %s", path, digits.c_str());
            }
        }
        return by_layer;
    }
};

} // namespace

steering_file read_steering_file(const std::string & path) {
    const reader r(path);
    if (gguf_find_key(r.gguf.get(), "plumb.version") < 0) {
        fail(PLUMB_FORMAT, "%s is not a steering file of Plumb's; `plumb steer import` takes in control vectors",
             r.path);
    }
    if (const uint32_t version = r.number("plumb.version"); version != 1) {
        fail(PLUMB_FORMAT, "%s has version %u; this program reads version 1", r.path, version);
    }
    steering_file     f   = {};
    const std::string op  = r.text("plumb.operator");
    const int64_t     key = r.find("plumb.strength", GGUF_TYPE_FLOAT64);
    if (op != "add" && op != "project") {
        fail(PLUMB_FORMAT, "%s has no operator \"add\" or \"project\"", r.path);
    }
    f.op           = op == "add" ? PLUMB_HOOK_ADD : PLUMB_HOOK_PROJECT_OUT;
    f.strength     = key < 0 ? 0 : gguf_get_val_f64(r.gguf.get(), key);
    f.method       = r.text("plumb.method");
    f.architecture = r.text("plumb.model.architecture");
    f.n_embd       = (int32_t) r.number("plumb.model.embedding_length");
    f.n_layer      = (int32_t) r.number("plumb.model.block_count");
    if (!std::isfinite(f.strength) || f.n_embd < 1) {
        fail(PLUMB_FORMAT, "%s has a strength that is not finite, or no width", r.path);
    }
    const auto layers  = r.list<int32_t>("plumb.layers", GGUF_TYPE_INT32);
    const auto weights = r.list<double>("plumb.weights", GGUF_TYPE_FLOAT64);
    const auto tensors = r.tensors();
    if (layers.empty() || tensors.size() != layers.size() || weights.size() != layers.size()) {
        fail(PLUMB_FORMAT, "%s lists %zu layers and %zu weights, and holds %zu directions", r.path, layers.size(),
             weights.size(), tensors.size());
    }
    for (size_t i = 0; i < layers.size(); i++) {
        const auto tensor = tensors.find(layers[i]);
        if (tensor == tensors.end() || (i > 0 && layers[i] <= layers[i - 1])) {
            fail(PLUMB_FORMAT, "%s: layer %d has no direction, or is not in its place", r.path, layers[i]);
        }
        if (!std::isfinite(weights[i]) || weights[i] == 0) {
            fail(PLUMB_FORMAT, "%s: the weight of layer %d is not a finite number other than 0", r.path, layers[i]);
        }
        const double weight = f.op == PLUMB_HOOK_ADD ? 1 : weights[i]; // inside an added vector it is already
        f.layers.push_back({ layers[i], weight, r.vector(tensor->second, f.n_embd) });
    }
    return f;
}

model_facts facts_of(const llama_model * model) {
    char name[64] = "unknown";
    llama_model_meta_val_str(model, "general.architecture", name, sizeof name);
    return { name, llama_model_n_embd(model), llama_model_n_layer(model) };
}

void check_fit(const steering_file & f, const std::string & path, const model_facts & model) {
    if (f.n_embd != model.n_embd) {
        fail(PLUMB_INVALID, "%s is %d wide, the model's residual stream %d", path.c_str(), f.n_embd, model.n_embd);
    }
    if (!f.architecture.empty() && f.architecture != model.architecture) {
        fail(PLUMB_INVALID, "%s was fitted on the architecture %s; the model is %s", path.c_str(),
             f.architecture.c_str(), model.architecture.c_str());
    }
    if (f.layers.back().layer >= model.n_layer || (f.n_layer != 0 && f.n_layer != model.n_layer)) {
        fail(PLUMB_INVALID, "%s has a direction at layer %d, of a model of %d layers; this one has %d", path.c_str(),
             f.layers.back().layer, f.n_layer, model.n_layer);
    }
}

} // namespace plumb
