"""run --ranks: several processes train as one does, bit for bit; where one of them is killed, all end, and a checkpoint goes on."""
import glob
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import time
import unittest

from harness import PROGRAM, CommandTest, is_marked, left_processes, patience, seconds

CORES = sorted(os.sched_getaffinity(0))[:2]
ONE = ["--devices", ",".join(f"cpu:{core}" for core in CORES)]
# More at night.
KILLS = int(os.environ.get("MPTUNE_TEST_KILLS", "4"))
MANY = "MPTUNE_TEST_MANY" in os.environ
STOPS = int(os.environ.get("MPTUNE_TEST_STOPS", "1"))
EARLY_KILLS = (1, 5, 9)  # of mptune: before the ranks have met, or just after
SLACK_S = 10
WATCH_S = 10  # a worker that is silent for so long counts as failed
ENVIRONMENT = 7

MLP = ["mlp:layers=6,width=64", "--batch", "8", "--microbatches", "4"]
TRANSFORMER = ["transformer:d=32,layers=4,heads=2,seq=8,vocab=50", "--batch", "8", "--microbatches", "4"]
RESNET = ["resnet18", "--input", "3x32x32", "--batch", "8", "--microbatches", "2"]
# Dropout: its numbers depend on the step.
BERT = ["bert:d=32,layers=2,heads=2,seq=8,vocab=50", "--batch", "8", "--microbatches", "4", "--optimizer", "adam"]
REPLICAS = ["--stages", "1", "--replicas", "2"]


def over(*cores_of_ranks):
    """Options for so many ranks, with as many devices as each has cores. Ranks may share cores."""
    names = [f"{rank}@cpu:{core}" for rank, cores in enumerate(cores_of_ranks) for core in cores]
    return ["--devices", ",".join(names), "--ranks", str(len(cores_of_ranks))]


TWO = over(CORES[:1], CORES[1:])
# Of one stage.
THREE = over(CORES[:1], CORES[-1:], CORES[:1]) + ["--stages", "1", "--replicas", "3"]
ALL_REDUCE = ["--reduce", "all-reduce"]


def schedule(name):
    return ["--schedule", name]


def python_with_torch():
    """A Python that has torchrun, "" for none."""
    python = os.environ.get("MPTUNE_TEST_PYTHON", "python3")
    try:
        done = subprocess.run([python, "-c", "import torch.distributed.run"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=patience(60))
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return python if done.returncode == 0 else ""


def variable_of(pid, name):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = dict(line.split(b"=", 1) for line in file.read().split(b"\0") if b"=" in line)
        return variables.get(name.encode(), b"").decode()
    except OSError:
        return ""


def last_checkpoint(folder):
    """Its step; 0: there is none. A folder without checkpoint.json is not complete."""
    return max((int(path.split("-")[-1].split("/")[0]) for path in glob.glob(os.path.join(folder, "kept/step-*/checkpoint.json"))), default=0)


def processes_of(rank, worker, marker):
    """The numbers of a rank's processes, mptune's or those of its workers (rank 0's first one keeps the store), in order."""
    found = []
    for pid in sorted(filter(str.isdigit, os.listdir("/proc")), key=int):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                is_worker = b"--request-fd" in file.read()
        except OSError:
            continue
        if is_marked(pid, marker) and variable_of(pid, "RANK") == str(rank) and is_worker == worker:
            found.append(int(pid))
    return found


def process_of(rank, worker, marker):
    """The latest of them; None before it is there."""
    return next(reversed(processes_of(rank, worker, marker)), None)


@unittest.skipIf(len(CORES) < 2, "needs two cores")
class Ranks(CommandTest):
    def environment(self, **more):
        return super().environment(**{"MPTUNE_WORKER": os.environ["MPTUNE_REAL_WORKER"], "MPTUNE_TEST_MARKER": self.folder, **more})

    def same(self, model, one, ranks):
        """Losses and saved files of a plan in one process, and of one over ranks."""
        alone, together = (self.result("run", "run", *model, *plan, "--steps", "3", "--save", name)
                           for plan, name in ((one, "one.safetensors"), (ranks, "ranks.safetensors")))
        self.assertEqual(alone["loss"], together["loss"], (model, ranks))
        self.assertEqual(len(together["loss"]), 3)
        self.assertEqual(len(together["peak_bytes"]), len(together["plan"]["devices"]))
        self.assertGreater(min(together["peak_bytes"]), 0, "of devices of other ranks, too")
        self.assertTrue(self.read_bytes("one.safetensors") == self.read_bytes("ranks.safetensors"), (model, ranks))

    def test_schedules(self):
        few = [(MLP, schedule("interleaved")), (TRANSFORMER, schedule("zb1p")), (RESNET, REPLICAS)]
        more = [(MLP, schedule("1f1b")), (TRANSFORMER, REPLICAS), (RESNET, schedule("1f1b")), (MLP[:-2], schedule("naive"))]
        for model, plan in few + more if MANY else few:
            self.same(model, ONE + plan, TWO + plan)

    def test_several_devices_of_a_rank(self):
        """Cuts and devices change no bit, so what runs on more devices than there are cores is compared with two."""
        a, b = CORES
        one = ONE + ["--stages", "4", "--schedule", "interleaved"]
        self.same(TRANSFORMER, one, over([a, b], [a, b]) + schedule("1f1b"))
        if MANY:
            self.same(TRANSFORMER, one, over([a], [b], [a], [b]) + schedule("zb1p"))
        # In each of two stages a replica on either rank; then replicas of the last stage on one rank or on both, and two of three on either.
        crossed = ["--devices", f"0@cpu:{a},1@cpu:{a},0@cpu:{b},1@cpu:{b}", "--ranks", "2", "--stages", "2", "--replicas", "2,2"]
        self.same(TRANSFORMER, ONE + REPLICAS, crossed)
        of_last_stage = [["--stages", "2", "--replicas", "1,2"]]
        for replicas in of_last_stage + [["--stages", "1", "--replicas", "3"]] if MANY else of_last_stage:
            self.same(TRANSFORMER, over([a], [a, b]) + replicas, over([a, b], [b]) + replicas)

    def start(self, *command):
        return subprocess.Popen([PROGRAM, "--json", "run", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
                                env=self.environment())

    def start_tune(self, study, budget):
        return subprocess.Popen([PROGRAM, "--json", "tune", *TRANSFORMER[:3], *TWO, "--budget", seconds(budget), "-o", study], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, cwd=self.folder, env=self.environment())

    def victim(self, process, rank, worker):
        deadline = time.monotonic() + patience(SLACK_S)
        while time.monotonic() < deadline and process.poll() is None:
            if pid := process_of(rank, worker, self.folder):
                return pid
            time.sleep(0.02)
        process.kill()
        self.fail(f"rank {rank} is not there: {process.communicate()}")

    def await_checkpoint_behind(self, step, process):
        deadline = time.monotonic() + patience(SLACK_S)
        while last_checkpoint(self.folder) <= step and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.02)

    def kill_ends_all(self, process, rank, worker, kill, number=signal.SIGKILL):
        os.kill(self.victim(process, rank, worker), number)
        killed = time.monotonic()
        out, errors = process.communicate(timeout=patience(60))
        about = f"{kill}, rank {rank}, {'worker' if worker else 'mptune'}: {out}{errors}"
        self.assertLess(time.monotonic() - killed, patience(SLACK_S + (WATCH_S if number == signal.SIGSTOP else 0)), about)
        self.assertEqual(process.returncode, ENVIRONMENT, about)
        lines = [line for line in errors.splitlines() if "; " in line]
        self.assertEqual(len(lines), 1, about)
        self.assertRegex(lines[0], r"^mptune: .+: .+; .+", about)
        of_worker = "mptune-worker was killed" if number == signal.SIGKILL else "mptune-worker"
        self.assertIn(of_worker if worker and rank == 0 else f"rank {rank}", lines[0])
        self.assertEqual(json.loads(out or "{}").get("exit_code"), ENVIRONMENT, about)
        self.assertEqual(left_processes(self.folder), [], about)

    def test_a_kill_ends_all_ranks_and_loses_at_most_the_steps_since_the_last_checkpoint(self):
        """At random points of the training, and before it begins."""
        chance = random.Random(7)
        seen = 0
        for kill in range(KILLS):
            rank, worker = kill % 2, kill % 4 > 1
            process = self.start(*BERT, "--steps", "1000000", *TWO, "--checkpoint", "kept", "--every", "5")
            if kill not in EARLY_KILLS:
                self.await_checkpoint_behind(seen, process)
            time.sleep(0.4 * chance.random())
            self.kill_ends_all(process, rank, worker, kill)
            self.assertGreaterEqual(last_checkpoint(self.folder), seen, "what was saved stays")
            seen = last_checkpoint(self.folder)
        self.assertGreater(seen, 0, "the kills came too early to leave anything")
        steps = str(seen + 10)
        whole = self.result("run", "run", *BERT, "--steps", steps, *ONE)
        shutil.copytree(os.path.join(self.folder, "kept"), os.path.join(self.folder, "again"))
        for folder, plan in (("kept", TWO), ("again", ONE + schedule("zb1p"))):
            last = self.result("run", "run", *BERT, "--steps", steps, *plan, "--checkpoint", folder)
            self.assertEqual(last["first_step"], seen)
            self.assertEqual(last["loss"], whole["loss"][seen:], plan)

    def test_all_reduce(self):
        """Losses within rounding of sums in another order, and a training that goes on from a checkpoint."""
        a, b = CORES
        clipped = ["--clip-norm", "0.1"]
        for model, plan in ((TRANSFORMER, TWO + REPLICAS), (RESNET, TWO + REPLICAS), (TRANSFORMER + clipped, THREE),
                            (BERT, over([a, b], [a]) + ["--stages", "2", "--replicas", "1,2"])):
            ordered, summed = (self.result("run", "run", *model, *plan, "--steps", "3", "--reduce", reduce)["loss"] for reduce in ("ordered", "all-reduce"))
            for one, other in zip(ordered, summed, strict=True):
                self.assertAlmostEqual(one, other, delta=1e-5 * abs(one), msg=(model, plan))
        bert = [*BERT, *THREE, *ALL_REDUCE]
        whole = self.result("run", "run", *bert, "--steps", "6", "--save", "whole.safetensors")
        losses = [loss for steps in ("3", "6")
                  for loss in self.result("run", "run", *bert, "--steps", steps, "--checkpoint", "kept", "--save", "parts.safetensors")["loss"]]
        self.assertEqual(losses, whole["loss"])
        self.assertTrue(self.read_bytes("whole.safetensors") == self.read_bytes("parts.safetensors"))

    def test_a_kill_ends_all_ranks_that_all_reduce(self):
        for kill in range(3):
            rank, worker = kill % 3, kill != 1
            process = self.start(*BERT, "--steps", "1000000", *THREE, *ALL_REDUCE, "--checkpoint", "kept", "--every", "5")
            self.await_checkpoint_behind(last_checkpoint(self.folder), process)
            time.sleep(0.1 * kill)
            self.kill_ends_all(process, rank, worker, kill)

    def test_a_stopped_worker_ends_all_ranks(self):
        """SIGSTOP at random points; the checkpoint goes on with the losses of a run that nobody stopped."""
        chance = random.Random(8)
        for stop in range(STOPS):
            process = self.start(*BERT, "--steps", "1000000", *TWO, "--checkpoint", "kept", "--every", "5")
            self.await_checkpoint_behind(last_checkpoint(self.folder), process)
            time.sleep(0.4 * chance.random())
            self.kill_ends_all(process, (stop + 1) % 2, True, stop, signal.SIGSTOP)
        seen = last_checkpoint(self.folder)
        steps = ["--steps", str(seen + 5)]
        last = self.result("run", "run", *BERT, *TWO, *steps, "--checkpoint", "kept")
        self.assertEqual(last["loss"], self.result("run", "run", *BERT, *ONE, *steps)["loss"][seen:])

    def test_a_stopped_rank_is_named(self):
        """Its mptune, which then starts no more workers and ends none."""
        for rank in (0, 1) if MANY else (1,):
            process = self.start(*BERT, "--steps", "1000000", *TWO, "--checkpoint", "kept", "--every", "5")
            self.await_checkpoint_behind(last_checkpoint(self.folder), process)
            self.kill_ends_all(process, rank, False, rank, signal.SIGSTOP)

    def test_tune_ends_where_the_keeper_of_the_store_is_stopped(self):
        budget = 12
        began = time.monotonic()
        process = self.start_tune("stopped.study", budget)
        deadline = time.monotonic() + patience(SLACK_S)
        while len(processes_of(0, True, self.folder)) < 2 and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.02)  # the one that keeps the store comes first, and works once another one is started
        os.kill(processes_of(0, True, self.folder)[0], signal.SIGSTOP)
        out, errors = process.communicate(timeout=patience(100))
        self.assertLess(time.monotonic() - began, patience(budget + SLACK_S + 2 * WATCH_S), errors)
        self.assertEqual(process.returncode, ENVIRONMENT, out + errors)
        self.assertRegex(errors, "rank 0 is stopped or cannot be reached: the store where the ranks meet does not answer")
        self.assertEqual(left_processes(self.folder), [])

    def test_one_process_goes_on_as_two(self):
        whole = self.result("run", "run", *BERT, "--steps", "8", *TWO, "--save", "whole.safetensors", "--csv", "whole.csv")
        losses = []
        for steps, plan in ((3, ONE), (6, TWO + schedule("zb1p")), (8, ONE + schedule("gpipe"))):
            part = self.result("run", "run", *BERT, "--steps", str(steps), *plan, "--checkpoint", "kept", "--save", "parts.safetensors", "--csv", "parts.csv")
            losses += part["loss"]
        self.assertEqual(losses, whole["loss"])
        self.assertTrue(self.read_bytes("whole.safetensors") == self.read_bytes("parts.safetensors"))
        rows = [[line.split(",")[:4] for line in self.read_bytes(name).decode().splitlines()] for name in ("whole.csv", "parts.csv")]
        self.assertEqual(rows[0], rows[1])
        self.assertEqual(len(rows[0]), 9)

    def test_replan(self):
        """Of two ranks one is left: training goes on with a plan for its device, with the same losses."""
        self.result("profile", "profile", *BERT, *TWO, "--steps", "2", "-o", "bert.sqlite")
        self.result("plan-result", "plan", "bert.sqlite", "--stages", "2", "--virtual", "1", "--microbatches", "4", "--exact", "-o", "two.plan.json")
        command = ["run", *BERT[:1], "--optimizer", "adam", "--plan", "two.plan.json"]
        whole = self.result("run", *command, "--ranks", "2", "--replan", "--steps", "6")
        self.assertEqual(sorted(whole["plan"]["devices"]), TWO[1].split(","), "the plan as it is")
        first = self.result("run", *command, "--ranks", "2", "--steps", "3", "--checkpoint", "kept")
        self.fails(2, ["devices of 2 ranks"], *command, "--steps", "6", "--checkpoint", "kept")
        done = self.mptune("--json", *command, "--replan", "--steps", "6", "--checkpoint", "kept")
        self.assertEqual(done.returncode, 0, done.stderr)
        rest = json.loads(done.stdout)
        self.assertIn("made anew for " + TWO[1].split(",")[0] + ": ", done.stderr)
        self.assertEqual((rest["plan"]["devices"], rest["plan"]["microbatch_sizes"]), (TWO[1].split(",")[:1], whole["plan"]["microbatch_sizes"]))
        self.assertEqual(first["loss"] + rest["loss"], whole["loss"])
        self.fails(2, ["rank 2 has no device"], *command, "--replan", "--ranks", "3", "--steps", "6")
        self.fails(2, ["none of the devices belongs to a rank"], *command, "--replan", "--devices", TWO[1].split(",")[1], "--steps", "6")
        self.fails(2, ["both given"], *command, "--devices", TWO[1], "--steps", "6")

    def test_replan_for_more_ranks(self):
        """A plan of one process; a second rank is started: training goes on with a plan for both, with the same losses."""
        self.result("profile", "profile", *BERT, *ONE, "--steps", "2", "-o", "bert.sqlite")
        self.result("plan-result", "plan", "bert.sqlite", "--stages", "2", "--microbatches", "4", "--exact", "-o", "one.plan.json")
        command = ["run", *BERT[:1], "--optimizer", "adam", "--plan", "one.plan.json"]
        whole = self.result("run", *command, "--steps", "6")
        first = self.result("run", *command, "--steps", "3", "--checkpoint", "kept")
        more = ["--replan", "--devices", THREE[1]]  # of as many ranks as may be started
        rest = self.result("run", *command, *more, "--ranks", "2", "--steps", "6", "--checkpoint", "kept")
        self.assertEqual(first["loss"] + rest["loss"], whole["loss"])
        self.assertEqual(set(rest["plan"]["devices"]), set(TWO[1].split(",")))
        self.fails(2, ["--plan"], "run", *BERT, *TWO, "--replan")

    def test_signals_to_the_command(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)):
            process = self.start(*MLP, "--steps", "1000000", *TWO)
            self.victim(process, 1, True)
            time.sleep(0.5)
            process.send_signal(number)
            process.communicate(timeout=patience(60))
            self.assertEqual(process.returncode, code)
            self.assertEqual(left_processes(self.folder), [])

    def test_torchrun(self):
        python = python_with_torch()
        if not python:
            self.skipTest("no Python has torch; name one in MPTUNE_TEST_PYTHON")
        command = [PROGRAM, "--json", "run", *TRANSFORMER, *TWO[:2], *schedule("1f1b"), "--steps", "3", "--save", "torchrun.safetensors"]
        done = subprocess.run([python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python", *command],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder, env=self.environment(), timeout=patience(100))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("\n"), 1, "rank 0 prints the result, alone")
        one = self.result("run", "run", *TRANSFORMER, *ONE, "--steps", "3", "--save", "one.safetensors")
        self.assertEqual(json.loads(done.stdout)["loss"], one["loss"])
        self.assertTrue(self.read_bytes("torchrun.safetensors") == self.read_bytes("one.safetensors"))

    def test_profile_is_one_trace(self):
        """What ranks sent each other is in the trace once, from the sending to the arrival; all idle time has a cause."""
        steps, microbatches = 6, 4
        result = self.result("profile", "profile", *TRANSFORMER, *TWO, *schedule("1f1b"), "--steps", str(steps), "-o", "ranks.sqlite")
        names = TWO[1].split(",")
        self.assertEqual([device["device"] for device in result["devices"]], names)
        self.assertGreater(min(device["compute_s"] for device in result["devices"]), 0)
        self.assertEqual({(link["source"], link["destination"]) for link in result["links"]}, {tuple(names), tuple(reversed(names))})
        self.assertGreater(min(link["bytes_per_second"] for link in result["links"]), 1e6)
        self.assertLess(result["clock_error_s"], 0.005, "both ranks have the clock of this machine")
        with sqlite3.connect(os.path.join(self.folder, "ranks.sqlite")) as trace:
            copies = trace.execute("SELECT srcDeviceId, dstDeviceId, start, end FROM CUPTI_ACTIVITY_KIND_MEMCPY ORDER BY start").fetchall()
        for way in ((0, 1), (1, 0)):
            times = [copy[2:] for copy in copies if copy[:2] == way]
            self.assertEqual(len(times), steps * microbatches)
            self.assertTrue(all(start <= end for start, end in times))
            self.assertTrue(all(before[1] <= after[0] for before, after in zip(times, times[1:])), "a lane carries one copy at a time")
        plan = self.result("plan-result", "plan", "ranks.sqlite", "--stages", "2")
        self.assertEqual(sorted(plan["plan"]["devices"]), names, "which stage is on which device depends on what was measured")

    def test_tune(self):
        command = ["tune", *TRANSFORMER[:3], "--microbatches", "4", *TWO, *ALL_REDUCE, "--budget", seconds(25)]
        done = self.mptune("--json", *command, "-o", "ranks.study")
        self.assertIn(done.returncode, (0, 5), done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual(left_processes(self.folder), [])
        self.assertGreater(len([trial for trial in result["trials"] if trial["outcome"] == "measured"]), 3)
        devices = result["recommended"]["plan"]["devices"]
        self.assertLessEqual(set(devices), set(TWO[1].split(",")))
        if len(devices) == 2:
            self.assertIn("--ranks 2", done.stderr + json.dumps(result))
        self.assertEqual(json.loads(self.read_bytes("ranks.study/transformer.plan.json"))["training"]["reduce"], "all-reduce")
        again = self.mptune("--json", "tune", "--resume", "ranks.study", "--budget", seconds(6))
        self.assertIn(again.returncode, (0, 5), again.stderr)
        self.assertGreaterEqual(len(json.loads(again.stdout)["trials"]), len(result["trials"]), "the study knows how many ranks it needs")
        self.result("run", "run", *TRANSFORMER[:1], "--plan", "ranks.study/transformer.plan.json", "--steps", "2", "--ranks", str(len(devices)))

    def test_tune_goes_on_without_a_worker_that_was_killed(self):
        process = self.start_tune("killed.study", 12)
        deadline = time.monotonic() + patience(20)
        study = os.path.join(self.folder, "killed.study/study.sqlite")
        while time.monotonic() < deadline and not self.trials(study):
            time.sleep(0.1)
        os.kill(self.victim(process, 1, True), signal.SIGKILL)
        out, errors = process.communicate(timeout=patience(60))
        self.assertIn(process.returncode, (0, 5), errors)
        self.assertEqual(left_processes(self.folder), [])

    @staticmethod
    def trials(study):
        try:
            with sqlite3.connect(f"file:{study}?mode=ro", uri=True) as database:
                return database.execute("SELECT count(*) FROM trial").fetchone()[0]
        except sqlite3.Error:
            return 0


if __name__ == "__main__":
    unittest.main()
