"""Commands under faults at random points: no finished trial is lost, no process is left, every exit code is of the table, and every failure
has a remedy.

    hostile_day.py [--seed N] [--minutes M] [--round K] [--fault NAME] [--command NAME]

It prints its seed; with it, --round K repeats one round. MPTUNE_HOSTILE_MINUTES is M where it is not given, else 2."""
import argparse
import collections
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from hostile_faults import FAULTS, STUDY_COMMANDS
from hostile_world import MARKER, finished_trials, left_processes, save_tensors, temporary_files, trials_so_far

PROGRAM = os.environ["MPTUNE_PROGRAM"]
PLUGIN = os.path.join(os.environ["MPTUNE_PLUGINS"], "libhostile_plugin.so")
MODEL = "mlp:layers=4,width=32"
CORES = sorted(os.sched_getaffinity(0))[:2]
DEVICES = ",".join(f"cpu:{core}" for core in CORES)
OVER_RANKS = ["--devices", ",".join(f"{rank}@cpu:{core}" for rank, core in enumerate(CORES)), "--ranks", str(len(CORES))]
BUDGET_S = 6
COMMAND_TABLE = {0, 2, 3, 4, 5, 6, 7, 130, 143}  # 1 is a bug
VERDICTS = {"compare": {4, 5}, "check": {4}, "tune": {5}, "resume": {5}, "profile": {5}, "import": {5}, "doctor": {7},
            "plan": {130, 143}}  # the best plan found so far is a result
REMEDY = re.compile(r"(?m)^mptune: (?!warning: ).+: .+; \S")
STEERS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
TUNE = ["tune", MODEL, "--batch", "8"]
SET = ["--devices", DEVICES, "--batch", "8"]
# The command, the files that it reads, and how long it takes at most.
COMMANDS = {
    "tune": ([*TUNE, "--devices", DEVICES, "--budget", f"{BUDGET_S}s", "-o", "new.study"], [], BUDGET_S + 5),
    "resume": ([*TUNE, "--devices", DEVICES, "--budget", f"{2 * BUDGET_S}s", "-o", "s.study", "--resume"], ["s.study/study.sqlite"], BUDGET_S + 5),
    "profile": (["profile", MODEL, *SET, "--steps", "5", "-o", "new.sqlite"], [], 12),
    "run": (["run", MODEL, "--plan", "p.plan.json", "--steps", "5", "--save", "state.pt"], ["p.plan.json"], 6),
    "run on a core": (["run", MODEL, "--devices", DEVICES, "--stages", "2", "--steps", "30", "--batch", "8"], [], 6),
    "run --data": (["run", MODEL, "--plan", "p.plan.json", "--steps", "5", "--data", "good.pt"], ["good.pt"], 6),
    "run over ranks": (["run", MODEL, *OVER_RANKS, "--steps", "30", "--batch", "8"], [], 8),
    "tune over ranks": ([*TUNE, *OVER_RANKS, "--budget", f"{BUDGET_S}s", "-o", "new.study"], [], BUDGET_S + 8),
    "check": (["check", MODEL, "--stages", "2", *SET], [], 6),
    "plan": (["plan", "p.sqlite", "-o", "new.plan.json"], ["p.sqlite"], 3),
    "simulate": (["simulate", "--plan", "p.plan.json", "--profile", "p.sqlite", "-o", "new.sqlite"], ["p.plan.json", "p.sqlite"], 2),
    "report": (["report", "s.study", "--text"], ["s.study/study.sqlite", "s.study/mlp.plan.json"], 2),
    "report a trace": (["report", "p.sqlite", "--markdown", "-o", "new.md"], ["p.sqlite"], 2),
    "compare": (["compare", "p.sqlite", "p.sqlite"], ["p.sqlite"], 2),
    "compare plans": (["compare", "p.plan.json", "s.study/mlp.plan.json"], ["p.plan.json"], 2),
    "import": (["import", "k.rank0.json"], ["k.rank0.json"], 2),
    "export": (["export", "p.sqlite", "--to", "perfetto", "-o", "new.json"], ["p.sqlite"], 2),
    "export a plan": (["export", "p.plan.json", "--to", "megatron", "-o", "args.json"], ["p.plan.json"], 2),
    "export a study": (["export", "s.study", "--to", "t4", "-o", "t4.json"], ["s.study/study.sqlite"], 2),
    "doctor": (["doctor", "--devices", DEVICES], [], 6),
    "models of a file": (["models", "./net.so"], ["net.so"], 4),
}
LONG = ("tune", "resume", "profile")  # where random points are worth most


class Collected(threading.Thread):
    """Reads a pipe to its end."""

    def __init__(self, pipe):
        super().__init__(daemon=True)
        self.pipe, self.pieces = pipe, []
        self.start()

    def run(self):
        with self.pipe:
            while piece := self.pipe.read1():
                self.pieces.append(piece)

    def text(self):
        self.join(timeout=5)
        return b"".join(self.pieces)


class Round:
    """One command under one fault, in a folder of its own."""

    def __init__(self, day, number):
        self.day, self.number = day, number
        self.random = random.Random(f"{day.seed}.{number}")
        self.marker = f"{os.getpid()}-{number}"
        self.fault = self.random.choice([name for name in FAULTS if not day.fault or name == day.fault])
        function = FAULTS[self.fault]
        only = getattr(function, "only", None) or tuple(COMMANDS) + LONG * 3
        fitting = [name for name in only if (COMMANDS[name][1] or not getattr(function, "needs_inputs", False))]
        self.name = self.random.choice([name for name in fitting if not day.command or name == day.command] or fitting)
        words, inputs, self.usual_s = COMMANDS[self.name]
        self.arguments, self.inputs = list(words), list(inputs)
        if self.name in ("tune", "profile") and self.random.random() < 0.3:
            self.arguments = ["sleep:2" if word == DEVICES else word for word in self.arguments]
        self.json = self.random.random() < 0.3
        self.study = "new.study" if self.name.startswith("tune") else "s.study"
        self.point = ""
        self.good = {0} | VERDICTS.get(self.name.split()[0], set())
        self.environment = {}
        self.mute = self.deaf = self.may_leave_files = self.may_lose_trials = False
        self.trials = {}
        self.must_end_by = None
        self.done, self.ran = None, []
        self.complaints = []
        self.folder = os.path.join(day.folder, f"round-{number}")
        shutil.copytree(day.prepared, self.folder)
        os.mkdir(self.path("tmp"))

    def path(self, name):
        return os.path.join(self.folder, name)

    def complain(self, text):
        self.complaints.append(text)

    def wait_a_moment(self, process):
        """Until a random point of the command's usual time, or its end."""
        seconds = self.random.uniform(0, 0.8 * self.usual_s) if self.random.random() < 0.7 else self.random.uniform(0, 0.3)
        self.point = f"after {seconds:.2f} s"
        deadline = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        if self.name in STUDY_COMMANDS:
            self.trials = trials_so_far(self.path(self.study))

    def again(self):
        return self.arguments + ([] if "--resume" in self.arguments else ["--resume"])

    def start(self, arguments, before=None):
        environment = {**os.environ, "TMPDIR": self.path("tmp"), MARKER: self.marker, **self.environment}
        environment.pop("MPTUNE_WORKER", None)
        process = subprocess.Popen([PROGRAM, *(["--json"] if self.json else []), *arguments], cwd=self.folder, env=environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, start_new_session=True,
                                   preexec_fn=before)
        process.started = time.monotonic()
        process.said = [Collected(process.stdout), Collected(process.stderr)]
        return process

    def run(self, meddle=None, before=None, codes=frozenset(), more_s=0, again=False):
        """Runs the command, harmed by `meddle` while it runs or by `before` as it starts, and looks at what it did."""
        self.must_end_by = None
        started = time.monotonic()
        process = self.start(self.again() if again else self.arguments, before)
        if meddle:
            meddle(process)
        self.end(process, self.must_end_by or started + self.usual_s + more_s + self.day.slack_s)
        if left := left_processes(self.marker):
            self.complain(f"processes are left: {left}")
            for pid in left:
                os.kill(pid, signal.SIGKILL)
        self.look_at(process, codes)
        if not self.may_leave_files and (files := temporary_files(self.folder)):
            self.complain(f"temporary files are left: {files}")
        if not self.may_lose_trials:
            self.expect_kept(self.trials)

    def end(self, process, deadline):
        """Waits for the process; ends it where it does not end by itself."""
        try:
            process.wait(timeout=max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.complain(f"still there {time.monotonic() - process.started:.1f} s after its start")
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self.may_leave_files = True

    def look_at(self, process, codes):
        self.done = subprocess.CompletedProcess(process.args, process.returncode, *(said.text() for said in process.said))
        self.ran.append(self.done)
        code, name = self.done.returncode, self.name.split()[0]
        said = self.done.stderr.decode(errors="surrogateescape")
        if not self.complaints and code not in COMMAND_TABLE | codes:
            self.complain(f"exit code {code}")
        verdict = code in VERDICTS.get(name, ()) and (self.done.stdout or self.deaf)
        if code not in (0, -signal.SIGKILL, -signal.SIGINT, -signal.SIGTERM) and not verdict and not self.mute and not REMEDY.search(said):
            self.complain("a failure without a remedy")
        if found := STEERS.search(said):
            self.complain(f"a control character on stderr: {said[found.start():found.end() + 20]!r}")
        if self.json and not self.deaf and code >= 0:
            self.expect_object()

    def expect_object(self):
        try:
            value = json.loads(self.done.stdout)
            if "error" in value and value["exit_code"] != self.done.returncode:
                self.complain("another exit code in the object")
        except ValueError:
            self.complain("no JSON object")

    def expect_kept(self, before):
        after = finished_trials(self.path(self.study))
        lost = [number for number, trial in before.items() if after.get(number) != trial]
        if lost:
            self.complain(f"finished trials are lost or changed: {lost}")

    def report(self):
        repeat = f"hostile_day.py --seed {self.day.seed} --round {self.number}"
        for option, value in (("--fault", self.day.fault), ("--command", self.day.command)):
            repeat += f" {option} {value!r}" if value else ""
        print(f"\nround {self.number}: {'; '.join(self.complaints)}\n  fault:   {self.fault} {self.point}\n  repeat:  {repeat}")
        for done in self.ran:
            print(f"  mptune {' '.join(map(str, done.args[1:]))}: {done.returncode}\n  stdout: {done.stdout[-800:]!r}\n  stderr: {done.stderr[-800:]!r}")
        sys.stdout.flush()


class Day:
    def __init__(self, options):
        self.seed, self.fault, self.command = options.seed, options.fault, options.command
        self.slack_s = float(os.environ.get("MPTUNE_HOSTILE_SLACK", "8"))  # what a loaded machine may take longer
        self.interrupt_s = 3
        self.model = MODEL
        self.folder = tempfile.mkdtemp(prefix="hostile-day-")
        self.prepared = os.path.join(self.folder, "prepared")
        os.mkdir(self.prepared)

    def prepare(self):
        """The files that commands read."""
        for arguments in (["profile", MODEL, *SET, "--steps", "5", "-o", "p.sqlite"], ["plan", "p.sqlite", "--stages", "2", "-o", "p.plan.json"],
                          [*TUNE, "--devices", DEVICES, "--budget", f"{BUDGET_S}s", "-o", "s.study"], ["export", "p.sqlite", "--to", "kineto", "-o", "k.json"]):
            done = subprocess.run([PROGRAM, *arguments], cwd=self.prepared, capture_output=True, text=True, timeout=120)
            if done.returncode not in (0, 5):
                sys.exit(f"{arguments}: {done.returncode}\n{done.stderr}")
        rows = [[0.1 * (i + j) for j in range(10)] for i in range(8)]
        save_tensors(os.path.join(self.prepared, "good.pt"), input=rows, target=[row[:5] for row in rows])
        save_tensors(os.path.join(self.prepared, "nan.pt"), input=[[float("nan")] * 10] * 8, target=[row[:5] for row in rows])
        shutil.copy(PLUGIN, os.path.join(self.prepared, "net.so"))

    def spend(self, rounds, minutes):
        """Returns how many rounds failed."""
        counts, failed, deadline = collections.Counter(), 0, time.monotonic() + 60 * minutes
        for number in rounds:
            if time.monotonic() > deadline:
                break
            one = Round(self, number)
            FAULTS[one.fault](one)
            counts[one.fault] += 1
            if one.complaints:
                failed += 1
                one.report()
            shutil.rmtree(one.folder, ignore_errors=True)
        print(f"\n{sum(counts.values())} rounds with seed {self.seed}, {failed} failed")
        print("  " + ", ".join(f"{name}: {count}" for name, count in sorted(counts.items())))
        return failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10 ** 6))
    parser.add_argument("--minutes", type=float, default=float(os.environ.get("MPTUNE_HOSTILE_MINUTES", "2")))
    parser.add_argument("--round", type=int)
    parser.add_argument("--fault", choices=FAULTS)
    parser.add_argument("--command", choices=COMMANDS)
    options = parser.parse_args()
    if len(CORES) < 2:
        print("needs two cores")
        return 77
    print(f"seed {options.seed}", flush=True)
    day = Day(options)
    try:
        day.prepare()
        rounds = range(10 ** 9) if options.round is None else [options.round]
        return 1 if day.spend(rounds, options.minutes) else 0
    finally:
        shutil.rmtree(day.folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
