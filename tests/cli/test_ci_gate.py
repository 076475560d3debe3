"""The example of a gate in CI: its script with recordings that are made up, and its workflow."""
import os
import random
import re
import stat
import subprocess
import unittest

from harness import PROGRAM, CommandTest, patience
from timelines import write_timeline

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "ci_gate")

# Stands for mptune in PATH: notes every call; `profile` writes the next recording of its checkout, all else is the real program.
STAND_IN = f"""#!/bin/sh
echo "$(basename "$PWD") $*" >> "$GATE_CALLS"
for last; do :; done
case "$*" in
  *profile*) cp "$GATE_MADE/$(basename "$last")" "$last" || exit 3; echo profiled; exit "${{GATE_PROFILE_CODE:-0}}" ;;
  *) exec "{PROGRAM}" "$@" ;;
esac
"""


class Gate(CommandTest):
    def setUp(self):
        super().setUp()
        for name in ("bin", "made", "base", "new"):
            os.mkdir(os.path.join(self.folder, name))
        stand_in = self.path("bin/mptune")
        with open(stand_in, "w") as file:
            file.write(STAND_IN)
        os.chmod(stand_in, os.stat(stand_in).st_mode | stat.S_IXUSR)
        self.random = random.Random(7)

    def path(self, name):
        return os.path.join(self.folder, name)

    def recording(self, name, milliseconds):
        """A pipeline timeline of two stages, eight steps of about that length."""
        thirds = [milliseconds / 6 * self.random.uniform(0.998, 1.002) for _ in range(8)]
        write_timeline(self.path("made/" + name), [(third, third) for third in thirds])

    def gate(self, base, new, *options, **environment):
        """Runs gate.sh with recordings of these lengths [ms]."""
        for side, lengths in (("base", base), ("new", new)):
            for number, length in enumerate(lengths, start=1):
                self.recording(f"{side}{number}.sqlite", length)
        path = self.path("bin") + os.pathsep + os.environ["PATH"]
        return subprocess.run([os.path.join(EXAMPLE, "gate.sh"), "base", "new", "net.so", *options], cwd=self.folder, text=True, capture_output=True,
                              timeout=patience(100), env=self.environment(PATH=path, GATE_CALLS=self.path("calls"), GATE_MADE=self.path("made"), **environment))

    def calls(self):
        with open(self.path("calls")) as file:
            return file.read().splitlines()

    def test_a_slower_step_fails(self):
        done = self.gate((100, 101, 100, 101), (110, 111, 110, 111), GITHUB_STEP_SUMMARY=self.path("summary"))
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"^\*\*SLOW\*\*: B takes 1\.\d+ times as long as A")
        self.assertIn("of 4 and 4 recordings lies above 1; mostly compute on ", done.stdout)
        for name, first in (("gate/comparison.md", "<!-- mptune compare -->\n\n"), ("summary", "")):
            with open(self.path(name)) as file:
                self.assertEqual(file.read(), first + done.stdout)
        self.assertLessEqual({"benchmark.json", "junit.xml"}, set(os.listdir(self.path("gate"))))

    def test_the_same_step_passes(self):
        done = self.gate((100, 101, 100, 101), (100, 101, 101, 100))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue(done.stdout.startswith("**SAME**"), done.stdout)

    def test_a_step_that_is_slower_within_the_threshold_passes(self):
        done = self.gate((100, 101, 100, 101), (110, 111, 110, 111), GATE_THRESHOLD="15")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_noise_is_inconclusive_and_fails_only_when_asked(self):
        base, new = (100, 140, 90, 120), (105, 130, 95, 150)
        done = self.gate(base, new)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue(done.stdout.startswith("**AMBIGUOUS**"), done.stdout)
        self.assertEqual(self.gate(base, new, GATE_FAIL_ON="inconclusive").returncode, 5)

    def test_recordings_take_turns(self):
        self.gate((100, 101, 102), (100, 101, 102), "--batch", "8", GATE_ROUNDS="1")
        profiles, compares = self.calls()[:4], self.calls()[4:]
        self.assertEqual([call.split()[0] for call in profiles], ["base", "new", "new", "base"])
        for call in profiles:
            self.assertIn(" -q profile net.so --batch 8 ", call)
        self.assertEqual(["--measured" in call for call in profiles], [False, False, True, True])
        self.assertEqual(len(compares), 1)
        self.assertIn("compare base1.sqlite base2.sqlite --with new1.sqlite new2.sqlite --markdown", compares[0])

    def test_a_profile_that_fails_ends_the_gate(self):
        done = self.gate((100, 101), (100, 101), GATE_PROFILE_CODE="3", GATE_ROUNDS="1")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(len(self.calls()), 1)
        self.assertEqual(self.gate((100, 101), (100, 101), GATE_PROFILE_CODE="5", GATE_ROUNDS="1").returncode, 0, "compare judges the recordings")

    def test_mistakes_are_told(self):
        for arguments, words in ((["base"], "usage: "), (["base", "missing", "net.so"], "usage: ")):
            done = subprocess.run([os.path.join(EXAMPLE, "gate.sh"), *arguments], cwd=self.folder, text=True, capture_output=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn(words, done.stderr)
        done = self.gate((100,), (100,), GATE_ROUNDS="many")
        self.assertEqual((done.returncode, done.stderr), (2, "gate.sh: GATE_ROUNDS is no whole number above 0: many\n"))


class Workflow(unittest.TestCase):
    def test_it_compares_the_base_with_the_pull_request(self):
        try:
            import yaml
        except ImportError:
            self.skipTest("python3-yaml is absent")
        with open(os.path.join(EXAMPLE, "pull_request.yml")) as file:
            workflow = yaml.safe_load(file)
        self.assertEqual(workflow[True], "pull_request")  # YAML 1.1 reads "on" as true
        steps = workflow["jobs"]["gate"]["steps"]
        checkouts = {step["with"]["path"]: step["with"]["ref"] for step in steps if step.get("uses", "").startswith("actions/checkout")}
        self.assertEqual(sorted(checkouts), ["base", "new"])
        self.assertIn("base.sha", checkouts["base"])
        self.assertIn("head.sha", checkouts["new"])
        compare, = [step["run"] for step in steps if "gate.sh" in step.get("run", "")]
        self.assertRegex(compare, r"gate\.sh base new \S+")
        for step in steps:
            self.assertTrue(("run" in step) != ("uses" in step), step)
        # Texts of the pull request never become commands.
        for run in (step.get("run", "") for step in steps):
            self.assertEqual(re.findall(r"\$\{\{[^}]*(?:title|body|head\.ref|head_ref)[^}]*\}\}", run), [])
