#!/usr/bin/env python3
"""Copies the sources of llama.cpp's server into a folder and applies patches/server_*.patch to them.

    server_source.py FOLDER

A file that is there already and has the right content is left alone, so that nothing is compiled again for it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import fetch

PATCHES = fetch.HERE / "patches"


def patched_server(folder):
    source = fetch.llama_cpp()
    with tempfile.TemporaryDirectory() as work:
        copy = Path(work) / "tools" / "server"
        copy.mkdir(parents=True)
        for file in (source / "tools" / "server").iterdir():
            if file.suffix in (".cpp", ".h"):
                shutil.copyfile(file, copy / file.name)
        for patch in sorted(PATCHES.glob("server_*.patch")):
            # git takes a folder for part of a repository that lies above it, and then applies nothing
            done = subprocess.run(["git", "apply", "--whitespace=nowarn", str(patch)], cwd=work, capture_output=True, text=True,
                                  env={**os.environ, "GIT_CEILING_DIRECTORIES": str(Path(work).parent)})
            if done.returncode != 0:
                raise fetch.Failure(f"{patch.name} does not apply to {source} ({done.stderr.strip().splitlines()[0]}); "
                                    "it is for the pinned llama.cpp")
        folder.mkdir(parents=True, exist_ok=True)
        names = {file.name for file in copy.iterdir()}
        for file in folder.iterdir():
            if file.name not in names:
                file.unlink()
        for name in names:
            if not (folder / name).exists() or (folder / name).read_bytes() != (copy / name).read_bytes():
                shutil.copyfile(copy / name, folder / name)
    return folder


def main(arguments):
    if len(arguments) != 1:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    return fetch.run(lambda: patched_server(Path(arguments[0]).resolve()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
