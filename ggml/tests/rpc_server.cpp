#include "rpc_server.h"

#include "ggml-rpc.h"

#include <arpa/inet.h>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <netinet/in.h>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

// ggml keeps what it knows of a server until the process ends, and its RPC client frees what is in an event but not the event;
// LeakSanitizer, in the instrumented build, takes both for lost.
extern "C" const char * __lsan_default_suppressions();

extern "C" const char * __lsan_default_suppressions() {
    return "leak:ggml_backend_rpc_\nleak:rpc_dispatcher::event_new\n";
}

namespace plumb {

static sockaddr_in loopback(int port) {
    sockaddr_in address{};
    address.sin_family      = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port        = htons((uint16_t) port);
    return address;
}

static int free_port() {
    const int   fd      = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = loopback(0);
    socklen_t   size    = sizeof address;
    int         port    = -1;
    if (bind(fd, (sockaddr *) &address, size) == 0 && getsockname(fd, (sockaddr *) &address, &size) == 0) {
        port = ntohs(address.sin_port);
    }
    close(fd);
    return port;
}

static bool answers(int port) {
    const int   fd        = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address   = loopback(port);
    const bool  connected = connect(fd, (sockaddr *) &address, sizeof address) == 0;
    close(fd);
    return connected;
}

rpc_server::rpc_server() {
    const int port     = free_port();
    address            = "127.0.0.1:" + std::to_string(port);
    const pid_t parent = getpid();
    child              = fork();
    if (child == 0) {
        // The server only ends when it is killed; a test that crashes must not leave it behind.
        std::thread([parent] {
            while (getppid() == parent) {
                std::this_thread::sleep_for(std::chrono::milliseconds(200));
            }
            _exit(0);
        }).detach();
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)) {
            _exit(1);
        }
        ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
        ggml_backend_rpc_start_server(address.c_str(), nullptr, 1, 1, &cpu);
        _exit(1);
    }
    for (int i = 0; i < 250 && child > 0; i++) {
        if (answers(port)) {
            return;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    throw std::runtime_error("the RPC server on " + address + " does not answer");
}

rpc_server::~rpc_server() {
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
    }
}

ggml_backend_dev_t rpc_server::device() {
    if (!dev) {
        ggml_backend_reg_t reg = ggml_backend_rpc_add_server(address.c_str());
        if (!reg) {
            throw std::runtime_error("no RPC server at " + address);
        }
        ggml_backend_register(reg);
        dev = ggml_backend_reg_dev_get(reg, 0);
    }
    return dev;
}

} // namespace plumb
