"""Tests of build_llama.py on a checkout that holds one function, with the machine's own compiler."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import fetch

CMAKE = """
cmake_minimum_required(VERSION 3.14)
project(llama C)
add_library(llama STATIC llama.c)
target_include_directories(llama PUBLIC include)
add_executable(ask-llama EXCLUDE_FROM_ALL ask.c)
target_link_libraries(ask-llama llama)
set_target_properties(ask-llama PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
install(TARGETS llama)
install(FILES include/llama.h DESTINATION include)
"""


class BuildTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp()).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        self.checkout = self.folder / "a checkout"
        (self.checkout / "include").mkdir(parents=True)
        (self.checkout / "CMakeLists.txt").write_text(CMAKE)
        (self.checkout / "include" / "llama.h").write_text("int answer(void);\n")
        (self.checkout / "llama.c").write_text('#include "llama.h"\nint answer(void) { return 41; }\n')
        (self.checkout / "ask.c").write_text('#include "llama.h"\nint main(void) { return answer(); }\n')

    def build(self, *flags):
        env = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "a cache"), "LLAMA_CPP_DIR": str(self.checkout)}
        done = subprocess.run([sys.executable, str(fetch.HERE / "build_llama.py"), *flags], env=env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return done.returncode, Path(done.stdout.strip()), done.stderr

    def test_a_checkout_is_built_once_and_again_when_it_changes(self):
        status, prefix, err = self.build()
        self.assertEqual(0, status, err)
        archive = prefix / "lib" / "libllama.a"
        self.assertTrue((prefix / "include" / "llama.h").is_file())
        self.assertEqual("unknown", (prefix / "version").read_text())
        first, when = archive.read_bytes(), archive.stat().st_mtime_ns

        self.assertEqual((0, prefix, ""), self.build())
        self.assertEqual(when, archive.stat().st_mtime_ns, "built again though nothing changed")

        # CMake installs no file whose time is within a second of the installed one's; llama.cpp takes longer to build.
        os.utime(archive, ns=(when - 2 * 10**9, when - 2 * 10**9))
        (self.checkout / "llama.c").write_text('#include "llama.h"\nint answer(void) { return 42; }\n')
        self.assertEqual((0, prefix, ""), self.build())
        self.assertNotEqual(first, archive.read_bytes())

        status, other, err = self.build("-DGGML_CUDA=ON")
        self.assertEqual(0, status, err)
        self.assertNotEqual(prefix, other, "other flags must not share a folder")

    def test_a_program_is_built_apart_from_the_library(self):
        status, program, err = self.build("--program", "ask-llama")
        self.assertEqual(0, status, err)
        self.assertEqual(41, subprocess.run([program]).returncode)
        status, prefix, err = self.build()
        self.assertEqual(0, status, err)
        self.assertNotIn(prefix, program.parents)
        status, _, err = self.build("--program", "no-such-program")
        self.assertEqual(1, status)
        self.assertTrue(err.splitlines()[-1].startswith("fetch: error: llama.cpp did not build"), err)

    def test_a_compiler_error_is_shown(self):
        (self.checkout / "llama.c").write_text("int answer(void) { return }\n")
        status, prefix, err = self.build()
        self.assertEqual((1, Path()), (status, prefix))
        self.assertIn("llama.c:1:", err)
        self.assertTrue(err.splitlines()[-1].startswith("fetch: error: llama.cpp did not build"), err)


if __name__ == "__main__":
    unittest.main()
