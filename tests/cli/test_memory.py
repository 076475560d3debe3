"""Peaks and caps, and the smallest change where a plan does not fit."""
import json
import os
import shlex

import jsonschema
from harness import CommandTest, schema

SLEEP = ["--devices", "sleep:2"]
SIMULATE = ["simulate", "--plan", "plan.json", "--profile", "profile.sqlite"]


class Memory(CommandTest):
    def simulated(self, code, *options):
        """The object of simulate; its exit code is 3 where the plan does not fit."""
        done = self.mptune("--json", *SIMULATE, *options)
        self.assertEqual(done.returncode, code, done.stderr)
        value = json.loads(done.stdout)
        jsonschema.validate(value, schema("simulate"))
        return value

    def peaks(self):
        return self.simulated(0)["predicted"]["peak_bytes"]

    def test_simulate_says_peak_cap_and_contents(self):
        value = self.simulated(0, "--memory", "sleep:0=60kB")
        first, second = value["memory"]
        self.assertEqual((first["device"], first["cap_bytes"], second["cap_bytes"]), ("sleep:0", 60000, None))
        for row, peak in zip(value["memory"], value["predicted"]["peak_bytes"]):
            self.assertEqual(row["peak_bytes"], peak)
            self.assertEqual(max(sample["bytes"] for sample in row["samples"]), peak)
            contents = row["contents"]
            self.assertEqual(sum(contents[key] for key in contents if key != "activations") + sum(a["bytes"] for a in contents["activations"]), peak)
        self.assertEqual(value["fit"], {"fits": True, "excess_bytes": 0, "device": None, "changes": [], "nearest": None, "devices_needed": None})
        text = self.succeed(*SIMULATE, "--memory", "60kB")
        self.assertIn("% of 58.6 KiB", text)
        self.assertIn("cap 58.6 KiB", text)
        self.assertNotIn("Does not fit", text)

    def test_simulate_takes_what_was_measured_on_another_machine(self):
        options = ["simulate", "--plan", "other_machine.plan.json", "--profile", "other_machine.sqlite"]
        self.assertEqual([row["device"] for row in self.result("simulate", *options)["memory"]], ["cpu:1000-1001"])
        self.result("simulate", *options, "--memory", "cpu:1000-1001=1MB")
        self.fails(2, ["cpu:1000"], *options, "--memory", "cpu:1000=1MB")  # its cores are the plan's device

    def test_a_cap_holds_for_devices_that_a_change_may_use(self):
        self.result("plan-result", "plan", "profile.sqlite", "--stages", "1", "--devices", "sleep:0", "--microbatches", "1", "--recompute", "none",
                    "-o", "one.json")
        done = self.mptune("--json", "simulate", "--plan", "one.json", "--profile", "profile.sqlite", "--memory", "120kB")
        changes = json.loads(done.stdout)["fit"]["changes"]
        self.assertGreater(len(changes), 0)
        for change in changes:
            self.assertLessEqual(max(change["peak_bytes"]), 120000, change["options"])

    def test_simulate_over_its_cap_by_one_byte(self):
        peak = max(self.peaks())
        self.simulated(0, "--memory", f"{peak}B")
        fit = self.simulated(3, "--memory", f"{peak - 1}B")["fit"]
        self.assertEqual((fit["fits"], fit["excess_bytes"], fit["device"]), (False, 1, "sleep:0"))
        self.assertGreater(len(fit["changes"]), 1)
        steps = [change["step_s"] for change in fit["changes"]]
        self.assertEqual(steps, sorted(steps))
        for change in fit["changes"]:
            self.assertLess(max(change["peak_bytes"]), peak)
            with open(os.path.join(self.folder, "changed.json"), "w") as file:
                json.dump({"schema": "mptune.plan/1", "plan": change["plan"]}, file)
            again = self.result("simulate", "simulate", "--plan", "changed.json", "--profile", "profile.sqlite", "--memory", f"{peak - 1}B")
            self.assertEqual(again["predicted"]["peak_bytes"], change["peak_bytes"])
            self.assertEqual(again["predicted"]["step_s"], change["step_s"])
        done = self.mptune(*SIMULATE, "--memory", f"{peak - 1}B")
        self.assertEqual(done.returncode, 3)
        self.assertIn("OVER its cap", done.stdout)
        self.assertIn("--recompute 0", done.stdout)

    def test_simulate_where_nothing_fits(self):
        fit = self.simulated(3, "--memory", "2kB")["fit"]
        self.assertEqual(fit["changes"], [])
        self.assertGreater(fit["nearest"]["excess_bytes"], 0)
        for width in ("80", "120"):
            done = self.mptune(*SIMULATE, "--memory", "2kB", COLUMNS=width)
            self.assertTrue(done.stdout.isascii())
            self.assertLessEqual(max(len(line) for line in done.stdout.splitlines()), int(width))
            self.assertIn("--memory ", done.stdout)

    def test_profile_refuses_with_a_change_that_works(self):
        value = self.fails(3, ["the plan does not fit", "sleep:0", "it fits with --"], "profile", "toy", *SLEEP, "--microbatches", "4", "--memory", "45kB")
        first = value["error"]["remedy"].removeprefix("it fits with ").split(" (")[0]
        self.result("plan-result", "plan", "toy.sqlite", "--memory", "45kB")  # what was measured is kept
        options = ["profile", "toy", *SLEEP, "--memory", "45kB", *shlex.split(first)]
        self.result("profile", *options, *([] if "--microbatches" in first else ["--microbatches", "4"]))
        self.fails(3, ["--memory ", "nothing on these devices fits"], "profile", "toy", *SLEEP, "--memory", "2kB")

    def test_profile_that_runs_out_of_memory(self):
        self.fails(3, ["out of memory on sleep:1", "predicted were 33.7 KiB there", "it fits with"], "profile", "toy", *SLEEP,
                   "--microbatches", "4", "--memory", "60kB", MPTUNE_FAKE="oom-record")

    def test_plan_names_the_option_in_the_way(self):
        options = ["plan", "profile.sqlite", "--memory", "60kB"]
        self.fails(3, ["no plan fits", "it fits with --stages 2 ("], "plan", "profile.sqlite", "--memory", "16kB", "--stages", "1")
        self.fails(3, ["no plan fits", "it fits with --microbatches 4 ("], *options, "--stages", "1", "--microbatches", "1")
        self.fails(3, ["no plan fits", "--microbatches"], *options, "--stages", "2", "--microbatches", "1", "--recompute", "none")
        self.fails(3, ["no plan fits", "nothing on these devices fits", "--memory "], "plan", "profile.sqlite", "--memory", "2kB")
        value = self.result("plan-result", "plan", "profile.sqlite", "--memory", "60kB", "-o", "fitting.json")
        self.assertEqual([row["cap_bytes"] for row in value["memory"]], [60000] * len(value["memory"]))
        self.assertEqual([row["peak_bytes"] for row in value["memory"]], value["predicted"]["peak_bytes"])
        self.assertLessEqual(max(value["predicted"]["peak_bytes"]), 60000)

    def test_tune_where_nothing_fits(self):
        self.fails(3, ["no plan fits", "it fits with --microbatches"], "tune", "toy", *SLEEP, "--budget", "5s", "--memory", "60kB", "--stages", "2",
                   "--microbatches", "1", "--recompute", "none", "--force", MPTUNE_FAKE="oom-series")

    def test_run(self):
        value = self.result("run", "run", "toy", "--plan", "plan.json", "--memory", "sleep:0=3kB")
        self.assertEqual([(row["peak_bytes"], row["cap_bytes"]) for row in value["memory"]], [(1000, 3000), (2000, None)])
        self.assertIn("1000 B, 33.3 % of 2.93 KiB", self.succeed("run", "toy", "--plan", "plan.json", "--memory", "sleep:0=3kB"))
        self.fails(3, ["out of memory on sleep:1", "more micro-batches than 4", "`mptune tune toy --batch 8 --devices sleep:2 --memory 60kB`"], "run", "toy",
                   "--plan", "plan.json", "--memory", "60kB", MPTUNE_FAKE="oom-train")

    def test_run_refuses_what_the_plan_file_knows(self):
        self.result("plan-result", "plan", "profile.sqlite", "--stages", "2", "--microbatches", "2", "-o", "known.json")
        self.fails(3, ["the plan does not fit", "(predicted)", "`mptune tune toy --batch 8 --devices sleep:2 --memory 9kB`", "known.json"], "run", "toy", "--plan", "known.json",
                   "--memory", "9kB")
        self.result("run", "run", "toy", "--plan", "known.json", "--memory", "1MB")
