"""The patches of llama.cpp's server apply to the pinned source, and to nothing that has changed where they do."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import fetch


class PatchTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp()).resolve()
        self.addCleanup(shutil.rmtree, self.folder)

    def patched(self, out, **environment):
        done = subprocess.run([sys.executable, str(fetch.HERE / "server_source.py"), str(out)], env={**os.environ, **environment},
                              text=True, capture_output=True)
        return done.returncode, done.stderr

    def test_the_patch_applies_to_the_pinned_source(self):
        out = self.folder / "out"
        self.assertEqual((0, ""), self.patched(out))
        stock = fetch.llama_cpp() / "tools" / "server"
        changed = {file.name for file in out.iterdir() if file.read_bytes() != (stock / file.name).read_bytes()}
        named = {line.split("/")[-1] for patch in (fetch.HERE / "patches").glob("*.patch")
                 for line in patch.read_text().splitlines() if line.startswith("+++ ")}
        self.assertEqual(named, changed)
        self.assertIn("server-context.cpp", changed)

    def test_what_is_there_is_left_alone(self):
        self.patched(self.folder)
        times = {file: file.stat().st_mtime_ns for file in self.folder.iterdir()}
        (self.folder / "of-another-version.cpp").touch()
        self.assertEqual((0, ""), self.patched(self.folder))
        self.assertEqual(times, {file: file.stat().st_mtime_ns for file in self.folder.iterdir()})

    def test_another_source_is_refused_in_one_line(self):
        checkout = self.folder / "checkout"
        (checkout / "include").mkdir(parents=True)
        (checkout / "include" / "llama.h").touch()
        shutil.copytree(fetch.llama_cpp() / "tools" / "server", checkout / "tools" / "server")
        file = checkout / "tools" / "server" / "server-context.cpp"
        file.write_text(file.read_text().replace("are_lora_equal(lora, other_slot.lora)", "same_lora(lora, other_slot.lora)"))
        status, err = self.patched(self.folder / "out", LLAMA_CPP_DIR=str(checkout))
        self.assertEqual((1, 1), (status, len(err.splitlines())), err)
        self.assertIn("does not apply", err)
        self.assertFalse((self.folder / "out").exists())


if __name__ == "__main__":
    unittest.main()
