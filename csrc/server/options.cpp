#include "options.h"

#include "error.h"

#include <cmath>
#include <cstdlib>
#include <sys/stat.h>

namespace plumb {

namespace {

std::optional<double> parse_number(const std::string & text) {
    char *       end    = nullptr;
    const double number = strtod(text.c_str(), &end);
    return text.empty() || *end != 0 || !std::isfinite(number) ? std::nullopt : std::optional<double>(number);
}

server_options::steered_by parse_steer(const std::string & text) {
    struct stat  info;
    const size_t colon = text.rfind(':');
    if (colon == std::string::npos || stat(text.c_str(), &info) == 0) { // a file's name may hold a colon
        return { text, std::nullopt };
    }
    const auto strength = parse_number(text.substr(colon + 1));
    if (!strength) {
        fail(PLUMB_INVALID, "--steer %s: what follows the colon is a strength, a number", text.c_str());
    }
    return { text.substr(0, colon), strength };
}

void parse_address(const std::string & text, control_options & control) {
    const size_t colon = text.rfind(':');
    if (colon != std::string::npos) {
        control.host = text.substr(0, colon);
        if (control.host.size() > 1 && control.host.front() == '[' && control.host.back() == ']') {
            control.host = control.host.substr(1, control.host.size() - 2);
        }
    }
    const auto port = parse_number(colon == std::string::npos ? text : text.substr(colon + 1));
    if (!port || *port != std::floor(*port) || *port < 1 || *port > 65535 || control.host.empty()) {
        fail(PLUMB_INVALID, "--steer-address %s: an address is HOST:PORT, or the port alone", text.c_str());
    }
    control.port = (int) *port;
}

} // namespace

const char * const server_options_help = R"(plumb-server is llama.cpp's server, steered. Its own flags are:

  --steer FILE[:STRENGTH]       load a steering file and steer by it, with the file's strength or another; may be repeated
  --steer-address [HOST:]PORT   serve the control address (HOST is 127.0.0.1 if not given): list, load, change and remove
                                steering while the server serves. With PLUMB_STEER_TOKEN set in the environment, which
                                another HOST than this machine needs, requests must carry it as a bearer token
  --steer-folder DIR            the folder that the control address loads files from

A request's field "steering", [{"name": …, "strength": …}, …], replaces for it what is enabled. A request keeps the
steering that was enabled when it arrived. All other flags are llama-server's:

)";

server_options take_server_options(std::vector<std::string> & arguments) {
    server_options           options;
    std::vector<std::string> rest;
    std::string              address, folder;
    for (size_t i = 0; i < arguments.size(); i++) {
        const std::string & flag = arguments[i];
        if (i == 0 || (flag != "--steer" && flag != "--steer-address" && flag != "--steer-folder")) {
            rest.push_back(flag);
            continue;
        }
        if (i + 1 == arguments.size() || arguments[i + 1].empty()) {
            fail(PLUMB_INVALID, "%s needs a value", flag.c_str());
        }
        const std::string & value = arguments[++i];
        if (flag == "--steer") {
            options.steer.push_back(parse_steer(value));
        } else {
            (flag == "--steer-address" ? address : folder) = value;
        }
    }
    arguments = std::move(rest);
    if (address.empty()) {
        if (!folder.empty()) {
            fail(PLUMB_INVALID, "--steer-folder goes with --steer-address");
        }
        return options;
    }
    control_options control;
    parse_address(address, control);
    const char * token = getenv("PLUMB_STEER_TOKEN");
    control.token      = token ? token : "";
    control.folder     = folder;
    struct stat info;
    if (!folder.empty() && (stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))) {
        fail(PLUMB_INVALID, "--steer-folder %s is not a folder", folder.c_str());
    }
    if (control.token.empty() && !is_loopback(control.host)) {
        fail(PLUMB_INVALID, "--steer-address %s can be reached from other machines: set PLUMB_STEER_TOKEN",
             address.c_str());
    }
    options.control = control;
    return options;
}

} // namespace plumb
