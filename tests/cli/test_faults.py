"""The eleven faults that a tuning run must survive: each is typed, shown with what to do, and leaves nothing behind."""
import fcntl
import json
import os
import re
import resource
import signal
import subprocess

import jsonschema
from harness import PROGRAM, CommandTest, left_processes, patience, schema

TUNE = ["tune", "toy", "--devices", "sleep:2", "--trials", "1", "--microbatches", "4"]
MEMORY = {"type": "out_of_memory", "device": "sleep:1", "requested_bytes": 4096, "cap_bytes": 1024}
# How a baseline fails, its outcome, and what the report says of it: what happened and what to do.
FAILING_PLANS = {
    "out of memory": (MEMORY, "out_of_memory", ["out of memory on sleep:1: 4.00 KiB asked with a cap of 1.00 KiB", "raise --memory"]),
    "SIGSEGV": ("crash", "crashed", ["crashed by signal 11", "crashed by signal 11, as mptune profile toy --devices sleep:2 "]),
    "abort": ("abort", "crashed", ["crashed by signal 6", "crashed by signal 6, as mptune profile toy --devices sleep:2 "]),
    "exit 1": ("exit", "crashed", ["crashed with exit code 1", "crashed with exit code 1, as mptune profile toy --devices sleep:2 "]),
    "NaN loss": ({"type": "non_finite"}, "non_finite", ["the loss is not finite", "lower --lr"]),
    "wrong gradient": ({"type": "wrong_result", "reason": "gradient of block3.weight differs"}, "wrong_result",
                       ["wrong result: gradient of block3.weight differs, as mptune check toy --devices sleep:2 "]),
    "killed worker": ("kill", "crashed", ["killed (signal 9), by another program or for lack of memory", "dmesg"]),
    "closed pipe": ("close", "environment", ["the machine failed: mptune-worker closed its pipe and went on", "mptune doctor"]),
}


class Faults(CommandTest):
    def environment(self, **more):
        return super().environment(MPTUNE_TEST_MARKER=self.folder, **more)

    def expect_nothing_left(self, study="toy.study"):
        self.assertEqual(left_processes(self.folder), [])
        with open(os.path.join(self.folder, study, "study.lock")) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        files = [os.path.join(place, name) for place, folders, names in os.walk(self.folder) for name in folders + names]
        self.assertEqual([name for name in files if re.search(r"\.tmp-|\.probe-|/mptune-[^/]*$|\.part$", name)], [])

    def tuned(self, budget, failing):
        """The object of a run that ends with a recommendation."""
        done = self.mptune("--json", *TUNE, "--force", "--budget", budget, MPTUNE_FAKE_PLANS=json.dumps(failing))
        self.assertIn(done.returncode, (0, 5), done.stderr)
        value = json.loads(done.stdout)
        jsonschema.validate(value, schema("tune"))
        self.assertGreater(value["recommended"]["step_s"], 0)
        self.expect_nothing_left()
        return value, done.stderr

    def outcomes(self, value, name):
        return [trial["outcome"] for trial in value["trials"] if trial["name"] == name]

    def shown(self):
        return " ".join(self.succeed("report", "toy.study", "--text", COLUMNS="200").split())

    def test_plans_that_fail(self):
        for fault, (how, outcome, words) in FAILING_PLANS.items():
            with self.subTest(fault):
                value, said = self.tuned("200s", {"default_pipeline": how})
                self.assertEqual(self.outcomes(value, "default_pipeline"), [outcome])
                shown = self.shown()
                for word in words:
                    self.assertIn(word, shown)
                key, = [trial["plan_key"] for trial in value["trials"] if trial["name"] == "default_pipeline"]
                self.assertEqual(os.listdir(os.path.join(self.folder, "toy.study/failed")), [f"{key}.plan.json"])
                self.assertEqual("default_pipeline failed: " in said, outcome != "out_of_memory")

    def test_a_step_hangs_at_the_end_of_the_budget(self):
        """The plan with the fault is the last one that is tried. It is stuck, not slow, after 10 s."""
        value, said = self.tuned("16s", {"data_parallel": "hang"})
        self.assertEqual(self.outcomes(value, "data_parallel"), ["timed_out"])
        self.assertIn("timed out", self.shown())
        self.assertIn("data_parallel failed: timed out", said)

    def test_the_budget_ends_before_the_first_step(self):
        """A worker that still loads LibTorch and the model is no plan that hangs."""
        value, said = self.tuned("16s", {"data_parallel": "host:hang"})
        self.assertEqual(self.outcomes(value, "data_parallel"), [])
        self.assertNotIn("failed", said)
        self.assertIn("not tried: no time in the budget", self.shown())

    def test_gradients_that_differ_end_it(self):
        """A model whose pieces train otherwise than the whole: no plan of it could be trusted."""
        done = self.mptune(*TUNE, MPTUNE_FAKE="check-differs")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("do not train as the whole model does", done.stderr)
        self.expect_nothing_left()

    def test_a_full_disk(self):
        """What was stored before stays, and the printed command goes on once there is space."""
        limit = 330_000  # the profile fits, the log of all trials does not
        done = subprocess.run([PROGRAM, *TUNE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder, timeout=patience(100),
                              env=self.environment(MPTUNE_FAKE="no-limits"),
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY)))
        self.assertEqual(done.returncode, 7, done.stdout + done.stderr)
        self.assertIn("can't write the study", done.stderr)
        self.assertIn("free some space, then go on with `mptune tune --resume " + os.path.join(self.folder, "toy.study"), done.stderr)
        self.expect_nothing_left()
        before = self.result("tune", "tune", "--resume", "toy.study")["trials"]
        self.assertGreater(len(before), 4)

    def test_nobody_reads_the_result(self):
        process = subprocess.Popen([PROGRAM, *TUNE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder, env=self.environment())
        process.stdout.close()
        with process.stderr as stream:
            errors = stream.read()
        self.assertIn(process.wait(timeout=patience(100)), (-signal.SIGPIPE, 7), errors)
        self.expect_nothing_left()
        self.succeed("report", "toy.study", "--text")
