"""Writes a PyTorch model as a file that mptune trains: mptune tune model.pt2. One file, needs torch only (2.8 or newer).

    import mptune_export
    mptune_export.export(model, (torch.randn(4, 3, 224, 224),), "resnet50.pt2")
    mptune_export.export(model, (tokens, labels), "gpt.pt2", loss=lambda output, labels: cross_entropy(output, labels))

The model is exported in its training form, for any number of samples in the first dimension of its inputs. What export gets wrong
without a word (a custom autograd.Function, Python's random numbers) is found by comparing loss and gradients with the model itself; the
file keeps that reference, which mptune check repeats in C++.
"""
from __future__ import annotations

import copy
import inspect
import json
import os
import random
import tempfile
from typing import Any, Callable, Mapping, Optional, Sequence, Union

import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

__all__ = ["ExportError", "export"]

_SCHEMA = "mptune.export/1"
_SEED = 20_240_607
_TOLERANCE = 1e-5

# What torch.export says, and what that asks of the model.
_HINTS = (
    ("specialized it to be a constant (1)", "give example inputs of two samples or more: one sample is taken for a constant"),
    ("Constraints violated", "let the model work for any number of samples: nothing in it may depend on x.shape[0] but sizes"),
    ("DynamicCache", "call the model with use_cache=False: a cache is no output that can be saved"),
    ("data-dependent", "write the branch with torch.cond or torch.where: a program can't depend on the values of tensors"),
    ("GuardOnDataDependentSymNode", "write the branch with torch.cond or torch.where: a program can't depend on the values of tensors"),
    ("namedtuple", "return a tuple or a dict instead of a namedtuple"),
)


class ExportError(RuntimeError):
    """What is wrong, where, and what to do about it: one clause each. str() is the line "what: where; remedy"."""

    def __init__(self, what: str, where: str, remedy: str) -> None:
        super().__init__(f"{what}: {where}; {remedy}")
        self.what, self.where, self.remedy = what, where, remedy


def export(
    model: torch.nn.Module,
    example_inputs: Sequence[Any],
    path: Union[str, os.PathLike],
    loss: Optional[Callable[..., torch.Tensor]] = None,
    example_kwargs: Optional[Mapping[str, Any]] = None,
) -> torch.export.ExportedProgram:
    """Exports `model` in training form to `path` and returns the program.

    example_inputs: positional arguments of forward, two samples or more in dimension 0. With `loss`, the last of them is the target:
    forward gets the others, and the program's output is loss(output, target), a mean over the samples. Without, the program returns what
    forward returns, and the loss is chosen by mptune's --loss; a model that returns a scalar first has its loss in the program.
    Raises ExportError, with nothing written.
    """
    inputs, kwargs, path = tuple(example_inputs), dict(example_kwargs or {}), os.fspath(path)
    if not path.endswith(".pt2"):
        raise ExportError("the name does not end in .pt2", path, f"write {os.path.splitext(path)[0]}.pt2")
    subject = _with_loss(model, loss, len(inputs)) if loss is not None else copy.copy(model)
    samples = _samples_of((inputs, kwargs))
    was_training = model.training
    model.train()
    try:
        reference = _eager_step(copy.deepcopy(subject), inputs, kwargs)
        program = _export(subject, inputs, kwargs, samples)
        _compare(reference, _step(copy.deepcopy(program.module()), inputs, kwargs))
    finally:
        model.train(was_training)
    _save(program, path, {"mptune.json": json.dumps(_about(reference, samples))})
    return program


def _with_loss(model: torch.nn.Module, loss: Callable[..., torch.Tensor], given: int) -> torch.nn.Module:
    """The same model, with the same names of parameters, whose forward takes a target at the end and returns the loss."""
    kind = type(model)

    class WithLoss(kind):  # type: ignore[misc, valid-type]
        def forward(self, *arguments: Any, **keywords: Any) -> torch.Tensor:
            return loss(super().forward(*arguments[:-1], **keywords), arguments[-1])

    # Export names its inputs after the signature.
    positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = list(inspect.signature(kind.forward).parameters)[: given]
    WithLoss.forward.__signature__ = inspect.Signature([inspect.Parameter(name, positional) for name in [*names, "target"]])
    WithLoss.__name__, WithLoss.__qualname__ = kind.__name__, kind.__qualname__
    subject = copy.copy(model)
    subject.__class__ = WithLoss
    return subject


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _samples_of(arguments: Any) -> int:
    tensors = [tensor for tensor in _tensors(arguments) if tensor.dim() > 0]
    if not tensors:
        raise ExportError("no example input is a tensor with samples", "example_inputs", "give the arguments of forward, samples first")
    samples = tensors[0].shape[0]
    if samples < 2:
        raise ExportError("an example of one sample", "example_inputs", "give two samples or more: one is taken for a constant")
    return samples


def _dynamic(tree: Any, samples: int) -> Any:
    batch = Dim("batch", min=1)

    def shape_of(leaf: Any) -> Any:
        has_samples = isinstance(leaf, torch.Tensor) and leaf.dim() > 0 and leaf.shape[0] == samples
        return {0: batch} if has_samples else None

    return pytree.tree_map(shape_of, tree)


def _export(model: torch.nn.Module, inputs: tuple, kwargs: dict, samples: int) -> torch.export.ExportedProgram:
    shapes: Any = _dynamic(inputs, samples)
    if kwargs:
        names = list(inspect.signature(model.forward).parameters)
        shapes = {**dict(zip(names, shapes)), **_dynamic(kwargs, samples)}
    try:
        return torch.export.export(model, inputs, kwargs=kwargs or None, dynamic_shapes=shapes, strict=False)
    except Exception as error:  # whatever the model's own code raises under export
        raise _explained(error) from error


def _explained(error: Exception) -> ExportError:
    text = str(error).strip() or type(error).__name__
    first = text.splitlines()[0][:300]
    for sign, remedy in _HINTS:
        if sign in text:
            return ExportError("the model can't be exported", first, remedy)
    return ExportError("the model can't be exported", first, "change that line of the model; torch.export.draft_export(...) shows all of them")


class _Spy:
    """Notes what a program would lose without a word: custom autograd functions and Python's own random numbers."""

    def __enter__(self) -> "_Spy":
        self.functions: list[str] = []
        self._apply = torch.autograd.Function.__dict__["apply"]
        original, functions = self._apply, self.functions

        def apply(cls: type, *args: Any, **kwargs: Any) -> Any:
            functions.append(f"{cls.__module__}.{cls.__qualname__}")
            return original.__get__(None, cls)(*args, **kwargs)

        torch.autograd.Function.apply = classmethod(apply)
        self._random = random.getstate()
        return self

    def __exit__(self, *_: Any) -> None:
        torch.autograd.Function.apply = self._apply
        self.drew = random.getstate() != self._random


def _eager_step(model: torch.nn.Module, inputs: tuple, kwargs: dict) -> dict:
    with _Spy() as spy:
        step = _step(model, inputs, kwargs)
    _register_outputs(step["outputs"])
    if spy.functions:
        raise ExportError(
            "the model uses an autograd.Function of its own",
            ", ".join(sorted(set(spy.functions))),
            "write it with PyTorch's own operators, or as torch.library.custom_op: its backward would be lost without a word",
        )
    if spy.drew:
        raise ExportError(
            "the model draws from Python's random",
            type(model).__name__,
            "draw with torch.rand instead: Python's numbers would be frozen in the program",
        )
    return step


def _register_outputs(outputs: Any) -> None:
    """Programs with namedtuples as outputs can be saved once their classes are registered."""
    if isinstance(outputs, tuple) and hasattr(outputs, "_fields"):
        try:
            pytree._register_namedtuple(type(outputs), serialized_type_name=f"{type(outputs).__module__}.{type(outputs).__qualname__}")
        except ValueError:
            pass  # registered before


def _step(model: torch.nn.Module, inputs: tuple, kwargs: dict) -> dict:
    """One forward and backward with a fixed seed: loss, gradients, buffers."""
    state = torch.get_rng_state()
    torch.manual_seed(_SEED)
    try:
        outputs = model(*inputs, **kwargs)
    finally:
        torch.set_rng_state(state)
    tensors = _tensors(outputs)
    if not tensors or not tensors[0].is_floating_point():
        raise ExportError("the model's first output is no floating tensor", type(model).__name__, "return the loss or the prediction first")
    loss = tensors[0] if tensors[0].dim() == 0 else tensors[0].float().square().mean()
    loss.backward()
    return {
        "outputs": outputs,
        "loss": loss.detach(),
        "in_program": tensors[0].dim() == 0,
        "gradients": {name: p.grad for name, p in model.named_parameters() if p.grad is not None},
        "buffers": {name: buffer.detach().clone() for name, buffer in model.named_buffers()},
    }


def _compare(eager: dict, program: dict) -> None:
    def differs(a: torch.Tensor, b: torch.Tensor) -> bool:
        scale = max(float(a.detach().abs().max()) if a.numel() else 0.0, 1e-12)
        return a.shape != b.shape or not torch.allclose(a.float(), b.float(), rtol=0, atol=_TOLERANCE * scale, equal_nan=True)

    remedy = "look there for what torch.export does not see: Python state, in-place tricks, hooks"
    if differs(eager["loss"], program["loss"]):
        raise ExportError("the program's loss differs from the model's", f"{program['loss']:.8g} instead of {eager['loss']:.8g}", remedy)
    for kind in ("gradients", "buffers"):
        for name, expected in eager[kind].items():
            found = program[kind].get(name)
            if found is None and not expected.any():
                continue
            if found is None or differs(expected, found):
                raise ExportError(f"the program's {kind} differ from the model's", name, remedy)


def _about(reference: dict, samples: int) -> dict:
    norm = lambda tensor: float(tensor.double().norm())  # noqa: E731
    return {
        "schema": _SCHEMA,
        "torch": torch.__version__,
        "seed": _SEED,
        "samples": samples,
        "loss": float(reference["loss"]),
        "loss_in_program": reference["in_program"],
        "gradient_norms": {name: norm(gradient) for name, gradient in reference["gradients"].items()},
        "buffer_norms": {name: norm(buffer) for name, buffer in reference["buffers"].items()},
    }


def _save(program: torch.export.ExportedProgram, path: str, extra: dict) -> None:
    """Complete or not at all; the archive's folder is named after the file."""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(path))) as folder:
        temporary = os.path.join(folder, os.path.basename(path))
        try:
            torch.export.save(program, temporary, extra_files=extra)
        except Exception as error:
            raise _explained(error) from error
        os.replace(temporary, path)
