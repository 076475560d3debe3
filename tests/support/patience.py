"""Runs a command for at most so many seconds of an unloaded machine: patience.py SECONDS COMMAND...

A second counts by the share of a core that a thread gets: with eight busy threads on two cores, four seconds count as one. So a limit that ends
a test that hangs does not end one that waits for its turn. The command is ended with everything in its process group; the exit code is 124.
Arguments such as {15s}, a budget, are written out as the seconds by the clock that they stand for: 15s where nothing else runs.
"""
import os
import re
import signal
import subprocess
import sys
import time

TICK_S = 0.25


def running():
    """Threads that run or wait for a core now, this one left out."""
    with open("/proc/loadavg") as file:
        return max(1, int(file.read().split()[3].split("/")[0]) - 1)


def share():
    """The part of a core that a thread gets."""
    return min(1.0, len(os.sched_getaffinity(0)) / running())


def patience(seconds):
    """The seconds by the clock that what takes `seconds` on an unloaded machine may take on this one, by its load now and in the last minute."""
    return seconds * max(1 / share(), os.getloadavg()[0] / len(os.sched_getaffinity(0)))


def written_out(argument):
    budget = re.fullmatch(r"\{(\d+)s\}", argument)
    return f"{patience(int(budget[1])):.0f}s" if budget else argument


def end_group(process, number):
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass


def main():
    limit_s, command = float(sys.argv[1]), [written_out(argument) for argument in sys.argv[2:]]
    process = subprocess.Popen(command, process_group=0) if sys.version_info >= (3, 11) else subprocess.Popen(command, preexec_fn=os.setpgrp)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: end_group(process, number))
    started, counted_s = time.monotonic(), 0.0
    last = started
    while True:
        try:
            code = process.wait(TICK_S)
            return code if code >= 0 else 128 - code
        except subprocess.TimeoutExpired:
            now = time.monotonic()
            counted_s += (now - last) * share()
            last = now
        if counted_s > limit_s:
            end_group(process, signal.SIGKILL)
            process.wait()
            print(f"ended after {now - started:.0f} s, which count as the {limit_s:g} s that it may take", file=sys.stderr)
            return 124


if __name__ == "__main__":
    sys.exit(main())
