"""Reads the plan files of mptune (*.plan.json, schema mptune.plan/1). One file, standard library only, Python 3.9 or newer.

    import mptune_plan
    plan = mptune_plan.load_plan("resnet50.plan.json")
    plan.split_spec(SplitPoint.BEGINNING)    # for torch.distributed.pipelining: {"layer3.0": SplitPoint.BEGINNING}
    plan.n_microbatches, plan.balance()      # 8, [9, 9]

A file that is cut short, of another kind or version, or whose redundant parts disagree is refused with a PlanError of one line.
"""
from __future__ import annotations

import functools
import json
import os
import re
import stat
import tempfile
import warnings
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn, Optional, Sequence, Union

__all__ = ["Action", "Exported", "Options", "Plan", "PlanError", "Stage", "TorchPipelining", "load_plan", "parse_plan"]

_SCHEMA = "mptune.plan/1"
_FAMILY = "mptune.plan/"
_LARGEST_FILE = 64 << 20
_MOST_MICROBATCHES = 1 << 20
_LARGEST_BATCH = 1 << 30
_MEMORY_FORMATS = ("contiguous", "channels_last")
_PRECISIONS = ("float32", "bf16", "fp16")
_MOST_CORES = 4096
_TORCH_SCHEDULES = {"gpipe": "GPipe", "1f1b": "1F1B", "interleaved": "Interleaved1F1B", "looped-bfs": "LoopedBFS", "zbv": "ZBVZeroBubble",
                    "dualpipe-v": "DualPipeV"}
_ORDERED_OTHERWISE = ("looped-bfs", "zbv")  # by torch: backwards of the last micro-batch first; by costs that are all alike
_V_SCHEDULES = ("zbv", "dualpipe-v", "v-half", "v-min")
_VERDICTS = ("FAST", "SLOW", "SAME", "AMBIGUOUS", "UNKNOWN")
_LEAST_FOR_INTERVAL = 6  # measurements from which the median has a 95 % interval
_CORRECT = "correct it, or use a file that mptune wrote"


class PlanError(ValueError):
    """An error with `what` is wrong, `where`, and the `remedy`, one clause each. str() is "what: where; remedy"."""

    def __init__(self, what: str, where: str, remedy: str) -> None:
        super().__init__(f"{what}: {where}; {remedy}")
        self.what, self.where, self.remedy = what, where, remedy


class Action(NamedTuple):
    """One entry of a device's row; str() is "0F3": stage 0, forward, micro-batch 3. "0W2-5": weight gradients of 2 to 5 fused."""

    stage: int
    kind: str  # "F" forward, "B" backward, "I" gradients of inputs, "W" of weights
    microbatch: int
    further: int = 0  # micro-batches after it, whose weight gradients are fused with its own

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.microbatch}" + (f"-{self.microbatch + self.further}" if self.further else "")

    def single(self) -> "list[Action]":
        """The same, one action per micro-batch."""
        return [Action(self.stage, self.kind, i) for i in range(self.microbatch, self.microbatch + self.further + 1)]


class Exported(NamedTuple):
    """Settings for another framework. `lossy` lists, in words, the parts of the plan that they can't express."""

    settings: Any
    lossy: list[str]


@dataclass(frozen=True)
class Stage:
    """Layers [first_layer, last_layer) of the model. Several devices are replicas: micro-batch i goes to device i mod their number."""

    index: int
    devices: list[str]
    first_layer: int
    last_layer: int
    modules: list[str]  # module paths in the user's model, in order; empty where the plan does not name them
    recompute: Union[str, dict[str, list[int]]]  # "none", "all" or {"layers": [...], "microbatches": [...]} (empty: all of these)
    offload: bool = False  # saved activations lie in host memory between forward and backward


@dataclass(frozen=True)
class Options:
    """How the layers compute. `memory_format` is that of activations and 4-d weights: model.to(memory_format=torch.channels_last)."""

    memory_format: str = "contiguous"  # or "channels_last"
    replace_slow_kernels: bool = False  # convolutions that LibTorch would compute by a slow kernel take another one
    idle_devices_help: bool = False  # CPU devices with nothing else to do compute weight gradients of any stage
    fused_weights: bool = False  # follows from the actions: some compute weight gradients of several micro-batches at once
    threads: list[int] = field(default_factory=list)  # intra-op threads by device, torch.set_num_threads(); empty: one per core
    precision: str = "float32"  # or "bf16", "fp16": forward and loss run under torch.autocast, and the loss is scaled for fp16

    @property
    def exact(self) -> bool:
        """True if these change no bit of a gradient. Otherwise sums are rounded otherwise (docs/commands.md)."""
        return self.memory_format == "contiguous" and not (self.replace_slow_kernels or self.fused_weights or self.threads)

    def left_out(self) -> list[str]:
        """What no other framework's settings hold, in words."""
        lossy = []
        if self.memory_format != "contiguous":
            lossy.append(f"memory_format {self.memory_format}: call model.to(memory_format=torch.{self.memory_format})")
        if self.precision != "float32":
            dtype = {"bf16": "torch.bfloat16", "fp16": "torch.float16 and torch.amp.GradScaler"}[self.precision]
            lossy.append(f"precision {self.precision}: run forward and loss under torch.autocast with {dtype}")
        if self.threads:
            lossy.append(f"threads of the devices: call torch.set_num_threads() with {', '.join(map(str, self.threads))}")
        if self.replace_slow_kernels:
            lossy.append("convolutions of few samples that take another kernel than PyTorch's slow one")
        if self.idle_devices_help:
            lossy.append("idle devices that compute weight gradients of other stages")
        if self.fused_weights:
            lossy.append("fused weight gradients of several micro-batches, which become single ones")
        return lossy


@dataclass(frozen=True)
class TorchPipelining:
    """A rank's part of a pipeline of torch.distributed.pipelining."""

    stages: list[Any]  # PipelineStage; their modules' parameters are what this rank's optimizer trains: stage.submod
    schedule: Any  # .step() trains a batch
    lossy: list[str]  # what of the plan is not in it


@dataclass(frozen=True)
class Plan:
    """What load_plan returns. Sizes in samples; `actions` holds a row per device, in the order of `devices`."""

    where: str
    devices: list[str]
    microbatch_sizes: list[int]
    stages: list[Stage]
    schedule: str
    actions: list[list[Action]]
    fingerprint: dict[str, Any] = field(default_factory=dict)
    predicted: Optional[dict[str, Any]] = None
    measured: Optional[dict[str, Any]] = None
    alternatives: list[tuple[str, "Plan"]] = field(default_factory=list)
    options: Options = field(default_factory=Options)

    @property
    def threads(self) -> list[int]:
        """Intra-op threads by device, as torch.set_num_threads() takes them: the plan's, or one per core."""
        return self.options.threads or [_default_threads(device) for device in self.devices]

    @property
    def global_batch_size(self) -> int:
        return sum(self.microbatch_sizes)

    @property
    def micro_batch_size(self) -> int:
        """The largest micro-batch."""
        return max(self.microbatch_sizes)

    @property
    def n_microbatches(self) -> int:
        """Number of micro-batches of the whole batch, over all replicas."""
        return len(self.microbatch_sizes)

    @property
    def data_parallel_size(self) -> int:
        """Replicas of every stage; 1 if stages have different numbers of replicas."""
        counts = {len(stage.devices) for stage in self.stages}
        return counts.pop() if len(counts) == 1 else 1

    def split_spec(self, split_point: Any = "BEGINNING") -> dict[str, Any]:
        """{first module: split_point} of every stage but the first. For torch.distributed.pipelining pass SplitPoint.BEGINNING."""
        self._need_modules("a split")
        for before, stage in zip(self.stages, self.stages[1:]):
            if stage.modules[0] in before.modules:
                raise PlanError(f"stage {stage.index} begins inside '{stage.modules[0]}', where torch can't split", self.where,
                                _whole_modules(stage.modules[0]))
        return {stage.modules[0]: split_point for stage in self.stages[1:]}

    def balance(self, model: Any = None) -> list[int]:
        """Layers of each stage. With `model`, the torch.nn.Sequential that the plan was made for: how many of its children each stage has, the
        form of torchgpipe. Raises PlanError where a stage begins inside a child."""
        if model is None:
            return [stage.last_layer - stage.first_layer for stage in self.stages]
        self._need_modules("torchgpipe")
        children = [name for name, _ in model.named_children()]
        for name in (name for stage in self.stages for name in stage.modules):
            if name.split(".")[0] not in children:
                raise PlanError(f"the model has no module '{name}'", self.where, "give the torch.nn.Sequential that the plan was made for")
        counts, at = [0] * len(self.stages), 0
        for child in children:
            stages = [i for i, stage in enumerate(self.stages) if any(f"{name}.".startswith(f"{child}.") for name in stage.modules)]
            if len(stages) > 1:
                raise PlanError(f"stage {stages[1]} begins inside '{child}'", self.where, "plan with --cut-at '*', so that stages begin with children of the Sequential")
            at = stages[0] if stages else at  # one without a layer of its own, such as Flatten, stays with the one before
            counts[at] += 1
        return counts

    def schedule_csv(self) -> str:
        """The actions as torch.distributed.pipelining reads them: a row per device, a cell per action. Fused weight gradients, which it can't
        read, become single ones, with a warning."""
        if self.options.fused_weights:
            warnings.warn("torch has no fused weight gradients: every micro-batch gets an action of its own", stacklevel=2)
        return "".join(",".join(str(one) for action in row for one in action.single()) + "\n" for row in self.actions)

    def to_torch_pipelining(
        self, model: Any, example_inputs: Sequence[Any], loss: Any, device: Any = None, group: Any = None
    ) -> TorchPipelining:
        """This rank's stages of torch.distributed.pipelining, and the plan's own schedule over them. All ranks of the process group `group`
        call it, as many as the plan has devices; rank r is device r of plan.devices.

            dist.init_process_group("gloo")
            part = plan.to_torch_pipelining(model, (tokens[:plan.micro_batch_size],), loss)
            part.schedule.step(tokens, target=target, losses=losses)    # tokens: where the first stage is; target, losses: where the last is

        example_inputs: positional arguments of forward, of one micro-batch. loss: of the output and the target, a mean over samples.
        device: torch's, where this rank computes; the CPU without. Needs torch 2.6 or newer. Raises PlanError for what it can't express."""
        self._need_modules("torch.distributed.pipelining")
        self._need_equal_sizes("torch.distributed.pipelining")
        if any(len(stage.devices) > 1 for stage in self.stages):
            raise PlanError("replicas have no form in a schedule of torch.distributed.pipelining", self.where, "plan with --replicas 1")
        import torch
        from torch import distributed
        from torch.distributed.pipelining import SplitPoint, pipeline
        from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

        ranks, rank = distributed.get_world_size(group), distributed.get_rank(group)
        if ranks != len(self.devices):
            raise PlanError(f"the plan has {len(self.devices)} devices, the process group {ranks} ranks", self.where,
                            "start a rank for each device")
        lossy = self.options.left_out()
        if self._recomputes_all(lossy):
            lossy.append("recomputation: wrap modules in torch.utils.checkpoint before the split")
        pipe = pipeline(model, mb_args=tuple(example_inputs), split_spec=self.split_spec(SplitPoint.BEGINNING))
        own = sorted({action.stage for action in self.actions[rank]})
        stages = [pipe.build_stage(stage, device or torch.device("cpu"), group) for stage in own]
        for stage in stages:  # torch 2.11 would send the first messages of neighbours on one rank, as in a V, to itself, which Gloo refuses
            stage._get_init_p2p_neighbors_ops = functools.partial(_first_messages, stage._get_init_p2p_neighbors_ops, rank)
        schedule = _PipelineScheduleRuntime(stages, self.n_microbatches, loss_fn=loss)
        with tempfile.TemporaryDirectory() as folder:
            rows = os.path.join(folder, "schedule.csv")
            with open(rows, "w", encoding="ascii") as file:
                file.write(self.schedule_csv())
            schedule._load_csv(rows)
        return TorchPipelining(stages, schedule, lossy)

    def to_torchtitan(self) -> Exported:
        """TOML for torchtitan (module_fqns_per_model_part, pipeline_parallel_* of its job_config). Raises PlanError for what torchtitan can't
        express. For a schedule that torch has no name for, or does not make for so many micro-batches, `lossy` says so: write schedule_csv()
        to pipeline.csv."""
        self._need_modules("torchtitan")
        self._need_equal_sizes("torchtitan")
        in_a_v = self.schedule in _V_SCHEDULES
        ranks = self._ranks("torchtitan", in_a_v)
        lossy = ["which device is which rank: start them in the order of plan.devices", *self.options.left_out()]
        name, refusal = self._torch_schedule(ranks)
        lines = ["[training]", f"global_batch_size = {self.global_batch_size}",
                 f"local_batch_size = {self.global_batch_size // self.data_parallel_size}", "", "[parallelism]",
                 f"pipeline_parallel_degree = {ranks}", f"data_parallel_replicate_degree = {self.data_parallel_size}",
                 "data_parallel_shard_degree = 1", f"pipeline_parallel_microbatch_size = {self.micro_batch_size}"]
        if not refusal:
            lines.append(f'pipeline_parallel_schedule = "{name}"')
            if self.schedule in _ORDERED_OTHERWISE:
                lossy.append(f"order of the actions: torch's {name} has its own")
        elif self.data_parallel_size == 1:
            # torchtitan takes the order from the file, and from the name only how stages are placed on ranks.
            lines += [f'pipeline_parallel_schedule = "{"ZBVZeroBubble" if in_a_v else "PipelineScheduleMulti"}"',
                      'pipeline_parallel_schedule_csv = "pipeline.csv"']
            lossy.append(f"the order of the actions: {refusal}; write schedule_csv() to pipeline.csv")
        else:
            raise PlanError(f"{refusal}, and rows of actions with replicas have no form in torchtitan", self.where,
                            "plan with --schedule gpipe, or without --replicas" if name else "plan with --schedule 1f1b, or without --replicas")
        lines += [f"module_fqns_per_model_part = {json.dumps(self._parts('torchtitan', lossy))}", "", "[activation_checkpoint]",
                  f'mode = "{"full" if self._recomputes_all(lossy) else "none"}"']
        return Exported("\n".join(lines) + "\n", lossy)

    def _torch_schedule(self, ranks: int) -> tuple[str, str]:
        """The name of the schedule in torch, and why torch 2.11 refuses to make it; "": it does not. Its rules are those that the classes of
        torch/distributed/pipelining/schedules.py check when they are made."""
        name = _TORCH_SCHEDULES.get(self.schedule, "")
        count, stages = self.n_microbatches // self.data_parallel_size, len(self.stages)  # of a pipeline
        if not name:
            return name, f"torch has no schedule {self.schedule}"
        if name in ("1F1B", "DualPipeV") and count < stages:
            return name, f"torch's {name} needs as many micro-batches as stages, {stages}, not {count}"
        if name == "Interleaved1F1B" and count % (rounds := max(1, count // ranks)):
            return name, f"torch's {name} needs a multiple of {rounds} micro-batches on {ranks} ranks, not {count}"
        return name, ""

    def _parts(self, consumer: str, lossy: list[str]) -> list[list[str]]:
        """The modules of each stage, each once. One whose parts lie on several stages is left out, as these name it. Raises PlanError where
        two stages have layers of a module that has no parts."""
        homes: dict[str, set[int]] = {}  # stages of a module and of those in it
        parents = set()
        for stage in self.stages:
            for name in stage.modules:
                homes.setdefault(name, set()).add(stage.index)
                while name := name.rpartition(".")[0]:
                    parents.add(name)
                    homes.setdefault(name, set()).add(stage.index)
        cut = {name for name, stages in homes.items() if len(stages) > 1}
        for name in cut - parents:
            first, second = sorted(homes[name])[:2]
            raise PlanError(f"stages {first} and {second} both have layers of module '{name}', which has no form in {consumer}", self.where,
                            _whole_modules(name))
        if named := sorted(cut & {name for stage in self.stages for name in stage.modules}):
            lossy.append(f"modules that several stages have parts of, {', '.join(named)}: their parts are named alone")
        return [[name for name in dict.fromkeys(stage.modules) if name not in cut] for stage in self.stages]

    def to_megatron_args(self) -> Exported:
        """Arguments for Megatron-LM, from a plan for a transformer. Modules with numbers ("blocks.0") are its layers; modules before them are
        the embedding, modules after them the loss. Raises PlanError for what Megatron-LM can't express."""
        self._need_modules("Megatron-LM")
        self._need_equal_sizes("Megatron-LM")
        ranks = self._ranks("Megatron-LM", in_a_v=False)
        lossy = ["which device is which rank: start them in the order of plan.devices", *self.options.left_out()]
        usual = "1f1b" if ranks == len(self.stages) else "interleaved"
        if self.schedule != usual and ranks > 1:
            lossy.append(f"schedule {self.schedule}: Megatron-LM runs {usual}")
        arguments = ["--pipeline-model-parallel-size", str(ranks), "--pipeline-model-parallel-layout", self._megatron_layout(),
                     "--micro-batch-size", str(self.micro_batch_size), "--global-batch-size", str(self.global_batch_size)]
        if self._recomputes_all(lossy):
            arguments += ["--recompute-granularity", "full", "--recompute-method", "uniform", "--recompute-num-layers", "1"]
        return Exported(arguments, lossy)

    def to_deepspeed(self) -> Exported:
        """{"config": DeepSpeed's configuration, "pipeline_module": arguments of deepspeed.pipe.PipelineModule}, for a model whose layers are
        those of the plan. Raises PlanError for what DeepSpeed can't express."""
        self._need_equal_sizes("DeepSpeed")
        ranks = self._ranks("DeepSpeed", in_a_v=False)
        lossy = ["which device is which rank: start them in the order of plan.devices", *self.options.left_out()]
        if ranks != len(self.stages):
            raise PlanError("several stages per device have no form in DeepSpeed", self.where, "plan with one stage per device (--virtual 1)")
        if self.schedule != "1f1b" and ranks > 1:
            lossy.append(f"schedule {self.schedule}: DeepSpeed runs 1f1b")
        uniform = len(set(self.balance())) == 1
        if not uniform:
            lossy.append(f"layers of the stages, {self.balance()}: DeepSpeed divides them by the number of parameters")
        config: dict[str, Any] = {
            "train_batch_size": self.global_batch_size, "train_micro_batch_size_per_gpu": self.micro_batch_size,
            "gradient_accumulation_steps": self.n_microbatches // self.data_parallel_size,
        }
        if self.options.precision != "float32":
            config[self.options.precision] = {"enabled": True}
        recomputes = self._recomputes_all(lossy)
        return Exported({"config": config, "pipeline_module": {
            "num_stages": ranks, "partition_method": "uniform" if uniform else "parameters",
            "activation_checkpoint_interval": 1 if recomputes else 0}}, lossy)

    def to_accelerate(self) -> Exported:
        """{module: device}, the device_map of accelerate.dispatch_model(), which runs one device at a time, all in one process. Devices that
        exist on paper alone are taken for GPUs of their number, as `lossy` says. Raises PlanError for devices of several hosts, and for a
        module that lies on two of them."""
        self._need_modules("accelerate")
        ranks = {name.partition("@")[0] for name in self.devices if "@" in name}
        if len(ranks) > 1:
            raise PlanError(f"devices of {len(ranks)} hosts have no form in accelerate, which is one process", self.where,
                            "plan for the devices of one host")
        lossy = [f"schedule {self.schedule} and {self.n_microbatches} micro-batches: one device computes at a time", *self.options.left_out()]
        if any(len(stage.devices) > 1 for stage in self.stages):
            lossy.append("replicas: the first one of each stage is taken")
        if self._recomputes_all(lossy):
            lossy.append("recomputation: wrap modules in torch.utils.checkpoint")
        used = list(dict.fromkeys(stage.devices[0] for stage in self.stages))
        if paper := [name for name in used if _exists_on_paper(name)]:
            lossy.append("devices that exist on paper: " + ", ".join(f"{name} is {_torch_device(name)}" for name in paper))
        if sleeping := [name for name in used if name.startswith("sleep:")]:
            lossy.append(f"sleeping devices: modules of {', '.join(sleeping)} are on the CPU")
        parts = self._parts("accelerate", lossy)
        return Exported({name: _torch_device(stage.devices[0]) for stage, part in zip(self.stages, parts) for name in part}, lossy)

    def _repr_html_(self) -> Optional[str]:
        """In a notebook: the report of the plan, where the package mptune is installed."""
        try:
            import mptune
        except ImportError:
            return None
        shown: str = mptune.report(self.where)._repr_html_()
        return shown

    def _need_modules(self, what: str) -> None:
        if not all(stage.modules for stage in self.stages):
            raise PlanError(f"the plan names no modules, which {what} needs", self.where, "use a plan that mptune wrote for a model")

    def _need_equal_sizes(self, consumer: str) -> None:
        counts = {len(stage.devices) for stage in self.stages}
        if len(counts) > 1:
            raise PlanError(f"stages of unequal replicas have no form in {consumer}", self.where, "plan with equal --replicas")
        if len(set(self.microbatch_sizes)) > 1 or self.n_microbatches % counts.pop():
            raise PlanError(f"micro-batches of different sizes have no form in {consumer}", self.where,
                            "plan with a --split-size that divides the batch of a replica")

    def _ranks(self, consumer: str, in_a_v: bool) -> int:
        """Number of pipeline ranks R. Stage s must be on rank s mod R; in a V, on rank s for s < R, then on rank 2 R - 1 - s."""
        places: list[list[str]] = []
        for stage in self.stages:
            if stage.devices not in places:
                places.append(stage.devices)
        ranks = len(places)
        loop = [s % ranks for s in range(len(self.stages))]
        v = [s if s < ranks else 2 * ranks - 1 - s for s in range(len(self.stages))]
        if [places.index(stage.devices) for stage in self.stages] != (v if in_a_v else loop):
            raise PlanError(f"the stages' devices have no form in {consumer}", self.where, "plan without --replicas, or with --virtual")
        return ranks

    def _recomputes_all(self, lossy: list[str]) -> bool:
        modes = [stage.recompute for stage in self.stages]
        if any(stage.offload for stage in self.stages):
            lossy.append("saved activations in host memory, which stay on the device: torch.autograd.graph.save_on_cpu() may help")
        if any(mode != modes[0] or isinstance(mode, dict) for mode in modes):
            lossy.append("recomputation of single stages or layers: set to all, which takes the least memory")
            return True
        return modes[0] == "all"

    def _megatron_layout(self) -> str:
        marks = ["".join("t" if re.search(r"\.\d+$", name) else "o" for name in stage.modules) for stage in self.stages]
        prefixes = {name.rpartition(".")[0] for stage in self.stages for name in stage.modules if re.search(r"\.\d+$", name)}
        inner = [mark.count("o") for mark in marks[1:-1]]
        ends = re.fullmatch("o*t*", marks[0]) and re.fullmatch("t*o*", marks[-1]) if len(marks) > 1 else re.fullmatch("o*t+o*", marks[0])
        if len(prefixes) != 1 or any(inner) or not ends:
            raise PlanError("the modules are not one row of transformer layers between embedding and loss", self.where,
                            "export plans of transformers to Megatron-LM")
        parts = ["t" * mark.count("t") for mark in marks]
        parts[0] = "E" + parts[0]
        parts[-1] += "L"
        return "|".join(re.sub("tt+", lambda run: f"t*{len(run.group())}", part) for part in parts)


def _exists_on_paper(device: str) -> bool:
    """True for devices of a public profile, and for those of a topology that are as fast as such or as sleeping ones."""
    rank, _, name = device.rpartition("@")
    return not name.startswith(("cuda:", "cpu:", "sleep:")) or (rank != "" and name.startswith("sleep:"))


def _torch_device(device: str) -> str:
    """Its name in torch. A part of a GPU ("cuda:0/1of2") lies on that GPU; a device on paper becomes the GPU of its number."""
    name = device.rpartition("@")[2].partition("/")[0]
    if _exists_on_paper(device):
        return f"cuda:{name.rpartition(':')[2]}"
    return name if name.startswith("cuda:") else "cpu"


def _first_messages(all_of_stage: Any, rank: int) -> list[Any]:
    return [message for message in all_of_stage() if message.group_peer != rank]


def load_plan(path: Union[str, "os.PathLike[str]"]) -> Plan:
    """Reads a plan file of at most 64 MiB. If the environment variable MPTUNE_PLAN is set and not empty, it replaces `path`, as in C++.
    Raises PlanError."""
    where = os.environ.get("MPTUNE_PLAN") or os.fspath(path)
    try:
        status = os.stat(where)
        if not stat.S_ISREG(status.st_mode):
            raise PlanError("not a regular file", where, "name a plan file")
        if status.st_size > _LARGEST_FILE:
            raise PlanError("larger than 64 MiB", where, "name a plan file")
        with open(where, "rb") as file:
            return parse_plan(file.read(), where)
    except (OSError, ValueError) as problem:
        if isinstance(problem, PlanError):
            raise
        reason = getattr(problem, "strerror", None) or problem
        raise PlanError(f"can't open: {reason}", repr(where)[1:-1], "name an existing plan file") from None


def parse_plan(text: Union[str, bytes], where: str) -> Plan:
    """The same for a file's content; `where` names it in errors."""
    try:
        value = json.loads(text.decode() if isinstance(text, bytes) else text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as problem:
        at = f" (character {problem.pos} of {len(text)})" if isinstance(problem, json.JSONDecodeError) else ""
        remedy = "use a whole plan file; write it again with mptune tune or mptune plan"
        raise PlanError(f"not JSON, or cut short{at}", where, remedy) from None
    file = _Object(value, "", where)
    schema = file.text("schema")
    if schema != _SCHEMA and schema.startswith(_FAMILY):
        raise PlanError(f"a plan of another version, '{schema[:40]}'", where, "upgrade mptune, or write the plan again with this version")
    if schema != _SCHEMA:
        raise PlanError(f"not a plan file: its schema is '{schema[:40]}'", where, "use a file that mptune tune or mptune plan wrote")
    alternatives: list[tuple[str, Plan]] = []
    for entry in file.array("alternatives") if file.has("alternatives") else []:
        other = _Object(entry, "alternatives[]", where)
        alternatives.append((other.text("reason") if other.has("reason") else "", _plan(other.member("plan"), {})))
    about = {"fingerprint": _fingerprint(file), "predicted": _predicted(file), "measured": _measured(file), "alternatives": alternatives}
    return _plan(file.member("plan"), about)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


class _Object:
    """A JSON object whose members are asked for by type; PlanError names the key as "plan.stages[0].layers". null is absent."""

    def __init__(self, value: Any, path: str, where: str) -> None:
        self.value, self.path, self.where = value, path, where
        if not isinstance(value, dict):
            raise PlanError(f"{path or 'the file'} is not a JSON object", where, "use a file that mptune wrote")

    def refuse(self, key: str, problem: str) -> NoReturn:
        raise PlanError(f"{self.name(key)} {problem}", self.where, _CORRECT)

    def name(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def has(self, key: str) -> bool:
        return self.value.get(key) is not None

    def at(self, key: str) -> Any:
        if not self.has(key):
            self.refuse(key, "is missing")
        return self.value[key]

    def member(self, key: str) -> "_Object":
        return _Object(self.at(key), self.name(key), self.where)

    def array(self, key: str) -> list[Any]:
        value = self.at(key)
        if not isinstance(value, list):
            self.refuse(key, "must be a list")
        return value

    def _integer(self, key: str, value: Any, least: int, most: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            self.refuse(key, "must hold whole numbers")
        if not least <= value <= most:
            self.refuse(key, "is out of range")
        return value

    def _number(self, key: str, value: Any) -> float:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            self.refuse(key, "must hold numbers")
        if abs(value) > 1.7976931348623157e308:
            self.refuse(key, "is not finite")
        return float(value)

    def _text(self, key: str, value: Any) -> str:
        if not isinstance(value, str):
            self.refuse(key, "must hold text")
        return value

    def integer(self, key: str) -> int:
        return self._integer(key, self.at(key), -(1 << 31), (1 << 31) - 1)

    def number(self, key: str) -> float:
        return self._number(key, self.at(key))

    def text(self, key: str) -> str:
        return self._text(key, self.at(key))

    def truth(self, key: str) -> bool:
        """False if it is absent."""
        if self.has(key) and not isinstance(self.at(key), bool):
            self.refuse(key, "must be true or false")
        return bool(self.has(key) and self.at(key))

    def integers(self, key: str) -> list[int]:
        return [self._integer(key, value, -(1 << 31), (1 << 31) - 1) for value in self.array(key)]

    def byte_counts(self, key: str) -> list[int]:
        return [self._integer(key, value, 0, 1 << 60) for value in self.array(key)]

    def texts(self, key: str) -> list[str]:
        return [self._text(key, value) for value in self.array(key)]

    def interval(self, key: str) -> Optional[list[float]]:
        """None if it is absent or null: of fewer than six measurements there is none."""
        if not self.has(key):
            return None
        ends = [self._number(key, value) for value in self.array(key)]
        if len(ends) != 2 or ends[0] > ends[1]:
            self.refuse(key, "must be [low, high]")
        return ends


def _fingerprint(file: _Object) -> dict[str, Any]:
    if not file.has("fingerprint"):
        return {}
    read = file.member("fingerprint")
    fingerprint: dict[str, Any] = {key: read.text(key) if read.has(key) else "" for key in ("model", "input", "libtorch", "cuda")}
    fingerprint["devices"] = read.texts("devices") if read.has("devices") else []
    return fingerprint


def _predicted(file: _Object) -> Optional[dict[str, Any]]:
    if not file.has("predicted"):
        return None
    read = file.member("predicted")
    return {"step_s": read.number("step_s"), "lower_bound_s": read.number("lower_bound_s"), "peak_bytes": read.byte_counts("peak_bytes")}


def _measured(file: _Object) -> Optional[dict[str, Any]]:
    if not file.has("measured"):
        return None
    read = file.member("measured")
    samples = read.integer("step_samples")
    # Earlier versions wrote the range of few samples as their interval.
    known = samples >= _LEAST_FOR_INTERVAL
    step_ci95_s = read.interval("step_ci95_s")
    measured: dict[str, object] = {"step_s": read.number("step_s"), "step_ci95_s": step_ci95_s if known else None, "step_samples": samples,
                "peak_bytes": read.byte_counts("peak_bytes"), "verdict": read.text("verdict")}
    if measured["verdict"] not in _VERDICTS:
        read.refuse("verdict", "is not a verdict, like FAST")
    if read.has("speedup"):
        speedup = read.member("speedup")
        ci95 = speedup.interval("ci95")
        measured["speedup"] = {"over": speedup.text("over"), "estimate": speedup.number("estimate"), "ci95": ci95 if known else None}
    return measured


def _plan(read: _Object, about: dict[str, Any]) -> Plan:
    devices = read.texts("devices")
    sizes = _sizes(read)
    stages = [_stage(_Object(value, f"{read.path}.stages[{i}]", read.where), i, devices) for i, value in enumerate(read.array("stages"))]
    if read.integer("num_stages") != len(stages):
        read.refuse("num_stages", "disagrees with stages")
    schedule = read.member("schedule")
    rows = [_actions(row, read.where) for row in schedule.texts("actions")]
    fused = any(action.further for row in rows for action in row)
    plan = Plan(read.where, devices, sizes, stages, schedule.text("name"), rows, options=_options(read, fused, devices), **about)
    _check_ranges(plan, len(sizes))
    if read.integer("data_parallel_size") != plan.data_parallel_size:
        read.refuse("data_parallel_size", "disagrees with the devices of the stages")
    _check_schedule(plan)
    return plan


def _default_threads(device: str) -> int:
    """One per core of a CPU device like cpu:0-3, 1 of any other."""
    match = re.fullmatch(r"cpu:(\d{1,18})(?:-(\d{1,18}))?", device, re.ASCII)
    if not match:
        return 1
    first, last = int(match[1]), int(match[2] or match[1])
    return last - first + 1 if first <= last < _MOST_CORES else 1


def _threads(given: _Object, devices: list[str]) -> list[int]:
    """Empty where all devices have their default."""
    threads = given.integers("threads") if given.has("threads") else []
    most = [_default_threads(device) for device in devices]
    if threads and len(threads) != len(devices):
        given.refuse("threads", "must have one number for each device")
    for device, count, limit in zip(devices, threads, most):
        if not 1 <= count <= limit:
            given.refuse("threads", f"must lie between 1 and the {limit} core{'' if limit == 1 else 's'} of {device[:40]}")
    return [] if threads == most else threads


def _options(read: _Object, fused: bool, devices: list[str]) -> Options:
    if not read.has("options"):
        return Options(fused_weights=fused)
    given = read.member("options")
    if given.has("memory_format") and given.text("memory_format") not in _MEMORY_FORMATS:
        given.refuse("memory_format", "is neither contiguous nor channels_last")
    if given.has("precision") and given.text("precision") not in _PRECISIONS:
        given.refuse("precision", "is none of float32, bf16 and fp16")
    options = Options(given.text("memory_format") if given.has("memory_format") else "contiguous",
                      given.truth("replace_slow_kernels"), given.truth("idle_devices_help"), fused, _threads(given, devices),
                      given.text("precision") if given.has("precision") else "float32")
    if given.has("exact") and given.truth("exact") != options.exact:
        given.refuse("exact", "disagrees with the other options and the actions")
    return options


def _sizes(read: _Object) -> list[int]:
    batch, size, count = read.integer("global_batch_size"), read.integer("micro_batch_size"), read.integer("num_microbatches")
    if not 1 <= batch <= _LARGEST_BATCH:
        read.refuse("global_batch_size", "must be positive, at most 2^30")
    if not 1 <= size <= batch:
        read.refuse("micro_batch_size", "must lie between 1 and the global batch")
    if not 1 <= count <= min(batch, _MOST_MICROBATCHES):
        read.refuse("num_microbatches", "must lie between 1 and the global batch")
    if not read.has("microbatch_sizes"):
        if (batch - 1) // size + 1 != count:
            read.refuse("num_microbatches", "disagrees with global_batch_size and micro_batch_size")
        return [size] * (batch // size) + ([batch % size] if batch % size else [])
    sizes = read.integers("microbatch_sizes")
    if len(sizes) != count:
        read.refuse("microbatch_sizes", "disagrees with num_microbatches")
    if max(sizes) != size:
        read.refuse("microbatch_sizes", "disagrees with micro_batch_size, the largest of them")
    if min(sizes) < 1 or sum(sizes) != batch:
        read.refuse("microbatch_sizes", "does not add up to global_batch_size")
    return sizes


def _stage(read: _Object, index: int, devices: list[str]) -> Stage:
    layers = read.integers("layers")
    if len(layers) != 2:
        read.refuse("layers", "must be [first, last)")
    if read.has("index") and read.integer("index") != index:
        read.refuse("index", "is out of order")
    modules = read.texts("modules") if read.has("modules") else []
    if read.has("modules") and (read.text("first_module") if read.has("first_module") else "") != (modules[0] if modules else ""):
        read.refuse("first_module", "disagrees with modules")
    names = read.texts("devices")
    for name in names:
        if name not in devices:
            read.refuse("devices", f"names '{name[:40]}', which plan.devices does not list")
    if not names or len(set(names)) != len(names):
        read.refuse("devices", "must name at least one device, each once")
    return Stage(index, names, layers[0], layers[1], modules, _recompute(read, layers), read.truth("offload"))


def _whole_modules(name: str) -> str:
    """How to plan so that no stage begins inside of modules like this one: "model.layers.3.mlp" is of "model.layers.*"."""
    parts = name.split(".")
    number = next((i for i, part in enumerate(parts) if part.isdigit()), len(parts) - 1)
    return f"plan with --cut-at '{'.'.join([*parts[:number], '*'])}', so that stages begin with whole modules"


def _recompute(read: _Object, layers: list[int]) -> Union[str, dict[str, list[int]]]:
    if not isinstance(read.at("recompute"), dict):
        mode = read.text("recompute")
        if mode not in ("none", "all"):
            read.refuse("recompute", "is neither none, all nor an object")
        return mode
    parts = read.member("recompute")
    again = {"layers": parts.integers("layers"), "microbatches": parts.integers("microbatches") if parts.has("microbatches") else []}
    if not again["layers"] or any(a >= b for a, b in zip(again["layers"], again["layers"][1:])):
        parts.refuse("layers", "must list layers, ascending")
    if again["layers"][0] < layers[0] or again["layers"][-1] >= layers[1]:
        parts.refuse("layers", "lists layers that the stage does not hold")
    return again


def _check_ranges(plan: Plan, microbatches: int) -> None:
    if not plan.devices or "" in plan.devices or len(set(plan.devices)) != len(plan.devices):
        raise PlanError("plan.devices must name every device once", plan.where, _CORRECT)
    if not plan.stages:
        raise PlanError("the plan has no stages", plan.where, "give at least one")
    following = 0
    for stage in plan.stages:
        name = f"stage {stage.index} (layers {stage.first_layer} to {stage.last_layer})"
        if stage.first_layer != following:
            problem = "overlaps the stage before" if stage.first_layer < following else "leaves layers out"
            raise PlanError(f"{name} {problem}", plan.where, f"start it at layer {following}")
        if stage.last_layer <= stage.first_layer:
            raise PlanError(f"{name} is empty", plan.where, "give every stage at least one layer")
        if stage.offload and stage.recompute != "none":
            raise PlanError(f"{name} recomputes and offloads saved activations", plan.where, "choose one of the two")
        if isinstance(stage.recompute, dict) and any(not 0 <= i < microbatches for i in stage.recompute["microbatches"]):
            raise PlanError(f"{name} recomputes a micro-batch that does not exist", plan.where, "list micro-batches of the plan")
        following = stage.last_layer


def _actions(row: str, where: str) -> list[Action]:
    actions = []
    for word in row.split():
        match = re.fullmatch(r"([0-9]{1,9})([FBIW])([0-9]{1,9})(?:-([0-9]{1,9}))?", word)
        further = int(match[4]) - int(match[3]) if match and match[4] else 0
        if not match or (match[4] and (match[2] != "W" or further < 1)):
            raise PlanError(f"'{word[:40]}' is not an action", where,
                            "write stage, F, B, I or W, and micro-batch, like 0F3; fused weight gradients like 0W2-5")
        actions.append(Action(int(match[1]), match[2], int(match[3]), further))
    return actions


def _check_schedule(plan: Plan) -> None:
    """Checks that every stage runs each micro-batch once forward, once backward (or I, then W), on its device, without deadlock."""
    if len(plan.actions) != len(plan.devices):
        raise PlanError(f"the schedule has {len(plan.actions)} rows for {len(plan.devices)} devices", plan.where,
                        "write one row of actions per device")
    done: dict[tuple[int, int], str] = {}
    for device, row in zip(plan.devices, plan.actions):
        for action in row:
            _check_action(plan, device, action, done)
    for stage in plan.stages:
        for i in range(plan.n_microbatches):
            made = done.get((stage.index, i), "")
            if "W" not in made:
                missing = "backward" if "F" in made else "forward"
                raise PlanError(f"{missing} of micro-batch {i} of stage {stage.index} is missing", plan.where, _CORRECT)
    _check_progress(plan)


def _check_action(plan: Plan, device: str, action: Action, done: dict[tuple[int, int], str]) -> None:
    problem = ""
    if action.stage >= len(plan.stages):
        problem = "names a stage that does not exist"
    elif action.microbatch + action.further >= plan.n_microbatches:
        problem = "names a micro-batch that does not exist"
    elif action.further and (replicas := len(plan.stages[action.stage].devices)) > 1:
        problem = f"fuses neighbouring micro-batches, but these are on different replicas: micro-batch i is on replica i mod {replicas}"
    for one in [] if problem else action.single():
        problem = problem or _problem_of(plan, device, one, done)
    if problem:
        raise PlanError(f"action {action} {problem}", f"{plan.where}, row of {device}", _CORRECT)


def _problem_of(plan: Plan, device: str, action: Action, done: dict[tuple[int, int], str]) -> str:
    """What is wrong with the action of one micro-batch; "": nothing. Adds it to `done`."""
    made = done.get((action.stage, action.microbatch), "")
    makes = {"F": "F", "B": "IW"}.get(action.kind, action.kind)
    homes = plan.stages[action.stage].devices
    home = homes[action.microbatch % len(homes)]
    done[action.stage, action.microbatch] = made + makes
    if home != device:
        return f"belongs to {home}"
    if set(makes) & set(made):
        return "repeats work that is listed before"
    if action.kind != "F" and "F" not in made:
        return "stands before its forward"
    if action.kind == "W" and "I" not in made:
        return "stands before its input gradient"
    return ""


def _check_progress(plan: Plan) -> None:
    """Runs the rows without times: an action is done as soon as the neighbouring stage has made what it reads. What is left is blocked."""
    done: set[tuple[int, str, int]] = set()
    following = [0] * len(plan.actions)
    last = len(plan.stages) - 1

    def ready(action: Action) -> bool:
        if action.kind == "F":
            return action.stage == 0 or (action.stage - 1, "F", action.microbatch) in done
        return action.kind == "W" or action.stage == last or (action.stage + 1, "B", action.microbatch) in done

    progress = True
    while progress:
        progress = False
        for d, row in enumerate(plan.actions):
            while following[d] < len(row) and ready(row[following[d]]):
                action = row[following[d]]
                done.add((action.stage, "F" if action.kind == "F" else "B" if action.kind in "BI" else "W", action.microbatch))
                following[d] += 1
                progress = True
    for d, row in enumerate(plan.actions):
        if following[d] < len(row):
            raise PlanError(f"the schedule blocks itself: {plan.devices[d]} waits at {row[following[d]]}", plan.where,
                            "reorder the actions so that every input is made before it is waited for")
