"""Loads the C++ runtime, which works with one version of torch."""
from __future__ import annotations

import functools
import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from mptune._error import Error

if TYPE_CHECKING:
    from mptune import _runtime

_FOLDER = Path(__file__).absolute().parent
_ENVIRONMENT = 7


@functools.cache
def runtime_pipeline() -> type[_runtime.Pipeline]:
    """The C++ class behind mptune.Pipeline. Raises Error where it was not built, or was built for another torch."""
    try:
        built_with = str(importlib.import_module("mptune._built_with").TORCH)
    except ModuleNotFoundError:
        raise Error("this package was built without its C++ runtime", str(_FOLDER), "build it with the headers of Python: pip install .",
                    _ENVIRONMENT) from None
    if torch.__version__.split("+")[0] != built_with:
        raise Error(f"mptune was built for torch {built_with}", f"torch {torch.__version__}", f"pip install torch=={built_with}",
                    _ENVIRONMENT)
    cuda = _FOLDER / "libexec" / "mptune" / "libmptune_cuda.so"
    if cuda.exists():
        os.environ.setdefault("MPTUNE_CUDA_LIBRARY", str(cuda))
    from mptune import _runtime

    return _runtime.Pipeline
