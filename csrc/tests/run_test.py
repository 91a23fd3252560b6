#!/usr/bin/env python3
"""`plumb run` with a program that is linked to llama.cpp's shared library, and with programs that it must refuse.

Run by `make test-server`. The programs are made here, with the C compiler.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from server_test import HIGH, LOW, N_TOKENS, PLUMB, PROMPT, ROOT, SERVER, f32_model, run  # noqa: E402

sys.path.insert(0, str(ROOT / "third_party"))
import build_llama  # noqa: E402

# of a llama.cpp's library, what plumb looks at before anything is called
OTHER_LIBRARY = """
const char * llama_version(void) { return "%s"; }
const char * ggml_version(void) { return "%s"; }
void llama_context_default_params(void) {}
void llama_process(void) {}
void ggml_backend_is_cpu(void) {}
int llama_init_from_model(void) { return 7; }
"""
PROGRAM = "int llama_init_from_model(void); int main(void) { return llama_init_from_model(); }\n"


class RunTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        run(PLUMB, "steer", "fit", "--model", "smollm2", "--threads", "1", "--method", "contrast", "--layer", "15", "--sample", "24",
            "--pooled", "--strength", str(LOW), "--out", cls.folder / "fit")
        cls.file = next((cls.folder / "fit").rglob("contrast.gguf"))

    def refused(self, reason, *command):
        done = subprocess.run([PLUMB, "run", *command], capture_output=True, text=True, timeout=120)
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertIn(reason, done.stderr)
        self.assertEqual(1, len(done.stderr.splitlines()), done.stderr)

    def compile(self, name, source, *flags):
        (self.folder / f"{name}.c").write_text(source)
        run(*os.environ.get("CC", "cc").split(), "-o", self.folder / name, self.folder / f"{name}.c", *flags)
        return self.folder / name

    def greedy(self):
        """A program of llama.cpp's, with its shared library."""
        shared = build_llama.build_apart(["llama"], ["-DBUILD_SHARED_LIBS=ON"]) / "bin"
        source = build_llama.fetch.llama_cpp()
        return self.compile("greedy", (ROOT / "csrc/tests/greedy.c").read_text(), f"-I{source}/include", f"-I{source}/ggml/include",
                            f"-L{shared}", "-lllama", "-lggml", "-lggml-base", f"-Wl,-rpath,{shared}")

    def test_an_unmodified_program_is_steered(self):
        model, program = f32_model(), self.greedy()
        wanted = json.loads(run(PLUMB, "generate", "--model", model, "--threads", "1", "--steer", self.file, "--alpha", str(HIGH),
                                "--chat", "off", "--temperature", "0", "--tokens", str(N_TOKENS), "--json", "--prompt", PROMPT))
        self.assertNotEqual(wanted["unsteered"], wanted["steered"])
        self.assertEqual(wanted["unsteered"], run(program, model, str(N_TOKENS), PROMPT, errors="replace"))
        steered = run(PLUMB, "run", "--steer", f"{self.file}:{HIGH}", "--", program, model, str(N_TOKENS), PROMPT, errors="replace")
        self.assertEqual(wanted["steered"], steered)

    def test_a_model_that_the_file_does_not_fit_is_refused(self):
        done = subprocess.run([PLUMB, "run", "--steer", ROOT / "steer/testdata/projection.gguf", "--", self.greedy(), f32_model(), "1",
                               PROMPT], capture_output=True, text=True, timeout=120)
        self.assertEqual(1, done.returncode)
        self.assertIn("the model's residual stream 576", done.stderr)

    def test_a_program_with_llama_cpp_inside_is_refused(self):
        self.refused("not linked to llama.cpp's shared library", "--steer", self.file, "--", SERVER, "--version")

    def test_a_static_program_is_refused(self):
        program = self.compile("static", "int main(void) { return 0; }\n", "-static")
        self.refused("statically linked", "--steer", self.file, "--", program)

    def test_a_script_is_refused(self):
        script = self.folder / "script"
        script.write_text("#!/bin/sh\n")
        script.chmod(0o755)
        self.refused("a script?", "--steer", self.file, "--", script)

    def test_another_version_is_refused(self):
        for versions in (("0.4.9", "0.25.3"), ("99.0.0", "0.25.3")):
            folder = self.folder / versions[0]
            folder.mkdir()
            library = self.compile(f"{versions[0]}/libllama.so", OTHER_LIBRARY % versions, "-shared", "-fPIC")
            program = self.compile(f"{versions[0]}/program", PROGRAM, library, f"-Wl,-rpath,{folder}")
            self.assertEqual(7, subprocess.run([program]).returncode)
            self.refused(f"the program's llama.cpp is {versions[0]}", "--steer", self.file, "--", program)

    def test_wrong_command_lines(self):
        for command, reason in (([], "needs --steer"), (["--steer", self.file], "needs a program"),
                                (["--steer", f"{self.file}:x", "--", "true"], "a strength, a number")):
            done = subprocess.run([PLUMB, "run", *command], capture_output=True, text=True)
            self.assertEqual(2, done.returncode)
            self.assertIn(reason, done.stderr)
        self.refused("no-such-program", "--steer", self.file, "--", "no-such-program")
        self.refused("none.gguf", "--steer", "none.gguf", "--", "true")


if __name__ == "__main__":
    unittest.main()
