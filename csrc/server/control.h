// The control address: what is loaded, over HTTP, while the server serves.
//
//   GET    /steering         what is loaded
//   POST   /steering         {"file": "gcd.gguf", "name": …, "strength": …, "enabled": …} loads a file of the folder
//   PATCH  /steering/NAME    {"strength": …, "enabled": …} sets one or both
//   DELETE /steering/NAME    removes it
//
// Every answer is {"steering": [what is loaded]} or {"error": one line}.

#pragma once

#include <memory>
#include <string>

namespace plumb {

struct control_options {
    std::string host = "127.0.0.1";
    int         port = 0;
    std::string token;  // asked for as "Authorization: Bearer …"; empty: none, then the host is this machine alone
    std::string folder; // the only one that files are loaded from; empty: none are
};

class control_server {
  public:
    explicit control_server(const control_options & options); // throws failure if it cannot listen
    ~control_server();

  private:
    struct impl;
    std::unique_ptr<impl> self;
};

bool is_loopback(const std::string & host);

} // namespace plumb
