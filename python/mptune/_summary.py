"""What a result says in a few lines: repr() of the dataclasses of mptune.results."""
from __future__ import annotations

import dataclasses
import textwrap
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from mptune._decode import Result
    from mptune.results import TuneResult

_WIDTH = 120
_MOST_LINES = 6
_MOST_CHARACTERS = 60
_UNPIPELINED = ("single_device", "all_cores", "all_cores_channels_last")


def summary(result: Result) -> str:
    """For people; the fields and `json` have all of it."""
    if type(result).__name__ == "TuneResult":
        return tuned(cast("TuneResult", result))
    fields = [field.name for field in dataclasses.fields(result) if field.name not in ("json", "schema")]
    values = ((name, getattr(result, name)) for name in fields)
    text = ", ".join(f"{name}={_short(value)}" for name, value in values if value is not None)
    return "\n".join(textwrap.wrap(f"{type(result).__name__}({text})", _WIDTH, subsequent_indent="    ", max_lines=_MOST_LINES,
                                   placeholder=" ...)", break_long_words=False, break_on_hyphens=False))


def tuned(result: TuneResult) -> str:
    """The answer of a tuning: the plan, its step time, how it compares, where it is."""
    best = result.recommended
    step = f"{best.step_s * 1e3:.4g} ms a step"
    lines = [f"{best.verdict}: {best.description or _plan_text(result)}: {step}{_comparison(result)}", f"    plan: {result.plan_file}"]
    if result.plain_pytorch:
        lines.append(f"    plain PyTorch does the same with: {'; '.join(result.plain_pytorch)}")
    if result.report:
        lines.append(f"    report: {result.report}")
    gap = "" if result.gap is None else f"; no plan can be faster by more than {100 * result.gap:.1f} %, by the simulation"
    lines.append(f"    {len(result.trials)} trials in {result.elapsed_s:.0f} s{gap}")
    return "\n".join(lines)


def _plan_text(result: TuneResult) -> str:
    plan = result.recommended.plan
    return f"{plan.num_stages} stages, {plan.num_microbatches} micro-batches, {plan.schedule.name}"


def _comparison(result: TuneResult) -> str:
    """With the fastest un-pipelined run, which is what one has without mptune, else with the fastest baseline; not with the plan itself."""
    measured = [(one.step_s, one.name, one.speedup) for one in result.baselines
                if one.step_s and one.speedup and one.speedup.pairs and one.plan_key != result.recommended.plan_key]
    if not measured:
        return ""
    _, name, speedup = min([one for one in measured if one[1] in _UNPIPELINED] or measured, key=lambda one: one[0])
    return f", {speedup.estimate:.2f} times as fast as {name}"


def _short(value: Any) -> str:
    if dataclasses.is_dataclass(value):
        return f"{type(value).__name__}(...)"
    if isinstance(value, tuple):
        return _short_list(value)
    if isinstance(value, dict):
        return f"<{len(value)} keys>"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = repr(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}...'"


def _short_list(values: tuple[Any, ...]) -> str:
    plain = not any(isinstance(one, (tuple, dict)) or dataclasses.is_dataclass(one) for one in values)
    text = f"({', '.join(map(_short, values))}{',' * (len(values) == 1)})"
    if not values or plain and len(text) <= _MOST_CHARACTERS:
        return text
    return f"<{len(values)} {'values' if plain else type(values[0]).__name__}>"
