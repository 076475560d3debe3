"""Pools, whose division is searched, on the command line."""
import json
import os

import jsonschema
from harness import CommandTest, schema

POOL = ["--devices", "cpu:0-1/auto"]
TUNE = ["tune", "toy", *POOL, "--budget", "20s", "-o", "toy.study"]
# A small space: what is tested here does not depend on the schedules; tests of the planner search all of them.
SMALL = ["--schedule", "1f1b", "--microbatches", "4"]


class Pools(CommandTest):
    def cores(self, plan):
        """Numbers of cores of the plan's devices, which share none."""
        used = []
        for device in plan["devices"]:
            first, _, last = device.removeprefix("cpu:").partition("-")
            used.append(list(range(int(first), int(last or first) + 1)))
        self.assertEqual(len(set(sum(used, []))), len(sum(used, [])), plan["devices"])
        return [len(cores) for cores in used]

    def test_plan_searches_the_pool_of_its_profile(self):
        value = self.result("plan", "plan", "six_cores.sqlite", *SMALL, "-o", "a.plan.json")
        self.cores(value["plan"])
        fixed = ["cpu:0-5", "cpu:0-2,cpu:3-5", "cpu:0-1,cpu:2-3,cpu:4-5", "cpu:0-3,cpu:4-5", "cpu:0-4,cpu:5", "cpu:0,cpu:1,cpu:2,cpu:3,cpu:4,cpu:5"]
        for devices in fixed:
            other = self.result("plan", "plan", "six_cores.sqlite", *SMALL, "--devices", devices, "-o", "b.plan.json")
            self.assertLessEqual(value["predicted"]["step_s"], other["predicted"]["step_s"] * (1 + 1e-12), devices)
        same = self.result("plan", "plan", "six_cores.sqlite", *SMALL, "--devices", "cpu:0-5/auto", "-o", "a.plan.json")
        self.assertEqual(same["plan_key"], value["plan_key"])

    def test_plan_files_name_the_devices(self):
        self.succeed("plan", "six_cores.sqlite", "-o", "a.plan.json")
        with open(os.path.join(self.folder, "a.plan.json")) as file:
            plan = json.load(file)
        jsonschema.validate(plan, schema("plan"))
        self.assertNotIn("auto", json.dumps(plan))
        self.assertEqual(plan["fingerprint"]["devices"], plan["plan"]["devices"])
        value = self.result("simulate", "simulate", "--plan", "a.plan.json", "--profile", "six_cores.sqlite")
        self.assertEqual(value["predicted"]["step_s"], plan["predicted"]["step_s"])

    def test_plan_says_how_the_pool_is_divided_and_what_is_interpolated(self):
        text = self.succeed("plan", "six_cores.sqlite", *SMALL, "-o", "a.plan.json", LC_ALL="C", COLUMNS="200")
        self.assertIn("11 ways to divide cpu:0-5/auto searched; the best: cpu:0", text)
        text = self.succeed("plan", "six_cores.sqlite", *SMALL, "--devices", "cpu:0-2,cpu:3-5", "--stages", "2", "-o", "a.plan.json", COLUMNS="200")
        self.assertIn("assumed costs on 3 cores that lie between", text)
        self.assertNotIn("ways to divide", text)

    def test_some_cores_of_the_pool(self):
        value = self.result("plan", "plan", "six_cores.sqlite", *SMALL, "--devices", "cpu:1,cpu:2", "-o", "a.plan.json")
        self.assertLessEqual(set(value["plan"]["devices"]), {"cpu:1", "cpu:2"})

    def test_many_cores_are_searched_as_long_as_they_may(self):
        value = self.result("plan", "plan", "sixteen_cores.sqlite", "--time", "2s", "-o", "a.plan.json")
        whole = self.result("plan", "plan", "sixteen_cores.sqlite", *SMALL, "--devices", "cpu:0-15", "-o", "b.plan.json")
        self.assertLess(value["predicted"]["step_s"], whole["predicted"]["step_s"])

    def test_options_restrict_the_divisions(self):
        value = self.result("plan", "plan", "six_cores.sqlite", *SMALL, "--stages", "6", "-o", "a.plan.json")
        self.assertEqual(self.cores(value["plan"]), [1] * 6)
        value = self.result("plan", "plan", "six_cores.sqlite", *SMALL, "--replicas", "2,1", "-o", "a.plan.json")
        self.assertEqual(len(value["plan"]["devices"]), 3)
        self.assertEqual(sum(self.cores(value["plan"])), 6)
        self.fails(2, ["--replicas"], "plan", "six_cores.sqlite", *SMALL, "--replicas", "5,4")
        self.result("plan", "plan", "six_cores.sqlite", *SMALL, "--memory", "1GiB", "-o", "a.plan.json")
        self.fails(3, ["--memory"], "plan", "six_cores.sqlite", *SMALL, "--stages", "1", "--memory", "1kB")

    def test_tune(self):
        value = self.result("tune", *TUNE)
        names = [baseline["name"] for baseline in value["baselines"]]
        for name in ("single_device", "all_cores", "naive_model_parallel", "default_pipeline", "data_parallel"):
            self.assertIn(name, names)
        self.assertNotIn("auto", json.dumps(value["recommended"]["plan"]))
        again = self.result("tune", *TUNE, "--resume")
        self.assertEqual(len(again["trials"]), len(value["trials"]))
        self.succeed("report", "toy.study", "--text")
        self.fails(2, ["toy.study"], "tune", "toy", "--devices", "cpu:0,cpu:1", "--budget", "20s", "-o", "toy.study", "--resume")

    def test_profile_measures_the_pool_and_records_the_even_division(self):
        value = self.result("profile", "profile", "toy", *POOL, "--steps", "2", "-o", "p.sqlite")
        self.assertEqual(value["plan"]["devices"], ["cpu:0", "cpu:1"])

    def test_refusals(self):
        for command in (["tune", "toy"], ["profile", "toy"]):
            self.fails(2, ["--devices", "one core can't be divided", "or the device cpu:0"], *command, "--devices", "cpu:0/auto")
            self.fails(2, ["--devices", "core 4000 is not available"], *command, "--devices", "cpu:4000-4001/auto")
            self.fails(2, ["--devices", "cpu:1 overlaps with the pool cpu:0-1/auto"], *command, "--devices", "cpu:0-1/auto,cpu:1")
            self.fails(2, ["--devices", "sleeping devices can't be mixed"], *command, "--devices", "cpu:0-1/auto,sleep:2")
            self.fails(2, ["--devices", "sleeping devices can't be divided", "sleep:K"], *command, "--devices", "sleep:2/auto")
            self.fails(2, ["--devices", "invalid pool", "cpu:0-15/auto or cuda:0/auto"], *command, "--devices", "cpu:/auto")
            self.fails(2, ["--memory", "cpu:0=1GiB"], *command, "--devices", "cpu:0-1/auto", "--memory", "cpu:0=1GiB")
        for command in ("run", "check"):
            self.fails(2, ["--devices", "leaves open how it is divided", "cpu:0,cpu:1", "plan file"], command, "toy", *POOL)
        self.fails(2, ["cpu:0-3/auto", "profile the model again on it"], "plan", "six_cores.sqlite", *SMALL, "--devices", "cpu:0-3/auto")
        self.fails(2, ["cpu:0-1/auto", "profile the model again on it"], "plan", "profile.sqlite", *POOL)
        self.fails(2, ["overlap", "one device"], "plan", "six_cores.sqlite", *SMALL, "--devices", "cpu:0-2,cpu:2-3")
        self.fails(2, ["--devices", "closed-form"], "plan", "six_cores.sqlite", "--devices", "cpu:0-5/auto", "--objective", "closed-form")

    def test_a_gpu_needs_a_driver(self):
        done = self.mptune("tune", "toy", "--devices", "cuda:9/auto", "-o", "x.study")
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertRegex(done.stderr, ": cuda:9; (install the NVIDIA driver|this machine has)")
