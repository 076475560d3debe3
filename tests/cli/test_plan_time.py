import json
import os
import random
import resource
import signal
import subprocess
import time
import unittest

from harness import PROGRAM, CommandTest, patience

SANITIZED = os.environ.get("MPTUNE_SANITIZED") == "ON"
BEST = "p.json is the best plan found so far"


class PlanTime(CommandTest):
    """A search of a model that takes many seconds if nothing ends it."""

    def setUp(self):
        super().setUp()
        draw = random.Random(5)
        layers = 300
        self.profile = os.path.join(self.folder, "chain.graph.txt")
        with open(self.profile, "w") as file:
            for layer in range(layers):
                file.write(f"node{layer} -- Linear{layer} -- forward_compute_time={draw.uniform(0.2, 3):.3f}, "
                           f"backward_compute_time={draw.uniform(0.5, 6):.3f}, activation_size={draw.randint(1, 9)}e6, "
                           f"parameter_size={draw.randint(1, 9)}e6\n")
            for layer in range(1, layers):
                file.write(f"\tnode{layer - 1} -- node{layer}\n")
        self.arguments = ["plan", self.profile, "--stages", "16", "--link", "12GB/s,10us", "--batch", "256", "--time", "1000s", "-o", "p.json"]

    def plan(self, seconds):
        with open(os.path.join(self.folder, "p.json")) as file:
            stored = json.load(file)
        self.assertLess(seconds, patience(20))
        return stored

    def expect_gap(self, output, may_lack_time):
        result = json.loads(output)
        if may_lack_time and "error" in result:
            self.assertIn(BEST, result["error"]["remedy"])  # the report takes longer than an interrupted command has
        else:
            self.assertGreater(result["gap"], 0)

    def interrupted(self, number, seconds):
        """What a search prints that gets the signal after so many seconds: its exit code, output and errors."""
        process = subprocess.Popen([PROGRAM, *self.arguments, "--force", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   cwd=self.folder, env=self.environment())
        time.sleep(seconds)
        self.assertIsNone(process.poll(), "the search ended by itself")
        process.send_signal(number)
        return process, *process.communicate(timeout=patience(60))

    def test_a_signal_ends_the_search_with_the_best_plan_so_far(self):
        for number, code, why in ((signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")):
            for seconds in (2, 4, 8, 16, 32):  # A slow build on a busy machine may need longer for its first plan.
                start = time.monotonic()
                process, output, errors = self.interrupted(number, seconds)
                self.assertEqual(process.returncode, code, errors)
                self.assertRegex(errors, f"{why}: (mptune|p.json)")
                self.assertIn("start the command again", errors)
                if BEST in errors:
                    break
            self.assertIn(BEST, errors)
            self.expect_gap(output, SANITIZED or patience(1) > 1)
            self.plan(time.monotonic() - start - seconds)
            os.remove(os.path.join(self.folder, "p.json"))

    def test_the_end_of_the_processor_time_ends_the_search_with_the_best_plan_so_far(self):
        for seconds in (4, 8, 16, 32, 64):  # A slow build may need longer for its first plan.
            done = subprocess.run([PROGRAM, *self.arguments, "--force", "--json"], capture_output=True, text=True, cwd=self.folder, env=self.environment(),
                                  timeout=patience(100), preexec_fn=lambda s=seconds: resource.setrlimit(resource.RLIMIT_CPU, (s, s)))
            self.assertEqual(done.returncode, 7, done.stderr)
            self.assertIn(f"mptune has nearly used all the processor time that it may, {seconds} s: ", done.stderr)
            self.assertIn("raise the limit (ulimit -t); ", done.stderr)
            if BEST in done.stderr:
                break
        self.assertIn(BEST, done.stderr)
        self.expect_gap(done.stdout, True)
        self.plan(0)

    def test_time_bounds_the_search(self):
        self.arguments[self.arguments.index("1000s")] = "1s"
        start = time.monotonic()
        result = self.result("plan", *self.arguments)
        self.plan(time.monotonic() - start)
        self.assertGreater(result["gap"], 0)

    def test_what_was_not_found_in_time_may_fit(self):
        self.arguments[self.arguments.index("1000s")] = "1ms"
        self.fails(6, ["no plan that fits was found in time", "--time"], *self.arguments, "--memory", "1MB")

    def test_time_is_checked(self):
        for value, what in (("0s", ["longer than 0"]), ("-1s", ["--time"]), ("x", ["--time"])):
            self.arguments[self.arguments.index("--time") + 1] = value
            self.fails(2, what, *self.arguments)
        self.fails(2, ["not that by closed-form"], "plan", self.profile, "--stages", "2", "--objective", "closed-form", "--microbatches", "4",
                   "--time", "1s")


if __name__ == "__main__":
    unittest.main()
