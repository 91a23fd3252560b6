#!/usr/bin/env python3
"""Installs Plumb into a temporary folder and builds the example program with what lies there alone.

Run by `make test-install`, after the C++ tests, which leave a tiny model.
"""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "build/release/csrc/tests/tiny.gguf"


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        first = Path(cls.folder.name) / "first place"
        run("make", "-C", ROOT, "install", f"PREFIX={first}")
        cls.prefix = Path(cls.folder.name) / "moved"  # what is installed must not know where
        first.rename(cls.prefix)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def flags(self):
        """The compiler's flags: of pkg-config, or where there is none, those that plumb.pc names."""
        folder = self.prefix / "lib/pkgconfig"
        if shutil.which("pkg-config"):
            environment = {**os.environ, "PKG_CONFIG_PATH": str(folder)}
            return run("pkg-config", "--cflags", "--libs", "plumb", env=environment).split()
        variables, flags = {"pcfiledir": str(folder)}, []
        for line in (folder / "plumb.pc").read_text().splitlines():
            for name, value in variables.items():
                line = line.replace("${%s}" % name, value)
            if line.startswith(("Cflags:", "Libs:")):
                flags += line.split(":", 1)[1].split()
            elif "=" in line and not line.startswith("#"):
                name, value = line.split("=", 1)
                variables[name] = value
        return flags

    def test_a_program_is_built_with_what_is_installed(self):
        program = Path(self.folder.name) / "own_context"
        run(*os.environ.get("CC", "cc").split(), "-o", program, ROOT / "csrc/examples/own_context.c", *self.flags(), cwd="/")
        printed = run(program, TINY, "2", "tok_1tok_2tok_3")
        self.assertRegex(printed, r"^plain  : token \d+ .*\nsteered: token \d+ ")

    def test_the_program_runs(self):
        self.assertIn("plumb version", run(self.prefix / "bin/plumb", "--version"))

    def test_every_command_has_a_page(self):
        pages = {page.name: page.read_text() for page in (self.prefix / "share/man/man1").iterdir()}
        for name in ("plumb.1", "plumb-audit-bbq.1", "plumb-steer-fit.1", "plumb-merge.1"):
            self.assertIn(".SH NAME", pages[name])
        for name, text in pages.items():
            command = name.removesuffix(".1").split("-")
            self.assertNotIn("manual", command)
            if command[-1] == "bbq":
                self.assertIn(r"\-\-shard", text)
        if shutil.which("man"):
            page = self.prefix / "share/man/man1/plumb-audit-bbq.1"
            shown = subprocess.run(["man", "--warnings", "-l", page], check=True, capture_output=True, text=True,
                                   env={**os.environ, "MANWIDTH": "130", "LC_ALL": "C.UTF-8"})
            self.assertEqual(shown.stderr, "")
            self.assertIn("PLUMB_SHARDS", shown.stdout)

    def test_bash_completes(self):
        script = self.prefix / "share/bash-completion/completions/plumb"
        for words, want in (("plumb aud", "audit"), ("plumb audit b", "bbq"), ("plumb audit bbq --sha", "--shard"),
                            ("plumb steer f", "fit")):
            words = words.split()
            shown = run("bash", "-c", f'source "{script}"; COMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}; '
                        '_plumb; printf "%s\\n" "${COMPREPLY[@]}"',
                        env={**os.environ, "PATH": f"{self.prefix}/bin:{os.environ['PATH']}"})
            self.assertIn(want, shown.split(), words)

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed here")
    def test_zsh_reads_the_script(self):
        run("zsh", "-n", self.prefix / "share/zsh/site-functions/_plumb")


if __name__ == "__main__":
    unittest.main()
