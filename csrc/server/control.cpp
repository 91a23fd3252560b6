#include "control.h"

#include "error.h"
#include "plans.h"

#include "log.h"

#include <cpp-httplib/httplib.h>

#include <filesystem>
#include <thread>

namespace plumb {

namespace {

const size_t body_max = 64 * 1024;

// A file of the folder by its relative path, links resolved.
std::string file_in(const std::string & folder, const std::string & file) {
    namespace fs = std::filesystem;
    if (folder.empty()) {
        fail(PLUMB_INVALID, "no file is loaded from here: the server was started without --steer-folder");
    }
    std::error_code error;
    const fs::path  root = fs::canonical(folder, error);
    const fs::path  path = error ? fs::path() : fs::canonical(root / file, error);
    const auto      end  = std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first;
    if (error || end != root.end() || !fs::is_regular_file(path, error)) {
        fail(PLUMB_NOT_FOUND, "the folder that steerings are loaded from has no such file");
    }
    return path.string();
}

int http_status(plumb_status status) {
    switch (status) {
        case PLUMB_OK:
            return 200;
        case PLUMB_INVALID:
        case PLUMB_FORMAT:
            return 400;
        case PLUMB_NOT_FOUND:
            return 404;
        case PLUMB_UNSUPPORTED:
            return 503;
        default:
            return 500;
    }
}

template <typename T> std::optional<T> optional_field(const common_json & body, const char * name) {
    return body.contains(name) ? std::optional<T>(body.at(name).get<T>()) : std::nullopt;
}

// The request's body, an object that has fields of these names alone, of their types.
common_json fields_of(const std::string & text, std::initializer_list<const char *> names) {
    const common_json body = common_json::parse_no_throw(text);
    if (body.is_discarded() || !body.is_object()) {
        fail(PLUMB_INVALID, "the body is not a JSON object");
    }
    for (const auto & [name, value] : body.items()) {
        const bool known = std::find(names.begin(), names.end(), name) != names.end();
        const bool typed = name == "strength"  ? value.is_number()
                           : name == "enabled" ? value.is_boolean()
                                               : value.is_string();
        if (!known || !typed) {
            fail(PLUMB_INVALID, "the body has a field that is unknown here or of the wrong type: \"%.64s\"",
                 name.c_str());
        }
    }
    return body;
}

// Of equal length whatever it is compared with, so that the time says nothing of the token.
bool same_text(const std::string & given, const std::string & wanted) {
    unsigned char differs = given.size() != wanted.size();
    for (size_t i = 0; i < wanted.size(); i++) {
        differs |= (unsigned char) (wanted[i] ^ (i < given.size() ? given[i] : 0));
    }
    return differs == 0;
}

std::string host_of(const std::string & address) {
    const size_t colon = address.rfind(':');
    const bool   ipv6  = !address.empty() && address[0] == '[';
    const size_t end   = ipv6 ? address.find(']') : colon;
    return ipv6 ? address.substr(1, end == std::string::npos ? end : end - 1) : address.substr(0, end);
}

} // namespace

bool is_loopback(const std::string & host) {
    // a name may begin with 127. too, and lead anywhere
    const bool ipv4 = host.find_first_not_of("0123456789.") == std::string::npos;
    return host == "localhost" || host == "::1" || (ipv4 && host.rfind("127.", 0) == 0);
}

struct control_server::impl {
    control_options options;
    httplib::Server http;
    std::thread     thread;

    using handler = std::function<void(const httplib::Request &)>;

    // Who may not, or a page of a browser that was led here, is turned away before the body is read.
    bool admits(const httplib::Request & request, httplib::Response & response) const {
        std::string reason;
        if (!options.token.empty()) {
            if (!same_text(request.get_header_value("Authorization"), "Bearer " + options.token)) {
                reason = "wrong or missing token";
            }
        } else if (!is_loopback(host_of(request.get_header_value("Host"))) || request.has_header("Origin")) {
            reason = "without a token only programs of this machine are served";
        }
        if (!reason.empty()) {
            answer(response, options.token.empty() ? 403 : 401, { { "error", reason } });
        }
        return reason.empty();
    }

    static void answer(httplib::Response & response, int status, const common_json & body) {
        response.status = status;
        response.set_content(body.dump_safe() + "\n", "application/json");
    }

    httplib::Server::Handler guarded_by_status(handler handle) const {
        return [handle](const httplib::Request & request, httplib::Response & response) {
            plumb_error error;
            const auto  status = guarded(&error, [&] { handle(request); });
            if (status == PLUMB_OK) {
                if (request.method != "GET") {
                    LOG_INF("plumb: steering is now %s\n", plan_json(active_plan()).dump_safe().c_str());
                }
                answer(response, 200, { { "steering", loaded_steerings().list() } });
            } else {
                answer(response, http_status(status), { { "error", std::string(error.message) } });
            }
        };
    }

    explicit impl(const control_options & o) : options(o) {
        http.set_payload_max_length(body_max);
        http.set_read_timeout(5);
        // without httplib's SO_REUSEPORT, by which a second server would take part of what is meant for the first
        http.set_socket_options([](socket_t socket) { httplib::set_socket_opt(socket, SOL_SOCKET, SO_REUSEADDR, 1); });
        http.set_pre_routing_handler([this](const httplib::Request & request, httplib::Response & response) {
            return admits(request, response) ? httplib::Server::HandlerResponse::Unhandled
                                             : httplib::Server::HandlerResponse::Handled;
        });
        http.set_error_handler([](const httplib::Request &, httplib::Response & response) {
            if (response.body.empty()) {
                answer(response, response.status,
                       { { "error", response.status == 413   ? "the body is too large"
                                    : response.status == 404 ? "there is no such thing here"
                                                             : "this is not a request of HTTP" } });
            }
        });
        steerings & all = loaded_steerings();
        http.Get("/steering", guarded_by_status([](const httplib::Request &) {}));
        http.Post("/steering", guarded_by_status([this, &all](const httplib::Request & request) {
                      const common_json body = fields_of(request.body, { "file", "name", "strength", "enabled" });
                      if (!body.contains("file")) {
                          fail(PLUMB_INVALID, "the body has no \"file\"");
                      }
                      if (!all.has_model()) {
                          fail(PLUMB_UNSUPPORTED, "the model is still being loaded; try again");
                      }
                      all.load(file_in(options.folder, body.at("file").get<std::string>()), body.value("name", ""),
                               optional_field<double>(body, "strength"), body.value("enabled", true));
                  }));
        http.Patch("/steering/:name", guarded_by_status([&all](const httplib::Request & request) {
                       const common_json body = fields_of(request.body, { "strength", "enabled" });
                       all.set(request.path_params.at("name"), optional_field<double>(body, "strength"),
                               optional_field<bool>(body, "enabled"));
                   }));
        http.Delete("/steering/:name", guarded_by_status([&all](const httplib::Request & request) {
                        all.remove(request.path_params.at("name"));
                    }));
        if (!http.bind_to_port(options.host, options.port)) {
            fail(PLUMB_ERROR, "cannot listen on the control address %s:%d", options.host.c_str(), options.port);
        }
        thread = std::thread([this] { http.listen_after_bind(); });
        http.wait_until_ready();
    }

    ~impl() {
        http.stop();
        thread.join();
    }
};

control_server::control_server(const control_options & options) : self(std::make_unique<impl>(options)) {
}

control_server::~control_server() = default;

} // namespace plumb
