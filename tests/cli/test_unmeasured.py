"""What tune could not measure is told: in text, JSON and reports."""
import json
import os

import jsonschema
from harness import CommandTest, schema

TUNE = ["tune", "toy", "--devices", "sleep:2", "--budget", "20s", "--trials", "8"]
TIMED_OUT = {"type": "timed_out", "limit_s": 30, "doing": ""}


class Unmeasured(CommandTest):
    def tuned(self, *arguments, alone=None, final=None):
        """The object of tune with plans that fail by themselves and in the final series."""
        failing = {"MPTUNE_FAKE_PLANS": json.dumps(alone or {}), "MPTUNE_FAKE_FINAL": json.dumps(final or {})}
        return self.result("tune", *TUNE, *arguments, **failing)

    def report(self, *arguments, width="120"):
        text = self.succeed("report", "toy.study", "--text", *arguments, COLUMNS=width)
        self.assertLessEqual(max(len(line) for line in text.splitlines() if not line.startswith(("mptune ", "  mptune "))), int(width),
                             "only commands to paste are longer")
        self.assertTrue(text.isascii())
        return text

    def test_baselines_that_fail_are_told_with_their_cause(self):
        value = self.tuned(alone={"single_device": "crash", "data_parallel": {"type": "non_finite"}, "default_pipeline": TIMED_OUT})
        self.assertEqual([row["name"] for row in value["baselines"]], ["naive_model_parallel"])
        missing = {row["name"]: row for row in value["baselines_not_measured"]}
        self.assertEqual({name: row["outcome"] for name, row in missing.items()},
                         {"single_device": "crashed", "data_parallel": "non_finite", "default_pipeline": "timed_out"})
        self.assertEqual(missing["single_device"]["why_not"], "crashed by signal 11")
        self.assertEqual(missing["single_device"]["plan"]["num_stages"], 1)
        for words in ("single_device, which failed: crashed by signal 11", "data_parallel, which failed: the loss is not finite; lower --lr",
                      "default_pipeline, which failed: timed out: a step took more than 30.0 s"):
            self.assertTrue(any(words in warning for warning in value["warnings"]), (words, value["warnings"]))
        self.assertFalse(any("fastest here" in message for message in value["messages"] + value["kinds_advice"]), value["messages"])
        crashed = [trial for trial in value["trials"] if trial["name"] == "single_device"]
        self.assertEqual([(trial["outcome"], trial["why_not"]) for trial in crashed], [("crashed", "crashed by signal 11")])

        shown = self.report()
        self.assertIn("\nsingle_device         crashed by signal 11; predicted ", shown)
        self.assertIn("\ndata_parallel         the loss is not finite; predicted ", shown)
        self.assertIn("\ndefault_pipeline      timed out: a step took more than 30.0 s", shown)
        self.report(width="80")
        markdown = self.succeed("report", "toy.study", "--markdown")
        self.assertIn("| single\\_device | - | - | crashed by signal 11; predicted ", markdown)
        self.assertIn("- the recommendation is not compared with single\\_device, which failed: crashed by signal 11", markdown)
        resumed = self.succeed(*TUNE, "--resume", COLUMNS="120")
        self.assertEqual(resumed, self.report(), "report shows what tune showed")
        self.assertRegex(resumed, r"\ndefault_pipeline .* ms", "what took too long is tried again")
        self.assertIn("\nsingle_device         crashed by signal 11; predicted ", resumed)

    def test_candidates_that_fail_are_listed_by_cause(self):
        value = self.tuned(alone={"candidate": {"type": "wrong_result", "reason": "first loss 1 instead of 2"}})
        failed = value["failed_plans"]
        self.assertGreater(len(failed), 0)
        self.assertEqual({row["outcome"] for row in failed}, {"wrong_result"})
        self.assertEqual(value["baselines_not_measured"], [])
        for row in failed:
            with open(os.path.join(self.folder, "failed.plan.json"), "w") as file:
                json.dump({"schema": "mptune.plan/1", "plan": row["plan"]}, file)
            self.succeed("simulate", "--plan", "failed.plan.json", "--profile", "profile.sqlite")
        title = f"\n{len(failed)} plan{'s' if len(failed) > 1 else ''} failed "
        for text in (self.report(), self.succeed(*TUNE, "--resume")):
            self.assertIn(title, text)
            self.assertIn("\nwrong result: first loss 1 instead of 2: ", text)
        whole = self.succeed("-v", "report", "toy.study", "--text", COLUMNS="120")
        for row in failed:
            self.assertIn("\n  " + row["description"], whole)
        self.assertNotIn("-v lists all", whole)
        self.assertIn("## " + title.strip(), self.succeed("report", "toy.study", "--markdown"))

    def test_a_finalist_that_fails_in_the_final_series(self):
        value = self.tuned(final={"naive_model_parallel": "crash"})
        row, = value["baselines_not_measured"]
        self.assertEqual((row["name"], row["outcome"], row["failed_in_final"]), ("naive_model_parallel", "crashed", True))
        self.assertGreater(row["own_trial_step_s"], 0)
        self.assertTrue(any("naive_model_parallel failed in the final comparison though its own trial was measured: crashed by signal 11" in warning
                            for warning in value["warnings"]), value["warnings"])
        self.assertEqual(sorted(baseline["name"] for baseline in value["baselines"]), ["data_parallel", "default_pipeline", "single_device"])
        self.assertIn("\nnaive_model_parallel  failed in the final comparison: crashed by signal 11; ", self.report())

    def test_the_plan_of_today_that_fails(self):
        value = self.tuned("--plan", "plan.json", alone={"current": {"type": "out_of_memory", "device": "sleep:0", "requested_bytes": 4096,
                                                                     "cap_bytes": 1024}})
        row, = [row for row in value["baselines_not_measured"] if row["name"] == "current"]
        self.assertEqual(row["why_not"], "out of memory on sleep:0: 4.00 KiB asked with a cap of 1.00 KiB")
        self.assertTrue(any("not compared with current" in warning and "raise --memory" in warning for warning in value["warnings"]))
        self.assertIn("\ncurrent ", self.report())

    def test_baselines_without_a_trial(self):
        # Each worker takes so long that the budget ends before the last baselines.
        done = self.mptune("--json", "tune", "toy", "--devices", "sleep:2", "--budget", "3s", MPTUNE_FAKE_SERIES_S="1.2")
        self.assertIn(done.returncode, (0, 5), done.stderr)
        value = json.loads(done.stdout)
        jsonschema.validate(value, schema("tune"))
        untried = [row for row in value["baselines_not_measured"] if row["outcome"] is None]
        self.assertGreater(len(untried), 0)
        self.assertEqual({(row["why_not"], row["plan"]) for row in untried}, {("not tried: no time in the budget", None)})
        tried = {trial["name"]: trial["predicted_step_s"] for trial in value["trials"] if trial["name"] != "candidate"}
        self.assertLessEqual(max(tried.values()), min(row["predicted_step_s"] for row in untried), "the fastest predicted come first")
        self.assertTrue(any("not tried, no time in the budget; give a larger --budget" in warning for warning in value["warnings"]))
        text = self.report()
        for row in untried:
            self.assertRegex(text, rf"\n{row['name']} +not tried: no time in the budget")

    def test_nothing_is_said_where_all_was_measured(self):
        value = self.tuned()
        self.assertEqual((value["baselines_not_measured"], value["failed_plans"]), ([], []))
        text = self.report()
        self.assertNotIn("failed", text)
        self.assertNotIn("not compared", text)
        self.assertIn("fastest here", " ".join(value["kinds_advice"]))
