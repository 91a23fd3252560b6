#!/usr/bin/env python3
"""Builds llama.cpp as static libraries in the cache and prints the folder they were installed into.

    build_llama.py [-DNAME=VALUE …]     more flags for llama.cpp's CMake, such as -DGGML_CUDA=ON
    build_llama.py --program NAME       one of llama.cpp's own programs instead; prints where it lies
    build_llama.py --server-parts [-D…] what its server is linked from, but for the server; prints the build's folder

The folder's name holds a hash of all that decides what is built, so that another clone on this machine builds nothing.
The folder of a pinned version is left alone once it is there; one of a checkout (LLAMA_CPP_DIR) is brought up to date
each time. The file "version" in it names the llama.cpp that was built.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import fetch

FLAGS = [
    "-DCMAKE_BUILD_TYPE=Release",
    "-DCMAKE_INSTALL_LIBDIR=lib",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DLLAMA_BUILD_COMMON=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_TOOLS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_SERVER=OFF",
    "-DLLAMA_BUILD_APP=OFF",
    "-DGGML_OPENMP=OFF",
    "-DGGML_RPC=ON",
    "-DGGML_RPC_RDMA=OFF",
    "-DGGML_NATIVE=ON",
    "-DGGML_METAL=OFF",
    "-DGGML_CUDA_NCCL=OFF",
]
PRODUCTS = Path(__file__).with_name("ggml_products.cmake")


def build_llama(more_flags):
    flags = FLAGS + more_flags
    source = fetch.llama_cpp()
    checkout = bool(os.environ.get("LLAMA_CPP_DIR"))
    builds = fetch.cache_folder() / "builds"
    builds.mkdir(parents=True, exist_ok=True)
    target = builds / f"llama.cpp-{key(source, flags)}"
    with open(f"{target}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            fetch.say(f"building llama.cpp into {target}, once: some minutes")
        if checkout:
            build(source, Path(f"{target}.work"), target, flags)
            write_if_changed(target / "version", checkout_version(source))
        elif not target.is_dir():
            work = Path(f"{target}.work")  # a killed build is taken up again
            build(source, work / "build", work / "install", flags)
            write_if_changed(work / "install" / "version", fetch.read_pin("llama.cpp.json", "llama.cpp")["version"])
            os.replace(work / "install", target)
            shutil.rmtree(work)
    return target


def build_program(name, more_flags=()):
    """One of llama.cpp's own programs, tools and tests."""
    return build_apart([name], more_flags) / "bin" / name


def build_server_parts(more_flags):
    """The libraries below llama.cpp's server, which is not itself built: csrc/server compiles a patched one."""
    return build_apart(["llama-common", "mtmd", "cpp-httplib"], more_flags)


def build_apart(targets, more_flags):
    """Targets that need more of llama.cpp than the library does, in a build folder of their own, which stays."""
    parts = [f"-DLLAMA_BUILD_{part}=" for part in ("COMMON", "TOOLS", "TESTS")]
    flags = [flag for flag in FLAGS if not flag.startswith(tuple(parts))] + [part + "ON" for part in parts] + list(more_flags)
    source = fetch.llama_cpp()
    builds = fetch.cache_folder() / "builds"
    builds.mkdir(parents=True, exist_ok=True)
    folder = builds / f"programs-{key(source, flags)}"
    done = folder / "built" / "+".join(targets)
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.environ.get("LLAMA_CPP_DIR") or not done.exists():
            fetch.say(f"building llama.cpp's {', '.join(targets)} in {folder}, once: some minutes")
            run_all(configure(source, folder, flags), ["cmake", "--build", str(folder), "--target", *targets])
            done.parent.mkdir(exist_ok=True)
            done.touch()
    return folder


def key(source, flags):
    """Of the source, the flags, the compilers and, since the code is made for it, the processor."""
    parts = [str(source), *flags, PRODUCTS.read_text(), platform.system(), platform.machine(), processor()]
    for variable, usual in (("CC", "cc"), ("CXX", "c++")):
        compiler = os.environ.get(variable) or usual
        parts += [compiler, output_of([*compiler.split(), "--version"])]
    parts += [os.environ.get(name, "") for name in ("CFLAGS", "CXXFLAGS", "LDFLAGS", "CUDACXX", "CUDAARCHS")]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def processor():
    try:
        with open("/proc/cpuinfo") as f:
            return next((line for line in f if line.startswith(("flags", "Features"))), "")
    except OSError:
        return output_of(["sysctl", "-n", "machdep.cpu"])


def checkout_version(source):
    return output_of(["git", "-C", str(source), "describe", "--always", "--dirty", "--tags"]).strip() or "unknown"


def build(source, work, install, flags):
    flags = [f"-DCMAKE_INSTALL_PREFIX={install}", *flags]
    run_all(configure(source, work, flags), ["cmake", "--build", str(work), "--target", "llama"], ["cmake", "--install", str(work)])


def configure(source, folder, flags):
    return ["cmake", "-S", str(source), "-B", str(folder), "-G", "Ninja", f"-DCMAKE_PROJECT_ggml_INCLUDE={PRODUCTS}", *flags]


def run_all(*commands):
    for command in commands:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace")
        if done.returncode != 0:
            sys.stderr.write(done.stdout)
            raise fetch.Failure(f"llama.cpp did not build (above: the output of {' '.join(command[:2])})")


def output_of(command):
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
    except OSError:
        return ""


def write_if_changed(path, text):
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main(arguments):
    if arguments[:1] == ["--program"] and len(arguments) == 2:
        return fetch.run(lambda: build_program(arguments[1]))
    if arguments[:1] == ["--server-parts"]:
        return fetch.run(lambda: build_server_parts(arguments[1:]))
    return fetch.run(lambda: build_llama(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
