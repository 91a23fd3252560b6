// check_architectures FOLDER: whether replay and gradients are right on each tiny model in the folder, which llama.cpp's
// test-llama-archs -o FOLDER writes, one for each of its architectures. Prints a table in Markdown.
//
// Each model is checked in a process of its own, so that an abort inside ggml or llama.cpp is that model's verdict alone.
// Exit status: 0 if no model is wrong, 1 if one is, 2 for wrong usage.

#include "gradient_check.h"

#include "error.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using plumb::gradient_verdict;

namespace {

constexpr rlim_t seconds_a_model = 120; // of the processor

// What a child tells its parent, through a pipe.
struct report {
    char   architecture[64];
    char   kind[32]; // why gradients are not for it, or empty
    int    verdict;
    double logits, at_answer, at_all;
    bool   shared_right; // with several sequences a batch too
    char   reason[512];
};

// What takes no gradient: not because of its graph, but because of what the model is.
const char * exempt(const llama_model * model) {
    if (llama_model_has_encoder(model) || !llama_model_has_decoder(model)) {
        return "encoder";
    }
    return llama_model_is_recurrent(model)   ? "recurrent"
           : llama_model_is_hybrid(model)    ? "hybrid"
           : llama_model_is_diffusion(model) ? "diffusion"
                                             : "";
}

void check(const char * path, report & r) {
    llama_model_params params = llama_model_default_params();
    params.n_gpu_layers       = 0;
    params.use_extra_bufts    = false;
    params.progress_callback  = [](float, void *) { return true; };
    llama_model * model       = llama_model_load_from_file(path, params);
    if (!model) {
        r.verdict = gradient_verdict::refused;
        snprintf(r.reason, sizeof r.reason, "llama.cpp does not load it: %s", plumb::take_logged_error().c_str());
        return;
    }
    llama_model_meta_val_str(model, "general.architecture", r.architecture, sizeof r.architecture);
    snprintf(r.kind, sizeof r.kind, "%s", exempt(model));
    if (r.kind[0]) {
        return;
    }
    const gradient_verdict v = plumb::check_gradients(model, 7);
    r.verdict                = v.verdict;
    r.logits                 = v.logits;
    r.at_answer              = v.at_answer;
    r.at_all                 = v.at_all;
    r.shared_right           = v.shared <= plumb::shared_tolerance;
    snprintf(r.reason, sizeof r.reason, "%s", v.reason.c_str());
}

report check_in_child(const std::string & path) {
    report r  = {};
    r.verdict = gradient_verdict::wrong;
    int ends[2];
    if (pipe(ends) != 0) {
        snprintf(r.reason, sizeof r.reason, "%s", strerror(errno));
        return r;
    }
    const pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        const rlimit limit = { seconds_a_model, seconds_a_model };
        setrlimit(RLIMIT_CPU, &limit);
        plumb::install_log_and_abort_handlers();
        check(path.c_str(), r);
        _exit(write(ends[1], &r, sizeof r) == (ssize_t) sizeof r ? 0 : 1);
    }
    close(ends[1]);
    report        told;
    const ssize_t n = read(ends[0], &told, sizeof told);
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (n == (ssize_t) sizeof told) {
        return told;
    }
    if (WIFSIGNALED(status)) {
        snprintf(r.reason, sizeof r.reason, "ended by signal %d", WTERMSIG(status));
    } else {
        snprintf(r.reason, sizeof r.reason, "aborted with status %d", WEXITSTATUS(status));
    }
    return r;
}

} // namespace

int main(int argc, char ** argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: check_architectures FOLDER\n");
        return 2;
    }
    std::vector<std::string> paths;
    std::error_code          error;
    for (const auto & entry : std::filesystem::directory_iterator(argv[1], error)) {
        if (entry.path().extension() == ".gguf") {
            paths.push_back(entry.path().string());
        }
    }
    if (error || paths.empty()) {
        fprintf(stderr, "%s: %s\n", argv[1], error ? error.message().c_str() : "holds no .gguf file");
        return 2;
    }
    std::sort(paths.begin(), paths.end());

    const char * const names[]   = { "right", "refused", "wrong" };
    int                counts[3] = {}, n_exempt = 0;
    printf(
        "| model | verdict | logits | at the last prompt token | over all positions | several sequences | reason |\n");
    printf("|---|---|---|---|---|---|---|\n");
    for (const std::string & path : paths) {
        report       r    = check_in_child(path);
        const char * name = names[r.verdict];
        if (r.kind[0]) {
            // A tiny model may have its recurrent block at the bottom, where nothing is replayed: that proves nothing.
            n_exempt++;
            name = "exempt";
            snprintf(r.reason, sizeof r.reason, "%s", r.kind);
        } else {
            counts[r.verdict]++;
        }
        std::string reason = r.reason;
        std::replace(reason.begin(), reason.end(), '|', '/');
        const std::string stem = std::filesystem::path(path).stem().string();
        if (!r.kind[0] && r.verdict != gradient_verdict::refused) {
            printf("| %s | %s | %.1e | %.1e | %.1e | %s | %s |\n", stem.c_str(), name, r.logits, r.at_answer, r.at_all,
                   r.shared_right ? "right" : "no", reason.c_str());
        } else {
            printf("| %s | %s | | | | | %s |\n", stem.c_str(), name, reason.c_str());
        }
        fflush(stdout);
    }
    printf("\n%d right, %d refused, %d wrong; %d exempt (recurrent, hybrid, diffusion models and encoders)\n",
           counts[0], counts[1], counts[2], n_exempt);
    return counts[gradient_verdict::wrong] > 0 ? 1 : 0;
}
