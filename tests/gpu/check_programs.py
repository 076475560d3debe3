"""Checks that every program of the kit starts and every library finds its dependencies. Needs torch, but no GPU."""
import os
import subprocess
import sys

import machine

DRIVER = "libcuda.so.1"
NEEDED = {"mptune", "mptune-worker", "libmptune_cuda.so", "libmptune_injection.so", "benchmark_recording"}


def ldd(path, environment):
    """Missing libraries, and undefined symbols of the file."""
    done = subprocess.run(["ldd", "-r", path], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    missing = [line.split()[0] for line in done.stdout.splitlines() if "not found" in line and DRIVER not in line]
    own = os.path.realpath(path)
    undefined = [line.split()[2] for line in done.stdout.splitlines()
                 if line.startswith("undefined symbol:") and os.path.realpath(line.rsplit("(", 1)[1].rstrip(")")) == own]
    return missing, undefined


def start(path, environment):
    """Starts the program with harmless arguments. Returns the failure, "" if it succeeds."""
    folder, name = os.path.split(path)
    if name == "mptune-worker":
        words = [os.path.join(folder, "mptune"), "-q", "doctor", "--devices", "cpu:0"]  # which starts it
    else:
        words = [path, "--gtest_list_tests" if name.startswith("test_") else "--help"]
    try:
        done = subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return "it does not end"
    except OSError as error:
        return f"it can't be started ({error.strerror})"
    last = (done.stdout.strip().splitlines() or ["it printed nothing"])[-1]
    return "" if done.returncode == 0 else f"exit {done.returncode}: {last}"


def faults_of(path, environment):
    if not os.path.exists(path):
        return ["it is missing: pack the kit again"]
    missing, undefined = ldd(path, environment)
    faults = [f"library not found: {library}" for library in missing] + [f"symbol not found: {symbol}" for symbol in undefined[:5]]
    if not path.endswith(".so"):
        faults += [fault for fault in [start(path, environment)] if fault]
    return faults


def check(kit, problem):
    """Prints a line per file. Exit code: 0 all well, 1 something is missing, 7 unsuitable torch."""
    if problem:
        print(f"run.sh: {problem}", file=sys.stderr)
        return 7
    environment, bad = machine.environment(), 0
    folder = os.path.join(kit, "bin")
    for name in sorted(NEEDED | set(os.listdir(folder))):
        faults = faults_of(os.path.join(folder, name), environment)
        bad += bool(faults)
        print(f"{'FAIL' if faults else 'PASS'}  {name:<28} {'; '.join(faults)}".rstrip())
    return 1 if bad else 0
