"""Writes a PyTorch model as a file that mptune trains: mptune tune model.pt2. One file, needs torch only (2.8 or newer).

    import mptune_export
    mptune_export.export(model, (torch.randn(4, 3, 224, 224),), "resnet50.pt2")
    mptune_export.export(model, (tokens, labels), "gpt.pt2", loss=lambda output, labels: cross_entropy(output, labels))
    mptune_export.export(model, (tokens,), "gpt.pt2", lengths={"tokens": 1})    # for sentences of any length

The model is exported in training form, for any number of samples in the first dimension of its inputs. torch.export silently loses some
things (a custom autograd.Function, random numbers of Python or numpy). So the program's loss, gradients and buffers are compared with those
of the model. The file keeps that reference, and mptune check compares it with the same step in C++.

Some models of Hugging Face's transformers hold lines that torch.export can't take. While such a model is exported, these lines compute the
same in another way: attention masks without torch.vmap; no random number for layers that are left out with probability 0 (layerdrop); the
GELU of BLOOM, whose gradient autograd finds.

The reference is extra/mptune.json of the archive, schema mptune.export/1: one forward and backward of the archive's sample inputs, in
training mode, with `threads` threads, after torch.manual_seed(`seed`).

    torch, device       the version and the kind of device that it was made with
    seed, threads       of the step
    samples             in dimension 0 of the sample inputs
    loss                its value
    loss_in_program     true: the program's first output; false: the mean of the squares of that output, in float32 at least
    gradient_norms      {parameter: 2-norm of its gradient}, without parameters that have none; tied ones under each of their names
    buffer_norms        {buffer: 2-norm after the step}, tied ones likewise, those that state_dict() leaves out included

    batch_limit         the model's line that limits the batch, "net.py:8, if x.shape[0] < 64:"; absent where nothing does
    cumulative_norms    names of batch norms with momentum=None: the program has the momentum of their next batch

Norms that are not finite, such as that of a mask of -inf, are left out.
"""
from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import inspect
import io
import json
import linecache
import logging
import math
import os
import random
import sys
import tempfile
import traceback
import types
import warnings
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, Union

import torch
from torch.export import Dim
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import CheckpointFunction

__all__ = ["ExportError", "export"]

_Positional = tuple[Any, ...]
_Keywords = dict[str, Any]

_SCHEMA = "mptune.export/1"
_SEED = 20_240_607
_THREADS = 1
_TOLERANCE = 1e-5
_TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep

# Part of a message of torch.export -> what to change in the model.
_BRANCH = "write the branch with torch.cond or torch.where: a program can't depend on the values of tensors"
_HINTS = (
    ("specialized it to be a constant (1)", "give example inputs of two samples or more: one sample is taken for a constant"),
    ("Constraints violated (L['", "leave that dimension out of `lengths`: the model computes with its size in the example alone"),
    ("Constraints violated", "put the samples first in every input, and let nothing in the model depend on their number"),
    ("Cache in output", "call the model with use_cache=False: a cache can't be saved as an output"),
    ("data-dependent", _BRANCH),
    ("GuardOnDataDependentSymNode", _BRANCH),
    ("namedtuple", "return a tuple or a dict instead of a namedtuple"),
    ("flex_attention", "use scaled_dot_product_attention, or attn_implementation='eager' of Hugging Face models"),
    ("vmap", "use scaled_dot_product_attention, or attn_implementation='eager' of Hugging Face models"),
)


class ExportError(RuntimeError):
    """An error with `what` is wrong, `where`, and the `remedy`, one clause each. str() is "what: where; remedy"."""

    def __init__(self, what: str, where: str, remedy: str) -> None:
        super().__init__(f"{what}: {where}; {remedy}")
        self.what, self.where, self.remedy = what, where, remedy


@dataclasses.dataclass
class _Step:
    """Results of one forward and backward."""

    loss: torch.Tensor
    loss_in_program: bool
    gradients: dict[str, torch.Tensor]
    buffers: dict[str, torch.Tensor]
    reentrant: bool = False  # used the reentrant torch.utils.checkpoint, whose gradients export loses


@dataclasses.dataclass
class _Sizes:
    """The sizes of the example that a program is not to keep."""

    samples: int  # in dimension 0
    lengths: dict[str, tuple[int, ...]]  # other dimensions, by argument


@dataclasses.dataclass
class _Range:
    """How many samples a program takes at once, and the model's line that says so; "" where torch does not name it."""

    least: int
    most: Optional[int]
    line: str

    def __str__(self) -> str:
        return f"at least {self.least}" if self.most is None else f"{self.least} to {self.most}"


def export(
    model: torch.nn.Module,
    example_inputs: Sequence[Any],
    path: Union[str, os.PathLike[str]],
    loss: Optional[Callable[..., torch.Tensor]] = None,
    example_kwargs: Optional[Mapping[str, Any]] = None,
    lengths: Optional[Mapping[str, Union[int, Sequence[int]]]] = None,
) -> torch.export.ExportedProgram:
    """Exports `model` in training form to `path` and returns the program. The model is left as it was.

    example_inputs: positional arguments of forward, two samples or more in dimension 0. With `loss`, the last of them is the target:
    forward gets the others, and the program's first output is loss(output, target), a mean over the samples; behind it stand the tensors
    of `output`, if all of them have samples in dimension 0. Without, the program returns what forward returns, and the loss is chosen by
    mptune's --loss; a model that returns a scalar first has its loss in the program.
    lengths: dimensions beside that of the samples whose size may be another in every batch, by names of forward's arguments; the target of
    `loss` is "target". Other sizes are those of the example.
    A model in evaluation mode is exported in training mode. A model in training mode is exported as it is: parts in eval() stay frozen.
    Warns where a line of the model limits the number of samples: the program then takes those that the example's branch takes.
    Raises ExportError; then no file is written.
    """
    _check_arguments(model, example_inputs)
    file = os.fspath(path)
    inputs, kwargs = _detached((tuple(example_inputs), dict(example_kwargs or {})))
    _check_path(file)
    _check_model(model)
    samples = _samples_of((inputs, kwargs))
    with _training(model), _recipes(model), _next_momentum(model) as cumulative:
        subject = _with_loss(model, loss, inputs, kwargs) if loss is not None else copy.copy(model)
        reference = _eager_step(subject, inputs, kwargs)
        if loss is not None:
            _check_loss(model, loss, inputs, kwargs, samples)
        program, limit = _export(subject, inputs, kwargs, _Sizes(samples, _lengths(subject, inputs, kwargs, lengths or {})))
        _check_operators(program)
        _check_program(program, reference, inputs, kwargs)
    about = _about(reference, samples, _tensors((inputs, kwargs))[0].device)
    if limit is not None and limit.line:
        about["batch_limit"] = limit.line
    if cumulative:
        about["cumulative_norms"] = cumulative
    _save(program, file, {"mptune.json": json.dumps(about, allow_nan=False)})
    if limit is not None:
        warnings.warn(f"{file} takes {limit} samples at once" + (f": {limit.line}" if limit.line else ""), stacklevel=2)
    return program


def _check_path(path: str) -> None:
    if not path.endswith(".pt2"):
        raise ExportError("the name does not end in .pt2", path, f"write {os.path.splitext(path)[0]}.pt2")
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise ExportError("no folder that can be written to", folder, "make it, or name another")


def _check_arguments(model: Any, inputs: Any) -> None:
    if isinstance(model, type) or not isinstance(model, torch.nn.Module):
        remedy = "make one of the class" if isinstance(model, type) else "put it into the forward of a torch.nn.Module"
        raise ExportError("the model is not a torch.nn.Module", getattr(model, "__name__", type(model).__name__), remedy)
    if isinstance(inputs, torch.Tensor) or not isinstance(inputs, Sequence):
        remedy = "give a tuple of forward's arguments: (x,)"
        raise ExportError(f"the example inputs are a {type(inputs).__name__}", "example_inputs", remedy)
    for i, leaf in enumerate(pytree.tree_leaves(tuple(inputs))):
        if type(leaf).__module__.split(".")[0] == "numpy":
            raise ExportError("an example input is a NumPy array", f"example_inputs, value {i}", "give torch.from_numpy(array)")


def _check_model(model: torch.nn.Module) -> None:
    name = type(model).__name__
    if isinstance(model, torch.jit.ScriptModule):
        raise ExportError("a TorchScript model", name, "export the Python model that it was made from, or give mptune the .pt file")
    if hasattr(model, "_orig_mod"):
        raise ExportError("a compiled model", name, "export the model that torch.compile was given: model._orig_mod")
    for parameter in (*model.parameters(), *model.buffers()):
        if parameter.is_meta:
            raise ExportError("a model without weights", name, "give it some: model.to_empty(device='cpu'), then initialise it")


@contextlib.contextmanager
def _training(model: torch.nn.Module) -> Iterator[None]:
    """Sets training mode; restores the mode of each module at the end."""
    modes = [(module, module.training) for module in model.modules()]
    if not model.training:
        model.train()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


class _Torch:
    """The module torch for a module of transformers whose layers draw a number to decide whether they run: it is always the largest."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    @staticmethod
    def rand(*size: Any, **options: Any) -> Any:
        return 1.0 if size == ([],) and not options else torch.rand(*size, **options)


@contextlib.contextmanager
def _recipes(model: torch.nn.Module) -> Iterator[None]:
    """Replaces lines of Hugging Face models that torch.export can't take by others that compute the same, until the end."""
    ours = [module for module in model.modules() if type(module).__module__.startswith("transformers.models.")]
    _check_random_layers([module for module in ours if module.training])
    with contextlib.ExitStack() as stack:
        stack.enter_context(_SoftTargets())
        for name in {type(module).__module__ for module in ours}:
            stack.enter_context(_replaced(sys.modules[name], torch=_Torch()))
        masks = sys.modules.get("transformers.masking_utils")
        if ours and hasattr(masks, "_vmap_for_bhqkv"):
            stack.enter_context(_replaced(masks, _vmap_for_bhqkv=_over_indices, TransformGetItemToIndex=contextlib.nullcontext))
        bloom = sys.modules.get("transformers.models.bloom.modeling_bloom")
        if any(type(module).__name__ == "BloomGelu" for module in ours) and hasattr(bloom, "bloom_gelu_forward"):
            plain = types.SimpleNamespace(apply=bloom.bloom_gelu_forward)  # type: ignore[union-attr]
            stack.enter_context(_replaced(bloom, GeLUFunction=plain))
        yield


class _SoftTargets(TorchFunctionMode):  # type: ignore[misc]
    """The cross entropy with probabilities as targets divides by the number of samples of the example, which export would freeze."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function is not functional.cross_entropy:
            return function(*args, **kwargs)
        given = inspect.signature(function).bind(*args, **kwargs)
        given.apply_defaults()
        values = given.arguments
        old_reduction = values["size_average"] is not None or values["reduce"] is not None
        soft = values["target"].is_floating_point() and values["target"].shape == values["input"].shape
        if not soft or old_reduction or values["input"].dim() < 2:
            return function(*args, **kwargs)
        return _soft_cross_entropy(values["input"], values["target"], values["weight"], values["reduction"], values["label_smoothing"])


def _soft_cross_entropy(
    output: torch.Tensor, target: torch.Tensor, weight: Optional[torch.Tensor], reduction: str, smoothing: float
) -> torch.Tensor:
    if smoothing > 0:
        target = target * (1 - smoothing) + smoothing / output.shape[1]
    terms = functional.log_softmax(output, 1) * target
    if weight is not None:
        terms = terms * weight.view([-1 if dimension == 1 else 1 for dimension in range(output.dim())])
    losses = -terms.sum(1)
    return losses.mean() if reduction == "mean" else losses.sum() if reduction == "sum" else losses


@contextlib.contextmanager
def _next_momentum(model: torch.nn.Module) -> Iterator[list[str]]:
    """Yields the names of batch norms with momentum=None. They take the mean over all batches, by a momentum of 1 / batches, which depends on
    the value of a tensor: until the end they have the momentum of their next batch."""
    norms = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, _BatchNorm) and module.momentum is None and module.training and module.num_batches_tracked is not None
    }
    for norm in norms.values():
        norm.momentum = 1.0 / (int(norm.num_batches_tracked) + 1)
    try:
        yield sorted(norms)
    finally:
        for norm in norms.values():
            norm.momentum = None


def _check_random_layers(modules: list[torch.nn.Module]) -> None:
    """Refuses what a program can't do: choose its layers, or parts of its inputs, by random numbers outside of torch's operators."""
    for module in modules:
        config, name = getattr(module, "config", None), type(module).__name__
        for option, value in vars(config).items() if config is not None else ():
            if option.endswith("layerdrop") and isinstance(value, float) and value > 0:
                raise ExportError("the model leaves out layers at random", f"config.{option} = {value} of {name}", f"set config.{option} = 0")
        if getattr(config, "apply_spec_augment", False) and hasattr(module, "_mask_hidden_states"):
            if config.mask_time_prob > 0 or config.mask_feature_prob > 0:  # type: ignore[union-attr]
                remedy = "set config.apply_spec_augment = False, and mask the inputs in the data loader"
                raise ExportError("the model masks its inputs with numbers of numpy", f"SpecAugment of {name}", remedy)


@contextlib.contextmanager
def _replaced(module: Any, **attributes: Any) -> Iterator[None]:
    before = {name: getattr(module, name) for name in attributes if hasattr(module, name)}
    for name in before:
        setattr(module, name, attributes[name])
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


def _over_indices(function: Callable[..., torch.Tensor], bh_indices: bool = True) -> Callable[..., torch.Tensor]:
    """What nested torch.vmap gives: the mask function for every sample, head, query and key."""

    def mask(*indices: Optional[torch.Tensor]) -> torch.Tensor:
        count = len(indices)
        spread = [None if index is None else index.view([-1 if i == j else 1 for j in range(count)]) for i, index in enumerate(indices)]
        sizes = [1 if index is None else index.shape[0] for index in indices]
        result = function(*spread).expand(sizes)
        return result if bh_indices else result[0, 0]

    return mask


def _with_loss(model: torch.nn.Module, loss: Callable[..., torch.Tensor], inputs: _Positional, kwargs: _Keywords) -> torch.nn.Module:
    """The same model, with the same names of parameters, whose forward takes a target at the end and returns the loss."""
    kind = type(model)
    joined: list[bool] = []

    class WithLoss(kind):  # type: ignore[misc, valid-type]
        def forward(self, *arguments: Any, **keywords: Any) -> Any:
            output = super().forward(*arguments[:-1], **keywords)
            value = loss(output, arguments[-1])
            # Decided by the eager step: a comparison of sizes under export would restrict the number of samples.
            if not joined:
                joined.append(_can_be_joined(_tensors(output), _tensors(arguments[-1])))
            return (value, *(tensor.detach() for tensor in _tensors(output))) if joined[0] else value

    # torch.export names the program's inputs after the parameters of forward.
    names = _names_of(model, len(inputs) - 1)
    target = "target" if "target" not in (*names, *kwargs) else "loss_target"
    positional, keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(name, positional) for name in ("self", *names, target)]
    WithLoss.forward.__signature__ = inspect.Signature(parameters + [inspect.Parameter(name, keyword) for name in kwargs])  # type: ignore
    WithLoss.__name__, WithLoss.__qualname__, WithLoss.__module__ = kind.__name__, kind.__qualname__, kind.__module__
    subject = copy.copy(model)
    subject.__class__ = WithLoss
    return subject


def _can_be_joined(outputs: list[torch.Tensor], targets: list[torch.Tensor]) -> bool:
    """True if every output has the samples in dimension 0, where those of micro-batches are joined."""
    samples = next((target.shape[0] for target in targets if target.dim() > 0), None)
    return samples is not None and all(output.dim() > 0 and output.shape[0] == samples for output in outputs)


def _check_loss(model: torch.nn.Module, loss: Callable[..., torch.Tensor], inputs: _Positional, kwargs: _Keywords, samples: int) -> None:
    """Refuses a loss that is no number, and one that is a sum over the samples: micro-batches are averaged."""
    inputs, kwargs = _detached((inputs, kwargs))
    with torch.no_grad():
        output = _copy_of(model)(*inputs[:-1], **kwargs)
        whole = loss(output, inputs[-1])
        if not isinstance(whole, torch.Tensor) or whole.dim() > 0:
            shape = tuple(whole.shape) if isinstance(whole, torch.Tensor) else type(whole).__name__
            raise ExportError(f"the loss is {shape} and not a number", "loss", "return the mean over the samples: reduction='mean'")

        def part(first: int, last: int) -> float:
            def cut(leaf: Any) -> Any:
                return leaf[first:last] if isinstance(leaf, torch.Tensor) and leaf.dim() > 0 and leaf.shape[0] == samples else leaf

            return float(loss(pytree.tree_map(cut, output), cut(inputs[-1])))

        half = samples // 2
        try:
            parts = part(0, half), part(half, samples)
        except Exception:  # a loss for this number of samples only: mptune check tells
            return
    mean, total = (parts[0] * half + parts[1] * (samples - half)) / samples, sum(parts)
    near = 1e-3 * max(abs(float(whole)), 1e-12)
    if abs(float(whole) - total) < near < abs(float(whole) - mean):
        raise ExportError("the loss is a sum over the samples", "loss", "return the mean over them: reduction='mean'")


def _names_of(model: torch.nn.Module, count: int) -> list[str]:
    """Names of the first `count` positional arguments of forward."""
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [name for name, about in inspect.signature(model.forward).parameters.items() if about.kind in plain][:count]
    return names + [f"input_{i}" for i in range(len(names), count)]


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _detached(tree: Any) -> Any:
    """Copies all tensors, so that in-place operators and gradients of the model leave the caller's tensors alone."""
    return pytree.tree_map(lambda leaf: leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf, tree)


def _copy_of(model: torch.nn.Module) -> torch.nn.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return copy.deepcopy(model)
    except Exception as error:  # whatever the model holds
        remedy = "make it one that copy.deepcopy takes: no results of earlier steps among its attributes"
        raise ExportError("the model can't be copied", _where(error), remedy) from error


def _samples_of(arguments: Any) -> int:
    tensors = [tensor for tensor in _tensors(arguments) if tensor.dim() > 0]
    if not tensors:
        raise ExportError("no example input is a tensor with samples", "example_inputs", "give the arguments of forward, samples first")
    samples = tensors[0].shape[0]
    if samples < 2:
        raise ExportError("an example of one sample", "example_inputs", "give two samples or more: one is taken for a constant")
    return samples


def _eager_step(model: torch.nn.Module, inputs: _Positional, kwargs: _Keywords) -> _Step:
    with _Spy() as spy:
        step = _step(_copy_of(model), inputs, kwargs)
    name = type(model).__name__
    if spy.functions:
        raise ExportError(
            "the model uses an autograd.Function of its own",
            ", ".join(sorted(spy.functions)),
            "write it with PyTorch's own operators: its backward would be lost without a word",
        )
    for source in spy.drawn:
        remedy = "draw with torch.rand instead: those numbers would be frozen in the program"
        raise ExportError(f"the model draws from {source}", name, remedy)
    if not math.isfinite(float(step.loss)):
        raise ExportError("the loss of the example inputs is not finite", name, "give example inputs that the model can learn from")
    step.reentrant = spy.reentrant
    return step


class _Spy:
    """Notes what export would silently lose: custom autograd.Functions, and random numbers that are not torch's.

    torch's own functions (torch.utils.checkpoint has some) are left to export, and so are functions without gradients, as in a frozen
    part of the model."""

    def __enter__(self) -> _Spy:
        self.functions: set[str] = set()
        self.drawn: list[str] = []
        self.reentrant = False
        self._apply = torch.autograd.Function.__dict__["apply"]
        self._random = random.getstate()
        self._numpy = self._numpy_state()
        original, functions = self._apply, self.functions

        def apply(cls: type, *args: Any, **kwargs: Any) -> Any:
            trained = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in _tensors((args, kwargs)))
            self.reentrant |= cls is CheckpointFunction
            if trained and cls.__module__.split(".")[0] != "torch":
                functions.add(f"{cls.__module__}.{cls.__qualname__}")
            return original.__get__(None, cls)(*args, **kwargs)

        torch.autograd.Function.apply = classmethod(apply)  # type: ignore[assignment]
        return self

    def __exit__(self, *_: Any) -> None:
        torch.autograd.Function.apply = self._apply  # type: ignore[method-assign]
        if random.getstate() != self._random:
            self.drawn.append("Python's random")
            random.setstate(self._random)
        if self._numpy is not None and self._numpy != self._numpy_state():
            self.drawn.append("numpy.random")

    @staticmethod
    def _numpy_state() -> Optional[tuple[Any, ...]]:
        """None if numpy was not imported: then nothing draws from it."""
        numpy = sys.modules.get("numpy")
        if numpy is None:
            return None
        kind, key, *rest = numpy.random.get_state()
        return (kind, key.tobytes(), *rest)


def _step(model: torch.nn.Module, inputs: _Positional, kwargs: _Keywords) -> _Step:
    """One forward and backward with a fixed seed and number of threads."""
    name = type(model).__name__
    inputs, kwargs = _detached((inputs, kwargs))
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    torch.set_num_threads(_THREADS)
    torch.manual_seed(_SEED)
    try:
        try:
            outputs = model(*inputs, **kwargs)
        except Exception as error:  # whatever the model's own code raises
            raise ExportError("the model fails on the example inputs", _where(error), "give inputs that model(...) takes") from error
        _check_outputs(outputs)
        tensors = _tensors(outputs)
        if not tensors or not tensors[0].is_floating_point():
            raise ExportError("the model's first output is not a floating-point tensor", name, "return the loss or the prediction first")
        first = tensors[0]
        loss = first if first.dim() == 0 else first.to(torch.promote_types(first.dtype, torch.float32)).square().mean()
        if not loss.requires_grad:
            raise ExportError("no parameter has a part in the first output", name, "return what is computed from parameters, not detached")
        loss.backward()  # type: ignore[no-untyped-call]
    finally:
        torch.set_rng_state(state)
        torch.set_num_threads(threads)
    gradients = {name: parameter.grad for name, parameter in model.named_parameters(remove_duplicate=False) if parameter.grad is not None}
    for name, gradient in gradients.items():
        if gradient.layout != torch.strided:
            raise ExportError("a parameter with sparse gradients", name, "make it with sparse=False: mptune sums dense gradients")
    return _Step(
        loss=loss.detach(),
        loss_in_program=first.dim() == 0,
        gradients=gradients,
        buffers={name: buffer.detach().clone() for name, buffer in model.named_buffers(remove_duplicate=False)},
    )


def _check_outputs(outputs: Any) -> None:
    """Refuses outputs that can't be saved. Registers the classes of namedtuples and dataclasses, which can be saved after that."""
    if isinstance(outputs, tuple) and hasattr(outputs, "_fields"):
        with contextlib.suppress(ValueError):  # registered before
            pytree._register_namedtuple(type(outputs), serialized_type_name=f"{type(outputs).__module__}.{type(outputs).__qualname__}")
    if isinstance(outputs, Mapping):
        outputs = tuple(outputs.values())
    if isinstance(outputs, (tuple, list)):
        for output in outputs:
            _check_outputs(output)
        return
    known = (torch.Tensor, int, float, bool, str, type(None))
    if isinstance(outputs, known) or pytree.tree_structure(outputs).num_nodes > 1:
        return
    if dataclasses.is_dataclass(outputs):
        torch.export.register_dataclass(type(outputs), serialized_type_name=f"{type(outputs).__module__}.{type(outputs).__qualname__}")
        _check_outputs([getattr(outputs, field.name) for field in dataclasses.fields(outputs)])
        return
    remedy = "return tensors, numbers, and tuples or dicts of them"
    if "Cache" in type(outputs).__name__:
        remedy = "call the model with use_cache=False: a cache can't be saved as an output"
    raise ExportError("an output that can't be saved", type(outputs).__name__, remedy)


def _lengths(
    model: torch.nn.Module, inputs: _Positional, kwargs: _Keywords, lengths: Mapping[str, Union[int, Sequence[int]]]
) -> dict[str, tuple[int, ...]]:
    """Refuses what the arguments do not have."""
    arguments = inspect.signature(model.forward).bind(*inputs, **kwargs).arguments
    checked = {}
    for name, given in lengths.items():
        tensor = arguments.get(name)
        if not isinstance(tensor, torch.Tensor):
            remedy = f"use one of {', '.join(key for key, value in arguments.items() if isinstance(value, torch.Tensor))}"
            raise ExportError("lengths of an argument that is no tensor of the example", f"lengths, '{name}'", remedy)
        checked[name] = (given,) if isinstance(given, int) else tuple(given)
        for dimension in checked[name]:
            if not 0 < dimension < tensor.dim():
                where = f"lengths, dimension {dimension} of '{name}', which is {'x'.join(str(size) for size in tensor.shape)}"
                remedy = f"use 1 to {tensor.dim() - 1}" if tensor.dim() > 1 else "leave it out: it has one dimension"
                raise ExportError("not a dimension beside that of the samples", where, remedy)
            if tensor.shape[dimension] < 2:
                where = f"lengths, dimension {dimension} of '{name}'"
                raise ExportError("an example of length 1", where, "give one of two at least: 1 is taken for a constant")
    return checked


def _export(
    model: torch.nn.Module, inputs: _Positional, kwargs: _Keywords, sizes: _Sizes
) -> tuple[torch.export.ExportedProgram, Optional[_Range]]:
    """The program, and the range of samples that it takes where the model limits it."""
    found = _Range(1, None, "")
    try:
        program = _traced(model, inputs, kwargs, sizes, Dim("batch", min=1))
        if _takes_one(model, program, inputs, kwargs, sizes.samples):
            return program, None
    except Exception as error:  # whatever the model's own code raises under export
        limit = _limit_of(model, inputs, kwargs, sizes) if "Constraints violated" in str(error) else None
        if limit is None or limit == found:
            raise _explained(error, limit.line if limit else "") from error
        found = limit
    # torch takes a size that may vary for two at least: whether the program does the same with one sample shows when it is tried.
    for least in (1, 2) if found.least <= 2 else (found.least,):
        limit = dataclasses.replace(found, least=least)
        try:
            program = _traced(model, inputs, kwargs, sizes, Dim("batch", min=limit.least, max=limit.most))
        except Exception as error:
            if least == max(found.least, 2):
                raise _explained(error, found.line) from error
            continue
        if least > 1 or _takes_one(model, program, inputs, kwargs, sizes.samples):
            break
    return program, limit


def _takes_one(
    model: torch.nn.Module, program: torch.export.ExportedProgram, inputs: _Positional, kwargs: _Keywords, samples: int
) -> bool:
    """Whether the program computes the model's loss of a single sample, or fails on it as the model does."""
    one = pytree.tree_map(lambda leaf: leaf[:1] if isinstance(leaf, torch.Tensor) and leaf.shape[:1] == (samples,) else leaf, (inputs, kwargs))

    def loss_of(made: Callable[[], torch.nn.Module]) -> Optional[torch.Tensor]:
        try:
            return _step(_copy_of(made()), *one).loss
        except Exception:  # it fails on one sample
            return None

    ours, theirs = loss_of(lambda: model), loss_of(program.module)
    return ours is None if theirs is None else ours is not None and not _differs(ours, theirs)


def _limit_of(model: torch.nn.Module, inputs: _Positional, kwargs: _Keywords, sizes: _Sizes) -> Optional[_Range]:
    """The range that torch finds by itself; None where it finds none."""
    inputs, kwargs = _detached((inputs, kwargs))  # torch marks them
    try:
        program = _traced(model, inputs, kwargs, sizes, Dim.DYNAMIC)
        node = next(node for node in program.graph.nodes if node.op == "placeholder" and node.name in program.graph_signature.user_inputs)
        size = node.meta["val"].shape[0].node
        bounds = program.range_constraints[size.expr]
    except Exception:  # another reason than a range
        return None
    most = int(bounds.upper) if bounds.upper < sys.maxsize // 2 else None
    least = int(bounds.lower) if bounds.lower > 2 else 1
    return _Range(least, most, _line_of_guard(size))


def _line_of_guard(size: Any) -> str:
    """The line of the model that compares the number of samples, as "net.py:8, if x.shape[0] < 64:"."""
    with contextlib.suppress(AttributeError):  # ours to read, torch's to change
        for guard in size.shape_env.guards:
            place = guard.sloc.framework_loc
            if size.expr in guard.expr.free_symbols and place is not None and not place.filename.startswith(_TORCH_FOLDER):
                text = linecache.getline(place.filename, place.lineno).strip()
                return f"{os.path.basename(place.filename)}:{place.lineno}, {text}"
    return ""


def _traced(model: torch.nn.Module, inputs: _Positional, kwargs: _Keywords, sizes: _Sizes, batch: Any) -> torch.export.ExportedProgram:
    def dimensions_of(leaf: Any, lengths: Sequence[int]) -> Optional[dict[int, Any]]:
        if not isinstance(leaf, torch.Tensor):
            return None
        samples = {0: batch} if leaf.dim() > 0 and leaf.shape[0] == sizes.samples else {}
        return {**samples, **{dimension: Dim.DYNAMIC for dimension in lengths}} or None

    # Export takes the dimensions in the structure that the arguments have once they are bound to forward's names.
    arguments = inspect.signature(model.forward).bind(*inputs, **kwargs).arguments
    shapes = {
        name: pytree.tree_map(functools.partial(dimensions_of, lengths=sizes.lengths.get(name, ())), value)
        for name, value in arguments.items()
    }
    with _quiet():
        return torch.export.export(model, inputs, kwargs=kwargs or None, dynamic_shapes=shapes, strict=False)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses torch's warnings and printed graphs; an ExportError says what matters."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with contextlib.redirect_stderr(io.StringIO()):
                yield
    finally:
        logging.disable(disabled)


def _where(error: BaseException) -> str:
    """The error's first line, and the line of the user's code that it came from."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    details = [line[2:] for line in lines[1:] if line.startswith("- ")][:1]
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        name = frame.f_code.co_filename
        if name != __file__ and not name.startswith(_TORCH_FOLDER) and os.path.exists(name):
            place = f" ({os.path.basename(name)}:{line} in {frame.f_code.co_name})"
    return ": ".join([lines[0].split(" For more information")[0], *details])[:400] + place


def _explained(error: Exception, line: str = "") -> ExportError:
    """`line`: of the model, where the error does not say it."""
    where = _where(error) + (f" ({line})" if line else "")
    for sign, remedy in _HINTS:
        if sign in str(error):
            return ExportError("the model can't be exported", where, remedy)
    remedy = "change that line of the model; torch.export.draft_export(...) shows all of them"
    return ExportError("the model can't be exported", where, remedy)


def _check_operators(program: torch.export.ExportedProgram) -> None:
    """Refuses operators of other libraries, which mptune does not load."""
    for graph in program.graph_module.modules():
        for node in graph.graph.nodes if isinstance(graph, torch.fx.GraphModule) else ():
            target = node.target
            if not isinstance(target, torch._ops.OpOverload) or target.namespace in ("aten", "prim", "prims"):
                continue
            lines = [line.strip() for line in (node.stack_trace or "").splitlines() if line.strip().startswith("File ")]
            place = f" ({lines[-1]})" if lines else ""
            remedy = "write that line with PyTorch's own operators: mptune loads no libraries of others"
            if "grouped_mm" in str(target):
                remedy = "make the model with experts_implementation='batched_mm' in its config"
            raise ExportError("the model calls an operator of another library", f"{target}{place}", remedy)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to(torch.complex128 if tensor.is_complex() else torch.float64)


def _differs(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.shape != b.shape:
        return True
    scale = max(float(_wide(a).abs().max()) if a.numel() else 0.0, 1e-12)
    return not torch.allclose(_wide(a), _wide(b), rtol=0, atol=_TOLERANCE * scale, equal_nan=True)


def _check_program(program: torch.export.ExportedProgram, reference: _Step, inputs: _Positional, kwargs: _Keywords) -> None:
    try:
        module = _copy_of(program.module())
    except (AttributeError, KeyError) as error:  # torch's own classes have attributes of such names
        raise ExportError("torch can't run the program", str(error).strip("\"'"), "give that parameter or buffer another name") from error
    # A copy has the program's constants among its buffers: class weights, torch.tensor(...) in forward, tensors that are plain attributes.
    constants = {name for name, _ in module.named_buffers(remove_duplicate=False)} - set(program.graph_signature.buffers)
    before = {name: module.get_buffer(name).detach().clone() for name in constants}
    try:
        step = _step(module, inputs, kwargs)
        for name in constants:
            if _differs(before[name], step.buffers.pop(name)):
                remedy = "make it one with register_buffer: constants are neither trained nor saved"
                raise ExportError("the model writes a tensor that is not a buffer", name, remedy)
        _compare(reference, step)
    except ExportError as error:
        if not reference.reentrant:
            raise
        remedy = "call it with use_reentrant=False, or leave it out: mptune decides itself what to recompute"
        raise ExportError("gradients of a reentrant torch.utils.checkpoint would be lost", error.what, remedy) from error


def _compare(eager: _Step, program: _Step) -> None:
    remedy = "look there for what torch.export does not see: Python state, in-place tricks, hooks, random numbers that are not torch's"
    if _differs(eager.loss, program.loss):
        where = f"{float(program.loss):.8g} instead of {float(eager.loss):.8g}"
        raise ExportError("the program's loss differs from the model's", where, remedy)
    for kind, ours, theirs in (("gradients", eager.gradients, program.gradients), ("buffers", eager.buffers, program.buffers)):
        for name in {**ours, **theirs}:
            here, there = ours.get(name), theirs.get(name)
            if here is None or there is None:
                only = there if here is None else here
                if not only.any():  # type: ignore[union-attr]
                    continue
            if here is None or there is None or _differs(here, there):
                raise ExportError(f"the program's {kind} differ from the model's", name, remedy)


def _about(reference: _Step, samples: int, device: torch.device) -> dict[str, Any]:
    def norms(tensors: dict[str, torch.Tensor]) -> dict[str, float]:
        values = {name: float(_wide(tensor).abs().norm()) for name, tensor in tensors.items()}
        return {name: value for name, value in values.items() if math.isfinite(value)}

    return {
        "schema": _SCHEMA,
        "torch": torch.__version__,
        "device": device.type,
        "seed": _SEED,
        "threads": _THREADS,
        "samples": samples,
        "loss": float(reference.loss),
        "loss_in_program": reference.loss_in_program,
        "gradient_norms": norms(reference.gradients),
        "buffer_norms": norms(reference.buffers),
    }


def _save(program: torch.export.ExportedProgram, path: str, extra: dict[str, str]) -> None:
    """Writes a temporary file and renames it, so that no partial file is left. torch names the archive's folder after the file."""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(path))) as folder:
        temporary = os.path.join(folder, os.path.basename(path))
        try:
            with _quiet():
                torch.export.save(program, temporary, extra_files=extra)
        except Exception as error:
            raise _explained(error) from error
        os.replace(temporary, path)
