"""Tests of link.cmake: when the file that names the archive for Go changes, and when it does not."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent


class LinkTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp()).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        self.build = self.folder / "a build"
        self.header = self.folder / "plumb.h"
        self.header.write_text("int a(void);\n")
        self.link = self.folder / "link_generated.go"
        self.archives = [self.archive("a", "int a(void) { return 1; }"), self.archive("b", "int b(void) { return 2; }")]

    def archive(self, name, code):
        source, archive = self.folder / f"{name}.c", self.folder / f"lib{name}.a"
        source.write_text(code)
        subprocess.run(["cc", "-c", source, "-o", source.with_suffix(".o")], check=True)
        archive.unlink(missing_ok=True)
        subprocess.run(["ar", "rcs", archive, source.with_suffix(".o")], check=True)
        return archive

    def run_script(self):
        apple = "1" if os.uname().sysname == "Darwin" else ""
        subprocess.run(["cmake", f"-DARCHIVES={';'.join(map(str, self.archives))}", "-DLIBS=-lm;-lpthread", "-DAR=ar",
                        f"-DAPPLE={apple}", f"-DHEADER={self.header}", f"-DBUILD={self.build}",
                        f"-DLINK_FILE={self.link}", "-P", str(HERE / "link.cmake")], check=True)
        text = self.link.read_text()
        name = re.search(r"#cgo LDFLAGS: \$\{SRCDIR\}/\.\./build/(libplumb-[0-9a-f]{16}\.a) -lm -lpthread\n", text).group(1)
        self.assertEqual([name], [p.name for p in self.build.iterdir()], "one archive, and nothing else, must remain")
        return text, name

    def test_name_follows_what_goes_in(self):
        first, name = self.run_script()
        symbols = subprocess.run(["nm", self.build / name], capture_output=True, text=True, check=True).stdout
        self.assertRegex(symbols, r" T _?a\n")
        self.assertRegex(symbols, r" T _?b\n")

        when = self.link.stat().st_mtime_ns
        self.assertEqual((first, name), self.run_script())
        self.assertEqual(when, self.link.stat().st_mtime_ns, "written again though nothing changed")

        self.archive("b", "int b(void) { return 3; }")
        second, _ = self.run_script()
        self.assertNotEqual(first, second)

        self.header.write_text("int a(void); int b(void);\n")
        self.assertNotEqual(second, self.run_script()[0])


if __name__ == "__main__":
    unittest.main()
