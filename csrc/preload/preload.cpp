// What `plumb run` loads before an unmodified program: llama.cpp's functions that make a context and decode in it, with
// Plumb's hooks set on the way.
//
// The first context decides: the steering files must fit its model. Other contexts on such a model are steered too; those of
// another model (a draft's), or of another kind, are left alone. Every row is steered, at the strength of the command line.

#include "error.h"
#include "plumb.h"
#include "steering_file.h"

#include "llama.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <mutex>
#include <unistd.h>

namespace {

struct steering {
    std::string          path;
    float                strength;
    plumb::steering_file file;
};

using hooks_ptr = std::unique_ptr<plumb_hooks, void (*)(plumb_hooks *)>;

struct state {
    std::mutex                                 mutex;
    std::vector<steering>                      steerings;
    std::map<const llama_context *, hooks_ptr> contexts;
    size_t                                     n_seen = 0; // contexts that were steered
};

// Made when first asked for: start() may run before this file's variables are initialised.
state & self() {
    static state s;
    return s;
}

[[noreturn]] void refuse(const char * why) {
    fprintf(stderr, "plumb: %s\n", why);
    _exit(1);
}

template <typename F> F * next(const char * name) {
    return (F *) dlsym(RTLD_NEXT, name);
}

// The program's llama.cpp must lay out its structures as the one that this was compiled with does.
void check_version() {
    const auto version  = next<decltype(llama_version)>("llama_version");
    const auto ggml     = next<decltype(ggml_version)>("ggml_version");
    const auto defaults = next<void>("llama_context_default_params");
    if (!next<void>("llama_init_from_model")) {
        refuse(
            "this program is not linked to llama.cpp's shared library: it has llama.cpp inside, or none, and cannot be "
            "steered from outside (plumb-server can)");
    }
    if (!next<void>("ggml_backend_is_cpu")) {
        refuse(
            "the program's llama.cpp loads its CPU backend by itself (GGML_BACKEND_DL), where plumb cannot reach it");
    }
    const std::string found = version && ggml ? std::string(version()) + " with ggml " + ggml() : "an older one";
    const std::string base  = found.substr(0, strlen(PLUMB_RUN_LLAMA));
    bool              fits  = version && ggml && base == PLUMB_RUN_LLAMA && strcmp(ggml(), PLUMB_RUN_GGML) == 0 &&
                (found[base.size()] == ' ' || found[base.size()] == '-') && next<void>("llama_process");
    if (fits) {
        // a larger structure than ours must have room
        struct roomy {
            llama_context_params params;
            unsigned char        more[1024];
        };
        const llama_context_params p = ((roomy (*)()) defaults)().params;
        fits = p.n_ctx == 512 && p.n_batch == 2048 && p.n_ubatch == 512 && p.n_seq_max == 1 && p.yarn_orig_ctx == 0 &&
               p.defrag_thold == -1.0f && p.yarn_beta_slow == -1.0f && !p.cb_eval && !p.cb_eval_user_data &&
               p.type_k == GGML_TYPE_F16 && p.type_v == GGML_TYPE_F16 && !p.abort_callback && !p.embeddings &&
               p.offload_kqv && p.op_offload && !p.kv_unified && !p.samplers && !p.ctx_other;
    }
    if (!fits) {
        refuse(("the program's llama.cpp is " + found +
                "; this plumb steers llama.cpp " PLUMB_RUN_LLAMA " with ggml " PLUMB_RUN_GGML)
                   .c_str());
    }
}

// PLUMB_RUN_STEER: a line for each file, its strength, a space and its path.
void read_steerings() {
    const char * text = getenv("PLUMB_RUN_STEER");
    while (text && *text) {
        char *       rest     = nullptr;
        const float  strength = strtof(text, &rest);
        const char * end      = strchr(rest, '\n');
        if (*rest != ' ' || !end) {
            refuse("PLUMB_RUN_STEER is not what `plumb run` sets");
        }
        const std::string path((const char *) rest + 1, end);
        self().steerings.push_back({ path, strength, plumb::read_steering_file(path) });
        text = end + 1;
    }
}

__attribute__((constructor)) void start() {
    // programs that this one starts are their own
    unsetenv("LD_PRELOAD");
    check_version();
    plumb_error error;
    if (plumb::guarded(&error, read_steerings) != PLUMB_OK) {
        refuse(error.message);
    }
    unsetenv("PLUMB_RUN_STEER");
}

__attribute__((destructor)) void end() {
    if (self().n_seen == 0) {
        fprintf(stderr, "plumb: the program made no llama.cpp context: nothing was steered\n");
    }
}

// New hooks for a context on the model; null where it is to be left alone. Throws failure where it should have been steered.
hooks_ptr hooks_for(const llama_model * model, const llama_context_params & params) {
    hooks_ptr  hooks(nullptr, plumb_hooks_free);
    const bool first = self().n_seen == 0;
    if (params.ctx_type != LLAMA_CONTEXT_TYPE_DEFAULT) {
        return hooks;
    }
    std::vector<plumb_hook>  plan;
    const plumb::model_facts facts = plumb::facts_of(model);
    for (const steering & s : self().steerings) {
        plumb_error error;
        if (plumb::guarded(&error, [&] { plumb::check_fit(s.file, s.path, facts); }) != PLUMB_OK) {
            if (first) {
                plumb::fail((plumb_status) error.status, "%s", error.message);
            }
            fprintf(stderr, "plumb: a context of another model is left alone (%s)\n", error.message);
            return hooks;
        }
        for (const plumb::steering_layer & l : s.file.layers) {
            plumb_hook h = {};
            h.layer      = l.layer;
            h.op         = s.file.op;
            h.vector     = l.vector.data();
            h.strength   = (float) (s.strength * l.weight);
            plan.push_back(h);
        }
    }
    if (params.cb_eval) {
        plumb::fail(PLUMB_UNSUPPORTED, "the program has an evaluation callback of its own, and there is place for one");
    }
    plumb_error error;
    hooks.reset(plumb_hooks_new(model, &error));
    if (!hooks || plumb_hooks_begin(hooks.get(), plan.data(), plan.size(), nullptr, &error) != PLUMB_OK) {
        plumb::fail((plumb_status) error.status, "%s", error.message);
    }
    return hooks;
}

// Whether the decode that is over was steered as planned; its status, or one of llama.cpp's for a failure.
int32_t checked(llama_context * context, int32_t status) {
    std::lock_guard<std::mutex> lock(self().mutex);
    const auto                  found = self().contexts.find(context);
    plumb_error                 error;
    if (status != 0 || found == self().contexts.end() || plumb_hooks_end(found->second.get(), &error) == PLUMB_OK) {
        return status;
    }
    fprintf(stderr, "plumb: %s\n", error.message);
    return -3;
}

} // namespace

extern "C" __attribute__((visibility("default"))) llama_context * llama_init_from_model(llama_model *        model,
                                                                                        llama_context_params params) {
    const auto                  real = next<decltype(llama_init_from_model)>("llama_init_from_model");
    std::lock_guard<std::mutex> lock(self().mutex);
    hooks_ptr                   hooks(nullptr, plumb_hooks_free);
    plumb_error                 error;
    if (plumb::guarded(&error, [&] { hooks = hooks_for(model, params); }) != PLUMB_OK) {
        fprintf(stderr, "plumb: %s\n", error.message);
        return nullptr;
    }
    if (!hooks) {
        return real(model, params);
    }
    self().n_seen++;
    params.cb_eval           = plumb_hooks_eval;
    params.cb_eval_user_data = hooks.get();
    llama_context * context  = real(model, params);
    if (context) {
        self().contexts.emplace(context, std::move(hooks));
    }
    return context;
}

extern "C" __attribute__((visibility("default"))) llama_context *
llama_new_context_with_model(llama_model * model, llama_context_params params) {
    return llama_init_from_model(model, params);
}

extern "C" __attribute__((visibility("default"))) void llama_free(llama_context * context) {
    next<decltype(llama_free)>("llama_free")(context);
    std::lock_guard<std::mutex> lock(self().mutex);
    self().contexts.erase(context);
}

extern "C" __attribute__((visibility("default"))) int32_t llama_decode(llama_context * context, llama_batch batch) {
    return checked(context, next<decltype(llama_decode)>("llama_decode")(context, batch));
}

extern "C" __attribute__((visibility("default"))) int32_t llama_process(llama_context *         context,
                                                                        enum llama_process_type type,
                                                                        llama_batch_ext *       batch) {
    return checked(context, next<decltype(llama_process)>("llama_process")(context, type, batch));
}
