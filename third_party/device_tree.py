#!/usr/bin/env python3
"""Packs what `make check-device` compiles, llama.cpp included, for a machine that has CMake, a compiler and the CUDA toolkit.

    device_tree.py FILE.tar.gz

There: tar xzf FILE.tar.gz && plumb/check-device
"""

import io
import sys
import tarfile
from pathlib import Path

import build_llama
import fetch

ROOT = Path(__file__).resolve().parents[1]
OURS = ["CMakeLists.txt", "LICENSE", "bindings/link.cmake", "csrc", "ggml"]
LLAMA = ["CMakeLists.txt", "LICENSE", "licenses", "cmake", "include", "src", "vendor", "ggml"]
BACKENDS = {"ggml-cpu", "ggml-cuda", "ggml-rpc"}

SCRIPT = """#!/usr/bin/env bash
# Builds llama.cpp and Plumb's native library, for CUDA where there is a CUDA compiler (CUDA_ARCH=90: not for this machine's
# GPU but for that architecture), and says whether results on the GPU are the CPU's, and how fast.
set -euo pipefail
cd "$(dirname "$0")"
PATH=$PATH:/usr/local/cuda/bin
jobs=$(getconf _NPROCESSORS_ONLN)
cuda=()
if command -v nvcc >/dev/null; then
	cuda=(-DGGML_CUDA=ON -DGGML_CUDA_FA=OFF "-DCMAKE_CUDA_ARCHITECTURES=${CUDA_ARCH:-native}")
fi
quietly() { "$@" >build.log 2>&1 || { cat build.log >&2; exit 1; }; }
quietly cmake -S llama.cpp -B build/llama "-DCMAKE_INSTALL_PREFIX=$PWD/build/installed" @FLAGS@ "${cuda[@]}"
quietly cmake --build build/llama --target llama -j "$jobs"
quietly cmake --install build/llama
printf %s '@VERSION@' >build/installed/version
quietly cmake -S . -B build/plumb "-DLLAMA_PREFIX=$PWD/build/installed"
quietly cmake --build build/plumb --target check_device -j "$jobs"
build/plumb/check_device "$@"
"""


def pack(target):
    source = fetch.llama_cpp()
    target.parent.mkdir(parents=True, exist_ok=True)

    def of_a_backend_left_out(info):
        parts = Path(info.name).parts
        return len(parts) > 4 and parts[2:4] == ("ggml", "src") and parts[4].startswith("ggml-") and not (
            parts[4] in BACKENDS or Path(parts[4]).suffix)

    def cleaned(info):
        if of_a_backend_left_out(info) or info.name.endswith("__pycache__"):
            return None
        info.uid = info.gid = info.mtime = 0
        info.uname = info.gname = ""
        return info

    with tarfile.open(target, "w:gz") as archive:
        for name in OURS:
            archive.add(ROOT / name, f"plumb/{name}", filter=cleaned)
        for name in LLAMA:
            if (source / name).exists():
                archive.add(source / name, f"plumb/llama.cpp/{name}", filter=cleaned)
        version = fetch.read_pin("llama.cpp.json", "llama.cpp")["version"]
        script = SCRIPT.replace("@FLAGS@", " ".join(build_llama.FLAGS)).replace("@VERSION@", version).encode()
        info = tarfile.TarInfo("plumb/check-device")
        info.mode, info.size = 0o755, len(script)
        archive.addfile(info, io.BytesIO(script))
    return target


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(fetch.run(lambda: pack(Path(sys.argv[1]))))
