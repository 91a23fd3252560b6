// How a failure inside the library becomes a plumb_status and one line of text.

#pragma once

#include "plumb.h"

#include <exception>
#include <string>

namespace plumb {

// Thrown inside the library, caught at its border.
struct failure : std::exception {
    plumb_status status;
    std::string  message;

    failure(plumb_status status, std::string message) : status(status), message(std::move(message)) {}

    const char * what() const noexcept override { return message.c_str(); }
};

// printf into a failure.
[[noreturn]] void fail(plumb_status status, const char * format, ...) __attribute__((format(printf, 2, 3)));

// Turns the exception that is being handled into its status, and fills error (which may be NULL).
plumb_status report_exception(plumb_error * error) noexcept;

// Runs the body of an API function: nothing that it throws leaves.
template <typename F> plumb_status guarded(plumb_error * error, F && body) noexcept {
    try {
        body();
        if (error) {
            error->status     = PLUMB_OK;
            error->message[0] = 0;
        }
        return PLUMB_OK;
    } catch (...) {
        return report_exception(error);
    }
}

// The last error that llama.cpp or ggml logged on any thread since the last call; empty if there was none.
std::string take_logged_error();

// Sends llama.cpp's and ggml's logs to the store behind take_logged_error, and makes a ggml abort print one line and end
// the process with status 1. Done once, when a model is opened: a program that only uses hooks keeps its own log.
void install_log_and_abort_handlers();

} // namespace plumb
