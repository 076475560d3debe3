"""Pipeline: trains a model with a plan, over torch's own tensors. The work is done by the C++ runtime (mptune._runtime)."""
from __future__ import annotations

import os
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, NoReturn, SupportsIndex, TypeAlias

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from mptune._error import Error
from mptune._files import Inputs, Loss, Model, Path, model_file
from mptune._load_runtime import runtime_pipeline
from mptune.mptune_plan import Plan

Tensors: TypeAlias = "torch.Tensor | Sequence[torch.Tensor]"
Outputs: TypeAlias = "torch.Tensor | tuple[torch.Tensor, ...]"


@dataclass(frozen=True)
class StepReport:
    """What a callback of Pipeline.on_step gets after each step."""

    step: int  #: steps completed, this one included
    loss: float  #: of the whole batch: the mean over its samples
    seconds: float  #: that the step took in the C++ runtime


class LoadedKeys(NamedTuple):
    """What load_state_dict returns, as torch.nn.Module.load_state_dict does."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Pipeline:
    """Runs training steps of a model on the devices of a plan, all micro-batches, forward and backward.

        with mptune.Pipeline("net.pt2", "net.plan.json") as pipeline:
            optimizer = torch.optim.Adam(pipeline.parameters())
            for data, target in loader:
                loss = pipeline.step(data, target)
                optimizer.step()

    On CPU devices, losses and gradients equal those of an eager loop over the same micro-batches bit for bit, with the same intra-op
    threads, unless the plan's options say otherwise; gradients of replicas and of weights tied over stages are summed in another order.
    Batch norms update their running statistics once a step. Use it from one thread at a time. Calls release the GIL. A failure is an
    mptune.Error that names the stage and the layer.

    model: a .pt2 file of mptune.export, TorchScript, a plug-in, or the name of a built-in model; or an nn.Module, which is exported and
        left as it was: the pipeline trains a copy of its weights. `module.load_state_dict(pipeline.state_dict())` brings them back.
    plan: a plan file, or what load_plan returned for one.
    inputs: of an nn.Module: example arguments of forward, two samples or more in dimension 0; with `loss` a function, the last is the
        target.
    loss: of an nn.Module: a function of its output and the target, a mean over samples. Else cross_entropy, mse, mean_square, as --loss of
        the program takes them. Without one, that of the plan file, or of the model.
    input: shape and type of one sample, as --input of the program takes it: "3x64x64", "64:int64". Without it, that of the plan file.
    data: a file with samples, as --data takes it: gives a model from a file its shapes.
    seed: of random layers such as dropout, and of the weights of a built-in model.
    link: bandwidth and latency that copies between devices are throttled to, such as "12GB/s,10us".
    strict: refuse a plan that was made for another model; else a warning says so.
    """

    def __init__(
        self,
        model: Model,
        plan: Path | Plan,
        *,
        inputs: Inputs | None = None,
        loss: Loss | None = None,
        input: str = "",
        data: Path = "",
        seed: int = 0,
        link: str = "",
        strict: bool = False,
    ) -> None:
        self._callbacks: list[Callable[[StepReport], None]] = []
        with model_file(model, inputs, loss) as (path, loss_name):
            self._own = runtime_pipeline()(model=str(path), plan=_plan_path(plan), input=input, loss=loss_name or "", data=str(data),
                                           seed=seed, link=link, strict=strict)
        for warning in self._own.warnings():
            warnings.warn(f"mptune: {warning}", stacklevel=2)
        if isinstance(model, torch.nn.Module):
            _exported_modules.add(model)

    def step(self, data: Tensors, target: torch.Tensor | None = None, *, accumulate: bool = False) -> float:
        """Runs forward and backward of a batch and returns its loss, the mean over its samples. The optimizers are the caller's.

        data: a tensor, or the tuple of tensors that forward takes: samples in dimension 0, as many as the plan's batch or fewer (the last
            batch of an epoch). Best in host memory.
        target: samples in dimension 0. None where the loss needs none.
        accumulate: add to the gradients of the last step; else they are replaced, and zero_grad() is not needed.
        """
        loss, seconds = self._own.step(_tensors(data), _target(target), accumulate)
        for callback in self._callbacks:
            callback(StepReport(self.steps, loss, seconds))
        return loss

    def forward(self, data: Tensors) -> Outputs:
        """Outputs in evaluation mode (running statistics, no dropout, no gradients), in host memory; of any number of samples. A program
        that mptune.export wrote runs as it was exported, for training. Returns a tensor, or a tuple where the model has several outputs;
        of a model exported with its loss, the predictions, which need no target."""
        return _outputs(self._own.forward(_tensors(data)))

    def evaluate(self, data: Tensors, target: torch.Tensor | None = None) -> tuple[float, Outputs]:
        """Loss, the mean over the samples, and outputs, as forward() computes them."""
        loss, outputs = self._own.evaluate(_tensors(data), _target(target))
        return loss, _outputs(outputs)

    def parameters(self, stage: int | None = None) -> list[torch.Tensor]:
        """Parameters of a stage, or of all: leaf tensors for any torch.optim optimizer. After a step they have gradients in `.grad`.
        A stage's tensors lie on its device. Other replicas copy their values at the next step."""
        return [tensor for _, tensor in self._own.parameters(stage)]

    def named_parameters(self, stage: int | None = None) -> list[tuple[str, torch.Tensor]]:
        """The same with their names in the model."""
        return list(self._own.parameters(stage))

    def named_buffers(self) -> list[tuple[str, torch.Tensor]]:
        """Buffers, such as running statistics of batch norms, with their names in the model."""
        return list(self._own.buffers())

    def state_dict(self) -> OrderedDict[str, torch.Tensor]:
        """Parameters and buffers by the model's own names, as torch.nn.Module.state_dict: the tensors themselves, detached, not copies."""
        held = self._held()
        ordered = [name for name in self._own.names() if name in held]
        state = OrderedDict((name, held[name].detach()) for name in [*ordered, *(name for name in held if name not in set(ordered))])
        for name, same in self._own.tied().items():
            state[name] = state[same]
        return state

    def load_state_dict(self, state: Mapping[str, torch.Tensor], strict: bool = True) -> LoadedKeys:
        """Copies the values of a state dict of the same model. Nothing is copied where a shape differs or, if `strict`, a name is missing
        or unknown. A tied tensor may be there under any of its names."""
        held = self._held()
        given = self._without_ties(state)
        missing = [name for name in held if name not in given and not name.endswith("num_batches_tracked")]
        unexpected = [name for name in given if name not in held]
        if strict and missing:
            raise Error(f"'{missing[0]}' is missing", "the state dict", "give the state_dict() of the same model")
        if strict and unexpected:
            raise Error(f"'{unexpected[0]}' is not in the model", "the state dict", "give the state_dict() of the same model")
        copied = {name: value for name, value in given.items() if name in held}
        for name, value in copied.items():
            if value.shape != held[name].shape:
                raise Error(f"'{name}' has the shape {list(value.shape)}, the model's has {list(held[name].shape)}", "the state dict",
                            "give the state_dict() of the same model")
        with torch.no_grad():
            for name, value in copied.items():
                held[name].copy_(value)
        return LoadedKeys(missing, unexpected)

    @property
    def loss_scale(self) -> float:
        """What gradients are multiplied by, so that small ones do not vanish in fp16; the loss of step() is not. Set it for the next step."""
        return self._own.loss_scale()

    @loss_scale.setter
    def loss_scale(self, scale: float) -> None:
        self._own.set_loss_scale(scale)

    def unscale_gradients(self) -> bool:
        """Divides all gradients by the loss scale. False if one of them is not finite: leave the optimizers' step out then, and lower the
        scale. Call it once after each step of a plan in fp16, before gradients are clipped."""
        return self._own.unscale_gradients()

    def clip_gradients(self, most: float) -> float:
        """Scales all gradients so that their norm over all devices is at most `most`, and returns what it was, as
        torch.nn.utils.clip_grad_norm_ does."""
        return self._own.clip_gradients(most)

    def on_step(self, callback: Callable[[StepReport], None]) -> None:
        """Calls `callback` after each step, for logging. What it raises ends step()."""
        self._callbacks.append(callback)

    @property
    def num_stages(self) -> int:
        return self._own.num_stages()

    @property
    def batch_size(self) -> int:
        """Most samples of a step: the plan's whole batch."""
        return self._own.batch_size()

    @property
    def steps(self) -> int:
        """Completed so far. Random layers draw the numbers of the next one; set it to go on from a checkpoint."""
        return self._own.steps()

    @steps.setter
    def steps(self, steps: int) -> None:
        self._own.set_steps(steps)

    def close(self) -> None:
        """Ends the pipeline's threads and frees its memory. Any later call is an error."""
        self._own.close()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise Error("a pipeline can't be copied or pickled: it has threads", "Pipeline",
                    "keep its state_dict(), and load that into another mptune.Pipeline")

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _held(self) -> dict[str, torch.Tensor]:
        return dict([*self._own.parameters(None), *self._own.buffers(), *self._own.unused()])

    def _without_ties(self, state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Under one name for each tensor, that of the model's layers."""
        ties = self._own.tied()
        given: dict[str, torch.Tensor] = {}
        for name, value in state.items():
            same = given.setdefault(ties.get(name, name), value)
            if same is not value and not torch.equal(same, value):
                raise Error(f"'{name}' and '{ties.get(name, name)}' are one tensor in the model and two in the state", "the state dict",
                            "tie them before they are saved")
        return given


def _tensors(data: Tensors) -> list[torch.Tensor]:
    if isinstance(data, torch.Tensor):
        return [data]
    parts = list(data) if isinstance(data, (list, tuple)) else [data]
    return [_tensor(part, f"input {index}") for index, part in enumerate(parts)]


def _tensor(value: Any, where: str) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value
    array = type(value).__module__.split(".")[0] == "numpy"
    raise Error(f"the values are {'a NumPy array' if array else 'of ' + type(value).__name__} and no tensor", where,
                "give torch.from_numpy(array)" if array else "give a torch.Tensor, samples first")


def _target(target: torch.Tensor | None) -> torch.Tensor | None:
    return None if target is None else _tensor(target, "target")


def _outputs(outputs: list[torch.Tensor]) -> Outputs:
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _plan_path(plan: Path | Plan) -> str:
    return os.fspath(plan.where if isinstance(plan, Plan) else plan)


# Modules that pipelines were made of. Their own parameters get no gradients from a pipeline.
_exported_modules: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()


def _refuse_foreign_parameters(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    """An optimizer of the nn.Module instead of the pipeline would step, change nothing and say nothing."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if any(parameter.grad is not None for parameter in parameters):
        return
    of_modules = {id(parameter) for module in _exported_modules for parameter in module.parameters()}
    if any(id(parameter) in of_modules for parameter in parameters):
        raise Error("this optimizer has parameters of the nn.Module, and the pipeline trains its own", type(optimizer).__name__,
                    "make it of pipeline.parameters()")


register_optimizer_step_pre_hook(_refuse_foreign_parameters)
