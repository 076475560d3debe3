"""How fast mptune answers: start_up.py MPTUNE [RUNS]

Prints the median and the least time of --version and of --help of every command, and of the first byte that each command writes, with a worker that never
answers: so this is what a user sees before anything is loaded. Runs of the commands alternate. Commands that need a file get one that is
absent, whose error is their first output.
"""
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

PROGRAM = os.path.abspath(sys.argv[1])
RUNS = int(sys.argv[2]) if len(sys.argv) > 2 else 20
MODEL = ["toy", "--devices", "sleep:2"]
FIRST = {"profile": MODEL, "tune": MODEL, "run": [*MODEL, "--stages", "2"], "check": ["toy"], "plan": ["absent.sqlite"],
         "simulate": ["--plan", "absent.json", "--profile", "absent.sqlite"], "compare": ["absent.a", "absent.b"], "models": [], "doctor": [],
         "report": ["absent.study", "--text"], "import": ["absent.json"], "export": ["absent.sqlite", "--to", "csv"], "completion": ["bash"],
         "help": []}


def commands():
    text = subprocess.run([PROGRAM, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.findall(r"^  ([a-z]+) ", text.split("Commands:")[1].split("\n\n")[0], re.M)


def seconds_of(arguments):
    start = time.perf_counter()
    subprocess.run([PROGRAM, *arguments], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def seconds_to_first_output(arguments, folder, worker):
    read, write = os.pipe()
    start = time.perf_counter()
    process = subprocess.Popen([PROGRAM, *arguments], stdout=write, stderr=write, cwd=folder, env={**os.environ, "MPTUNE_WORKER": worker})
    os.close(write)
    os.read(read, 1)
    took = time.perf_counter() - start
    process.terminate()
    process.wait()
    os.close(read)
    return took


def main():
    with tempfile.TemporaryDirectory() as folder:
        worker = os.path.join(folder, "worker")
        with open(worker, "w") as file:
            file.write("#!/bin/sh\nexec sleep 60\n")
        os.chmod(worker, 0o755)
        names = commands()
        times = {("--version", ""): []}
        for _ in range(RUNS):
            times[("--version", "")].append(seconds_of(["--version"]))
            for name in names:
                times.setdefault((name, "--help"), []).append(seconds_of([name, "--help"]))
                times.setdefault((name, "first output"), []).append(seconds_to_first_output([name, *FIRST[name]], folder, worker))
    print(f"{RUNS} runs [ms]{'median':>22}{'least':>8}")
    for (name, what), samples in times.items():
        print(f"{name:12}{what:14}{statistics.median(samples) * 1e3:8.1f}{min(samples) * 1e3:8.1f}")


main()
