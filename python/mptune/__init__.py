"""mptune finds the fastest way to split the training step of a model over several devices, and trains with it.

    import mptune, torch

    model = torch.nn.Sequential(...)
    inputs = torch.randn(32, 3, 64, 64), torch.randint(10, (32,))         # one batch, and its target
    tuned = mptune.tune(model, inputs=inputs, loss=torch.nn.functional.cross_entropy, budget="5min")
    print(tuned.recommended.step_s, tuned.recommended.verdict)           # seconds; FAST: faster than the best baseline

    pipeline = mptune.Pipeline(model, tuned.plan_file, inputs=inputs, loss=torch.nn.functional.cross_entropy)
    optimizer = torch.optim.Adam(pipeline.parameters())
    for data, target in loader:
        loss = pipeline.step(data, target)                                # all micro-batches, forward and backward
        optimizer.step()

Functions that run the program mptune and return what it found, as an object of mptune.results:

    profile         measures a model's layers, and records training steps of one plan: where the time goes, and why devices idle
    plan            searches plans by simulation, from a profile
    tune            profile, plan, then measured trials: the fastest plan, and how it compares with baselines
    run             trains with a plan
    check           compares gradients of a model's pieces with the whole model's
    estimate        estimates layer costs on a kind of GPU that is not there, from the model's operators
    check_order     says whether an order of actions ends under torch's, Megatron-LM's or DeepSpeed's rules, and what waiting costs
    simulate        predicts one plan
    simulate_recorded   predicts another plan of a pipeline that a trace recorded
    compare         says what changed between two traces, plans or studies
    import_trace    why devices idle in a trace that another program recorded
    models, doctor  what is built in, and what this machine has
    report          the page about a study, a trace or a plan

Trace and Study read the files that they write as NumPy arrays. Notebooks show them, and reports. A failure is an mptune.Error with what
is wrong, where, and the remedy.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mptune import results
    from mptune._commands import (
        check,
        check_order,
        compare,
        doctor,
        estimate,
        import_trace,
        models,
        plan,
        profile,
        run,
        simulate,
        simulate_recorded,
        tune,
    )
    from mptune._error import Error
    from mptune._files import export, load_plan
    from mptune._pipeline import Pipeline
    from mptune._report import Report, report
    from mptune.trace import Study, Trace

    __version__: str

__all__ = [
    "Error", "Pipeline", "Report", "Study", "Trace", "__version__", "check", "check_order", "compare", "doctor", "estimate", "export", "import_trace",
    "load_plan", "models", "plan", "profile", "report", "results", "run", "simulate", "simulate_recorded", "tune",
]

_HOMES = {  # module of a name -> names; the others are in _commands
    "_error": ("Error",), "_files": ("export", "load_plan"), "_pipeline": ("Pipeline",),
    "_report": ("Report", "report"), "trace": ("Study", "Trace"),
}


if not TYPE_CHECKING:  # names that are not there are mistakes

    def __getattr__(name: str) -> Any:
        """Imports a name when it is first used. `import mptune` is quick, and `python -m mptune` starts like the program."""
        if name not in __all__:
            raise AttributeError(f"module 'mptune' has no attribute '{name}'")
        if name == "results":
            return importlib.import_module("mptune.results")
        if name == "__version__":
            return _version()
        home = next((module for module, names in _HOMES.items() if name in names), "_commands")
        globals()[name] = getattr(importlib.import_module(f"mptune.{home}"), name)
        return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("mptune")
    except metadata.PackageNotFoundError:
        return "unknown"  # a source folder that is not installed
