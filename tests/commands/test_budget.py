"""tune ends with its budget, at most a step and 2 s later; where it has no result, it says within 10 % over the budget what budget would do.

Budget runs in CI; NightlyBudgets runs ten models with budgets from 10 s to 5 min, on a loaded machine too, and prints a table."""
import contextlib
import json
import multiprocessing
import os
import re
import shlex
import shutil
import subprocess
import time
import unittest

import jsonschema
from harness import PROGRAM, CommandTest, patience, schema
from test_files import PLUGIN
from test_small import CORES, DEVICES

SMALL = ["--input", "3x64x64"]
MODELS = [["mlp"], ["resnet18", *SMALL], ["resnet50"], ["resnet50", *SMALL], ["transformer"], ["vgg16", *SMALL], ["bert:layers=4,d=256"], ["unet"],
          ["late-fusion"], ["encoder-decoder-classifier"]]
SLACK_S = 2  # beside a step, where nothing else runs
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600}


def seconds_of(text):
    number, unit = re.fullmatch(r"([\d.]+) ?([a-z]+)", text).groups()
    return float(number) * UNITS[unit]


def spin():
    while True:
        pass


@contextlib.contextmanager
def load(per_core):
    """So many busy loops on each core meanwhile."""
    loops = [multiprocessing.Process(target=spin, daemon=True) for _ in range(per_core * len(CORES))]
    for loop in loops:
        loop.start()
    try:
        yield
    finally:
        for loop in loops:
            loop.terminate()
            loop.join()


class Run:
    """One run of tune with a budget: how long it took, and what came out."""

    def __init__(self, test, model, budget_s, *options, environment):
        self.name, self.budget_s = " ".join(model), budget_s
        began = time.monotonic()
        done = subprocess.run([PROGRAM, "--json", "tune", *model, "--devices", DEVICES, "--budget", f"{budget_s}s", *options], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, cwd=test.folder, env=environment, timeout=10 * budget_s + 600)
        self.elapsed_s, self.code, self.said = time.monotonic() - began, done.returncode, done.stderr
        self.value = json.loads(done.stdout)

    def limit_s(self, slack_s):
        """When it had to end."""
        if self.code == 6:
            step = re.search(r"a step of the fastest plan is predicted to take ([\d.]+ \w+)", self.value["error"]["what"])
            begun = 0 if step is None else seconds_of(step.group(1)) + slack_s  # of a first trial that got to no step
            return self.budget_s + max(0.1 * self.budget_s + slack_s - SLACK_S, begun)
        steps = [trial["step_s"] for trial in self.value["trials"] if trial["step_s"] is not None]
        return self.budget_s + max(steps) + slack_s

    def row(self):
        trials = len(self.value.get("trials", []))
        return f"{self.name:32} {self.budget_s:4} s  {self.elapsed_s:7.1f} s  exit code {self.code}, {trials} trials"


class BudgetTest(CommandTest):
    def environment(self, **more):
        return super().environment(**{"MPTUNE_WORKER": os.environ["MPTUNE_REAL_WORKER"], **more})

    def slack_s(self):
        return SLACK_S

    def tune(self, model, budget_s, *options, **environment):
        slack_s = self.slack_s()
        run = Run(self, model, budget_s, *options, environment=self.environment(**environment))
        slack_s = max(slack_s, self.slack_s())
        print(run.row())
        self.assertIn(run.code, (0, 5, 6), run.said)
        jsonschema.validate(run.value, schema("error" if run.code == 6 else "tune"))
        self.assertLessEqual(run.elapsed_s, run.limit_s(slack_s), f"{run.row()}\n{run.said}")
        self.assertNotIn("does not get to the end", run.said, "slow is not stuck")
        if run.code == 6:
            self.assertRegex(run.value["error"]["remedy"], r"--budget \d+s")
        return run


@unittest.skipIf(len(CORES) < 2, "needs two cores")
class Budget(BudgetTest):
    def slack_s(self):
        return patience(SLACK_S)  # it runs beside other tests

    def test_short_budgets(self):
        for model in (["mlp"], ["resnet50"]):
            with self.subTest(model):
                self.tune(model, 10, "--force")

    def test_a_layer_of_five_seconds_is_slow_not_stuck(self):
        shutil.copy(PLUGIN, os.path.join(self.folder, "net.so"))
        run = self.tune(["./net.so"], 20, MPTUNE_TEST_PLUGIN="sleepy 5")
        self.assertEqual(run.code, 6, run.said)
        self.assertIn("for lack of time the model's pieces were not compared", run.said)
        self.assertRegex(run.value["error"]["what"], r"the budget was spent before the layers were measured: one pass over 1 sample took [56]\.\d+ s")
        self.assertGreater(seconds_of(re.search(r"--budget (\d+s)", run.value["error"]["remedy"]).group(1)), 60, "a trial takes several passes")

    def test_what_was_not_measured_is_said(self):
        shutil.copy(PLUGIN, os.path.join(self.folder, "net.so"))
        run = self.tune(["./net.so"], 20, "--batch", "64", MPTUNE_TEST_PLUGIN="sleepy 0.25")
        self.assertIn(run.code, (0, 5), run.said)
        self.assertTrue(any(sizes["extrapolated"] for sizes in run.value["measured_sizes"]), run.value["measured_sizes"])
        self.assertRegex(run.said, r"for lack of time the costs of .* were not measured: they are (inter- and )?extrapolated")
        text = " ".join(self.succeed("report", "net.study", "--text").split())
        self.assertIn("costs of larger micro-batches than were measured are extrapolated: ", text)


@unittest.skipIf(len(CORES) < 2, "needs two cores")
class NightlyBudgets(BudgetTest):
    def sweep(self, models, budgets):
        for budget_s in budgets:
            for model in models:
                with self.subTest(f"{' '.join(model)}, {budget_s} s"):
                    self.tune(model, budget_s, "--force")

    def test_ten_models(self):
        self.sweep(MODELS, (10, 30))
        self.sweep(MODELS[:4], (60, 300))

    def test_ten_models_on_a_loaded_machine(self):
        with load(2):
            self.sweep(MODELS, (10, 30))

    def test_the_printed_command_has_a_result(self):
        for model in (["resnet50"], ["unet"]):
            with self.subTest(model):
                run = self.tune(model, 10, "--force")
                if run.code != 6:
                    continue  # a fast machine
                command = shlex.split(re.search(r"`mptune (tune .*)`", run.value["error"]["remedy"]).group(1))
                done = subprocess.run([PROGRAM, "--json", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
                                      env=self.environment(), timeout=3600)
                self.assertIn(done.returncode, (0, 5), f"{command}: {done.stderr}")


if __name__ == "__main__":
    unittest.main()
