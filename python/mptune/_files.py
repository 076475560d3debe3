"""Models and plan files. The work is done by mptune_export.py and mptune_plan.py, which people also use without this package."""
from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from mptune import mptune_plan
from mptune._error import Error
from mptune.mptune_plan import Plan

if TYPE_CHECKING:
    import torch

Path = Union[str, "os.PathLike[str]"]
Model = Union[Path, "torch.nn.Module"]
Inputs = Sequence[Any]
Loss = Union[str, Callable[..., "torch.Tensor"]]


def export(
    model: torch.nn.Module,
    example_inputs: Sequence[Any],
    path: str | os.PathLike[str],
    loss: Callable[..., torch.Tensor] | None = None,
    example_kwargs: Mapping[str, Any] | None = None,
) -> torch.export.ExportedProgram:
    """Writes a model as a .pt2 file that mptune trains. Returns the program of torch.export; the model is left as it was.

    example_inputs: positional arguments of forward, two samples or more in dimension 0. With `loss`, the last of them is the target:
        forward gets the others, and the program's output is loss(output, target), a mean over the samples. Without, the loss is chosen when
        the file is used; a model that returns a scalar first has its loss in the program.
    path: ends in .pt2.
    loss: a function of the model's output and the target.
    example_kwargs: keyword arguments of forward.

    The program's loss, gradients and buffers are compared with the model's. Where they differ, mptune.Error says why, and no file is
    written.
    """
    from mptune import mptune_export  # imports torch

    try:
        return mptune_export.export(model, example_inputs, path, loss, example_kwargs)
    except mptune_export.ExportError as error:
        raise Error(error.what, error.where, error.remedy) from error


def load_plan(path: str | os.PathLike[str]) -> Plan:
    """Reads a plan file (*.plan.json): its stages, schedule and micro-batches, also in the words of other frameworks.

    Where the environment variable MPTUNE_PLAN is set, it takes the place of `path`, as it does for the program. Raises mptune.Error for a
    file that is cut short, of another kind or version, or whose parts disagree.
    """
    try:
        return mptune_plan.load_plan(path)
    except mptune_plan.PlanError as error:
        raise Error(error.what, error.where, error.remedy) from error


def parse_plan(text: bytes, where: str) -> Plan:
    """The same for a file's content; `where` names it in errors."""
    try:
        return mptune_plan.parse_plan(text, where)
    except mptune_plan.PlanError as error:
        raise Error(error.what, error.where, error.remedy) from error


def is_module(model: Model | None) -> bool:
    return not (model is None or isinstance(model, (str, os.PathLike)))


def refuse_parts_of_a_module(model: Any, inputs: Inputs | None, loss: Loss | None) -> None:
    if inputs is not None or callable(loss):
        raise Error("inputs and a function as loss go with an nn.Module", f"model {model}", "give the module, or leave them out")


def export_module(model: Any, inputs: Inputs | None, path: str, loss: Callable[..., torch.Tensor] | None) -> None:
    if inputs is None:
        raise Error("example inputs are missing", type(model).__name__, "give inputs=(x,), or inputs=(x, target) with loss=FUNCTION")
    export(model, inputs, path, loss=loss)


@contextlib.contextmanager
def model_file(model: Model, inputs: Inputs | None, loss: Loss | None) -> Iterator[tuple[Path, str | None]]:
    """A model's file and the name of its loss. An nn.Module is exported to a file that is there until the end."""
    if not is_module(model):
        refuse_parts_of_a_module(model, inputs, loss)
        yield model, loss  # type: ignore[misc]  # checked above
        return
    with tempfile.TemporaryDirectory(prefix="mptune-") as folder:
        path = os.path.join(folder, f"{type(model).__name__}.pt2")
        export_module(model, inputs, path, loss if callable(loss) else None)
        yield path, loss if isinstance(loss, str) else None
