"""A study's folder is all that --resume needs, from any folder; what mptune prints to go on works as printed."""
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time

from harness import PROGRAM, CommandTest, patience

TUNE = ["tune", "toy", "--devices", "sleep:2", "--batch", "8", "--budget", "200s", "--trials", "1"]
SEARCHED = [word if word != "1" else "8" for word in TUNE]


class Resume(CommandTest):
    def path(self, name):
        return os.path.join(self.folder, name)

    def elsewhere(self, *arguments, **environment):
        """The same program in another folder."""
        os.makedirs(self.path("elsewhere"), exist_ok=True)
        return self.mptune(*arguments, cwd=self.path("elsewhere"), **environment)

    def as_printed(self, text):
        """Runs the command that the text ends with in a shell in another folder; its JSON."""
        command = re.search(r"`mptune (tune --resume [^`]*)`", text.strip().splitlines()[-1]).group(1)
        os.makedirs(self.path("elsewhere"), exist_ok=True)
        done = subprocess.run(["bash", "-c", f'"$0" --json {command}', PROGRAM], cwd=self.path("elsewhere"), env=self.environment(), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=patience(100))
        self.assertIn(done.returncode, (0, 5), f"{command}\n{done.stderr}")
        return json.loads(done.stdout)

    def change(self, *statement):
        database = sqlite3.connect(self.path("toy.study/study.sqlite"))
        database.execute(*statement)
        database.commit()
        database.close()

    def test_the_folder_is_enough(self):
        first = self.result("tune", *TUNE, "--schedule", "1f1b", "--plan", "plan.json")
        shutil.move(self.path("plan.json"), self.path("gone.json"))
        for words in (["--resume", "../toy.study"], [self.path("toy.study") + "/", "--resume"]):
            done = self.elsewhere("--json", "tune", *words, "--budget", "30s")
            self.assertEqual(done.returncode, 0, done.stderr)
            again = json.loads(done.stdout)
            self.assertEqual(again["recommended"], first["recommended"])
            self.assertEqual(again["trials"], first["trials"])
            self.assertIn("current", [baseline["name"] for baseline in again["baselines"]])

    def test_options_beside_the_folder(self):
        self.succeed(*TUNE, "--seed", "3", "--exact")
        go_on = ["tune", "--resume", "toy.study"]
        for options in ([], ["--budget", "9s"], ["--trials", "9"], ["--target", "2"], ["--seed", "3", "--devices", "sleep:2"], ["--exact"],
                        ["-o", "toy.study"], ["-q"]):
            self.succeed(*go_on, *options)
        for options, words in ((["--batch", "4"], ["--batch 8, not 4"]), (["--devices", "sleep:3"], ["--devices sleep:2, not sleep:3"]),
                               (["--schedule", "gpipe"], ["without --schedule"]), (["--plan", "plan.json"], ["without --plan"]),
                               (["--strict"], ["without --strict"]), (["--force"], ["--force"]), (["-o", "other"], ["leave -o out"])):
            self.fails(2, words, *go_on, *options)
        self.fails(2, ["a folder, not a model", "mptune tune --resume " + self.path("toy.study")], "tune", "toy.study")
        self.fails(2, ["no study to resume"], "tune", "--resume", "other.study")
        os.mkdir(self.path("empty"))
        self.fails(2, ["holds no study", "repeat the whole command"], "tune", "--resume", "./empty")
        self.assertEqual(os.listdir(self.path("empty")), [])

    def test_studies_of_earlier_versions_need_the_whole_command(self):
        first = self.result("tune", *TUNE)
        self.change("DELETE FROM value WHERE name = 'command'")
        self.fails(2, ["earlier mptune", "repeat the whole command"], "tune", "--resume", "toy.study")
        self.assertEqual(self.result("tune", *TUNE, "--resume")["trials"], first["trials"])
        self.succeed("tune", "--resume", "toy.study")
        self.change("UPDATE value SET value = '{' WHERE name = 'command'")
        self.fails(2, ["damaged"], "tune", "--resume", "toy.study")

    def test_files_that_moved_or_changed(self):
        with open(self.path("data.pt"), "wb") as file:
            file.write(b"first" * 100)
        self.succeed(*TUNE, "--data", "data.pt")
        done = self.elsewhere("tune", "--resume", "../toy.study")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("data.pt"), "wb") as file:
            file.write(b"other" * 100)
        self.fails(2, ["changed since the study began", self.path("data.pt"), "start a new study"], "tune", "--resume", "toy.study")
        self.fails(2, ["changed since the study began"], *TUNE, "--data", "data.pt", "--resume")
        os.remove(self.path("data.pt"))
        self.fails(2, ["is missing", self.path("data.pt"), "put it back"], "tune", "--resume", "toy.study")

    def test_a_study_is_handed_on_with_its_files(self):
        """Nothing in it names the folders above, and both are found where they are moved to together."""
        os.mkdir(self.path("work"))
        with open(self.path("work/data.pt"), "wb") as file:
            file.write(b"first" * 100)
        done = self.mptune(*TUNE, "--data", "data.pt", cwd=self.path("work"))
        self.assertEqual(done.returncode, 0, done.stderr)
        for folder, _, names in os.walk(self.path("work/toy.study")):
            self.assertFalse([name for name in names if name.startswith("study.sqlite-")], "a log is left")
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    self.assertNotIn(self.folder.encode(), file.read(), name)
        shutil.move(self.path("work"), self.path("moved"))
        go_on = ["tune", "--resume", self.path("moved/toy.study")]
        self.assertEqual(self.elsewhere(*go_on).returncode, 0)
        with tempfile.TemporaryDirectory() as far:
            shutil.move(self.path("moved/data.pt"), far)
            self.fails(2, ["is missing", self.path("moved/data.pt"), "the name that it has now"], *go_on)
            self.succeed(*go_on, "--data", os.path.join(far, "data.pt"))
            # A file of another place is named without its folders: it has to be named again.
            self.succeed(*TUNE, "--data", os.path.join(far, "data.pt"), "-o", "far.study")
            self.fails(2, ["is missing", "data.pt"], "tune", "--resume", "far.study")
            self.succeed("tune", "--resume", "far.study", "--data", os.path.join(far, "data.pt"))
            self.succeed(*TUNE, "--data", os.path.join(far, "data.pt"), "-o", "far.study", "--resume")
        self.succeed("report", "far.study")
        self.assertEqual([name for name in os.listdir(self.path("far.study")) if name.startswith("study.sqlite-")], [])

    def test_an_interrupt_prints_the_command_that_goes_on(self):
        for number, code, mode in ((signal.SIGINT, 130, "hang-series"), (signal.SIGTERM, 143, "hang-series"), (signal.SIGINT, 130, "hang-check"),
                                   (signal.SIGTERM, 143, "hang-measure"), (signal.SIGINT, 130, "hang-record")):
            study = f"it's {code} of {mode}"
            pid = self.path("pid")
            process = subprocess.Popen([PROGRAM, *TUNE, "-o", study], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=self.folder,
                                       env=self.environment(MPTUNE_FAKE=mode))
            deadline = time.monotonic() + patience(20)
            while not (os.path.exists(pid) and os.path.getsize(pid)) and time.monotonic() < deadline:
                time.sleep(0.01)
            process.send_signal(number)
            errors = process.communicate(timeout=patience(20))[1]
            self.assertEqual(process.returncode, code, errors)
            os.remove(pid)
            self.assertGreater(len(self.as_printed(errors)["trials"]), 0)

    def test_a_budget_too_small_prints_one_that_goes_on(self):
        done = self.mptune("tune", "toy", "--devices", "sleep:2", "--budget", "1s", "-o", "short one", MPTUNE_FAKE="slow", MPTUNE_FAKE_MEASURE_S="1.2")
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertIn("--budget 2s", done.stderr)

    def test_a_failed_run_does_not_block_the_corrected_command(self):
        tune = ["tune", "toy", "--devices", "sleep:2", "--batch", "8", "--trials", "1"]
        failing = [(2, ["--budget", "20s"], {"MPTUNE_FAKE": "check-differs"}),
                   (6, ["--budget", "1s"], {"MPTUNE_FAKE": "slow", "MPTUNE_FAKE_MEASURE_S": "1.2"}),
                   (6, ["--budget", "2s"], {"MPTUNE_FAKE_SERIES_S": "5"}),
                   (3, ["--budget", "20s", "--memory", "60kB", "--stages", "2", "--microbatches", "1", "--recompute", "none"],
                    {"MPTUNE_FAKE": "oom-series"}),
                   (2, ["--budget", "20s", "--cuts", "77"], {})]
        for code, options, fault in failing:
            done = self.mptune(*tune, *options, **fault)
            self.assertEqual(done.returncode, code, f"{options}: {done.stderr}")
        kept = self.result("tune", *TUNE)["trials"]
        self.fails(2, ["the study exists", "--resume"], *TUNE)
        self.succeed(*TUNE, "--resume", MPTUNE_FAKE="oom-measure")
        self.assertEqual(self.result("tune", "tune", "--resume", "toy.study")["trials"], kept, "nothing is measured again")

    def test_an_interrupted_run_is_kept_once_its_layers_were_measured(self):
        for mode, blocks in (("hang-check", False), ("hang-series", True)):
            study, pid = self.path(f"{mode}.study"), self.path("pid")
            process = subprocess.Popen([PROGRAM, *TUNE, "-o", study], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder,
                                       env=self.environment(MPTUNE_FAKE=mode))
            deadline = time.monotonic() + patience(20)
            while not (os.path.exists(pid) and os.path.getsize(pid)) and time.monotonic() < deadline:
                time.sleep(0.01)
            process.kill()
            process.wait()
            os.remove(pid)
            if blocks:
                self.fails(2, ["the study exists"], *TUNE, "-o", study)
                self.succeed("tune", "--resume", study)
            else:
                done = self.mptune(*TUNE, "-o", study)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("the study begins anew", done.stderr)

    def test_a_budget_that_began_earlier(self):
        """The Python package exports a module first."""
        done = self.mptune("tune", "toy", "--devices", "sleep:2", "--budget", "100s", MPTUNE_BEGUN=str(time.monotonic() - 99), MPTUNE_FAKE="slow",
                           MPTUNE_FAKE_MEASURE_S="1.2")
        self.assertEqual(done.returncode, 6, done.stderr)
        for wrong in ("yesterday", str(time.monotonic() + 1000)):
            self.fails(2, ["MPTUNE_BEGUN"], "tune", "toy", "--devices", "sleep:2", MPTUNE_BEGUN=wrong)

    def test_what_may_succeed_later_is_tried_again(self):
        timed_out = {"type": "timed_out", "limit_s": 30, "doing": ""}
        failing = {"single_device": timed_out, "default_pipeline": {"type": "environment", "reason": "no sign of life"}, "data_parallel": "crash",
                   "naive_model_parallel": {"type": "non_finite"}, "candidate": "kill"}
        first = self.mptune("--json", *SEARCHED, MPTUNE_FAKE_PLANS=json.dumps(failing))
        self.assertEqual(first.returncode, 6, first.stderr)
        self.assertIn("mptune tune --resume", json.loads(first.stdout)["error"]["remedy"])
        again = self.result("tune", "tune", "--resume", "toy.study")
        self.assertEqual({baseline["name"] for baseline in again["baselines"]}, {"single_device", "default_pipeline"})
        self.assertEqual({row["name"]: row["outcome"] for row in again["baselines_not_measured"]},
                         {"data_parallel": "crashed", "naive_model_parallel": "non_finite"})
        self.assertEqual(again["failed_plans"], [], "killed candidates are tried again")
        third = self.result("tune", "tune", "--resume", "toy.study")
        self.assertEqual(third["trials"], again["trials"], "nothing is left to try again")

    def test_a_finalist_that_was_killed_is_compared_again(self):
        first = self.result("tune", *TUNE, MPTUNE_FAKE_FINAL=json.dumps({"naive_model_parallel": "kill"}))
        self.assertEqual([row["name"] for row in first["baselines_not_measured"]], ["naive_model_parallel"])
        again = self.result("tune", "tune", "--resume", "toy.study")
        self.assertEqual(again["baselines_not_measured"], [])

    def test_a_failed_plan_is_kept_and_runs_as_printed(self):
        done = self.mptune("--json", *TUNE, MPTUNE_FAKE_PLANS=json.dumps({"default_pipeline": "abort"}))
        trial, = [trial for trial in json.loads(done.stdout)["trials"] if trial["outcome"] == "crashed"]
        kept = self.path(f"toy.study/failed/{trial['plan_key']}.plan.json")
        line, = [line for line in done.stderr.splitlines() if "default_pipeline failed: crashed by signal 6" in line]
        self.assertIn(kept, line)
        command = re.search(r"\(`mptune (.*)` shows it\)$", line).group(1)
        shown = subprocess.run(["bash", "-c", f'"$0" {command} -o seen.sqlite', PROGRAM], cwd=self.folder, env=self.environment(), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=patience(100))
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.succeed(*TUNE, "--force")
        self.assertEqual(os.listdir(self.path("toy.study/failed")), [], "--force replaces the study whole")
