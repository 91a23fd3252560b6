// Opening a GGUF file, its metadata and its tokeniser.

#include "model.h"

#include "architectures.h"
#include "error.h"

#include "ggml-cpu.h"
#include "ggml-rpc.h"
#include "gguf.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <sys/stat.h>
#include <thread>
#include <vector>

using plumb::fail;

plumb_model::~plumb_model() {
    floats.reset();
    if (owns_llama) {
        llama_model_free(llama);
    }
}

namespace {

// llama.cpp aborts on more layers than its arrays hold (LLAMA_MAX_LAYERS).
void check_block_count(const char * path, const gguf_context * gguf) {
    constexpr uint32_t max_layers = 512;
    const int64_t      arch       = gguf_find_key(gguf, "general.architecture");
    if (arch < 0 || gguf_get_kv_type(gguf, arch) != GGUF_TYPE_STRING) {
        return; // llama.cpp's loader says so
    }
    const std::string key   = std::string(gguf_get_val_str(gguf, arch)) + ".block_count";
    const int64_t     count = gguf_find_key(gguf, key.c_str());
    if (count < 0 || gguf_get_kv_type(gguf, count) != GGUF_TYPE_UINT32) {
        return;
    }
    const uint32_t n = gguf_get_val_u32(gguf, count);
    if (n == 0 || n > max_layers) {
        fail(PLUMB_FORMAT, "%s: %s is %u, and llama.cpp takes 1 to %u layers; convert the model again", path,
             key.c_str(), n, max_layers);
    }
}

// Says why a file cannot be a whole GGUF file, before llama.cpp, whose loader only returns a null pointer. Returns how many
// parameters it holds; for a model in several files, which are not looked into, UINT64_MAX.
uint64_t check_file(const char * path) {
    struct stat st;
    if (stat(path, &st) != 0) {
        fail(errno == ENOENT ? PLUMB_NOT_FOUND : PLUMB_ERROR, "%s: %s", path, strerror(errno));
    }
    if (S_ISDIR(st.st_mode)) {
        fail(PLUMB_FORMAT, "%s: is a directory; give the .gguf file inside it", path);
    }
    std::unique_ptr<FILE, int (*)(FILE *)> file(fopen(path, "rb"), fclose);
    if (!file) {
        fail(PLUMB_ERROR, "%s: %s", path, strerror(errno));
    }
    char magic[4] = {};
    if (fread(magic, 1, 4, file.get()) != 4 || memcmp(magic, "GGUF", 4) != 0) {
        fail(PLUMB_FORMAT, "%s: not a GGUF file (it does not start with GGUF); convert the model with llama.cpp", path);
    }
    ggml_context *                                          tensors = nullptr;
    gguf_init_params                                        params  = { /*no_alloc =*/true, /*ctx =*/&tensors };
    std::unique_ptr<gguf_context, void (*)(gguf_context *)> gguf(gguf_init_from_file(path, params), gguf_free);
    std::unique_ptr<ggml_context, void (*)(ggml_context *)> owner(tensors, ggml_free);
    if (!gguf) {
        const std::string why = plumb::take_logged_error();
        fail(PLUMB_FORMAT, "%s: its GGUF header is broken or cut off%s%s; fetch the file again", path,
             why.empty() ? "" : ": ", why.c_str());
    }
    check_block_count(path, gguf.get());
    uint64_t n_params = 0;
    for (ggml_tensor * t = ggml_get_first_tensor(tensors); t; t = ggml_get_next_tensor(tensors, t)) {
        n_params += ggml_nelements(t);
    }
    uint64_t end = gguf_get_data_offset(gguf.get());
    for (int64_t i = 0; i < gguf_get_n_tensors(gguf.get()); i++) {
        end = std::max<uint64_t>(end, gguf_get_data_offset(gguf.get()) + gguf_get_tensor_offset(gguf.get(), i) +
                                          gguf_get_tensor_size(gguf.get(), i));
    }
    if ((uint64_t) st.st_size < end) {
        fail(PLUMB_FORMAT, "%s: cut off: %llu bytes of %llu; fetch the file again", path,
             (unsigned long long) st.st_size, (unsigned long long) end);
    }
    return gguf_find_key(gguf.get(), "split.count") < 0 ? n_params : UINT64_MAX;
}

plumb_status status_of_load_error(const std::string & why) {
    const bool memory = why.find("alloc") != std::string::npos || why.find("memory") != std::string::npos;
    if (memory) {
        return PLUMB_OUT_OF_MEMORY;
    }
    return why.find("unknown model architecture") != std::string::npos ? PLUMB_UNSUPPORTED : PLUMB_FORMAT;
}

std::vector<std::string> split_commas(const char * list) {
    std::vector<std::string> parts;
    std::string              part;
    for (const char * c = list; c && *c; c++) {
        if (*c == ',') {
            parts.push_back(part);
            part.clear();
        } else {
            part += *c;
        }
    }
    if (!part.empty()) {
        parts.push_back(part);
    }
    return parts;
}

void add_rpc_servers(const char * servers) {
    for (const std::string & endpoint : split_commas(servers)) {
        ggml_backend_reg_t reg = ggml_backend_rpc_add_server(endpoint.c_str());
        if (!reg) {
            fail(PLUMB_ERROR, "no RPC server answers at %s", endpoint.c_str());
        }
        bool known = false; // of an earlier model
        for (size_t i = 0; i < ggml_backend_reg_count(); i++) {
            known = known || ggml_backend_reg_get(i) == reg;
        }
        if (!known) {
            ggml_backend_register(reg);
        }
    }
}

bool is_rpc(ggml_backend_dev_t device) {
    return strcmp(ggml_backend_reg_name(ggml_backend_dev_backend_reg(device)), "RPC") == 0;
}

// What llama.cpp chooses by itself: RPC servers, then GPUs, integrated ones where there is no other. A GPU that two backends
// know counts once.
std::vector<ggml_backend_dev_t> every_device() {
    std::vector<ggml_backend_dev_t> rpc, gpus, integrated;
    std::set<std::string>           ids;
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_dev_t               device = ggml_backend_dev_get(i);
        const enum ggml_backend_dev_type type   = ggml_backend_dev_type(device);
        ggml_backend_dev_props           props;
        if (type == GGML_BACKEND_DEVICE_TYPE_GPU && is_rpc(device)) {
            rpc.push_back(device);
            continue;
        }
        if (type != GGML_BACKEND_DEVICE_TYPE_GPU && type != GGML_BACKEND_DEVICE_TYPE_IGPU) {
            continue;
        }
        ggml_backend_dev_get_props(device, &props);
        if (!props.device_id || ids.insert(props.device_id).second) {
            (type == GGML_BACKEND_DEVICE_TYPE_GPU ? gpus : integrated).push_back(device);
        }
    }
    rpc.insert(rpc.end(), gpus.begin(), gpus.end());
    if (gpus.empty()) {
        rpc.insert(rpc.end(), integrated.begin(), integrated.end());
    }
    return rpc;
}

// The devices beside the CPU that a model is to be kept on.
std::vector<ggml_backend_dev_t> find_devices(const plumb_model_params & p) {
    if (p.n_gpu_layers == 0) {
        return {};
    }
    if (!p.devices) {
        return every_device();
    }
    std::vector<ggml_backend_dev_t> devices;
    for (const std::string & name : split_commas(p.devices)) {
        ggml_backend_dev_t device = ggml_backend_dev_by_name(name.c_str());
        if (!device) {
            std::string known;
            for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
                known += (i ? ", " : "") + std::string(ggml_backend_dev_name(ggml_backend_dev_get(i)));
            }
            fail(PLUMB_INVALID, "no device is called %s; there are: %s", name.c_str(), known.c_str());
        }
        if (ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_CPU) {
            devices.push_back(device);
        }
    }
    return devices;
}

std::string describe(const std::vector<ggml_backend_dev_t> & devices, const plumb_model_params & p, int32_t n_layer) {
    if (devices.empty()) {
        return "CPU";
    }
    std::string text;
    for (size_t i = 0; i < devices.size(); i++) {
        text += i ? ", " : "";
        text += is_rpc(devices[i]) ? "RPC server" : ggml_backend_dev_description(devices[i]);
    }
    for (int32_t i = 0; i < p.n_tensor_split; i++) {
        char share[32];
        snprintf(share, sizeof share, "%s%g", i ? ":" : "; split ", p.tensor_split[i]);
        text += share;
    }
    if (p.n_gpu_layers > 0 && p.n_gpu_layers <= n_layer) {
        text += "; " + std::to_string(p.n_gpu_layers) + " of " + std::to_string(n_layer + 1) +
                " layers, the others on the CPU";
    }
    return text;
}

std::string meta(const llama_model * model, const char * key) {
    char          value[256];
    const int32_t n = llama_model_meta_val_str(model, key, value, sizeof value);
    return n < 0 ? "" : value;
}

// The largest model whose weights are made floats: 2 GiB of them.
constexpr uint64_t max_params_as_floats = 1 << 29;

std::unique_ptr<plumb_model> wrap(llama_model * llama, bool owns, int32_t n_threads) {
    auto model          = std::make_unique<plumb_model>();
    model->llama        = llama;
    model->owns_llama   = owns;
    model->vocab        = llama_model_get_vocab(llama);
    model->architecture = meta(llama, "general.architecture");
    if (llama_model_n_params(llama) <= max_params_as_floats) {
        model->floats = std::make_unique<plumb::float_weights>();
    }
    model->n_threads = n_threads > 0 ? n_threads : std::max(1u, std::thread::hardware_concurrency());
    return model;
}

} // namespace

plumb_model_params plumb_model_params_default(void) {
    plumb_model_params params = {};
    params.n_gpu_layers       = -1;
    return params;
}

plumb_model * plumb_model_open(const char * path, const plumb_model_params * params, plumb_error * error) {
    std::unique_ptr<plumb_model> model;
    plumb::guarded(error, [&] {
        const plumb_model_params defaults = plumb_model_params_default();
        const plumb_model_params p        = params ? *params : defaults;
        if (!path) {
            fail(PLUMB_INVALID, "no model file was named");
        }
        plumb::install_log_and_abort_handlers();
        static std::once_flag once;
        std::call_once(once, llama_backend_init);
        plumb::take_logged_error();
        const bool small = check_file(path) <= max_params_as_floats;
        add_rpc_servers(p.rpc_servers);

        llama_model_params lp = llama_model_default_params();
        lp.n_gpu_layers       = p.n_gpu_layers;
        lp.use_extra_bufts    = !p.plain_weights && !small; // a repacked weight cannot be read

        const std::vector<ggml_backend_dev_t> devices = find_devices(p);
        std::vector<ggml_backend_dev_t>       list    = devices;
        list.push_back(nullptr);
        lp.devices = list.data();
        std::vector<float> split(llama_max_devices(), 0.0f);
        if (p.n_tensor_split > 0) {
            if ((size_t) p.n_tensor_split > devices.size()) {
                fail(PLUMB_INVALID, "%d shares of a tensor split for %zu devices beside the CPU", p.n_tensor_split,
                     devices.size());
            }
            std::copy(p.tensor_split, p.tensor_split + p.n_tensor_split, split.begin());
            lp.tensor_split = split.data();
        }

        llama_model * llama = llama_model_load_from_file(path, lp);
        if (!llama) {
            const std::string  why    = plumb::take_logged_error();
            const plumb_status status = status_of_load_error(why);
            fail(status, "%s: llama.cpp cannot load it: %s; %s", path, why.empty() ? "no reason given" : why.c_str(),
                 status == PLUMB_OUT_OF_MEMORY ? "free some memory, or take a smaller model"
                                               : "check the file, or take another conversion of the model");
        }
        model          = wrap(llama, true, p.n_threads);
        model->devices = describe(devices, p, llama_model_n_layer(llama));
    });
    return model.release();
}

plumb_model * plumb_model_borrow(struct llama_model * llama, int32_t n_threads, plumb_error * error) {
    std::unique_ptr<plumb_model> model;
    plumb::guarded(error, [&] {
        if (!llama) {
            fail(PLUMB_INVALID, "no model was given");
        }
        model = wrap(llama, false, n_threads);
    });
    return model.release();
}

void plumb_model_free(plumb_model * model) {
    delete model;
}

void plumb_model_get_info(const plumb_model * model, plumb_model_info * info) {
    *info = {};
    snprintf(info->architecture, sizeof info->architecture, "%s", model->architecture.c_str());
    llama_model_desc(model->llama, info->description, sizeof info->description);
    info->n_layer     = llama_model_n_layer(model->llama);
    info->n_embd      = llama_model_n_embd(model->llama);
    info->n_vocab     = llama_vocab_n_tokens(model->vocab);
    info->n_ctx_train = llama_model_n_ctx_train(model->llama);
    info->n_params    = llama_model_n_params(model->llama);
    info->n_bytes     = llama_model_size(model->llama);
    info->has_vocab   = llama_vocab_type(model->vocab) != LLAMA_VOCAB_TYPE_NONE;
    info->adds_bos    = info->has_vocab && llama_vocab_get_add_bos(model->vocab);
    info->is_encoder  = plumb::is_encoder(model->architecture);
    info->as_floats   = model->floats != nullptr;
    info->n_threads   = model->n_threads;
    snprintf(info->devices, sizeof info->devices, "%s", model->devices.c_str());
}

int32_t plumb_model_meta(const plumb_model * model, const char * key, char * value, size_t size) {
    return llama_model_meta_val_str(model->llama, key, value, size);
}

const char * plumb_model_chat_template(const plumb_model * model) {
    return llama_model_chat_template(model->llama, nullptr);
}

plumb_status plumb_chat_prompt(const plumb_model * model, const char * user, char * text, size_t size, size_t * n,
                               plumb_error * error) {
    return plumb::guarded(error, [&] {
        const char * tmpl = plumb_model_chat_template(model);
        if (!tmpl) {
            fail(PLUMB_UNSUPPORTED, "the model file holds no chat template");
        }
        const llama_chat_message message = { "user", user };
        const int32_t            length  = llama_chat_apply_template(tmpl, &message, 1, true, text, (int32_t) size);
        if (length < 0) {
            fail(PLUMB_UNSUPPORTED, "llama.cpp's library does not know the model's chat template");
        }
        *n = (size_t) length;
    });
}

plumb_status plumb_tokenize(const plumb_model * model, const char * text, size_t n_text, bool add_special,
                            bool parse_special, int32_t * tokens, int32_t n_max, int32_t * n, plumb_error * error) {
    return plumb::guarded(error, [&] {
        if (llama_vocab_type(model->vocab) == LLAMA_VOCAB_TYPE_NONE) {
            fail(PLUMB_UNSUPPORTED, "the model has no vocabulary, so it cannot read text");
        }
        if (n_text > INT32_MAX / 2) {
            fail(PLUMB_TOO_LONG, "a text of %zu bytes", n_text);
        }
        const int32_t count =
            llama_tokenize(model->vocab, text, (int32_t) n_text, tokens, n_max, add_special, parse_special);
        if (count == INT32_MIN) {
            fail(PLUMB_TOO_LONG, "a text of %zu bytes has too many tokens", n_text);
        }
        *n = count < 0 ? -count : count;
        // An EOS that the tokenizer puts after every text would end a prompt before its continuation. An encoder wants it.
        if (add_special && count > 0 && llama_vocab_get_add_eos(model->vocab) &&
            !plumb::is_encoder(model->architecture)) {
            *n -= 1;
        }
    });
}

int32_t plumb_token_text(const plumb_model * model, int32_t token, char * text, size_t size) {
    if (token < 0 || token >= llama_vocab_n_tokens(model->vocab)) {
        return 0;
    }
    const int32_t n = llama_token_to_piece(model->vocab, token, text, (int32_t) size, 0, true);
    return n < 0 ? -n : n;
}

llama_context * plumb::new_context(llama_model * model, const llama_context_params & params, const char * purpose) {
    take_logged_error();
    llama_context * context = llama_init_from_model(model, params);
    if (!context) {
        const std::string why    = take_logged_error();
        const bool        memory = why.find("alloc") != std::string::npos;
        fail(memory ? PLUMB_OUT_OF_MEMORY : PLUMB_ERROR, "llama.cpp cannot make a context of %u tokens%s: %s%s",
             params.n_ctx, purpose, why.empty() ? "no reason given" : why.c_str(),
             memory ? "; free some memory, or take fewer threads or a smaller model" : "");
    }
    return context;
}
