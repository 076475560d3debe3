"""The commands that mptune suggests, run as printed, from another folder, with the real worker."""
import os
import shlex
import unittest

from harness import PROGRAM, CommandTest, seconds
from suggestions import run_as_printed, suggestions

CORES = sorted(os.sched_getaffinity(0))[:2]
DEVICES = ",".join(f"cpu:{core}" for core in CORES)
MODEL = ["transformer:d=32,layers=2,seq=16", "--batch", "8", "--devices", DEVICES, "--link", "1GB/s", "--optimizer", "adam", "--lr", "0.01"]


@unittest.skipIf(len(CORES) < 2, "needs two cores")
class Suggestions(CommandTest):
    def environment(self, **more):
        return super().environment(**{"MPTUNE_WORKER": os.environ["MPTUNE_REAL_WORKER"], **more})

    def setUp(self):
        super().setUp()
        self.work = os.path.join(self.folder, "it's a folder")
        self.elsewhere = os.path.join(self.folder, "elsewhere")
        for folder in (self.work, self.elsewhere):
            os.mkdir(folder)

    def follow(self, command, *more):
        done = run_as_printed(" ".join([command, *more]), PROGRAM, self.elsewhere, self.environment())
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}\n{done.stderr}")
        self.assertNotIn("warning: the plan was made for another model", done.stderr)
        return suggestions(done.stdout)

    def printed(self, *arguments, codes=(0,)):
        done = self.mptune(*arguments, cwd=self.work)
        self.assertIn(done.returncode, codes, done.stderr)
        return suggestions(done.stdout + "\n" + done.stderr)

    def test_profile_plan_run(self):
        plan = self.printed("profile", *MODEL, "--microbatches", "4", "--steps", "3")
        self.assertEqual(len(plan), 1, plan)
        run = self.follow(plan[0], "--stages", "2")
        self.assertEqual(len(run), 1, run)
        self.assertEqual(shlex.split(run[0])[:3], ["mptune", "run", MODEL[0]])
        self.follow(run[0], "--steps", "3")

    def test_tune_run(self):
        commands = self.printed("tune", *MODEL, "--budget", seconds(12), "--trials", "4", codes=(0, 5))
        self.assertTrue(commands[0].startswith("mptune run "), commands)
        self.follow(commands[0], "--steps", "3")

    def test_a_plan_named_by_options(self):
        tune = self.printed("run", *MODEL, "--stages", "2", "--microbatches", "4", "--memory", "200KiB", codes=(3,))
        self.assertEqual([command.split()[1] for command in tune], ["tune"], tune)
        self.assertIn("--lr 0.01", tune[0])


if __name__ == "__main__":
    unittest.main()
