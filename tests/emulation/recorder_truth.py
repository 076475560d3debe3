"""recorder_truth.py BUILD [--plans N] [--seed S] [-j N] [--python PYTHON] [--only WORDS] [--short]: compares what mptune records of emulated GPUs, and
what it says of the recording, with the emulated machine's own ledger, and prints how much was equal. Fails if anything differs.

plans     random plans on random machines (truth/plans.py): every record, busy, copy, overlap and idle time, bytes (truth/compare.py)
programs  `mptune profile -- python3 ...`, with PYTHON, which needs torch: the same
causes    planted slow links and stalls of the host are named as the cause
losses    lost records, records without times, kinds that are refused, another tool: counted, said, the verdict withheld"""
import argparse
import os
import pathlib
import sys
import tempfile
import time

from truth import causes, losses, programs, random_runs
from truth.machine import Machine

PARTS = {"plans": random_runs.run, "programs": programs.run, "causes": causes.run, "losses": losses.run}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--plans", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-j", type=int, default=len(os.sched_getaffinity(0)), dest="jobs")
    parser.add_argument("--python", type=pathlib.Path)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--short", action="store_true")
    asked = parser.parse_args()
    asked.python = (asked.python or asked.build / "python_consumer" / "python").resolve()
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(asked.build.resolve(), pathlib.Path(folder))
        for part in asked.only:
            began = time.monotonic()
            found = PARTS[part](machine, asked)
            print(f"{part}: {len(found)} faults, {time.monotonic() - began:.0f} s", flush=True)
            faults += found
    if faults:
        sys.exit(f"{len(faults)} faults")


if __name__ == "__main__":
    main()
