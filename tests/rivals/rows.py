"""Rows of the comparison: groups of processes that live through all rounds and run some steps whenever they are asked."""
import json
import os
import pathlib
import select
import socket
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
WARM_UP = 1  # steps of every visit that are not counted: other rows have used the caches since the last one

# What mptune's programs set by mallopt (profiler/device/cpu_allocator.cc).
SAME_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(1 << 62), "MALLOC_TOP_PAD_": str(64 << 20)}
# They would move threads off the cores that rows pin them to, or start another number of them.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "OMP_DYNAMIC", "OMP_THREAD_LIMIT", "GOMP_CPU_AFFINITY", "KMP_AFFINITY",
                    "MKL_NUM_THREADS", "MKL_DYNAMIC", "OPENBLAS_NUM_THREADS")


class RowFailed(Exception):
    """A row can't run, and why."""


class Process:
    """A program that answers each line of its input by a line."""

    def __init__(self, words, variables, timeout):
        self.timeout, self.rest = timeout, b""
        self.errors = tempfile.TemporaryFile()
        environment = {name: value for name, value in os.environ.items() if name not in THREAD_VARIABLES} | variables
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, env=environment)

    def say(self, line):
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise RowFailed(self.last_words()) from None

    def line(self):
        while b"\n" not in self.rest:
            if not select.select([self.process.stdout], [], [], self.timeout)[0]:
                raise RowFailed(f"no answer in {self.timeout:.0f} s")
            part = os.read(self.process.stdout.fileno(), 1 << 16)
            if not part:
                raise RowFailed(self.last_words())
            self.rest += part
        line, _, self.rest = self.rest.partition(b"\n")
        return line.decode()

    def last_words(self):
        code = self.process.wait()
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return f"ended with {code}: {lines[-1] if lines else 'it said nothing'}"

    def end(self):
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            try:
                stream.close()
            except BrokenPipeError:
                pass


class Rival:
    """One or two processes of worker.py with PyTorch."""

    def __init__(self, settings, cores, processes, threads, same_malloc, timeout):
        self.folder = tempfile.TemporaryDirectory()
        variables = {"OMP_NUM_THREADS": str(threads), "GLOO_SOCKET_IFNAME": "lo"} | (SAME_MALLOC if same_malloc else {})
        self.processes = []
        for rank in range(processes):
            own = settings | {"cores": [cores[rank]] if threads == 1 else cores, "threads": threads, "rank": rank, "world": processes,
                              "store": str(pathlib.Path(self.folder.name) / "store")}
            self.processes.append(Process([sys.executable, "-W", "ignore", str(HERE / "worker.py"), json.dumps(own)], variables, timeout))

    def ask(self, command, argument):
        """The answers of all processes. One that fails leaves others waiting, so the first error is raised as it comes."""
        for process in self.processes:
            process.say(json.dumps({command: argument}))
        waiting, answers = list(self.processes), {}
        while waiting:
            ready = select.select([each.process.stdout for each in waiting], [], [], self.processes[0].timeout)[0]
            if not ready:
                raise RowFailed(f"no answer in {self.processes[0].timeout:.0f} s")
            each = next(each for each in waiting if each.process.stdout in ready)
            reply = json.loads(each.line())
            if "error" in reply:
                raise RowFailed(reply["error"].splitlines()[0])
            answers[each] = reply["answer"]
            waiting.remove(each)
        return [answers[each] for each in self.processes]

    def set(self, config):
        self.ask("set", config)

    def step_seconds(self, steps):
        """A step lasts from its first process's start to its last one's end."""
        times = self.ask("steps", WARM_UP + steps)
        spans = [max(ended for _, ended in parts) - min(started for started, _ in parts) for parts in zip(*times)]
        return statistics.median(spans[WARM_UP:])

    def gradients(self):
        """Norms by name; data parallel processes have the same ones."""
        return {name: norm for norms in self.ask("gradients", True) for name, norm in norms.items()}

    def process_ids(self):
        return [each.process.pid for each in self.processes]

    def end(self):
        for process in self.processes:
            process.end()
        self.folder.cleanup()


def ranks_of(plan):
    """Processes that the devices of a plan file name: 2 for 0@cpu:0 and 1@cpu:1."""
    with open(plan) as file:
        devices = json.load(file)["plan"]["devices"]
    return 1 + max(int(device.split("@")[0]) if "@" in device else 0 for device in devices)


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class PlanRow:
    """A plan of mptune's, run by benchmark_plan_rounds: a process for each of its ranks."""

    def __init__(self, program, settings, steps, plan, timeout):
        self.steps = steps
        words = [program, settings["model"], settings["input"], str(settings["batch"]), str(steps), plan]
        ranks, port = ranks_of(plan), free_port()
        places = [{"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)} for rank in range(ranks)]
        self.processes = [Process(words, place if ranks > 1 else {}, timeout) for place in places]
        try:
            if any(each.line() != "ready" for each in self.processes):
                raise RowFailed(f"{program} is another program")
        except RowFailed:
            self.end()
            raise

    def step_seconds(self, steps):
        if steps != self.steps:
            raise ValueError("the number of steps is the program's argument")
        for each in self.processes:
            each.say("0")
        return max(float(each.line()) for each in self.processes)

    def process_ids(self):
        return [each.process.pid for each in self.processes]

    def end(self):
        for each in self.processes:
            each.end()
