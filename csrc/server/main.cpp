// plumb-server: llama.cpp's server with Plumb's hooks in its context.

#include "control.h"
#include "error.h"
#include "options.h"
#include "plans.h"
#include "steered_server.h"

#include "arg.h"
#include "common.h"
#include "llama.h"
#include "log.h"
#include "server-stream.h"

#include <algorithm>
#include <clocale>
#include <csignal>
#include <cstdio>

int llama_server(common_params & params, int argc, char ** argv); // of llama.cpp's tools/server/server.cpp

namespace {

int serve(std::vector<std::string> arguments) {
    const plumb::server_options    options = plumb::take_server_options(arguments);
    const std::vector<std::string> help    = { "-h", "--help", "--usage" };
    if (std::find_first_of(arguments.begin(), arguments.end(), help.begin(), help.end()) != arguments.end()) {
        fputs(plumb::server_options_help, stdout);
        fflush(stdout);
    }
    std::vector<char *> argv;
    for (std::string & a : arguments) {
        argv.push_back(a.data());
    }
    argv.push_back(nullptr);
    const int argc = (int) arguments.size();

    common_params params;
    common_init();
    if (!common_params_parse(argc, argv.data(), params, LLAMA_EXAMPLE_SERVER)) {
        return 1;
    }
    // a router starts a process for each model, and gives it what it parsed itself
    if (params.model.path.empty() && params.model.hf_repo.empty() && params.model.docker_repo.empty() &&
        options.any()) {
        plumb::fail(PLUMB_INVALID, "a router serves many models, and a steering file is for one: name it with --model");
    }
    for (const auto & s : options.steer) {
        plumb::loaded_steerings().load(s.file, "", s.strength, true);
    }
    if (options.any()) {
        params.cb_eval = plumb::eval_callback;
    }

    llama_backend_init();
    llama_numa_init(params.numa);
    std::unique_ptr<plumb::control_server> control;
    if (options.control) {
        control = std::make_unique<plumb::control_server>(*options.control);
        LOG_INF("plumb: control address %s:%d\n", options.control->host.c_str(), options.control->port);
    }
    server_stream_session_manager_start();
    const int status = llama_server(params, argc, argv.data());
    control.reset();
    common_log_flush(common_log_main());
    return status;
}

} // namespace

int main(int argc, char ** argv) {
    std::setlocale(LC_NUMERIC, "C");
    signal(SIGPIPE, SIG_IGN);
    plumb_error error;
    int         status = 1;
    if (plumb::guarded(&error, [&] { status = serve({ argv, argv + argc }); }) != PLUMB_OK) {
        fprintf(stderr, "plumb-server: %s\n", error.message);
        return error.status == PLUMB_INVALID ? 2 : 1;
    }
    return status;
}
