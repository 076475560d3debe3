import json
import os
import random
import signal
import subprocess
import time

from harness import PROGRAM, CommandTest, patience


class Signals(CommandTest):
    def interrupt(self, number, mode, *arguments):
        """Sends the signal once the worker hangs; returns exit code, seconds, stderr."""
        pid_file = os.path.join(self.folder, "pid")
        process = subprocess.Popen([PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
                                   env=self.environment(MPTUNE_FAKE=mode))
        deadline = time.monotonic() + patience(20)
        while not (os.path.exists(pid_file) and os.path.getsize(pid_file)) and time.monotonic() < deadline:
            self.assertIsNone(process.poll(), "ended before the worker was asked")
            time.sleep(0.01)
        with open(pid_file) as file:
            worker = int(file.read())
        start = time.monotonic()
        process.send_signal(number)
        errors = process.communicate(timeout=patience(20))[1]
        seconds = time.monotonic() - start
        self.assertFalse(self.alive(worker), "a worker is left")
        os.remove(pid_file)
        return process.returncode, seconds, errors

    def alive(self, pid):
        for _ in range(20):
            try:
                with open(f"/proc/{pid}/stat") as file:
                    if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                        return False
            except FileNotFoundError:
                return False
            time.sleep(0.05)
        return True

    def test_interrupt_and_terminate_end_within_a_second(self):
        commands = {
            "hang-describe": ["profile", "toy", "--devices", "sleep:2"],
            "hang-measure": ["profile", "toy", "--devices", "sleep:2"],
            "hang-record": ["profile", "toy", "--devices", "sleep:2"],
            "hang-train": ["run", "toy", "--plan", "plan.json"],
            "hang-series": ["tune", "toy", "--devices", "sleep:2", "--budget", "60s"],
        }
        for mode, arguments in commands.items():
            for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143), (signal.SIGQUIT, 143)):
                extra = ["-o", f"{mode}-{number}"] if arguments[0] != "run" else []
                returncode, seconds, errors = self.interrupt(number, mode, *arguments, *extra)
                self.assertEqual(returncode, code, errors)
                self.assertLess(seconds, patience(1), mode)
                self.assertIn("interrupted" if code == 130 else "terminated", errors)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("mptune-")], [], "no temporary folder is left")

    def test_nothing_unfinished_stays(self):
        """An interrupted export removes what it wrote; what kill -9 left goes with the next of the same name."""
        timelines = {"traceEvents": [{"ph": "X", "cat": "kernel", "name": f"k{i}", "pid": 0, "tid": 7, "ts": 10 * i, "dur": 5,
                                      "args": {"device": 0, "stream": 7, "correlation": i}} for i in range(120_000)]}
        with open(os.path.join(self.folder, "large.json"), "w") as file:
            json.dump(timelines, file)
        self.succeed("import", "large.json", "-o", "large.sqlite")
        whole = ["export", "large.sqlite", "--to", "csv", "-o", "large.csv", "--force"]
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGKILL):
            process = subprocess.Popen([PROGRAM, *whole], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder,
                                       env=self.environment())
            deadline = time.monotonic() + patience(20)
            while not self.unfinished() and process.poll() is None and time.monotonic() < deadline:
                pass
            process.send_signal(number)
            process.wait(timeout=patience(20))
            if number != signal.SIGKILL:
                self.assertEqual(self.unfinished(), [], number)
        self.succeed(*whole)
        self.assertEqual(self.unfinished(), [])
        # A file of a process that lives stays.
        others = os.path.join(self.folder, f"large.csv.tmp-{os.getpid()}-0")
        open(others, "w").close()
        self.succeed(*whole)
        self.assertEqual(self.unfinished(), [os.path.basename(others)])

    def unfinished(self):
        return [name for name in os.listdir(self.folder) if ".tmp-" in name]

    def test_what_a_killed_profile_left_goes_with_the_next(self):
        pid_file = os.path.join(self.folder, "pid")
        temporary = os.path.join(self.folder, "tmp")
        os.mkdir(temporary)
        process = subprocess.Popen([PROGRAM, "profile", "toy", "--devices", "sleep:2"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   cwd=self.folder, env=self.environment(MPTUNE_FAKE="hang-record", TMPDIR=temporary))
        deadline = time.monotonic() + patience(20)
        while not (os.path.exists(pid_file) and os.path.getsize(pid_file)) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
        process.wait()
        self.assertEqual(len(os.listdir(temporary)), 1, "what the test is about")
        self.assertEqual(self.mptune("profile", "toy", "--devices", "sleep:2", TMPDIR=temporary).returncode, 0)
        self.assertEqual(os.listdir(temporary), [])

    def test_a_killed_tuner_goes_on(self):
        arguments = ["tune", "toy", "--devices", "sleep:2", "--budget", "20s", "--trials", "3"]
        self.interrupt(signal.SIGINT, "hang-series", *arguments)
        value = self.result("tune", *arguments, "--resume")
        self.assertGreater(len(value["trials"]), 0)

    def test_a_kill_just_after_the_creation_leaves_what_resume_takes(self):
        draw = random.Random(5)
        arguments = ["tune", "toy", "--devices", "sleep:2", "--budget", "20s", "--trials", "1", "--schedule", "1f1b", "--microbatches", "4"]
        begun_anew = 0
        for kill in range(10):
            study = os.path.join(self.folder, f"{kill}.study")
            process = subprocess.Popen([PROGRAM, *arguments, "-o", study], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder,
                                       env=self.environment())
            deadline = time.monotonic() + patience(20)
            while not os.path.exists(study) and time.monotonic() < deadline:
                pass
            time.sleep(draw.choice([0, 0.0003, 0.001, 0.1]) * draw.random())
            process.kill()
            process.wait()
            done = self.mptune(*arguments, "-o", study, "--resume")
            self.assertIn(done.returncode, (0, 5), f"{kill}: {done.stderr}")
            begun_anew += "the study begins anew" in done.stderr
        self.assertGreater(begun_anew, 0)

    def test_a_hang_ends_tune_with_its_budget(self):
        """The worker would hang for 600 s, in each phase. So short a silence is no hang yet: the time is over, and what was measured stays."""
        for phase, codes, words in (("describe", (6,), "the budget was spent before the model was loaded"),
                                    ("check", (0, 5, 6), "for lack of time the model's pieces were not compared with the whole model"),
                                    ("measure", (6,), "the budget was spent before the layers were measured"),
                                    ("series", (6,), "the budget leaves no time for a first trial"), ("record", (0, 5), None)):
            start = time.monotonic()
            done = subprocess.run([PROGRAM, "tune", "toy", "--devices", "sleep:2", "--budget", "3s", "-o", phase], cwd=self.folder, timeout=patience(60),
                                  env=self.environment(MPTUNE_FAKE="hang-" + phase, MPTUNE_FAKE_PID=os.path.join(self.folder, "pid")),
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            # On a loaded machine the budget may be spent before the phase begins.
            self.assertIn(done.returncode, (*codes, 6), phase + done.stderr)
            self.assertLess(time.monotonic() - start, patience(15), phase)
            if words and patience(1) < 2:
                self.assertIn(words, done.stderr)
            if done.returncode == 6:
                self.assertRegex(done.stderr, r"--budget \d+s")
