"""advisor_truth.py BUILD [--plans N] [--seed S] [--only WORDS]: compares what mptune advises and predicts for emulated GPUs with what happens on them.
Needs a quiet machine: modelled kernels take milliseconds, which hosts must keep up with.

predictions  random plans on machines of two speeds and uneven links: predicted steps and peaks against measured ones
fits         the same plans on GPUs with as much memory as their predicted peaks ask for: each must run
best         `tune` on four GPUs against every plan of the space, each measured (benchmark_sweep)"""
import argparse
import pathlib
import sys
import tempfile
import time

from truth import best, fits, predictions
from truth.machine import Machine

PARTS = {"predictions": predictions.run, "fits": fits.run, "best": best.run}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--plans", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    asked = parser.parse_args()
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(asked.build.resolve(), pathlib.Path(folder))
        for part in asked.only:
            began = time.monotonic()
            found = PARTS[part](machine, asked)
            print(*found, f"{part}: {len(found)} faults, {time.monotonic() - began:.0f} s", sep="\n", flush=True)
            faults += len(found)
    if faults:
        sys.exit(f"{faults} faults")


if __name__ == "__main__":
    main()
