import json
import os
import sqlite3

import jsonschema

from harness import CommandTest, schema

TUNE = ["tune", "toy", "--devices", "sleep:2", "--budget", "20s", "--trials", "6"]


class Commands(CommandTest):
    def path(self, name):
        return os.path.join(self.folder, name)

    def test_models(self):
        value = self.result("models", "models")
        self.assertEqual(value["models"][0]["name"], "toy")
        self.assertEqual(len(value["models"][0]["layers"]), 6)
        self.assertIn("block5", self.succeed("models", "toy"))

    def test_doctor(self):
        names = [finding["name"] for finding in self.result("doctor", "doctor", "--devices", "sleep:2")["findings"]]
        self.assertIn("LibTorch", names)
        self.assertIn("mptune", names)

    def test_doctor_survives_a_missing_libtorch(self):
        done = self.mptune("--json", "doctor", "--devices", "sleep:2", MPTUNE_FAKE="cannot-load")
        self.assertEqual(done.returncode, 7)
        value = json.loads(done.stdout)
        jsonschema.validate(value, schema("doctor"))
        worst = [finding for finding in value["findings"] if finding["status"] == "error"]
        self.assertEqual(len(worst), 1)
        self.assertNotEqual(worst[0]["remedy"], "")

    def test_profile(self):
        value = self.result("profile", "profile", "toy", "--devices", "sleep:2", "--microbatches", "4")
        for step in value["steps"]:
            for device in step["devices"]:
                parts = [device[key] for key in ("compute_ns", "copy_ns", "overlap_ns", "idle_ns")]
                self.assertEqual(sum(parts), device["window_ns"])
                self.assertEqual(sum(device["idle"].values()), device["idle_ns"])
        self.assertEqual(value["plan"]["num_microbatches"], 4)
        self.assertAlmostEqual(value["bubble_theory"], 1 / 5, places=2)  # (stages - 1) / (micro-batches + stages - 1)
        self.assertEqual(value["step_samples"], 6)
        self.assertAlmostEqual(value["overhead"]["percent"], 1.0, places=6)
        self.assertEqual(value["trace"], "toy.sqlite")
        with sqlite3.connect(self.path("toy.sqlite")) as database:
            tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        self.assertTrue(any(name.startswith("MPTUNE_") for name in tables))
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("mptune-")], [], "no temporary folder is left")

    def test_profile_says_what_its_recording_lacks(self):
        done = self.mptune("profile", "toy", "--devices", "sleep:2", MPTUNE_FAKE_WARNING="GPUs are not shown")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("mptune: warning: GPUs are not shown\n", done.stderr)

    def test_profile_with_a_plan_file(self):
        value = self.result("profile", "profile", "toy", "--plan", "plan.json", "-o", "other.sqlite")
        self.assertEqual(value["trace"], "other.sqlite")

    def test_cuts_by_name_and_number_agree(self):
        by_name = self.result("profile", "profile", "toy", "--devices", "sleep:2", "--cuts", "block2")
        by_number = self.result("profile", "profile", "toy", "--devices", "sleep:2", "--cuts", "2", "--stages", "2")
        self.assertEqual(by_name["plan"], by_number["plan"])
        self.assertEqual(by_name["plan"]["stages"][1]["layers"], [2, 6])

    def test_plan(self):
        value = self.result("plan", "plan", "profile.sqlite")
        jsonschema.validate(value, schema("plan-result"))
        self.assertGreaterEqual(value["predicted"]["step_s"], value["lower_bound_s"])
        steps = [other["predicted"]["step_s"] for other in value["alternatives"]]
        self.assertGreaterEqual(min(steps), value["predicted"]["step_s"])
        with open(self.path("toy.plan.json")) as file:
            written = json.load(file)
        jsonschema.validate(written, schema("plan"))
        self.assertEqual(written["plan"], value["plan"])
        self.assertEqual(written["plan"]["stages"][0]["modules"][0], "net.block0")

    def test_plan_is_restricted_by_options(self):
        value = self.result("plan", "plan", "profile.sqlite", "--stages", "2", "--microbatches", "4", "--schedule", "gpipe", "--cuts", "2")
        plan = value["plan"]
        self.assertEqual((plan["num_stages"], plan["num_microbatches"], plan["schedule"]["name"]), (2, 4, "gpipe"))
        self.assertEqual(plan["stages"][1]["layers"], [2, 6])

    def test_plan_keeps_to_the_given_recomputation_and_replicas(self):
        def plans(*options):
            value = self.result("plan", "plan", "profile.sqlite", *options)
            return [value["plan"]] + [other["plan"] for other in value["alternatives"]]

        for plan in plans("--recompute", "all"):
            self.assertEqual({stage["recompute"] for stage in plan["stages"]}, {"all"})
        for plan in plans("--recompute", "1"):
            self.assertEqual([stage["recompute"] for stage in plan["stages"]], ["none", "all"])
        for plan in plans("--recompute", "none"):
            self.assertEqual({stage["recompute"] for stage in plan["stages"]}, {"none"})
        for plan in plans("--replicas", "2"):
            self.assertEqual((plan["num_stages"], plan["data_parallel_size"]), (1, 2))
        for plan in plans("--replicas", "1,1"):
            self.assertEqual((plan["num_stages"], plan["data_parallel_size"]), (2, 1))
        self.assertGreater(len({plan["num_stages"] for plan in plans()}), 1)

    def test_the_object_of_plan_is_a_plan_file(self):
        with open(self.path("from.json"), "w") as file:
            file.write(self.succeed("--json", "plan", "profile.sqlite"))
        self.result("simulate", "simulate", "--plan", "from.json", "--profile", "profile.sqlite")

    def test_simulate(self):
        value = self.result("simulate", "simulate", "--plan", "plan.json", "--profile", "profile.sqlite", "-o", "predicted.sqlite")
        for device in value["devices"]:
            parts = [device[key] for key in ("compute_s", "copy_s", "overlap_s", "idle_s")]
            self.assertAlmostEqual(sum(parts), device["window_s"], places=9)
        text = self.succeed("report", "predicted.sqlite", "--text")
        self.assertIn("sleep:1", text)

    def test_import_reads_what_profile_recorded(self):
        profiled = self.result("profile", "profile", "toy", "--devices", "sleep:2", "--microbatches", "4")
        imported = self.result("import", "import", "toy.sqlite")
        for key in ("steps", "bubble", "bubble_theory", "quality", "advice"):
            self.assertEqual(imported[key], profiled[key], key)
        self.assertGreater(imported["ideal_step_s"], 0)

    def test_a_lossy_trace_has_no_verdict(self):
        self.result("profile", "profile", "toy", "--devices", "sleep:2")
        with sqlite3.connect(self.path("toy.sqlite")) as database:
            database.execute("UPDATE MPTUNE_QUALITY SET dropped = 100000")
        done = self.mptune("--json", "import", "toy.sqlite")
        self.assertEqual(done.returncode, 5)
        value = json.loads(done.stdout)
        jsonschema.validate(value, schema("import"))
        self.assertEqual(value["advice"], [])
        self.assertIn("no verdict", done.stderr)

    def test_export_to_every_format(self):
        self.result("profile", "profile", "toy", "--devices", "sleep:2")
        wanted = {"kineto": ["toy.rank0.json", "toy.rank1.json"], "perfetto": ["toy.pftrace"], "nvtxt": ["toy.nvtxt"], "csv": ["toy.csv"]}
        for name, files in wanted.items():
            value = self.result("export", "export", "toy.sqlite", "--to", name)
            self.assertEqual(value["files"], files)
            self.assertIn("plan and profile", value["lossy"])
            for file in files:
                self.assertGreater(os.path.getsize(self.path(file)), 100)
            self.result("export", "export", "toy.sqlite", "--to", name)  # our own files are replaced
        kernels = [event for event in json.load(open(self.path("toy.rank0.json")))["traceEvents"] if event.get("cat") == "kernel"]
        self.assertGreater(len(kernels), 0)
        back = self.result("import", "import", "toy.rank0.json")
        self.assertEqual(len(back["devices"]), 2)  # its copies lead to the second

    def test_run(self):
        value = self.result("run", "run", "toy", "--plan", "plan.json", "--steps", "4")
        self.assertEqual(len(value["loss"]), 4)
        self.assertAlmostEqual(value["samples_per_second"], 8 / 0.05)

    def test_mptune_plan_overrides(self):
        self.result("run", "run", "toy", "--plan", "missing.json", MPTUNE_PLAN="plan.json")
        self.result("run", "run", "toy", MPTUNE_PLAN="plan.json")

    def test_tune_resume_and_report(self):
        value = self.result("tune", *TUNE)
        names = [baseline["name"] for baseline in value["baselines"]]
        for name in ("single_device", "naive_model_parallel", "default_pipeline", "data_parallel"):
            self.assertIn(name, names)
        best = value["recommended"]["step_s"]
        for baseline in value["baselines"]:
            self.assertGreaterEqual(baseline["step_s"], best * 0.98)
        with open(value["plan_file"] if os.path.isabs(value["plan_file"]) else self.path(value["plan_file"])) as file:
            plan_file = json.load(file)
        jsonschema.validate(plan_file, schema("plan"))
        self.assertEqual(plan_file["plan"], value["recommended"]["plan"])
        self.assertIn("measured", plan_file)
        self.assertEqual(plan_file["predicted"]["peak_bytes"], value["recommended"]["predicted_peak_bytes"])
        self.assertEqual(len(plan_file["predicted"]["peak_bytes"]), len(plan_file["plan"]["devices"]))
        shares = value["limit"]
        self.assertAlmostEqual(sum(part["seconds_s"] for part in shares["rest"]), best - shares["limit_s"], places=9)

        again = self.result("tune", *TUNE, "--resume")
        self.assertEqual(again["recommended"]["plan_key"], value["recommended"]["plan_key"])
        self.assertEqual(len(again["trials"]), len(value["trials"]), "nothing is measured twice")
        shown = self.succeed(*TUNE, "--resume")
        reported = self.succeed("report", "toy.study", "--text")
        self.assertEqual(shown.splitlines()[0], reported.splitlines()[0])
        self.assertTrue(shown.splitlines()[-1].startswith("mptune run toy --plan "))
        self.assertEqual(shown.splitlines()[-1], reported.splitlines()[-1])
        self.result("run", *reported.splitlines()[-1].split()[1:], "--steps", "2")
        self.assertEqual(self.result("report", "report", "toy.study", "--text", "-o", "report.txt")["files"], ["report.txt"])

    def test_tune_with_the_plan_of_today(self):
        value = self.result("tune", *TUNE, "--plan", "plan.json")
        self.assertIn("current", [baseline["name"] for baseline in value["baselines"]])

    def test_piped_text_is_plain(self):
        for width in ("80", "120"):
            text = self.succeed("simulate", "--plan", "plan.json", "--profile", "profile.sqlite", COLUMNS=width, LC_ALL="C")
            self.assertTrue(text.isascii())
            self.assertNotIn("\x1b", text)
            self.assertLessEqual(max(len(line) for line in text.splitlines()), int(width))
        text = self.succeed("simulate", "--plan", "plan.json", "--profile", "profile.sqlite", LC_ALL="C.UTF-8")
        self.assertIn("┏", text)
        self.assertNotIn("\x1b", text)
        self.assertIn("\x1b", self.succeed("--color", "always", "simulate", "--plan", "plan.json", "--profile", "profile.sqlite"))

    def test_quiet(self):
        done = self.mptune("-q", "profile", "toy", "--devices", "sleep:2")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
