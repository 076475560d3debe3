#!/usr/bin/env python3
"""Where the time of `mptune tune` goes: seconds by phase, with and without a worker, and by how much it exceeded its budget.

    tune_time.py PROGRAM [--load N] -- resnet18 --input 3x64x64 --batch 16 --devices cpu:0,cpu:1 --budget 20s

--load N: with N busy loops on each core meanwhile. The study is written into a temporary folder."""
import argparse
import collections
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

UNITS = {"s": 1, "min": 60, "h": 3600}


def spin():
    while True:
        pass


def has_worker(parent):
    """Whether a child of the process was started as a worker."""
    for task in os.listdir(f"/proc/{parent}/task"):
        try:
            with open(f"/proc/{parent}/task/{task}/children") as file:
                for child in file.read().split():
                    with open(f"/proc/{child}/cmdline", "rb") as words:
                        if b"--request-fd" in words.read():
                            return True
        except OSError:
            pass  # it has just ended
    return False


class Phases(threading.Thread):
    """The parts of the work, by the lines that `mptune -v` prints as each begins."""

    def __init__(self, stream):
        super().__init__(daemon=True)
        self.stream, self.began, self.name = stream, time.monotonic(), "start"
        self.seconds = collections.Counter()
        self.start()

    def run(self):
        for line in self.stream:
            if match := re.match(r"mptune: (checking|measuring|search|baseline|candidate|final|trace)\b", line):
                self.enter(match.group(1))
            else:
                sys.stderr.write(line)
        self.enter("end")

    def enter(self, name):
        now = time.monotonic()
        self.seconds[self.name] += now - self.began
        self.began, self.name = now, name


def seconds_of(text):
    number, unit = re.fullmatch(r"([\d.]+)(s|min|h)", text).groups()
    return float(number) * UNITS[unit]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--load", type=int, default=0)
    parser.add_argument("tune", nargs="+")
    options = parser.parse_args()
    budget_s = seconds_of(options.tune[options.tune.index("--budget") + 1])
    loops = [multiprocessing.Process(target=spin, daemon=True) for _ in range(options.load * os.cpu_count())]
    for loop in loops:
        loop.start()
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        process = subprocess.Popen([options.program, "-v", "tune", *options.tune, "-o", os.path.join(folder, "study")], stderr=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL, text=True)
        phases = Phases(process.stderr)
        without_s, last = 0.0, began
        while process.poll() is None:
            time.sleep(0.01)
            now = time.monotonic()
            try:
                without_s += 0 if has_worker(process.pid) else now - last
            except OSError:
                pass  # it has just ended
            last = now
        elapsed_s = time.monotonic() - began
        phases.join()
    for loop in loops:
        loop.terminate()
    for name, seconds in phases.seconds.items():
        print(f"{name:10} {seconds:7.2f} s")
    print(f"elapsed    {elapsed_s:7.2f} s of a budget of {budget_s:g} s, exit code {process.returncode}")
    print(f"no worker  {without_s:7.2f} s, {100 * without_s / budget_s:.1f} % of the budget")


if __name__ == "__main__":
    main()
