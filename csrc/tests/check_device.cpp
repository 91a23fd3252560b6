// check_device [NAME]: whether Plumb is right on a device, and how fast. Tiny random models of several architectures are
// scored, steered, read and differentiated on the CPU and on the device; then a larger one says how many rows a second are
// scored and what hooks cost. The device is the one that ggml calls NAME, or the first GPU; without a GPU it is an RPC server
// that the program starts on this machine.
//
// Exit status: 0 if device and CPU agree, 1 if not, 2 for wrong usage.

#include "error.h"
#include "gradient.h"
#include "sequences.h"
#include "session.h"
#include "tiny_model.h"

#include "ggml/tests/rpc_server.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>

using namespace plumb;

namespace {

// GPUs multiply F32 matrices with ten bits of mantissa (TF32), and sum in another order.
constexpr double tolerance = 0.05;

using model_ptr   = std::unique_ptr<llama_model, void (*)(llama_model *)>;
using session_ptr = std::unique_ptr<plumb_session, void (*)(plumb_session *)>;

struct requests {
    std::vector<int32_t> n_prompt, n_continuations, n_tokens, tokens;

    // n prompts of so many tokens that share their first half, with three continuations of three tokens each.
    requests(int32_t n, int32_t length) {
        const auto shared = tiny_tokens(length / 2, 1);
        for (int32_t r = 0; r < n; r++) {
            const auto own = tiny_tokens(length - length / 2 + 9, 100 + r);
            tokens.insert(tokens.end(), shared.begin(), shared.end());
            tokens.insert(tokens.end(), own.begin(), own.end());
            n_prompt.push_back(length);
            n_continuations.push_back(3);
            n_tokens.insert(n_tokens.end(), 3, 3);
        }
    }

    plumb_requests get() const {
        return { (int32_t) n_prompt.size(), n_prompt.data(), n_continuations.data(), n_tokens.data(), tokens.data() };
    }

    size_t n_scores() const { return 9 * n_prompt.size(); }
};

void require(plumb_status status, const plumb_error & error) {
    if (status != PLUMB_OK) {
        throw failure(status, error.message);
    }
}

// Everything that Plumb computes with one model, laid end to end.
struct results {
    std::vector<float> scores;    // unsteered, then under each of the steerings by itself
    std::vector<float> together;  // the same, by one call
    std::vector<float> residuals; // after every layer
    std::vector<float> gradients; // of every continuation at every layer
    bool               replayed = false;
};

results compute(llama_model * llama) {
    const std::unique_ptr<plumb_model, void (*)(plumb_model *)> model(plumb_model_borrow(llama, 0, nullptr),
                                                                      plumb_model_free);
    plumb_session_params                                        params = plumb_session_params_default();
    params.n_ctx                                                       = 128;
    plumb_error error;
    session_ptr session(plumb_session_new(model.get(), &params, &error), plumb_session_free);
    if (!session) {
        throw failure((plumb_status) error.status, error.message);
    }
    const requests       r(3, 16);
    const plumb_requests c       = r.get();
    const int32_t        n_layer = llama_model_n_layer(llama), n_embd = llama_model_n_embd(llama);
    std::vector<float>   v(n_embd);
    for (int32_t i = 0; i < n_embd; i++) {
        v[i] = 0.5f * std::sin(1.0f + i);
    }
    std::vector<plumb_steering> steering;
    for (int32_t layer = 0; layer < n_layer; layer++) {
        steering.push_back({ layer, layer % 2 ? PLUMB_HOOK_PROJECT_OUT : PLUMB_HOOK_ADD, 1.0f, v.data() });
    }
    std::vector<plumb_steering_set> sets = { { nullptr, 0 } };
    for (const plumb_steering & s : steering) {
        sets.push_back({ &s, 1 });
    }
    results              out;
    std::vector<float>   logprobs(r.n_scores());
    std::vector<int32_t> statuses(sets.size() * 3);
    for (const plumb_steering_set & set : sets) {
        require(plumb_session_score(session.get(), &c, set.steering, set.n_steering, nullptr, logprobs.data(),
                                    statuses.data(), nullptr, &error),
                error);
        out.scores.insert(out.scores.end(), logprobs.begin(), logprobs.end());
    }
    out.together.resize(sets.size() * r.n_scores());
    require(plumb_session_score_sets(session.get(), &c, sets.data(), sets.size(), nullptr, out.together.data(),
                                     statuses.data(), nullptr, &error),
            error);
    out.replayed = session->can_replay;
    std::vector<int32_t> layers;
    for (int32_t layer = 0; layer < n_layer; layer++) {
        layers.push_back(layer);
    }
    out.residuals.resize((size_t) 9 * n_layer * n_embd);
    const sequences       ends = ends_of(c);
    const plumb_sequences s    = ends.get();
    statuses.resize(s.n_sequences);
    require(plumb_session_residuals(session.get(), &s, nullptr, 0, layers.data(), n_layer, nullptr, statuses.data(),
                                    out.residuals.data(), &error),
            error);
    gradient_params gp;
    gp.n_ctx = 128;
    gradient_engine engine(llama, gp);
    out.gradients.resize(out.residuals.size());
    engine.run(view_requests(c, llama_vocab_n_tokens(llama_model_get_vocab(llama))),
               { layers.data(), n_layer, false, false, nullptr, out.gradients.data(), nullptr });
    return out;
}

// The largest difference, or infinity if anything is not a number.
double difference(const std::vector<float> & a, const std::vector<float> & b) {
    double d = 0;
    for (size_t i = 0; i < a.size(); i++) {
        const double x = std::fabs((double) a[i] - b[i]);
        d              = std::isfinite(x) ? std::max(d, x) : INFINITY;
    }
    return d;
}

double largest(const std::vector<float> & a) {
    return difference(a, std::vector<float>(a.size(), 0.0f));
}

bool agrees(const std::string & architecture, ggml_backend_dev_t device) {
    ggml_backend_dev_t there[] = { device, nullptr };
    const model_ptr    a(tiny_model(architecture, 1), llama_model_free);
    const model_ptr    b(tiny_model(architecture, 1, there, 5), llama_model_free);
    const results      cpu = compute(a.get()), dev = compute(b.get());
    const double       scores = difference(cpu.scores, dev.scores), together = difference(cpu.scores, dev.together),
                 residuals = difference(cpu.residuals, dev.residuals) / largest(cpu.residuals),
                 gradients = difference(cpu.gradients, dev.gradients) / largest(cpu.gradients);
    const bool right = scores < tolerance && together < tolerance && residuals < tolerance && gradients < tolerance;
    printf("%-10s %10.2g %16.2g%s %12.2g %10.2g   %s\n", architecture.c_str(), scores, together,
           dev.replayed ? " " : "*", residuals, gradients, right ? "agrees" : "DIFFERS");
    fflush(stdout);
    return right;
}

double seconds(const std::chrono::steady_clock::time_point & since) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

// Rows a second in a graph of n_rows rows, with hooks at so many layers: the fastest of three passes.
double rows_a_second(plumb_model * model, int32_t n_rows, int32_t n_hooked) {
    plumb_session_params params = plumb_session_params_default();
    params.n_ctx = params.n_batch_rows = n_rows;
    plumb_error error;
    session_ptr session(plumb_session_new(model, &params, &error), plumb_session_free);
    if (!session) {
        throw failure((plumb_status) error.status, error.message);
    }
    const requests              r(64, 96);
    const plumb_requests        c = r.get();
    const std::vector<float>    v(llama_model_n_embd(model->llama), 0.01f);
    std::vector<plumb_steering> steering;
    for (int32_t layer = 0; layer < n_hooked; layer++) {
        steering.push_back({ layer, PLUMB_HOOK_ADD, 1.0f, v.data() });
    }
    std::vector<float>   logprobs(r.n_scores());
    std::vector<int32_t> statuses(64);
    double               best = 0;
    for (int pass = 0; pass < 3; pass++) {
        int64_t    n_computed = 0;
        const auto start      = std::chrono::steady_clock::now();
        require(plumb_session_score(session.get(), &c, steering.data(), steering.size(), nullptr, logprobs.data(),
                                    statuses.data(), &n_computed, &error),
                error);
        best = std::max(best, n_computed / seconds(start));
    }
    return best;
}

void measure(ggml_backend_dev_t device, bool large) {
    ggml_backend_dev_t there[] = { device, nullptr };
    const tiny_shape   shape   = large ? tiny_shape{ 16, 2048, 16, 5632, 32000 } : tiny_shape{ 8, 256, 4, 704, 2048 };
    const model_ptr    llama(tiny_model("llama", 1, there, 99, shape), llama_model_free);
    const std::unique_ptr<plumb_model, void (*)(plumb_model *)> model(plumb_model_borrow(llama.get(), 0, nullptr),
                                                                      plumb_model_free);
    printf("\nA random model of %u blocks and width %u, in F32\n", shape.n_layer, shape.n_embd);
    printf("%-12s %14s %14s %14s\n", "rows a graph", "rows a second", "one hook", "every layer");
    for (int32_t n_rows : large ? std::vector<int32_t>{ 512, 2048 } : std::vector<int32_t>{ 512 }) {
        const double plain = rows_a_second(model.get(), n_rows, 0), one = rows_a_second(model.get(), n_rows, 1),
                     all = rows_a_second(model.get(), n_rows, (int32_t) shape.n_layer);
        printf("%-12d %14.0f %+13.1f%% %+13.1f%%\n", n_rows, plain, 100 * (plain / one - 1), 100 * (plain / all - 1));
        fflush(stdout);
    }
}

} // namespace

int main(int argc, char ** argv) {
    if (argc > 2) {
        fprintf(stderr, "usage: check_device [NAME]\n");
        return 2;
    }
    const char *       name = argc == 2 ? argv[1] : nullptr;
    ggml_backend_dev_t device =
        name ? ggml_backend_dev_by_name(name) : ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_GPU);
    std::unique_ptr<rpc_server> server; // to be made before the process has threads
    try {
        if (name && !device) {
            fprintf(stderr, "check_device: no device is called %s\n", name);
            return 2;
        }
        const bool gpu = device && ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_GPU;
        if (!device) {
            server = std::make_unique<rpc_server>();
            device = server->device();
        }
        install_log_and_abort_handlers();
        printf("Device: %s (%s)\n", ggml_backend_dev_name(device),
               server ? "no GPU was found: an RPC server of this machine's CPU" : ggml_backend_dev_description(device));
        printf("\nLargest difference to the CPU (of log-probabilities, and of the largest component)\n");
        printf("%-10s %10s %17s %12s %10s   (*: not replayed, decoded one by one)\n", "", "scores", "several at once",
               "residuals", "gradients");
        bool right = true;
        for (const char * architecture :
             { "llama", "llama-moe", "qwen2", "qwen3", "gemma3", "phi3", "gpt2", "olmo2" }) {
            right = agrees(architecture, device) && right;
        }
        measure(device, gpu);
        printf("\n%s\n", right ? "The device agrees with the CPU." : "THE DEVICE DIFFERS FROM THE CPU.");
        return right ? 0 : 1;
    } catch (const std::exception & e) {
        fprintf(stderr, "check_device: %s\n", e.what());
        return 1;
    }
}
