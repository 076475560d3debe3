"""The package passes mypy --strict, and so does a user's code; wrong code does not."""
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

from support import stage

SETTINGS = """
[mypy]
strict = True
python_version = 3.10
# Without torch all of its types are Any, and what is ignored of them is nothing.
[mypy-torch.*,pandas.*,mptune._runtime]
ignore_missing_imports = True
[mypy-mptune.mptune_export]
warn_unused_ignores = False
disable_error_code = no-any-return
"""
USER = """
import mptune

def median(model: str) -> float:
    tuned = mptune.tune(model, devices=["cpu:0", "cpu:1"], budget=60, memory={"cpu:0": "1GiB"})
    stages: int = tuned.recommended.plan.num_stages
    low, high = tuned.recommended.step_ci95_s or (0.0, 0.0)
    with mptune.Study(tuned.study) as study:
        study.trials()["step_s"].mean()
    return low + high + stages + mptune.load_plan(tuned.plan_file).n_microbatches
"""
WRONG = {
    'mptune.tune("toy", budgets=60)': "Unexpected keyword argument",
    'mptune.tune("toy", batch="8")': "incompatible type",
    'mptune.tune("toy").recomended': "has no attribute",
    'mptune.compare("a", "b").verdict == "FASTER"': "Non-overlapping equality check",
    "mptune.nothing": "has no attribute",
}


@unittest.skipIf(importlib.util.find_spec("mypy") is None, "mypy is not installed")
class Types(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="mptune-types-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(stage(folder.name))
        (cls.folder / "mypy.ini").write_text(SETTINGS)

    def mypy(self, *arguments):
        words = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", *arguments]
        return subprocess.run(words, cwd=self.folder, capture_output=True, text=True)

    def test_the_package_and_its_users(self):
        (self.folder / "user.py").write_text(USER)
        done = self.mypy("-p", "mptune", "-m", "user")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_mistakes_of_users_are_found(self):
        lines = list(WRONG)
        (self.folder / "user.py").write_text("import mptune\n" + "\n".join(f"x{i} = {line}" for i, line in enumerate(lines)))
        found = self.mypy("-m", "user").stdout
        for number, line in enumerate(lines, 2):
            self.assertRegex(found, rf"user.py:{number}: error: .*{WRONG[line]}", line)
