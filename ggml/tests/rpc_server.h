// An RPC server on this machine, in a child process: the cheap test that no code takes a device's memory for its own.

#pragma once

#include "ggml-backend.h"

#include <string>
#include <sys/types.h>

namespace plumb {

class rpc_server {
  public:
    // Starts a server of the CPU device on a free port and waits until it answers. To be made before the process has
    // threads. Throws std::runtime_error if it does not come up.
    rpc_server();
    ~rpc_server();

    rpc_server(const rpc_server &)             = delete;
    rpc_server & operator=(const rpc_server &) = delete;

    const std::string & endpoint() const { return address; }

    // Its device, registered with ggml.
    ggml_backend_dev_t device();

  private:
    std::string        address;
    pid_t              child = -1;
    ggml_backend_dev_t dev   = nullptr;
};

} // namespace plumb
