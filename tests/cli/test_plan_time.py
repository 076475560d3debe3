import json
import os
import random
import signal
import subprocess
import time
import unittest

from harness import PROGRAM, CommandTest


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
        self.assertLess(seconds, 20)
        return stored

    def test_a_signal_ends_the_search_with_the_best_plan_so_far(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            process = subprocess.Popen([PROGRAM, *self.arguments, "--force", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       text=True, cwd=self.folder, env=self.environment())
            time.sleep(2)
            self.assertIsNone(process.poll(), "the search ended by itself")
            start = time.monotonic()
            process.send_signal(number)
            output, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, code, errors)
            self.assertIn("interrupted: p.json is the best plan found so far", errors)
            result = json.loads(output)
            self.assertGreater(result["gap"], 0)
            self.plan(time.monotonic() - start)

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
