import json
import os
import sqlite3
import subprocess

from harness import PROGRAM, CommandTest

SLEEP = ["--devices", "sleep:2"]


class BadInput(CommandTest):
    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(text)

    def plan(self):
        with open(os.path.join(self.folder, "plan.json")) as file:
            return json.load(file)

    def test_command_line(self):
        self.fails(2, ["no command 'tuun'"], "tuun")
        self.fails(2, ["'tun'", "did you mean tune"], "tun", "toy")
        self.fails(2, ["--batchs", "did you mean --batch"], "profile", "toy", "--batchs", "3")
        self.fails(2, ["MODEL"], "profile")
        self.fails(2, ["--color"], "--color", "sometimes", "models")
        self.fails(2, ["-q"], "-q", "-v", "models")
        self.fails(2, ["one argument too many"], "models", "toy", "more")

    def test_without_a_command_it_prints_its_help(self):
        for options in ([], ["-q"], ["--color", "never"]):
            done = self.mptune(*options)
            self.assertEqual((done.returncode, done.stderr, done.stdout), (2, "", self.succeed("--help")), options)
        done = self.mptune("--json")
        self.assertEqual((done.returncode, json.loads(done.stdout)["error"]["what"]), (2, "a command is missing"))
        self.assertEqual(self.mptune("--color", "sometimes").returncode, 2)

    def test_a_schedule_that_needs_more_layers(self):
        for command in ("profile", "tune", "run", "check"):
            value = self.fails(2, ["zbv has 2 stages on each of 4 devices, but the model has 6 layers: --schedule", "1f1b"], command, "toy", "--devices",
                               "sleep:4", "--schedule", "zbv")
            self.assertEqual(value["error"]["where"], "--schedule")
        self.fails(2, ["4 stages on each of 2 devices", "6 layers: --virtual"], "run", "toy", *SLEEP, "--schedule", "interleaved", "--virtual", "4")

    def test_formats_that_a_report_does_not_have(self):
        for name in ("out.pdf", "out.PNG", "a/out.docx", "out.json"):
            self.fails(2, ["a report is not written as ." + name.split(".")[1].lower(), name, ".html"], "report", "trace.sqlite", "-o", name)
            self.assertFalse(os.path.exists(os.path.join(self.folder, name)))
        self.succeed("report", "trace.sqlite", "-o", "report.of.today")

    def test_a_long_current_folder(self):
        deep = self.folder
        for _ in range(60):
            deep = os.path.join(deep, "x" * 60)
        os.makedirs(deep)
        for command in (["profile", "toy", *SLEEP], ["tune", "toy", *SLEEP, "--budget", "5s"]):
            done = self.mptune(*command, cwd=deep)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertRegex(done.stderr.splitlines()[-1], r"^mptune: the path is too long for SQLite.*; work in a folder with a shorter path")
        self.assertEqual(self.mptune("models", cwd=deep).returncode, 0)
        inner = os.open(deep, os.O_RDONLY)
        self.addCleanup(os.close, inner)
        for _ in range(10):
            os.mkdir("x" * 60, dir_fd=inner)
            below = os.open("x" * 60, os.O_RDONLY, dir_fd=inner)
            os.dup2(below, inner)
            os.close(below)
        for command in (["profile", "toy", *SLEEP], ["tune", "toy", *SLEEP, "--budget", "5s"]):
            done = subprocess.run([PROGRAM, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment(),
                                  preexec_fn=lambda: os.fchdir(inner), timeout=100)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertRegex(done.stderr.splitlines()[-1], r"^mptune: .+; work in a folder with a shorter path")

    def test_nonsense_in_each_option(self):
        bad = {
            "--devices": ["", "gpu:0", "cpu:9999", "sleep:0", "cpu:0,cpu:0"], "--link": ["fast", "0GB/s"], "--memory": ["lots", "-1", "cpu:7=1GiB"],
            "--batch": ["0", "-4", "many", "1e3", "99999999999"], "--stages": ["0", "x"], "--virtual": ["0", "x"], "--cuts": ["0", "6", "3,2", "3,3", "x", "3,"],
            "--microbatches": ["0", "9", "x"], "--split-size": ["0", "9", "x"], "--schedule": ["fastest", "."], "--recompute": ["9", "some"],
            "--replicas": ["0", "3", "x", "1,"], "--plan": ["missing.json"], "--optimizer": ["best"], "--lr": ["x", "-1", "nan", "1e99"],
            "--loss": ["none"], "--seed": ["-1", "x"], "--data": ["missing.pt"], "--steps": ["0", "x"], "--input": ["3x64"],
        }
        for option, values in bad.items():
            base = [] if option == "--devices" else SLEEP
            for value in values:
                self.fails(2, [], "profile", "toy", *base, f"{option}={value}")
        for value in ["0", "-1", "x", "3", "1.5", "99999999999999999999"]:
            for command in ("profile", "run", "tune"):
                self.fails(2, ["--threads", "the largest device has 2 cores", "use 1 to 2"], command, "toy", "--devices", "cpu:0-1", f"--threads={value}")
        self.fails(2, ["--threads", "only CPU devices"], "profile", "toy", *SLEEP, "--threads", "1")
        self.fails(2, ["--threads", "the largest device has 1 core", "cpu:0-3"], "tune", "toy", "--devices", "cpu:0,cpu:1", "--threads", "2")
        self.fails(2, ["--exact", "--threads"], "tune", "toy", "--devices", "cpu:0-1", "--exact", "--threads", "1")
        for option, values in {"--budget": ["", "0s", "soon"], "--trials": ["0", "x"], "--target": ["x", "-1"], "--recompute": ["some", "2", "0,"],
                               "--replicas": ["3", "0", "x", "1,"], "--schedule": ["x"]}.items():
            for value in values:
                self.fails(2, [option], "tune", "toy", *SLEEP, f"{option}={value}")

    def test_ranks(self):
        two = ["--devices", "0@cpu:0,1@cpu:0"]
        ranks = {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
        self.fails(2, ["devices of 2 ranks", "started alone", "--ranks 2", "torchrun"], "run", "toy", *two)
        self.fails(2, ["there are 2 ranks", "cpu:0", "0@cpu:0"], "run", "toy", "--devices", "cpu:0", "--ranks", "2")
        self.fails(2, ["there are 2 ranks", "cpu:1"], "run", "toy", "--devices", "0@cpu:0,cpu:1", "--ranks", "2")
        self.fails(2, ["rank 1 has no device"], "run", "toy", "--devices", "0@cpu:0,0@cpu:1", "--ranks", "2")
        self.fails(2, ["rank 1 has no device"], "run", "toy", "--devices", "0@cpu:0,2@cpu:0", "--ranks", "3")
        self.fails(2, ["devices of 3 ranks", "only 2 ranks", "--ranks 3"], "run", "toy", "--devices", "0@cpu:0,1@cpu:0,2@cpu:0", "--ranks", "2")
        self.fails(2, ["named twice"], "run", "toy", "--devices", "0@cpu:0,0@cpu:0")
        for name in ("x@cpu:0", "@cpu:0", "-1@cpu:0", "4096@cpu:0", "0@gpu:0", "0@", "0@0@cpu:0"):
            self.fails(2, [f"invalid device '{name}'", "1@cuda:0 is one of rank 1"], "run", "toy", "--devices", name)
        for number in ("0", "-1", "x", "1.5", "257", "99999999999999999999"):
            self.fails(2, ["--ranks", "use 1 to 256"], "run", "toy", *two, f"--ranks={number}")
        for reduce in ("sum", "2", "ordered|all-reduce"):
            self.fails(2, [f"'{reduce}' is not a way to reduce", "--reduce"], "run", "toy", *two, "--ranks", "2", "--reduce", reduce)
        self.fails(2, ["did you mean all-reduce"], "run", "toy", *two, "--ranks", "2", "--reduce", "all-reduc")
        self.fails(2, ["nothing to reduce between ranks", "--reduce"], "run", "toy", "--devices", "cpu:0", "--reduce", "all-reduce")
        self.fails(2, ["2 ranks were started, not 3", "--ranks", "torchrun"], "run", "toy", *two, "--ranks", "3", **ranks)
        for missing in ("MASTER_ADDR", "MASTER_PORT"):
            part = {name: value for name, value in ranks.items() if name != missing}
            self.fails(2, ["WORLD_SIZE", "MASTER_ADDR and MASTER_PORT", "torchrun"], "run", "toy", *two, **part)
        for name, values in {"RANK": ["x", "2", "-1"], "WORLD_SIZE": ["x", "0", "4097"], "MASTER_PORT": ["x", "0", "65536"]}.items():
            for value in values:
                self.fails(2, [f"{name} is '{value}'", "torchrun"], "run", "toy", *two, **{**ranks, name: value})
        for command in ("profile", "tune"):
            self.fails(2, ["devices of 2 ranks", "started alone"], command, "toy", *two)
            self.fails(2, ["rank 1 has no device"], command, "toy", "--devices", "0@cpu:0,0@cpu:1", "--ranks", "2")
        self.fails(2, ["only run, profile and tune", "0@cpu:0"], "check", "toy", *two)
        self.fails(2, ["no option '--ranks'"], "check", "toy", "--ranks", "2")

    def test_models_and_shapes(self):
        self.fails(2, ["unknown model 'nonsense'"], "profile", "nonsense", *SLEEP)
        self.fails(2, ["--input"], "tune", "toy", "--input", "3x64x64", *SLEEP)

    def test_cuts_and_counts(self):
        self.fails(2, ["out of range"], "profile", "toy", *SLEEP, "--cuts", "17")
        self.fails(2, ["empty stage"], "profile", "toy", *SLEEP, "--cuts", "3,3")
        self.fails(2, ["unknown layer", "names of layers"], "profile", "toy", *SLEEP, "--cuts", "block9")
        self.fails(2, ["2 stages for 1 device:"], "profile", "toy", "--devices", "sleep:1", "--stages", "2")
        self.fails(2, ["2 stages for 1 device:"], "plan", "profile.sqlite", "--devices", "sleep:0", "--stages", "2")
        self.fails(2, ["' ' is not a whole number"], "plan", "profile.sqlite", "--replicas", "1,")
        self.fails(2, ["7 stages", "6 layers"], "profile", "toy", "--devices", "sleep:7")
        self.fails(2, ["--stages"], "plan", "profile.sqlite", "--stages", "7")
        self.fails(2, ["8"], "profile", "toy", *SLEEP, "--microbatches", "9")
        self.fails(2, ["both"], "profile", "toy", *SLEEP, "--microbatches", "2", "--split-size", "4")
        self.fails(2, ["both"], "profile", "toy", "--plan", "plan.json", "--stages", "2")
        self.fails(2, ["both"], "check", "toy", "--plan", "plan.json", "--stages", "2")
        self.fails(2, ["missing.json"], "check", "toy", "--plan", "missing.json")
        self.fails(2, ["unknown model 'no'"], "check", "no", "--stages", "2")
        self.fails(2, ["--replicas", "2 replica counts for 1 stages"], "plan", "profile.sqlite", "--replicas", "1,1", "--stages", "1")
        self.fails(2, ["--replicas", "1 micro-batch for 2 replicas"], "tune", "toy", *SLEEP, "--replicas", "2", "--microbatches", "1")
        self.fails(2, ["--recompute", "does not name stages"], "tune", "toy", *SLEEP, "--recompute", "1", "--stages", "1")
        self.fails(2, ["naive runs the batch as one"], "tune", "toy", *SLEEP, "--stages", "2", "--schedule", "naive", "--microbatches", "4")
        self.fails(2, ["--replicas", "1 micro-batch for 2 replicas"], "profile", "toy", *SLEEP, "--replicas", "2", "--microbatches", "1")
        self.fails(2, ["--replicas", "add up to the 2 devices"], "profile", "toy", *SLEEP, "--replicas", "2,1")
        self.fails(2, ["--replicas", "add up to the 2 devices"], "tune", "toy", *SLEEP, "--replicas", "2,1")
        self.fails(2, ["3 micro-batches", "2 replicas"], "tune", "toy", *SLEEP, "--replicas", "2", "--microbatches", "3")
        self.fails(2, ["--virtual"], "tune", "toy", *SLEEP, "--virtual", "4")
        self.fails(3, ["no plan fits"], "plan", "profile.sqlite", "--memory", "1kB")
        self.fails(2, ["named twice", "--devices"], "plan", "profile.sqlite", "--devices", "sleep:0,sleep:0")

    def test_plan_leaves_json_of_others_alone(self):
        self.write("package.json", '{"name": "mine"}')
        self.fails(2, ["package.json", "not written by mptune"], "plan", "profile.sqlite", "-o", "package.json")
        done = self.mptune("plan", "profile.sqlite", "-o", "package.json")
        self.assertNotIn("searching", done.stderr, "refused before the search")
        self.succeed("plan", "profile.sqlite", "-o", "package.json", "--force")
        self.succeed("plan", "profile.sqlite", "-o", "package.json")
        with sqlite3.connect(os.path.join(self.folder, "mine.sqlite")) as database:
            database.execute("CREATE TABLE mine (a)")
        self.fails(2, ["mine.sqlite", "not written by mptune"], "simulate", "--plan", "plan.json", "--profile", "profile.sqlite", "-o", "mine.sqlite")

    def test_plan_files(self):
        text = json.dumps(self.plan())
        self.write("truncated.json", text[: len(text) // 2])
        self.fails(2, ["truncated.json"], "run", "toy", "--plan", "truncated.json")
        newer = self.plan()
        newer["schema"] = "mptune.plan/2"
        self.write("newer.json", json.dumps(newer))
        self.fails(2, ["newer.json"], "run", "toy", "--plan", "newer.json")
        self.write("foreign.json", "[1, 2]")
        self.fails(2, ["foreign.json"], "simulate", "--plan", "foreign.json", "--profile", "profile.sqlite")
        unequal = self.plan()
        unequal["plan"]["num_stages"] = 3
        self.write("unequal.json", json.dumps(unequal))
        self.fails(2, ["unequal.json"], "run", "toy", "--plan", "unequal.json")
        self.fails(2, ["missing.json"], "run", "toy", "--plan", "missing.json")
        self.fails(2, ["--plan", "--devices"], "run", "toy")
        for options in (["--stages", "2"], ["--devices", "sleep:2"], ["--devices", "auto"]):
            self.fails(2, ["both given", "plan.json"], "run", "toy", "--plan", "plan.json", *options)
            self.fails(2, ["both given"], "run", "toy", *options, MPTUNE_PLAN="plan.json")
        self.fails(2, ["zbv", "two stages"], "run", "toy", "--devices", "sleep:2", "--schedule", "zbv", "--virtual", "3")
        self.fails(2, ["batch of 8, not 16"], "run", "toy", "--plan", "plan.json", "--batch", "16")

    def test_a_plan_of_renamed_modules(self):
        renamed = self.plan()
        stage = renamed["plan"]["stages"][1]
        stage["modules"] = [f"net.block{layer}" for layer in range(*stage["layers"])]
        stage["first_module"] = stage["modules"][0]
        stage["modules"][-1] = "no_such_module"
        self.write("renamed.json", json.dumps(renamed))
        profile = ["--profile", "profile.sqlite"]
        for command in (["run", "toy", "--steps", "1"], ["check", "toy"], ["simulate", *profile]):
            self.fails(2, ["'no_such_module'", "renamed.json", "--allow-renamed"], *command, "--plan", "renamed.json")
            done = self.mptune(*command, "--plan", "renamed.json", "--allow-renamed")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("warning: the plan names module 'no_such_module'", done.stderr)

    def test_a_plan_of_another_model(self):
        self.fails(2, ["another model"], "run", "other", "--plan", "plan.json", "--strict")
        done = self.mptune("run", "other", "--plan", "plan.json", "--steps", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("warning: the plan was made for another model", done.stderr)
        shorter = self.plan()
        shorter["plan"]["stages"][1]["layers"] = [3, 4]
        for stage in shorter["plan"]["stages"]:
            stage.pop("modules", None)
        self.write("shorter.json", json.dumps(shorter))
        self.fails(2, ["shorter.json"], "run", "toy", "--plan", "shorter.json")

    def test_import_and_export(self):
        self.write("text.sqlite", "this is text")
        self.write("half.json", '{"traceEvents": [{"ph": "X", "cat": "kernel", "na')
        self.write("empty.json", "")
        for name in ("text.sqlite", "half.json", "empty.json", "missing.json", "."):
            self.fails(2, [name], "import", name)
            self.fails(2, [name], "export", name, "--to", "csv")
        self.fails(2, ["FILE"], "import")
        self.fails(2, ["the file is a plan, not a trace"], "export", "plan.json", "--to", "csv")
        self.fails(2, ["--to", "kineto"], "export", "profile.sqlite", "--to", "pdf")
        self.fails(2, ["--to"], "export", "profile.sqlite")
        self.assertEqual(self.mptune("profile", "toy", *SLEEP, "-o", "toy.sqlite").returncode, 0)
        self.write("mine.csv", "a,b\n")
        self.fails(2, ["mine.csv"], "export", "toy.sqlite", "--to", "csv", "-o", "mine.csv")
        self.assertEqual(self.mptune("export", "toy.sqlite", "--to", "csv", "-o", "mine.csv", "--force").returncode, 0)
        self.fails(2, ["nowhere"], "export", "toy.sqlite", "--to", "kineto", "-o", "nowhere/a.json")
        self.write("run.rank0.json", "mine")
        self.fails(2, ["run.rank0.json"], "export", "toy.sqlite", "--to", "kineto", "-o", "run")
        self.write("others.pftrace", "\nof another program")
        self.fails(2, ["others.pftrace"], "export", "toy.sqlite", "--to", "perfetto", "-o", "others.pftrace")
        for _ in range(2):
            self.succeed("export", "toy.sqlite", "--to", "perfetto", "-o", "ours.pftrace")

    def test_stages_per_device(self):
        plan = ["plan", "profile.sqlite"]
        self.fails(2, ["1f1b", "one stage on a device"], *plan, "--schedule", "1f1b", "--virtual", "2")
        self.fails(2, ["zbv", "two stages on a device"], *plan, "--schedule", "zbv", "--virtual", "3")
        self.fails(2, ["--stages", "use 4"], *plan, "--stages", "3", "--virtual", "2")
        self.fails(2, ["--virtual", "6 layers"], *plan, "--virtual", "4")
        self.fails(2, ["--virtual"], *plan, "--virtual", "0")
        self.fails(2, ["--cuts", "3 cuts"], *plan, "--cuts", "2,4", "--schedule", "zbv")
        self.fails(2, ["--stages", "at least 2 devices"], *plan, "--devices", "sleep:0", "--virtual", "2")
        self.fails(2, ["--replicas"], *plan, "--replicas", "1,1", "--virtual", "2")
        self.fails(2, ["--replicas"], *plan, "--replicas", "1,1", "--schedule", "v-min")
        self.fails(2, ["--virtual"], *plan, "--virtual", "2", "--objective", "closed-form")

    def test_compare(self):
        self.fails(2, ["A is required"], "compare")
        self.fails(2, ["B is required"], "compare", "plan.json")
        self.fails(2, ["a plan can't be compared with a trace"], "compare", "plan.json", "trace.sqlite")
        self.fails(2, ["a trace can't be compared with a study"], "compare", "trace.sqlite", ".")
        self.fails(2, ["this is not a study"], "compare", ".", ".")
        self.assertNotIn("--resume", self.fails(2, ["not a study"], "report", ".", "--text")["error"]["remedy"], "an option of tune")
        self.fails(2, ["holds no trace"], "compare", "trace.sqlite", "profile.sqlite")
        for other in ("trace.sqlite", "plan.json"):
            self.fails(2, ["missing"], "compare", other, "missing")
            self.fails(2, ["missing"], "compare", "missing", other)
        with open(os.path.join(self.folder, "trace.sqlite"), "rb") as file:
            whole = file.read()
        with open(os.path.join(self.folder, "half.sqlite"), "wb") as file:
            file.write(whole[: len(whole) // 2])
        self.fails(2, ["half.sqlite"], "compare", "trace.sqlite", "half.sqlite")
        text = json.dumps(self.plan())
        self.write("half.json", text[: len(text) // 2])
        self.fails(2, ["half.json"], "compare", "plan.json", "half.json")

    def test_a_study_without_end_is_not_compared(self):
        tune = ["tune", "toy", *SLEEP, "--budget", "20s", "--trials", "2"]
        self.succeed(*tune)
        with sqlite3.connect(os.path.join(self.folder, "toy.study", "study.sqlite")) as database:
            database.execute("UPDATE value SET value = '' WHERE name = 'summary'")
        self.fails(6, ["no result yet", "toy.study", "--resume"], "compare", "toy.study", "toy.study")

    def test_trace_files(self):
        self.write("text.sqlite", "this is text")
        with open(os.path.join(self.folder, "profile.sqlite"), "rb") as file:
            whole = file.read()
        with open(os.path.join(self.folder, "half.sqlite"), "wb") as file:
            file.write(whole[: len(whole) // 2])
        for name in ("text.sqlite", "half.sqlite", "missing.sqlite"):
            self.fails(2, [name], "plan", name)
            self.fails(2, [name], "simulate", "--plan", "plan.json", "--profile", name)
            self.fails(2, [name], "report", name, "--text")
            self.fails(2, [name], "report", name, "--markdown")
        self.fails(2, ["holds no trace"], "report", "profile.sqlite", "--text")
        self.fails(2, ["--text and --markdown"], "report", "trace.sqlite", "--text", "--markdown")

    def test_outputs(self):
        self.write("mine.txt", "precious")
        for command in (["profile", "toy", *SLEEP], ["plan", "profile.sqlite"], ["simulate", "--plan", "plan.json", "--profile", "profile.sqlite"]):
            self.fails(2, ["mine.txt", "--force"], *command, "-o", "mine.txt")
            self.fails(2, ["folder"], *command, "-o", "missing/out")
            self.fails(2, ["folder"], *command, "-o", self.folder)
            self.fails(2, ["read-only"], *command, "-o", "/sys/kernel/out")
        with open(os.path.join(self.folder, "mine.txt")) as file:
            self.assertEqual(file.read(), "precious")
        self.succeed("plan", "profile.sqlite", "-o", "mine.txt", "--force")
        self.succeed("profile", "toy", *SLEEP)
        self.succeed("profile", "toy", *SLEEP)

    def test_a_full_disk(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        with open("/dev/full", "w") as full:
            done = self.mptune("plan", "profile.sqlite", stdout=full)
        self.assertEqual(done.returncode, 7)
        self.assertIn("standard output", done.stderr)
        self.assertNotIn("terminate", done.stderr)

    def test_studies(self):
        tune = ["tune", "toy", *SLEEP, "--budget", "20s", "--trials", "2"]
        self.fails(2, ["--resume"], *tune, "--resume", "--force")
        self.fails(2, ["no study to resume", "leave --resume out"], *tune, "--resume")
        self.succeed(*tune)
        self.fails(2, ["--resume"], *tune)
        self.fails(2, ["another"], *tune, "--resume", "--batch", "4")
        self.succeed(*tune, "--force")
        os.mkdir(os.path.join(self.folder, "photos"))
        self.write("photos/one.txt", "precious")
        self.fails(2, ["photos"], *tune, "-o", "photos")
        self.fails(2, ["photos"], *tune, "-o", "photos", "--force")
        self.assertTrue(os.path.exists(os.path.join(self.folder, "photos/one.txt")))
        self.fails(2, ["photos"], "report", "photos", "--text")

    def test_a_study_in_use(self):
        tune = ["tune", "toy", *SLEEP, "--budget", "20s"]
        pid = os.path.join(self.folder, "pid")
        busy = subprocess.Popen([os.environ["MPTUNE_PROGRAM"], *tune], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder,
                                env=self.environment(MPTUNE_FAKE="hang-series"))
        try:
            while not os.path.exists(pid):
                self.assertIsNone(busy.poll())
            self.fails(2, ["toy.study"], *tune, "--resume")
        finally:
            busy.kill()
            busy.wait()

    def test_worker(self):
        self.fails(7, ["libtorch.so"], "profile", "toy", *SLEEP, MPTUNE_FAKE="cannot-load")
        self.fails(7, ["MPTUNE_WORKER"], "models", MPTUNE_WORKER="/nonexistent/worker")
        self.fails(3, ["not finite"], "run", "toy", "--plan", "plan.json", MPTUNE_FAKE="nan")
