"""The commands of the program mptune as functions. Their arguments are its options: `--split-size 4` is `split_size=4`.

Files are written into the current folder unless `output` says where. None: the option is not given. All raise mptune.Error.
"""
from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Union

from mptune import _files, _modules
from mptune._error import Error
from mptune._files import Inputs, Loss, Model, Path
from mptune._program import run as run_program
from mptune._program import write_text
from mptune.results import (
    CheckResult,
    CompareResult,
    DoctorResult,
    ImportResult,
    ModelsResult,
    PlanResult,
    ProfileResult,
    RunResult,
    SimulateResult,
    TuneResult,
)

Names = Union[str, Sequence[str]]
Numbers = Union[str, int, Sequence[Union[str, int]]]
Shape = Union[str, Sequence[int]]
Time = Union[str, float]
Link = Union[str, tuple[float, float]]
Memory = Union[str, int, Mapping[str, Union[str, int]]]

_NO_OPTIONS = ("model", "inputs", "command", "progress")  # parameters of functions below that are no options of the program


def profile(
    model: Model | None = None, *, inputs: Inputs | None = None, command: Sequence[str] | None = None,
    batch: int | None = None, input: Shape | None = None, measured: Path | None = None,
    devices: Names | None = None, link: Link | None = None, memory: Memory | None = None, ranks: int | None = None,
    reduce: str | None = None,
    stages: int | None = None, virtual: int | None = None, cuts: Numbers | None = None, cut_at: Names | None = None,
    microbatches: int | None = None, split_size: int | None = None, schedule: Path | None = None, recompute: Numbers | None = None, offload: Numbers | None = None,
    replicas: Numbers | None = None, memory_format: str | None = None, threads: int | None = None, plan: Path | None = None,
    strict: bool = False, allow_renamed: bool = False,
    optimizer: str | None = None, lr: float | None = None, loss: Loss | None = None, precision: str | None = None,
    seed: int | None = None, data: Path | None = None, steps: int | None = None,
    output: Path | None = None, force: bool = False,
    config: Path | None = None, no_config: bool = False, verbose: bool = False, progress: bool = True,
) -> ProfileResult:
    """Measures every layer and link of a model, then records pipelined training steps of one plan: where the time goes
    per device, why devices idle, and what would help.

    With `command` it records a CUDA program instead, a Python training script included; only `output` and `force` go with it. Its standard
    input is empty, and what it prints goes to sys.stderr.

    model: a built-in model, such as "resnet50" or "transformer:d=256,layers=8"; a file: .pt2 of mptune.export, .so of a plug-in, .pt of
        TorchScript; or an nn.Module with its `inputs`.
    inputs: of an nn.Module: example arguments of forward, two samples or more in dimension 0; with `loss` a function, the last is the
        target.
    command: a program and its arguments, such as ["python", "train.py"], in place of a model.
    batch: samples per step (global batch). Default: those of `inputs`, else the model's.
    input: shape of one sample: (3, 64, 64) or "3x64x64:float32". Default: the model's.
    measured: a trace file: take the costs of layers and links from it instead of measuring them.
    devices: "cpu:0", "cpu:0-3", "cuda:0", "cuda:0/1of2", "sleep:4"; several in a list or with commas; "cpu:0-15/auto": how these are
        divided is searched, too. Default: all GPUs, else one device per core, at most 8.
    link: throttles copies between CPU devices: "12GB/s,10us" or (12e9, 10e-6), bytes per second and seconds.
    memory: cap per device: bytes or "2GiB", or {"cpu:0": "1GiB"}. Default: what the device has.
    ranks: processes that work together, started here. Default: torchrun's, or one.
    reduce: "ordered": gradients of replicas on several ranks are added up bit for bit as in one process; "all-reduce": equal within
        rounding. Default: "ordered".
    stages: number of stages. Default: one per device, or `virtual` per device.
    virtual: stages per device. Default: 2 for interleaved, looped-bfs and the V-schedules, else 1.
    cuts: first layer of each later stage, by number or name: [4, 9]. Default: equal layer counts.
    cut_at: stages begin only with modules of such names: "model.layers.*"; a list, or with commas.
    microbatches: micro-batches of the whole batch. Default: 4 x stages, at most the batch; 1 for naive.
    split_size: samples in each micro-batch, instead of `microbatches`.
    schedule: naive, gpipe, 1f1b, eager-1f1b, interleaved, looped-bfs, zb1p, zb2p, zbv, v-half, v-min, dualpipe-v or list; or a CSV file
        of actions. Default: 1f1b.
    recompute: activations computed again in backward: "none", "all" or those of stages [0, 2]. Default: "none".
    offload: saved activations kept in host memory: "none", "all" or those of stages [0, 2]. Default: "none".
    replicas: devices per stage, taken in order: [2, 1]. Default: 1 each.
    memory_format: "contiguous" or "channels_last": order of dimensions in memory. Default: "contiguous".
    threads: intra-op threads of a CPU device. Default: one per core.
    plan: record this plan file instead of a plan from options.
    strict: refuse a plan made for another model or machine, instead of a warning.
    allow_renamed: take a plan that names modules which the model does not have, with a warning.
    optimizer: sgd, adam or adamw; "sgd:momentum=0.9:weight_decay=1e-4" says more. Default: sgd.
    lr: learning rate. Default: 0.01 for sgd, 0.001 for adam and adamw.
    loss: of an nn.Module: a function of its output and the target, the last of `inputs`. Else cross_entropy, mse, mean_square or model,
        such as "cross_entropy:ignore_index=0". Default: the model's.
    precision: "float32", or "bf16" or "fp16": layers and loss run under autocast. Default: "float32".
    seed: fixes weights and data. Default: 0.
    data: samples saved by torch.save or as safetensors: a dict with input and target; or a folder with input.npy and target.npy.
        Default: made from the seed.
    steps: recorded steps. Default: 10.
    output: trace file. Default: MODEL.sqlite in the current folder. The program of an nn.Module is kept beside it, in MODEL.profile.
    force: replace a file that mptune did not write.
    config: file of defaults to read instead of the mptune.toml that is found.
    no_config: read no mptune.toml.
    verbose: print a line for each part of the work as it begins.
    progress: print progress to sys.stderr; else warnings only.
    """
    given = locals()
    if command is None:
        return ProfileResult.from_json(_run_on_model("profile", given))
    if inputs is not None or callable(loss) or model is not None:
        raise Error("a model and a command are given", "profile", "give one of the two")
    return ProfileResult.from_json(_run("profile", given, [], ["--", *command]))


def plan(
    profile: Path, *,
    devices: Names | None = None, memory: Memory | None = None, link: Link | None = None, topology: Path | None = None,
    objective: str | None = None, time: Time | None = None,
    batch: int | None = None, encoder_layers: int | None = None,
    stages: int | None = None, virtual: int | None = None, cuts: Numbers | None = None, cut_at: Names | None = None,
    microbatches: int | None = None, split_size: int | None = None, schedule: Path | None = None, recompute: Numbers | None = None, replicas: Numbers | None = None,
    memory_format: str | None = None, threads: int | None = None, exact: bool = False, keep_numerics: bool = False,
    no_offload: bool = False,
    output: Path | None = None, force: bool = False,
    config: Path | None = None, no_config: bool = False, verbose: bool = False, progress: bool = True,
) -> PlanResult:
    """Searches plans by simulation, from a profile; needs no model and no device. Writes the best as a plan file.

    The options from `stages` to `threads` restrict the search.

    profile: trace file of mptune.profile, or a public profile: graph.txt of PipeDream and DAPPLE, the common prefix of Aceso's operator
        tables, JSON of dnn-partitioning.
    devices: some of the profile's devices, in a list or with commas; or a pool that was profiled, "cpu:0-15/auto": how it is divided is
        searched, too. Default: all.
    memory: cap per device: bytes or "2GiB", or {"cpu:0": "1GiB"}. Default: as in the profile.
    link: copies between devices: "12GB/s,10us" or (12e9, 10e-6), bytes per second and seconds. Default: as in the profile.
    topology: machines on paper in place of the profile's: a topology file.
    objective: what to minimise: "simulate" (the simulated step), "closed-form" or "aceso" (the step by a formula), "max-load" (the
        largest load of a device). Default: by file format.
    time: bound of the search: seconds or "5min". Default: a limited amount of work, which takes seconds.
    batch: samples per step (global batch). Default: the profile's.
    encoder_layers: encoder layers of the model, of which Aceso's operator tables list one. Default: by the published name, else 24.
    stages: number of stages.
    virtual: stages per device.
    cuts: first layer of each later stage, by number or name: [4, 9].
    cut_at: stages begin only with modules of such names: "model.layers.*"; a list, or with commas.
    microbatches: micro-batches of the whole batch.
    split_size: samples in each micro-batch.
    schedule: naive, gpipe, 1f1b, eager-1f1b, interleaved, looped-bfs, zb1p, zb2p, zbv, v-half, v-min, dualpipe-v or list.
    recompute: activations computed again in backward: "none", "all" or those of stages [0, 2].
    replicas: devices per stage, taken in order: [2, 1].
    memory_format: "contiguous" or "channels_last": order of dimensions in memory.
    threads: intra-op threads of a CPU device.
    exact: only plans whose gradients equal the un-pipelined model's in every bit.
    keep_numerics: only plans that train as one device does: where samples depend on each other (batch norm), one micro-batch.
    no_offload: no plan keeps saved activations in host memory.
    output: plan file. Default: MODEL.plan.json in the current folder.
    force: replace a file that mptune did not write.
    config: file of defaults to read instead of the mptune.toml that is found.
    no_config: read no mptune.toml.
    verbose: print a line for each part of the work as it begins.
    progress: print progress to sys.stderr; else warnings only.
    """
    given = locals()
    return PlanResult.from_json(_run("plan", given, [given.pop("profile")]))


def tune(
    model: Model, *, inputs: Inputs | None = None,
    batch: int | None = None, input: Shape | None = None,
    devices: Names | None = None, link: Link | None = None, memory: Memory | None = None, ranks: int | None = None,
    reduce: str | None = None,
    stages: int | None = None, virtual: int | None = None, cuts: Numbers | None = None, cut_at: Names | None = None,
    microbatches: int | None = None, split_size: int | None = None, schedule: Path | None = None, recompute: Numbers | None = None, replicas: Numbers | None = None,
    memory_format: str | None = None, threads: int | None = None, exact: bool = False, keep_numerics: bool = False,
    no_offload: bool = False,
    plan: Path | None = None, strict: bool = False, allow_renamed: bool = False,
    optimizer: str | None = None, lr: float | None = None, loss: Loss | None = None, precision: str | None = None,
    seed: int | None = None, data: Path | None = None,
    budget: Time | None = None, trials: int | None = None, target: float | None = None,
    resume: bool = False, output: Path | None = None, force: bool = False,
    config: Path | None = None, no_config: bool = False, verbose: bool = False, progress: bool = True,
) -> TuneResult:
    """Finds the fastest plan by profile, search and measured trials, and compares it with baselines. Writes a study folder
    with the plan file, every trial and a report.

    The options from `stages` to `threads` restrict the search. A study that exists is an error without `resume` or `force`.
    That of an nn.Module keeps the exported program, MODULE.pt2, and goes on with it; the budget counts its export, too.

    model: a built-in model, such as "resnet50" or "transformer:d=256,layers=8"; a file: .pt2 of mptune.export, .so of a plug-in, .pt of
        TorchScript; or an nn.Module with its `inputs`.
    inputs: of an nn.Module: example arguments of forward, two samples or more in dimension 0; with `loss` a function, the last is the
        target.
    batch: samples per step (global batch). Default: those of `inputs`, else the model's.
    input: shape of one sample: (3, 64, 64) or "3x64x64:float32". Default: the model's.
    devices: "cpu:0", "cpu:0-3", "cuda:0", "cuda:0/1of2", "sleep:4"; several in a list or with commas; "cpu:0-15/auto": how these are
        divided is searched, too. Default: all GPUs, else one device per core, at most 8.
    link: throttles copies between CPU devices: "12GB/s,10us" or (12e9, 10e-6), bytes per second and seconds.
    memory: cap per device: bytes or "2GiB", or {"cpu:0": "1GiB"}. Default: what the device has.
    ranks: processes that work together, started here. Default: torchrun's, or one.
    reduce: "ordered": gradients of replicas on several ranks are added up bit for bit as in one process; "all-reduce": equal within
        rounding. Default: "ordered".
    stages: number of stages.
    virtual: stages per device.
    cuts: first layer of each later stage, by number or name: [4, 9].
    cut_at: stages begin only with modules of such names: "model.layers.*"; a list, or with commas.
    microbatches: micro-batches of the whole batch.
    split_size: samples in each micro-batch.
    schedule: naive, gpipe, 1f1b, eager-1f1b, interleaved, looped-bfs, zb1p, zb2p, zbv, v-half, v-min, dualpipe-v or list.
    recompute: activations computed again in backward: "none", "all" or those of stages [0, 2].
    replicas: devices per stage, taken in order: [2, 1].
    memory_format: "contiguous" or "channels_last": order of dimensions in memory.
    threads: intra-op threads of a CPU device.
    exact: only plans whose gradients equal the un-pipelined model's in every bit.
    keep_numerics: only plans that train as one device does: where samples depend on each other (batch norm), one micro-batch.
    no_offload: no plan keeps saved activations in host memory.
    plan: your present plan file: measured as the baseline `current`.
    strict: refuse a plan made for another model or machine, instead of a warning.
    allow_renamed: take a plan that names modules which the model does not have, with a warning.
    optimizer: sgd, adam or adamw; "sgd:momentum=0.9:weight_decay=1e-4" says more. Default: sgd.
    lr: learning rate. Default: 0.01 for sgd, 0.001 for adam and adamw.
    loss: of an nn.Module: a function of its output and the target, the last of `inputs`. Else cross_entropy, mse, mean_square or model,
        such as "cross_entropy:ignore_index=0". Default: the model's.
    precision: "float32", or "bf16" or "fp16": layers and loss run under autocast. Default: "float32".
    seed: fixes weights and data. Default: 0.
    data: samples saved by torch.save or as safetensors: a dict with input and target; or a folder with input.npy and target.npy.
        Default: made from the seed.
    budget: time for everything: seconds or "5min". Default: 5 minutes.
    trials: largest number of trials. Default: as many as the budget allows.
    target: stop when no untried plan can be faster by more than this percentage. Default: 1.
    resume: go on with a study: `model` is then its folder, and nothing else is needed; or with a model, the study of `output`; a module
        must have the parameters of the one that the study was made of.
    output: study folder. Default: MODEL.study in the current folder.
    force: replace a file that mptune did not write.
    config: file of defaults to read instead of the mptune.toml that is found.
    no_config: read no mptune.toml.
    verbose: print a line for each part of the work as it begins.
    progress: print progress to sys.stderr; else warnings only.
    """
    given = locals()
    result = TuneResult.from_json(_run_on_model("tune", given))
    if progress:
        write_text(sys.stderr, f"{result!r}\n")
    return result


def run(
    model: Model, *, inputs: Inputs | None = None,
    batch: int | None = None, input: Shape | None = None,
    plan: Path | None = None, strict: bool = False, allow_renamed: bool = False, stages: int | None = None, virtual: int | None = None, cuts: Numbers | None = None, cut_at: Names | None = None,
    microbatches: int | None = None, split_size: int | None = None, schedule: Path | None = None, recompute: Numbers | None = None,
    offload: Numbers | None = None, replicas: Numbers | None = None, memory_format: str | None = None, threads: int | None = None,
    replan: bool = False,
    devices: Names | None = None, link: Link | None = None, memory: Memory | None = None, ranks: int | None = None,
    reduce: str | None = None,
    optimizer: str | None = None, lr: float | None = None, loss: Loss | None = None, precision: str | None = None,
    seed: int | None = None, data: Path | None = None, steps: int | None = None, epochs: int | None = None, drop_last: bool = False,
    validation: Path | None = None, lr_schedule: str | None = None, clip_norm: float | None = None, skip_non_finite: bool = False,
    load: Path | None = None,
    checkpoint: Path | None = None, checkpoint_step: int | None = None, every: int | None = None, csv: Path | None = None, save: Path | None = None,
    config: Path | None = None, no_config: bool = False, verbose: bool = False, progress: bool = True,
) -> RunResult:
    """Trains with a plan file, or with a plan from options.

    Where the environment variable MPTUNE_PLAN is set, it takes the place of `plan`.

    model: a built-in model, such as "resnet50" or "transformer:d=256,layers=8"; a file: .pt2 of mptune.export, .so of a plug-in, .pt of
        TorchScript; or an nn.Module with its `inputs`.
    inputs: of an nn.Module: example arguments of forward, two samples or more in dimension 0; with `loss` a function, the last is the
        target.
    batch: samples per step (global batch). Default: those of `inputs`, else the model's.
    input: shape of one sample: (3, 64, 64) or "3x64x64:float32". Default: the model's.
    plan: train with this plan file instead of a plan from options.
    strict: refuse a plan made for another model or machine, instead of a warning.
    allow_renamed: take a plan that names modules which the model does not have, with a warning.
    stages: number of stages. Default: one per device, or `virtual` per device.
    virtual: stages per device. Default: 2 for interleaved, looped-bfs and the V-schedules, else 1.
    cuts: first layer of each later stage, by number or name: [4, 9]. Default: equal layer counts.
    cut_at: stages begin only with modules of such names: "model.layers.*"; a list, or with commas.
    microbatches: micro-batches of the whole batch. Default: 4 x stages, at most the batch; 1 for naive.
    split_size: samples in each micro-batch, instead of `microbatches`.
    schedule: naive, gpipe, 1f1b, eager-1f1b, interleaved, looped-bfs, zb1p, zb2p, zbv, v-half, v-min, dualpipe-v or list; or a CSV file
        of actions. Default: 1f1b.
    recompute: activations computed again in backward: "none", "all" or those of stages [0, 2]. Default: "none".
    offload: saved activations kept in host memory: "none", "all" or those of stages [0, 2]. Default: "none".
    replicas: devices per stage, taken in order: [2, 1]. Default: 1 each.
    memory_format: "contiguous" or "channels_last": order of dimensions in memory. Default: "contiguous".
    threads: intra-op threads of a CPU device. Default: one per core.
    replan: where other ranks were started than the plan names, or devices names others, search a plan for the devices that they have.
    devices: "cpu:0", "cpu:0-3", "cuda:0", "cuda:0/1of2", "sleep:4"; several in a list or with commas. Default: all GPUs, else one
        device per core, at most 8.
    link: throttles copies between CPU devices: "12GB/s,10us" or (12e9, 10e-6), bytes per second and seconds.
    memory: cap per device: bytes or "2GiB", or {"cpu:0": "1GiB"}. Default: what the device has.
    ranks: processes that work together, started here. Default: torchrun's, or one.
    reduce: "ordered": gradients of replicas on several ranks are added up bit for bit as in one process; "all-reduce": equal within
        rounding. Default: "ordered".
    optimizer: sgd, adam or adamw; "sgd:momentum=0.9:weight_decay=1e-4" says more. Default: sgd.
    lr: learning rate. Default: 0.01 for sgd, 0.001 for adam and adamw.
    loss: of an nn.Module: a function of its output and the target, the last of `inputs`. Else cross_entropy, mse, mean_square or model,
        such as "cross_entropy:ignore_index=0". Default: the model's.
    precision: "float32", or "bf16" or "fp16": layers and loss run under autocast. Default: "float32".
    seed: fixes weights and data. Default: 0.
    data: samples saved by torch.save or as safetensors: a dict with input and target; or a folder with input.npy and target.npy.
        Default: made from the seed.
    steps: training steps. Default: until the 95 % interval of the step time is narrow, at most 50.
    epochs: passes over the samples of `data`, in place of `steps`; each in an order of its own.
    drop_last: leave out an epoch's last step where fewer samples than a batch are left.
    validation: samples to evaluate after each epoch: a file or folder like `data`, or a share of its samples, such as "10%".
    lr_schedule: "constant", "linear" or "cosine"; "cosine:warmup=100:end=0.1" goes up in 100 steps and down to a tenth of `lr`.
        Default: "constant".
    clip_norm: most that the norm of all gradients may be, over all devices. Default: any.
    skip_non_finite: leave out the optimizer's step where a gradient is not finite, instead of ending there.
    load: state dict to begin with, as saved by torch.save or safetensors. Default: weights from the seed.
    checkpoint: folder of checkpoints: training goes on from the latest, under any plan, and adds more.
    checkpoint_step: go on from the checkpoint of this step instead of the latest; the next one replaces those behind it.
    every: steps between two checkpoints. Default: 100; one more follows the last step.
    csv: CSV file to write, with a row per step.
    save: state dict to write, as torch.load reads it; NAME.safetensors in that format.
    config: file of defaults to read instead of the mptune.toml that is found.
    no_config: read no mptune.toml.
    verbose: print a line for each part of the work as it begins.
    progress: print progress to sys.stderr; else warnings only.
    """
    return RunResult.from_json(_run_on_model("run", locals()))


def check(
    model: Model, *, inputs: Inputs | None = None,
    batch: int | None = None, input: Shape | None = None,
    devices: Names | None = None,
    stages: int | None = None, virtual: int | None = None, cuts: Numbers | None = None, cut_at: Names | None = None,
    microbatches: int | None = None, split_size: int | None = None, schedule: Path | None = None, recompute: Numbers | None = None, offload: Numbers | None = None,
    replicas: Numbers | None = None, memory_format: str | None = None, threads: int | None = None, plan: Path | None = None,
    strict: bool = False, allow_renamed: bool = False,
    optimizer: str | None = None, lr: float | None = None, loss: Loss | None = None, precision: str | None = None,
    seed: int | None = None, data: Path | None = None,
    config: Path | None = None, no_config: bool = False, verbose: bool = False, progress: bool = True,
) -> CheckResult:
    """Compares the gradients of a model's pieces with the whole model's: agreement, or the first difference.

    model: a built-in model, such as "resnet50" or "transformer:d=256,layers=8"; a file: .pt2 of mptune.export, .so of a plug-in, .pt of
        TorchScript; or an nn.Module with its `inputs`.
    inputs: of an nn.Module: example arguments of forward, two samples or more in dimension 0; with `loss` a function, the last is the
        target.
    batch: samples per step (global batch). Default: those of `inputs`, else the model's.
    input: shape of one sample: (3, 64, 64) or "3x64x64:float32". Default: the model's.
    devices: devices of a plan given by options; the check itself computes on this machine's cores.
    stages: number of stages. Default: one per device, or `virtual` per device.
    virtual: stages per device. Default: 2 for interleaved, looped-bfs and the V-schedules, else 1.
    cuts: first layer of each later stage, by number or name: [4, 9]. Default: equal layer counts.
    cut_at: stages begin only with modules of such names: "model.layers.*"; a list, or with commas.
    microbatches: micro-batches of the whole batch. Default: 4 x stages, at most the batch; 1 for naive.
    split_size: samples in each micro-batch, instead of `microbatches`.
    schedule: naive, gpipe, 1f1b, eager-1f1b, interleaved, looped-bfs, zb1p, zb2p, zbv, v-half, v-min, dualpipe-v or list; or a CSV file
        of actions. Default: 1f1b.
    recompute: activations computed again in backward: "none", "all" or those of stages [0, 2]. Default: "none".
    offload: saved activations kept in host memory: "none", "all" or those of stages [0, 2]. Default: "none".
    replicas: devices per stage, taken in order: [2, 1]. Default: 1 each.
    memory_format: "contiguous" or "channels_last": order of dimensions in memory. Default: "contiguous".
    threads: intra-op threads of a CPU device. Default: one per core.
    plan: check this plan file's cuts and micro-batches as well.
    strict: refuse a plan made for another model or machine, instead of a warning.
    allow_renamed: take a plan that names modules which the model does not have, with a warning.
    optimizer: sgd, adam or adamw; "sgd:momentum=0.9:weight_decay=1e-4" says more. Default: sgd.
    lr: learning rate. Default: 0.01 for sgd, 0.001 for adam and adamw.
    loss: of an nn.Module: a function of its output and the target, the last of `inputs`. Else cross_entropy, mse, mean_square or model,
        such as "cross_entropy:ignore_index=0". Default: the model's.
    precision: "float32", or "bf16" or "fp16": layers and loss run under autocast. Default: "float32".
    seed: fixes weights and data. Default: 0.
    data: samples saved by torch.save or as safetensors: a dict with input and target; or a folder with input.npy and target.npy.
        Default: made from the seed.
    config: file of defaults to read instead of the mptune.toml that is found.
    no_config: read no mptune.toml.
    verbose: print a line for each part of the work as it begins.
    progress: print progress to sys.stderr; else warnings only.
    """
    return CheckResult.from_json(_run_on_model("check", locals()))


def simulate(
    plan: Path, profile: Path, *,
    allow_renamed: bool = False,
    memory: Memory | None = None, topology: Path | None = None,
    output: Path | None = None, force: bool = False,
    config: Path | None = None, no_config: bool = False, verbose: bool = False, progress: bool = True,
) -> SimulateResult:
    """Predicts one plan: step time, memory, timeline. A plan that does not fit the memory is a result, too: see its `fit`.

    plan: plan file.
    profile: trace file made by mptune.profile.
    allow_renamed: take a plan that names modules which the profile does not have, with a warning.
    memory: cap per device: bytes or "2GiB", or {"cpu:0": "1GiB"}. Default: as in the profile.
    topology: machines on paper in place of the profile's: a topology file.
    output: also write the predicted trace, to this file.
    force: replace a file that mptune did not write.
    config: file of defaults to read instead of the mptune.toml that is found.
    no_config: read no mptune.toml.
    verbose: print a line for each part of the work as it begins.
    progress: print progress to sys.stderr; else warnings only.
    """
    return SimulateResult.from_json(_run("simulate", locals(), []))


def compare(
    a: Path | Sequence[Path], b: Path | Sequence[Path], *,
    threshold: float | None = None, fail_on: str | None = None,
    markdown: bool = False,
    config: Path | None = None, no_config: bool = False, verbose: bool = False, progress: bool = True,
) -> CompareResult:
    """Says what changed from one trace, plan file or study to another of the same kind, and whether it is slower.

    a, b: a trace of any format that mptune.import_trace reads, a plan file, or a study's folder. Several recordings of a side in a
        list: the verdict then holds whatever drifts between them.
    threshold: `b` may be slower by so many percent. Default: 2.
    fail_on: what gives the program an exit code that is not 0, "inconclusive" or "slower"; the object returned is the same.
    markdown: the result has `markdown`, a comment for a pull request.
    config: file of defaults to read instead of the mptune.toml that is found.
    no_config: read no mptune.toml.
    verbose: print a line for each part of the work as it begins.
    progress: print progress to sys.stderr; else warnings only.
    """
    given = locals()
    first, second = _as_list(given.pop("a")), _as_list(given.pop("b"))
    if len(first) == len(second) == 1:
        return CompareResult.from_json(_run("compare", given, [*first, *second]))
    return CompareResult.from_json(_run("compare", given, first, [f"--with={os.fspath(one)}" for one in second]))


def import_trace(
    *files: Path, output: Path | None = None, force: bool = False,
    config: Path | None = None, no_config: bool = False, verbose: bool = False, progress: bool = True,
) -> ImportResult:
    """Says why devices idle in a trace that another program recorded.

    files: SQLite export of Nsight Systems, Kineto JSON of PyTorch's profiler, pipeline timeline, or start and end of its actions (a
        folder or files of Primus's --dump_pp_data, or a table), .gz or not; several: one of each rank of a job, or of each device of an
        export of mptune.
    output: write what was read as one trace file, which report, compare and export read. Default: nothing is written.
    force: replace a file that mptune did not write.
    config: file of defaults to read instead of the mptune.toml that is found.
    no_config: read no mptune.toml.
    verbose: print a line for each part of the work as it begins.
    progress: print progress to sys.stderr; else warnings only.
    """
    given = locals()
    return ImportResult.from_json(_run("import", given, given.pop("files")))


def models(
    model: Model | None = None, *, inputs: Inputs | None = None,
    loss: Loss | None = None,
    input: Shape | None = None,
    config: Path | None = None, no_config: bool = False, verbose: bool = False, progress: bool = True,
) -> ModelsResult:
    """Lists the built-in models, or the layers of one model: names and numbers for `cuts`.

    model: a built-in model, such as "resnet50" or "transformer:d=256,layers=8"; a file: .pt2 of mptune.export, .so of a plug-in, .pt of
        TorchScript; or an nn.Module with its `inputs`. None: all built-in ones.
    inputs: of an nn.Module: example arguments of forward, two samples or more in dimension 0; with `loss` a function, the last is the
        target.
    loss: of an nn.Module: a function of its output and the target, the last of `inputs`.
    input: shape of one sample: (3, 64, 64) or "3x64x64:float32". Default: the model's.
    config: file of defaults to read instead of the mptune.toml that is found.
    no_config: read no mptune.toml.
    verbose: print a line for each part of the work as it begins.
    progress: print progress to sys.stderr; else warnings only.
    """
    return ModelsResult.from_json(_run_on_model("models", locals()))


def doctor(
    *, devices: Names | None = None, link: Link | None = None, memory: Memory | None = None,
    config: Path | None = None, no_config: bool = False, verbose: bool = False, progress: bool = True,
) -> DoctorResult:
    """Says what this machine has and what is missing, with remedies.

    devices: "cpu:0", "cpu:0-3", "cuda:0", "cuda:0/1of2", "sleep:4"; several in a list or with commas. Default: all GPUs, else one
        device per core, at most 8.
    link: throttles copies between CPU devices: "12GB/s,10us" or (12e9, 10e-6), bytes per second and seconds.
    memory: cap per device: bytes or "2GiB", or {"cpu:0": "1GiB"}. Default: what the device has.
    config: file of defaults to read instead of the mptune.toml that is found.
    no_config: read no mptune.toml.
    verbose: print a line for each part of the work as it begins.
    progress: print progress to sys.stderr; else warnings only.
    """
    return DoctorResult.from_json(_run("doctor", locals(), []))


def _run_on_model(command: str, given: Mapping[str, Any]) -> dict[str, Any]:
    begun = time.monotonic()
    with _modules.for_program(command, given) as taken:
        exported = _files.is_module(given["model"])
        variables = {"MPTUNE_BEGUN": f"{begun:.6f}"} if exported and command == "tune" else {}  # the export is in the budget
        return _run(command, taken, [taken["model"]], variables=variables)


def _run(
    command: str, given: Mapping[str, Any], arguments: Sequence[Path | None], rest: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Runs a command with the options among `given`, all parameters of a function, and the arguments that are not None."""
    options = [word for name, value in given.items() if name not in _NO_OPTIONS for word in _option(name, value)]
    return run_program(command, [*options, *_arguments(arguments), *rest], progress=given["progress"], variables=variables)


def _option(name: str, value: Any) -> list[str]:
    option = "--" + name.replace("_", "-")
    if value is None or value is False:
        return []
    return [option] if value is True else [f"{option}={_text(name, value)}"]


def _text(name: str, value: Any) -> str:
    """A value as the program reads it: bare numbers are seconds and bytes there, too."""
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return ",".join(f"{key}={part}" for key, part in value.items())
    if name == "link":
        return f"{value[0]}B/s,{value[1]}s"
    if isinstance(value, Sequence):
        return ("x" if name == "input" else ",").join(map(str, value))
    return str(value)


def _arguments(values: Sequence[Path | None]) -> list[str]:
    """None is left out; a file whose name looks like an option is named by its folder."""
    texts = [os.fspath(value) for value in values if value is not None]
    return [os.path.join(".", text) if text.startswith("-") else text for text in texts]


def _as_list(side: Path | Sequence[Path]) -> list[Path]:
    return [side] if isinstance(side, (str, os.PathLike)) else list(side)
