"""torch_steps.py MPTUNE [RANKS]: steps of torch.distributed.pipelining over Gloo, a process per rank, against `mptune plan --runtime torch`.

Stages sleep instead of computing, so any machine has enough cores; messages are sent in earnest, and timed beforehand between two ranks.
"""
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import torch
from torch import distributed, multiprocessing
from torch.distributed import pipelining
from torch.distributed.pipelining import schedules

BYTES, FORWARD_S, BACKWARD_S, STEPS = 16 << 20, 0.03, 0.06, 6
CASES = [("1f1b", "Schedule1F1B", 1), ("gpipe", "ScheduleGPipe", 1), ("interleaved", "ScheduleInterleaved1F1B", 2), ("looped-bfs", "ScheduleLoopedBFS", 2)]


class Sleep(torch.autograd.Function):
    @staticmethod
    def forward(context, x, weight, forward_s, backward_s):
        context.backward_s = backward_s
        time.sleep(forward_s)
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        time.sleep(context.backward_s)
        return gradient, torch.zeros(1), None, None


class Stage(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.weight, self.scale = torch.nn.Parameter(torch.zeros(1)), scale

    def forward(self, x):
        return Sleep.apply(x, self.weight, FORWARD_S * self.scale, BACKWARD_S * self.scale)


def scales(stages):
    return [1 + 0.5 * (stage % 3 == 1) for stage in range(stages)]


def work_seconds(x):
    """The times of a stage's forward and backward, with what autograd adds to the sleep."""
    times = []
    for _ in range(5):
        received = x.clone().requires_grad_()
        start = time.monotonic()
        output = Stage(1)(received)
        middle = time.monotonic()
        output.backward(torch.ones_like(output))
        times.append((middle - start, time.monotonic() - middle))
    return [sorted(part)[len(times) // 2] for part in zip(*times)]


def copy_seconds(rank, x):
    """The median time of a message from rank 0 to rank 1, both ready."""
    times = []
    for _ in range(9):
        distributed.barrier()
        start = time.monotonic()
        if rank < 2:
            operation = distributed.isend if rank == 0 else distributed.irecv
            for work in distributed.batch_isend_irecv([distributed.P2POp(operation, x, 1 - rank)]):
                work.wait()
        times.append(time.monotonic() - start)
    return sorted(times)[len(times) // 2]


def run(rank, ranks, folder):
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=ranks)
    x = torch.zeros(1, BYTES // 4)
    found = {"copy_s": copy_seconds(rank, x.clone()), "work_s": work_seconds(x)}
    logging.getLogger("torch.distributed.pipelining.stage").setLevel(logging.ERROR)
    microbatches = 2 * ranks
    for name, kind, each in CASES:
        stages = [pipelining.PipelineStage(Stage(scales(ranks * each)[rank + ranks * v]), rank + ranks * v, ranks * each, torch.device("cpu"), input_args=(x,))
                  for v in range(each)]
        schedule = getattr(schedules, kind)(stages[0] if each == 1 else stages, microbatches, loss_fn=lambda output, target: output.sum())
        batch, times = torch.zeros(microbatches, BYTES // 4, requires_grad=rank == 0), []
        for _ in range(STEPS):
            distributed.barrier()
            start = time.monotonic()
            schedule.step(*([batch] if rank == 0 else []), **({"target": batch} if rank == ranks - 1 else {}))
            distributed.barrier()
            times.append(time.monotonic() - start)
        found[name] = sorted(times[1:])
    if rank == 0:
        pathlib.Path(folder, "found.json").write_text(json.dumps(found))
    distributed.destroy_process_group()


def predicted(program, folder, ranks, name, each, found):
    forward_s, backward_s = (measured - slept for measured, slept in zip(found["work_s"], (FORWARD_S, BACKWARD_S)))
    layers = [f"node{i} -- Stage{i} -- forward_compute_time={(FORWARD_S * scale + forward_s) * 1e3:.6f}, "
              f"backward_compute_time={(BACKWARD_S * scale + backward_s) * 1e3:.6f}, "
              f"activation_size={BYTES}, parameter_size=4" for i, scale in enumerate(scales(ranks * each))]
    edges = [f"\tnode{i} -- node{i + 1}" for i in range(len(layers) - 1)]
    path = pathlib.Path(folder, "stages.graph.txt")
    path.write_text("\n".join(layers + edges) + "\n")
    steps = []
    for runtime in ("torch", "mptune"):
        words = [program, "--json", "plan", str(path), "--stages", str(ranks * each), "--virtual", str(each), "--schedule", name, "--microbatches", str(2 * ranks),
                 "--batch", str(2 * ranks), "--link", f"{BYTES / found['copy_s'] / 1e9:.6f}GB/s", "--recompute", "none", "--runtime", runtime, "-o",
                 f"{folder}/torch.plan.json", "--force"]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        steps.append(json.loads(done.stdout)["predicted"]["step_s"])
    return steps


def main(program, ranks="2"):
    ranks, program = int(ranks), os.path.abspath(program)
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(run, args=(ranks, folder), nprocs=ranks)
        found = json.loads(pathlib.Path(folder, "found.json").read_text())
        print(f"{ranks} ranks; a message of {BYTES >> 20} MiB takes {found['copy_s'] * 1e3:.1f} ms")
        for name, _, each in CASES:
            times = found[name]
            median = times[len(times) // 2]
            torch_s, own_s = predicted(program, folder, ranks, name, each, found)
            print(f"{name:12} measured {median * 1e3:7.1f} ms ({times[0] * 1e3:.1f} to {times[-1] * 1e3:.1f})   torch {torch_s / median - 1:+.1%}   "
                  f"mptune {own_s / median - 1:+.1%}")


if __name__ == "__main__":
    main(*sys.argv[1:])
