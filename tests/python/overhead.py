"""Prints what a step costs more through mptune.Pipeline than in C++: the time of the Python call less that of the C++ step in it. A
benchmark; run by hand with the package as it is built."""
import os
import statistics
import tempfile
import time

import mptune
import torch
from plans import MICROBATCHES, write_plan

STEPS, ROUNDS = 500, 9


class Seen:
    """The extension's class, whose seconds are kept; costs a part of a microsecond."""

    def __init__(self, own, seconds):
        self.own, self.seconds = own, seconds

    def step(self, data, target, accumulate):
        result = self.own.step(data, target, accumulate)
        self.seconds.append(result[1])
        return result

    def close(self):
        self.own.close()


def main():
    data, target = torch.randn(4 * MICROBATCHES, 10), torch.randn(4 * MICROBATCHES, 5)
    costs, inside = [], []
    with tempfile.TemporaryDirectory() as folder:
        plan = os.path.join(folder, "mlp.plan.json")
        write_plan(plan, 2, 4)
        with mptune.Pipeline("mlp", plan) as pipeline:
            pipeline._own = Seen(pipeline._own, inside)
            for _ in range(ROUNDS):
                inside.clear()
                started = time.perf_counter()
                for _ in range(STEPS):
                    pipeline.step(data, target)
                costs.append((time.perf_counter() - started - sum(inside)) / STEPS)
    print(f"median {1e6 * statistics.median(costs):.1f} us [{1e6 * min(costs):.1f}, {1e6 * max(costs):.1f}] over a step of "
          f"{1e6 * statistics.mean(inside):.0f} us")


if __name__ == "__main__":
    main()
