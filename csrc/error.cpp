#include "error.h"

#include "ggml.h"
#include "llama.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <unistd.h>

namespace plumb {

namespace {

std::mutex  log_mutex;
std::string logged_error;

void keep_errors(ggml_log_level level, const char * text, void *) {
    if (level != GGML_LOG_LEVEL_ERROR || !text) {
        return;
    }
    std::string line = text;
    while (!line.empty() && (line.back() == '\n' || line.back() == ' ')) {
        line.pop_back();
    }
    // llama.cpp logs the cause first and then, from each caller, that something failed: the first line says most
    std::lock_guard<std::mutex> lock(log_mutex);
    if (logged_error.empty()) {
        logged_error = line;
    }
}

void abort_in_one_line(const char * message) {
    // ggml prints a back trace and may start a debugger; a program that people run from scripts must do neither
    std::string  line = message ? message : "unknown";
    const size_t end  = line.find('\n');
    if (end != std::string::npos) {
        line.resize(end);
    }
    fprintf(stderr, "plumb: llama.cpp gave up: %s\n", line.c_str());
    fflush(stderr);
    _exit(1);
}

void set_error(plumb_error * error, plumb_status status, const char * message) noexcept {
    if (!error) {
        return;
    }
    error->status = status;
    size_t n      = 0;
    for (; message[n] && n + 1 < sizeof error->message; n++) {
        error->message[n] = message[n] == '\n' || message[n] == '\r' ? ' ' : message[n];
    }
    error->message[n] = 0;
}

} // namespace

void fail(plumb_status status, const char * format, ...) {
    char    text[1020];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    throw failure(status, text);
}

plumb_status report_exception(plumb_error * error) noexcept {
    try {
        throw;
    } catch (const failure & f) {
        set_error(error, f.status, f.what());
        return f.status;
    } catch (const std::bad_alloc &) {
        set_error(error, PLUMB_OUT_OF_MEMORY, "not enough memory; free some, or take fewer threads or a smaller model");
        return PLUMB_OUT_OF_MEMORY;
    } catch (const std::exception & e) {
        set_error(error, PLUMB_ERROR, e.what());
        return PLUMB_ERROR;
    } catch (...) {
        set_error(error, PLUMB_ERROR, "unknown failure");
        return PLUMB_ERROR;
    }
}

std::string take_logged_error() {
    std::lock_guard<std::mutex> lock(log_mutex);
    std::string                 line;
    line.swap(logged_error);
    return line;
}

void install_log_and_abort_handlers() {
    static std::once_flag once;
    std::call_once(once, [] {
        llama_log_set(keep_errors, nullptr);
        ggml_set_abort_callback(abort_in_one_line);
    });
}

} // namespace plumb
