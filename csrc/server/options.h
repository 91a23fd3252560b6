// The flags that plumb-server has beside llama-server's.

#pragma once

#include "control.h"

#include <optional>
#include <string>
#include <vector>

namespace plumb {

struct server_options {
    struct steered_by {
        std::string           file;
        std::optional<double> strength; // without one the file's
    };

    std::vector<steered_by>        steer;
    std::optional<control_options> control;

    bool any() const { return !steer.empty() || control; }
};

extern const char * const server_options_help;

// Takes Plumb's flags out of arguments, the program's name first; what is left is llama-server's. Throws failure.
server_options take_server_options(std::vector<std::string> & arguments);

} // namespace plumb
