"""worker.py SETTINGS: one process of a rival, started and driven by rows.py through pipes with a line of JSON per message.

SETTINGS: model, input, batch, cores (it is pinned to them), threads, rank, world (processes of the rival), store (file for rendezvous).
{"set": {"kind": ..., "channels_last": ..., "microbatches": ..., "cuts": [...]}}   prepares steps of one kind
{"steps": N}          runs N steps of forward and backward: [[started, ended], ...] in seconds of the clock that all processes share
{"gradients": true}   runs a step: the norm of every gradient that this process has
{"layer_times": N}    seconds of forward and backward of every layer for N samples
The answer is {"answer": ...} or {"error": "..."}. The process ends with its input.
"""
import ctypes
import json
import os
import signal
import statistics
import sys
import time

SETTINGS = json.loads(sys.argv[1])
os.sched_setaffinity(0, SETTINGS["cores"])  # before LibTorch and Gloo start threads, which inherit it
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: one that waits for its dead neighbour would stay for ever
ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what libraries print must not get between the answers

import models
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import pipelining

RANK, WORLD = SETTINGS["rank"], SETTINGS["world"]
SCHEDULES = {
    "gpipe": (pipelining.ScheduleGPipe, 1),
    "1f1b": (pipelining.Schedule1F1B, 1),
    "interleaved_1f1b": (pipelining.ScheduleInterleaved1F1B, 2),
    "interleaved_zero_bubble": (pipelining.ScheduleInterleavedZeroBubble, 2),
    "zbv": (pipelining.ScheduleZBVZeroBubble, 2),
}


class Stage(pipelining.PipelineStage):
    """Without the messages by which a schedule connects neighbours before its first step. Gloo is connected already, and refuses those of
    ZBV, where one process has two neighbouring stages and would send to itself."""

    def _get_init_p2p_neighbors_ops(self):
        return []


def stage_indices(kind, rank, world):
    """Stages of a process: one, every `world`th, or for ZBV the two at the same height of the V."""
    stages = world * SCHEDULES[kind][1]
    return [rank, stages - 1 - rank] if kind == "zbv" else list(range(rank, stages, world))


def pipeline_step(model, inputs, target, config):
    schedule, per_process = SCHEDULES[config["kind"]]
    modules, bounds = [layer.module for layer in model.layers], [0, *config["cuts"], len(model.layers)]
    count = WORLD * per_process
    if len(bounds) != count + 1:
        raise ValueError(f"{config['kind']} needs {count} stages, the cuts give {len(bounds) - 1}")
    stages = [Stage(nn.Sequential(*modules[bounds[i] : bounds[i + 1]]), i, count, torch.device("cpu"))
              for i in stage_indices(config["kind"], RANK, WORLD)]
    runner = schedule(stages[0] if per_process == 1 else stages, n_microbatches=config["microbatches"], loss_fn=models.loss)
    arguments = [inputs] if any(stage.is_first for stage in stages) else []
    keywords = {"target": target} if any(stage.is_last for stage in stages) else {}
    return lambda: runner.step(*arguments, **keywords, return_outputs=False)


def whole_step(model, inputs, target, config):
    net = nn.Sequential(*(layer.module for layer in model.layers))
    if config["channels_last"]:
        net, inputs = net.to(memory_format=torch.channels_last), inputs.to(memory_format=torch.channels_last)
    if config["kind"] == "ddp":
        net = nn.parallel.DistributedDataParallel(net)
        inputs, target = inputs.chunk(WORLD)[RANK], target.chunk(WORLD)[RANK]
    return lambda: models.loss(net(inputs), target).backward()


class Steps:
    """Steps of one kind, of a model with the same weights and batch in every process and row."""

    def __init__(self, config):
        torch.manual_seed(0)
        self.model = models.make(SETTINGS["model"], SETTINGS["input"])
        inputs, target = self.model.batch(SETTINGS["batch"])
        make = pipeline_step if config["kind"] in SCHEDULES else whole_step
        self.step = make(self.model, inputs, target, config)
        self.parameters = {layer.prefix + name: tensor for layer in self.model.layers for name, tensor in layer.module.named_parameters()}

    def timed(self):
        for parameter in self.parameters.values():
            parameter.grad = None
        if WORLD > 1:
            dist.barrier()
        started = time.monotonic()
        self.step()
        return [started, time.monotonic()]

    def gradients(self):
        self.timed()
        return {name: tensor.grad.norm().item() for name, tensor in self.parameters.items() if tensor.grad is not None}


def layer_seconds(module, x):
    """Median seconds of forward and backward, and the output."""
    seconds = []
    for _ in range(4):
        leaf = x.detach().requires_grad_(x.is_floating_point())
        started = time.monotonic()
        y = module(leaf)
        y.backward(torch.ones_like(y))
        seconds.append(time.monotonic() - started)
    return statistics.median(seconds[1:]), y.detach()


def layer_times(samples):
    model = models.make(SETTINGS["model"], SETTINGS["input"])
    x, times = model.batch(samples)[0], []
    for layer in model.layers:
        seconds, x = layer_seconds(layer.module, x)
        times.append(seconds)
    return times


def answer(state, message):
    (command, argument), = message.items()
    if command == "set":
        state["steps"] = Steps(argument)
        return True
    if command == "steps":
        return [state["steps"].timed() for _ in range(argument)]
    if command == "gradients":
        return state["steps"].gradients()
    if command == "layer_times":
        return layer_times(argument)
    raise ValueError(f"there is no command {command}")


def main():
    torch.set_num_threads(SETTINGS["threads"])
    if WORLD > 1:
        dist.init_process_group("gloo", init_method="file://" + SETTINGS["store"], rank=RANK, world_size=WORLD)
    state = {}
    for line in sys.stdin:
        try:
            reply = {"answer": answer(state, json.loads(line))}
        except Exception as failure:  # the row is missing then, and this is why
            reply = {"error": f"{type(failure).__name__}: {failure}"}
        print(json.dumps(reply), file=ANSWERS, flush=True)
    os._exit(0)  # without Gloo's goodbye, for which a neighbour may be missing


main()
