"""A package folder as the wheel has it, and tests that call it with the fake worker of tests/cli."""
import atexit
import contextlib
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "cli"))  # last: it has tests of the same names
from harness import PROGRAM, CommandTest, left_processes, patience  # noqa: E402,F401


def stage(folder):
    """Makes folder/mptune of links: the package, with the files that the wheel puts beside it."""
    package = pathlib.Path(folder) / "mptune"
    package.mkdir()
    for source in [*(ROOT / "python" / "mptune").iterdir(), *(ROOT / "python" / "export").glob("mptune_*.py")]:
        if source.name not in ("__pycache__", "bin"):
            (package / source.name).symlink_to(source)
    subprocess.run([sys.executable, ROOT / "python" / "generate_results.py", ROOT / "reports" / "schemas", package / "results.py"], check=True)
    with tempfile.TemporaryDirectory() as share:
        subprocess.run([PROGRAM, "help", "--write", share], check=True)
        subprocess.run([sys.executable, ROOT / "python" / "generate_commands.py", pathlib.Path(share) / "mptune" / "options.json",
                        ROOT / "python" / "commands.py.in", package / "_commands.py"], check=True)
    return str(folder)


STAGE = stage(tempfile.mkdtemp(prefix="mptune-package-"))
atexit.register(shutil.rmtree, STAGE, ignore_errors=True)
sys.path.insert(0, STAGE)

import mptune  # noqa: E402


class PythonTest(CommandTest):
    """Calls of the package find the program and the fake worker; the current folder is a temporary one with the fixtures' files."""

    def setUp(self):
        super().setUp()
        patched = mock.patch.dict(os.environ, self.environment(), clear=True)
        patched.start()
        self.addCleanup(patched.stop)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        self.said = io.StringIO()
        kept = contextlib.ExitStack()
        kept.enter_context(contextlib.redirect_stderr(self.said))
        self.addCleanup(kept.close)

    def environment(self, **more):
        return {**super().environment(), "MPTUNE_PROGRAM": PROGRAM, "PYTHONPATH": STAGE, **more}

    def fake_program(self, lines):
        """A Python script in the place of the program."""
        path = pathlib.Path(self.folder, "fake_program.py")
        path.write_text(f"#!{sys.executable}\nimport json, os, signal, sys, time\n{lines}\n")
        path.chmod(0o755)
        os.environ["MPTUNE_PROGRAM"] = str(path)

    def refused(self, words, call, *arguments, **options):
        """Checks that the call raises an mptune.Error with the words, all of whose parts say something; returns it."""
        with self.assertRaises(mptune.Error) as caught:
            call(*arguments, **options)
        error = caught.exception
        self.assertRegex(str(error), r"^mptune: [^\n]+: [^\n]+; [^\n]+$")
        for word in words:
            self.assertIn(word, str(error))
        return error
