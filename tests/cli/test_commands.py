import json
import os
import sqlite3

import jsonschema
from harness import SCHEDULES, TWO_PARTS, CommandTest, schema
from timelines import write_timeline

TUNE = ["tune", "toy", "--devices", "sleep:2", "--budget", "20s", "--trials", "6"]


def kinds_of(text):
    """The table of kinds in a report."""
    return text[text.index("Which kind of parallelism"):].split("Step time and")[0]


class Commands(CommandTest):
    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        with open(self.path(name)) as file:
            return json.load(file)

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
        written = self.read("toy.plan.json")
        jsonschema.validate(written, schema("plan"))
        self.assertEqual(written["plan"], value["plan"])
        self.assertEqual(written["plan"]["stages"][0]["modules"][0], "net.block0")

    def test_plan_says_what_it_does_and_counts_in_words(self):
        done = self.mptune("plan", "profile.sqlite", "--stages", "1", "--microbatches", "1", "--schedule", "naive", "--recompute", "none")
        self.assertIn("mptune: reading profile.sqlite\n", done.stderr)
        self.assertIn("mptune: searching plans for toy", done.stderr)
        self.assertRegex(done.stdout, r"(?m)^(1 plan|[2-9]\d* plans) simulated in ")
        self.assertEqual(self.mptune("-q", "plan", "profile.sqlite").stderr, "")

    def test_plan_is_restricted_by_options(self):
        value = self.result("plan", "plan", "profile.sqlite", "--stages", "2", "--microbatches", "4", "--schedule", "gpipe", "--cuts", "2")
        plan = value["plan"]
        self.assertEqual((plan["num_stages"], plan["num_microbatches"], plan["schedule"]["name"]), (2, 4, "gpipe"))
        self.assertEqual(plan["stages"][1]["layers"], [2, 6])

    def test_stages_begin_with_modules_that_are_named(self):
        value = self.result("plan", "plan", "profile.sqlite", "--stages", "2", "--cut-at", "net.block[24]")
        for plan in [value["plan"]] + [other["plan"] for other in value["alternatives"]]:
            self.assertIn(plan["stages"][1]["layers"][0], (2, 4))
        value = self.result("profile", "profile", "toy", "--devices", "sleep:2", "--cut-at", "net.block4")
        self.assertEqual(value["plan"]["stages"][1]["layers"], [4, 6])
        self.fails(2, ["no module is named by 'blocks.*'", "--cut-at", "net.block0"], "plan", "profile.sqlite", "--cut-at", "blocks.*")
        self.fails(2, ["cut 3 is not before a module that --cut-at names"], "plan", "profile.sqlite", "--cut-at", "net.block4", "--cuts", "3")
        self.fails(2, ["--cut-at"], "plan", "profile.sqlite", "--cut-at", "net.*", "--objective", "closed-form")

    def test_plan_keeps_to_the_given_recomputation_and_replicas(self):
        def plans(*options):
            value = self.result("plan", "plan", "profile.sqlite", *options)
            return [value["plan"]] + [other["plan"] for other in value["alternatives"]]

        for plan in plans("--recompute", "all"):
            self.assertEqual({stage["recompute"] for stage in plan["stages"]}, {"all"})
        for plan in plans("--recompute", "1"):
            self.assertEqual([s for s, stage in enumerate(plan["stages"]) if stage["recompute"] != "none"], [1])
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

    def test_check_of_a_model_that_agrees(self):
        value = self.result("check", "check", "toy", "--devices", "sleep:2")
        self.assertTrue(value["agrees"])
        self.assertIsNone(value["first_difference"])
        self.assertEqual([part["name"] for part in value["parts"]], ["reference", "again", "pieces"])
        self.assertEqual([part["agrees"] for part in value["parts"]], [None, True, True])
        text = self.succeed("check", "toy")
        self.assertIn("toy agrees", text)
        self.assertIn("3.0e-07 at gradient of block1.weight", " ".join(text.split()))
        self.assertEqual(self.mptune("-q", "check", "toy").stderr, "")

    def test_check_of_a_plan(self):
        for options in (["--plan", "plan.json"], ["--devices", "sleep:2", "--cuts", "2"]):
            value = self.result("check", "check", "toy", *options)
            self.assertEqual([part["name"] for part in value["parts"]][-1], "plan", options)
            self.assertEqual(value["samples"], 8)

    def test_check_of_a_model_that_differs(self):
        for mode, relative in {"check-differs": 0.25, "check-shape": None}.items():
            done = self.mptune("--json", "check", "toy", MPTUNE_FAKE=mode)
            self.assertEqual(done.returncode, 4, done.stderr)
            value = json.loads(done.stdout)
            jsonschema.validate(value, schema("check"))
            self.assertFalse(value["agrees"])
            self.assertEqual((value["first_difference"]["layer_name"], value["first_difference"]["relative"]), ("block3", relative))
        done = self.mptune("check", "toy", MPTUNE_FAKE="check-differs")
        self.assertEqual(done.returncode, 4, done.stderr)
        for words in ("the output of layer block3 differs by 0.25", "aten.rand_like in block3 (toy.py:7, x)", "draw with dropout"):
            self.assertIn(words, " ".join(done.stdout.split()))

    def test_tune_refuses_a_model_whose_pieces_differ(self):
        error = self.fails(2, ["block3", "draw with dropout; see `mptune check toy --devices sleep:2`"], *TUNE, "-o", "refused.study", "--force", MPTUNE_FAKE="check-differs")["error"]
        self.assertIn("aten.rand_like in block3 (toy.py:7, x)", error["where"])
        self.assertFalse(os.path.exists(self.path("refused.study/traces/profile.sqlite")))

    def test_simulate(self):
        value = self.result("simulate", "simulate", "--plan", "plan.json", "--profile", "profile.sqlite", "-o", "predicted.sqlite")
        for device in value["devices"]:
            parts = [device[key] for key in ("compute_s", "copy_s", "overlap_s", "idle_s")]
            self.assertAlmostEqual(sum(parts), device["window_s"], places=9)
        text = self.succeed("report", "predicted.sqlite", "--text")
        self.assertIn("sleep:1", text)

    def test_every_schedule_is_planned_and_simulated(self):
        for schedule, stages in SCHEDULES.items():
            planned = self.result("plan-result", "plan", "profile.sqlite", "--schedule", schedule, "--stages", str(stages),
                                  "--microbatches", "1" if schedule == "naive" else "4", "-o", "one.json", "--force")
            value = self.result("simulate", "simulate", "--plan", "one.json", "--profile", "profile.sqlite")
            self.assertEqual((value["plan"]["schedule"]["name"], value["plan"]["num_stages"]), (schedule, stages))
            self.assertEqual(value["predicted"]["step_s"], planned["predicted"]["step_s"])
            devices = [stage["devices"][0] for stage in value["plan"]["stages"]]
            in_a_v = schedule in ("zbv", "v-half", "v-min", "dualpipe-v")
            self.assertEqual(devices[2:], {2: [], 4: devices[1::-1] if in_a_v else devices[:2]}[stages], schedule)
            splits = "I" in " ".join(value["plan"]["schedule"]["actions"])
            self.assertEqual(splits, schedule in TWO_PARTS, schedule)
            self.assertEqual(any("half of a backward" in assumed for assumed in planned["assumed"]), splits, schedule)

    def test_plans_with_several_stages_per_device(self):
        value = self.result("plan-result", "plan", "profile.sqlite", "--virtual", "2")
        self.assertEqual(value["plan"]["num_stages"], 4)
        devices = [stage["devices"][0] for stage in value["plan"]["stages"]]
        self.assertEqual({devices.count(device) for device in devices}, {2})
        value = self.result("plan-result", "plan", "profile.sqlite", "--virtual", "3", "--schedule", "gpipe", "--force")
        self.assertEqual(value["plan"]["num_stages"], 6)
        value = self.result("tune", *TUNE, "--schedule", "interleaved")
        self.assertIn(4, [trial["plan"]["num_stages"] for trial in value["trials"] if "plan" in trial] + [value["best_pipeline"]["plan"]["num_stages"]])

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
        self.assertIn("too incomplete for a verdict", done.stderr)

    def compared(self, code, a, b):
        """Object and text of compare; checks that the text fits its width."""
        done = self.mptune("--json", "compare", a, b)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        value = json.loads(done.stdout, parse_constant=lambda word: self.fail(f"{word} is no JSON"))
        jsonschema.validate(value, schema("compare"))
        for width in ("80", "120"):
            done = self.mptune("compare", a, b, COLUMNS=width)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertTrue(done.stdout.startswith(value["verdict"] + ": "), done.stdout)
            self.assertLessEqual(max(len(line) for line in done.stdout.splitlines()), int(width))
        return value, done.stdout

    def timeline(self, name, factor, steps=8):
        """A pipeline timeline of two stages; the second stage takes `factor` times as long."""
        write_timeline(self.path(name), [(100 + step % 3, (100 + step % 3) * factor) for step in range(steps)])

    def test_import_of_one_step_has_no_interval(self):
        self.timeline("one.json", 1, steps=1)
        self.timeline("many.json", 1)
        text = self.succeed("import", "one.json")
        self.assertRegex(text, r"(?m)^step \d+ ms, 1 measurement$")
        self.assertIn("\n\ncritical path", text)
        self.assertNotIn("\n\n\ncritical path", text)
        self.assertRegex(self.succeed("import", "many.json"), r"(?m)^step \d+ ms, 95 % \[.*\] ms, 8 measurements$")

    def test_compare_traces(self):
        self.timeline("before.json", 1)
        self.timeline("after.json", 1.5)
        value, text = self.compared(4, "before.json", "after.json")
        self.assertEqual((value["verdict"], value["kind"]), ("SLOW", "traces"))
        self.assertLess(value["ratio"]["ci95"][0], 1.25)
        self.assertGreater(value["ratio"]["ci95"][1], 1.25)
        for device in value["per_device"]:
            parts = [device["parts"][name]["difference_s"] for name in ("compute", "copy", "overlap", "idle")]
            self.assertAlmostEqual(sum(parts), device["parts"]["window"]["difference_s"], places=9)
            causes = [cause["difference_s"] for cause in device["idle"].values()]
            self.assertAlmostEqual(sum(causes), device["parts"]["idle"]["difference_s"], places=9)
        changes = value["largest_changes"]
        self.assertAlmostEqual(max(change["difference_s"] for change in changes if change["part"] == "compute"), 0.15, places=2)
        self.assertEqual(changes, sorted(changes, key=lambda change: -abs(change["difference_s"])))
        self.assertIn(changes[0]["text"], text)
        self.assertEqual(self.compared(0, "after.json", "before.json")[0]["verdict"], "FAST")
        self.assertEqual(self.compared(0, "before.json", "before.json")[0]["verdict"], "SAME")
        self.timeline("short.json", 1.5, steps=3)
        self.assertIn("B has only 3 of the 6 samples", self.compared(5, "before.json", "short.json")[0]["reason"])

    def test_compare_our_traces(self):
        value, text = self.compared(0, "trace.sqlite", "trace.sqlite")
        self.assertEqual((value["verdict"], value["plan_changes"]), ("SAME", []))
        self.assertEqual([device["device"] for device in value["per_device"]], ["sleep:0", "sleep:1"])
        with open(self.path("lossy.sqlite"), "wb") as file, open(self.path("trace.sqlite"), "rb") as whole:
            file.write(whole.read())
        with sqlite3.connect(self.path("lossy.sqlite")) as database:
            database.execute("UPDATE MPTUNE_QUALITY SET dropped = 100000")
        value, _ = self.compared(5, "trace.sqlite", "lossy.sqlite")
        self.assertEqual(value["verdict"], "UNKNOWN")
        self.assertIn("B: ", value["reason"])

    def test_compare_plans(self):
        plan = self.read("plan.json")
        self.succeed("plan", "profile.sqlite", "--schedule", "gpipe", "--stages", "2", "--microbatches", "4", "--cuts", "2", "-o", "gpipe.json")
        value, text = self.compared(5, "plan.json", "gpipe.json")
        self.assertEqual((value["kind"], value["verdict"], value["ratio"]), ("plans", "UNKNOWN", None))
        self.assertEqual(value["reason"], "neither plan was measured")
        self.assertIn("schedule: 1f1b -> gpipe", value["plan_changes"])
        self.assertIn("cuts: 3 -> 2", text)
        self.assertEqual(self.compared(0, "plan.json", "plan.json")[0]["verdict"], "SAME")

        def measured(name, step_s, half, samples):
            block = {"step_s": step_s, "step_ci95_s": [step_s - half, step_s + half], "step_samples": samples, "peak_bytes": [1, 1], "verdict": "UNKNOWN"}
            with open(self.path(name), "w") as file:
                json.dump({**plan, "measured": block}, file)

        measured("one.json", 0.1, 0.001, 20)
        measured("two.json", 0.12, 0.001, 20)
        measured("wide.json", 0.1, 0.01, 20)
        value, _ = self.compared(4, "one.json", "two.json")
        self.assertAlmostEqual(value["ratio"]["estimate"], 1.2)
        self.assertEqual(self.compared(0, "two.json", "one.json")[0]["verdict"], "FAST")
        self.assertEqual(self.compared(5, "one.json", "wide.json")[0]["verdict"], "AMBIGUOUS")

    def test_compare_studies(self):
        self.succeed(*TUNE)
        value, _ = self.compared(0, "toy.study", "toy.study")
        self.assertEqual((value["kind"], value["verdict"], value["plan_changes"]), ("studies", "SAME", []))
        self.succeed("tune", "toy", "--devices", "sleep:1", "--budget", "20s", "--trials", "6", "-o", "one.study")
        value, text = self.compared(4, "toy.study", "one.study")
        self.assertAlmostEqual(value["ratio"]["estimate"], self.step("one.study") / self.step("toy.study"), places=6)
        self.assertIn("devices: sleep:0, sleep:1 -> sleep:0", text)
        self.assertEqual([device["device"] for device in value["per_device"]], ["sleep:0", "sleep:1"])
        self.succeed(*TUNE, "--batch", "4", "-o", "smaller.study")
        self.assertIn("different work", self.compared(5, "toy.study", "smaller.study")[0]["reason"])

    def step(self, study):
        return self.read(study + "/toy.plan.json")["measured"]["step_s"]

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
        kernels = [event for event in self.read("toy.rank0.json")["traceEvents"] if event.get("cat") == "kernel"]
        self.assertGreater(len(kernels), 0)

    def test_an_export_comes_back(self):
        self.result("profile", "profile", "toy", "--devices", "sleep:2")
        whole = self.result("import", "import", "toy.sqlite")
        exported = self.result("export", "export", "toy.sqlite", "--to", "kineto")
        self.assertFalse(any("step, stage" in loss or "edges" in loss or "waits" in loss for loss in exported["lossy"]), exported["lossy"])
        back = self.result("import", "import", "toy.rank1.json", "toy.rank0.json", "-o", "back.sqlite")
        for key in ("devices", "steps", "bubble", "critical_path"):
            self.assertEqual(back[key], whole[key], key)
        self.assertEqual(self.result("import", "import", "back.sqlite")["devices"], whole["devices"])
        done = self.mptune("import", "toy.rank1.json")
        self.assertIn("no file of device 0", done.stderr)
        self.fails(2, ["it holds device 1 of 2", "import FILES -o"], "report", "toy.rank1.json")

    def test_run(self):
        value = self.result("run", "run", "toy", "--plan", "plan.json", "--steps", "4")
        self.assertEqual(len(value["loss"]), 4)
        self.assertAlmostEqual(value["samples_per_second"], 8 / 0.05)

    def test_run_of_a_plan_from_options(self):
        value = self.result("run", "run", "toy", "--devices", "sleep:2", "--schedule", "gpipe", "--microbatches", "4", "--batch", "8", "--steps", "2")
        self.assertEqual(value["plan"]["schedule"]["name"], "gpipe")
        self.assertEqual(value["plan"]["devices"], ["sleep:0", "sleep:1"])
        self.assertEqual((value["plan"]["num_microbatches"], value["plan"]["global_batch_size"]), (4, 8))
        self.assertEqual(value["plan"]["stages"][0]["modules"], ["net.block0", "net.block1", "net.block2"])
        self.assertEqual(self.result("run", "run", "toy", "--devices", "sleep:2", "--memory", "sleep:1=1MB")["memory"][1]["cap_bytes"], 1_000_000)

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

        self.assertEqual([row["kind"] for row in value["kinds"]], ["one_device", "all_cores", "data_parallel", "pipeline", "hybrid"])
        self.assertEqual([row["plan_key"] for row in value["kinds"] if row["best"]], [value["recommended"]["plan_key"]])
        self.assertEqual(value["kinds"][1]["why_not"], "only several CPU cores can be one device")
        self.assertEqual(value["kinds"][4]["why_not"], "needs at least 3 devices; 2 available")
        self.assertIn("fastest here", value["kinds_advice"][0])

        again = self.result("tune", *TUNE, "--resume")
        self.assertEqual(again["recommended"]["plan_key"], value["recommended"]["plan_key"])
        self.assertEqual(len(again["trials"]), len(value["trials"]), "nothing is measured twice")
        shown = self.succeed(*TUNE, "--resume")
        reported = self.succeed("report", "toy.study", "--text")
        self.assertEqual(shown.splitlines()[0], reported.splitlines()[0])
        self.assertTrue(shown.splitlines()[-1].startswith("mptune profile toy --plan "), "sleeping devices train nothing")
        self.assertEqual(shown.splitlines()[-1], reported.splitlines()[-1])
        self.result("profile", *reported.splitlines()[-1].split()[1:], "--steps", "2", "-o", "again.sqlite")
        self.assertEqual(self.result("report", "report", "toy.study", "--text", "-o", "report.txt")["files"], ["report.txt"])
        self.assertIn("Which kind of parallelism", shown)
        self.assertEqual(kinds_of(shown), kinds_of(reported))
        markdown = self.succeed("report", "toy.study", "--markdown", LC_ALL="C.UTF-8")
        self.assertRegex(markdown, r"^# (Provisional r|R)ecommendation for toy")
        self.assertIn("| kind | step | 95 % |", markdown)
        self.assertNotIn("\x1b", markdown)
        self.assertIn("\nmptune profile toy --plan toy.study/toy.plan.json\n", markdown)
        self.assertEqual(self.succeed("report", self.path("toy.study"), "--markdown", LC_ALL="C.UTF-8"), markdown, "no folder is named")
        self.assertEqual(self.result("report", "report", "toy.study", "--markdown")["markdown"], markdown)
        self.result("report", "report", "toy.study", "--markdown", "-o", "report.md")
        with open(os.path.join(self.folder, "report.md")) as file:
            self.assertEqual(file.read(), markdown)
        self.assertRegex(self.succeed("report", os.path.join("toy.study", "traces", "recommended.sqlite"), "--markdown"), r"^# recommended.sqlite")

    def test_tune_with_the_plan_of_today(self):
        value = self.result("tune", *TUNE, "--plan", "plan.json")
        self.assertIn("current", [baseline["name"] for baseline in value["baselines"]])

    def test_tune_says_what_options_restrict(self):
        value = self.result("tune", *TUNE, "--stages", "2", "--recompute", "all")
        asked, = [baseline for baseline in value["baselines"] if baseline["name"] == "asked_for"]
        said, = [text for text in value["messages"] if "asked_for" in text]
        self.assertRegex(said, "^--stages 2 --recompute all restricts the search, not the baselines; its fastest plan, asked_for, is .*2 stages")
        self.assertIn(said, self.result("report", "report", "toy.study")["data"]["messages"])
        self.assertIn("asked_for", self.succeed("report", "toy.study"))
        with open(os.path.join(self.folder, "toy.study", "report.html")) as page:
            self.assertTrue("asked_for, final" in page.read())
        self.assertGreater(asked["step_s"], 0)

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
