"""Trace files and studies as NumPy arrays."""
from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from types import NoneType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from mptune._database import Database
from mptune._error import Error
from mptune._files import parse_plan
from mptune._report import report

if TYPE_CHECKING:
    import numpy
    import pandas

    from mptune.mptune_plan import Plan

    Array = numpy.ndarray[Any, numpy.dtype[Any]]

T = TypeVar("T", bound="_File")
_NEWEST_TRACE = 1
_NEWEST_STUDY = 1
_STUDY_APPLICATION = 0x6D707473
_FURTHEST_NS = 1 << 62
_TAG = ("step", "stage", "microbatch", "layer", "replica")
_TABLES = {  # kind of an event -> the table of the Nsight layout that has its times; any other: that of kernels
    "copy": "CUPTI_ACTIVITY_KIND_MEMCPY", "memset": "CUPTI_ACTIVITY_KIND_MEMSET", "sync": "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "profiler": "PROFILER_OVERHEAD", "host": "NVTX_EVENTS",
}
_ALLOWED: dict[type, set[type]] = {int: {int}, float: {float, int, NoneType}, str: {str, NoneType}}
_KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"


class _File:
    """Closed by close(), or at the end of a with statement."""

    def __init__(self, path: str | os.PathLike[str], file: str | os.PathLike[str], kind: str) -> None:
        self._path, self._file = path, Database(file, kind)

    def close(self) -> None:
        """Closes the file. Arrays that were read stay."""
        self._file.close()

    def __enter__(self: T) -> T:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def _repr_html_(self) -> str:
        return report(self._path)._repr_html_()

    def _columns(self, table: str, columns: str, order: str, types: Sequence[type]) -> list[Array]:
        """Columns of a table as arrays, of int64, float64 or objects. A float may be NULL: not a number."""
        numpy = _numpy()
        rows = self._file.rows(f"SELECT {columns} FROM {table} ORDER BY {order}")
        read = []
        for name, wanted, values in zip(columns.split(", "), types, zip(*rows) if rows else [()] * len(types)):
            wrong = set(map(type, values)) - _ALLOWED[wanted]
            if wrong:
                raise self._file.refuse(f"a {name} is {min(one.__name__ for one in wrong)}, not {wanted.__name__}", f"table {table}")
            filled = ["" if value is None else value for value in values] if wanted is str else values
            read.append(numpy.array(filled, dtype={int: "i8", float: "f8", str: object}[wanted]))
        return read


class Trace(_File):
    """A trace file of mptune.profile or mptune.simulate, read-only.

        with mptune.Trace("resnet50.sqlite") as trace:
            events = trace.events()
            forward = events[(events["kind"] == "forward") & (events["stage"] == 0)]
            print((forward["end_ns"] - forward["start_ns"]).mean())

    Recordings of other programs: mptune.import_trace.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, path, "trace file of mptune profile")
        if not self._file.has_table("MPTUNE_META"):
            raise self._file.refuse("no trace of mptune", remedy="name a trace file of mptune profile; for others, mptune.import_trace")
        major = self._meta("schema_major")
        if major > _NEWEST_TRACE:
            raise self._file.refuse(f"a newer mptune wrote this file (version {major}, this one reads {_NEWEST_TRACE})",
                                    remedy="read it with a newer mptune")

    @functools.cached_property
    def devices(self) -> tuple[str, ...]:
        """Names of the devices, such as "cuda:0"."""
        return self._texts("MPTUNE_DEVICE", "device", "name")

    def events(self) -> Array:
        """What happened on the devices, one row each; row i is event i of the tables of the file:

        start_ns, end_ns    since the start of the recording, on one clock for all devices
        device, lane        name of the device; lane 0 computes, others copy
        kind                forward, backward, backward_input, backward_weight, recompute, optimizer, reduce, copy, collective, memset,
                            sync, host, kernel (of an unknown phase) or profiler (the recorder's own work)
        name                what the recorder called it, such as the layer's or kernel's name
        step, stage, microbatch, layer, replica    that it belongs to; -1: none, or all
        bytes               of a copy or memset, else 0
        source, destination of a copy: names of devices, or "host"; else empty

        Events of one lane of a device never overlap.
        """
        events, whats, details = self._rows("MPTUNE_EVENT", "event")
        homes = self._at([self._home(kind) for kind in self._kinds()], whats, "MPTUNE_EVENT")
        for table in (_KERNELS, *_TABLES.values()):
            times = self._times(table)
            mine, first, behind = homes == table, 0, None
            if table == "NVTX_EVENTS":  # after the ranges and the events: steps for other readers
                first = self._count("MPTUNE_RANGE")
                behind = first + int(mine.sum())
            self._put_times(events, mine, [one[first:behind] for one in times], table)
        self._put_bytes(events, details)
        return events

    def ranges(self) -> Array:
        """Ranges around events, in the form of events(): actions of the schedule (kind "action") and steps ("step")."""
        events = self._rows("MPTUNE_RANGE", "range")[0]
        times = [one[:len(events)] for one in self._times("NVTX_EVENTS")]
        self._put_times(events, _numpy().ones(len(events), dtype=bool), times, "NVTX_EVENTS")
        return events

    def frame(self) -> pandas.DataFrame:
        """events() as a DataFrame of pandas."""
        try:
            import pandas
        except ImportError as error:
            raise Error("pandas is not installed", "mptune.Trace.frame", "pip install pandas, or use events()", 7) from error
        frame: pandas.DataFrame = pandas.DataFrame(self.events())
        return frame

    def _rows(self, table: str, key: str) -> tuple[Array, Array, Array]:
        """Events without times and bytes, and the numbers of their kinds and details."""
        numpy = _numpy()
        if not self._meta("has_trace"):
            raise self._file.refuse("this file has a profile, but no recorded steps", remedy="name a trace file of mptune profile")
        names = [key, "what", "device", "lane", "name", "tag", "detail"]
        numbers, whats, devices, lanes, texts, tags, details = self._columns(table, ", ".join(names), key, [int] * len(names))
        if not numpy.array_equal(numbers, numpy.arange(len(numbers))):
            raise self._file.refuse("a row is missing", f"table {table}")
        events: Array = numpy.zeros(len(numbers), dtype=_event_type())
        events["source"], events["destination"] = "", ""
        events["kind"] = self._at(self._kinds(), whats, table)
        events["device"] = self._at(self.devices, devices, table)
        events["name"] = self._at(self._names(), texts, table)
        events["lane"] = lanes
        for name, values in zip(_TAG, self._columns("MPTUNE_TAG", ", ".join(_TAG), "tag", [int] * len(_TAG))):
            events[name] = self._at([*values, -1], tags, table, least=-1)  # -1: no tag
        return events, whats, details

    def _home(self, kind: str) -> str:
        """The table with the times of events of a kind. Files of version 1.0 have none for the recorder's own work."""
        return _KERNELS if kind == "profiler" and self._meta("schema_minor") < 1 else _TABLES.get(kind, _KERNELS)

    def _times(self, table: str) -> list[Array]:
        if not self._file.has_table(table):
            return [_numpy().zeros(0, dtype="i8")] * 2
        return self._columns(table, "start, end", "rowid", [int, int])

    def _put_times(self, events: Array, mine: Array, times: list[Array], table: str) -> None:
        """Rows of a kind have the same order in both tables."""
        start, end = times
        if len(start) != mine.sum():
            raise self._file.refuse("rows are missing, or too many", f"table {table}")
        shift = self._meta("time_shift_ns")
        if abs(shift) > _FURTHEST_NS or (start < -_FURTHEST_NS).any() or (end > _FURTHEST_NS).any() or (end < start).any():
            raise self._file.refuse("a time is out of range", f"table {table}")
        events["start_ns"][mine], events["end_ns"][mine] = start - shift, end - shift

    def _put_bytes(self, events: Array, details: Array) -> None:
        copies, memsets = events["kind"] == "copy", events["kind"] == "memset"
        sizes, sources, destinations = self._columns("MPTUNE_COPY", "bytes, source, destination", "copy", [int] * 3)
        chosen = details[copies]
        places = [*self.devices, "host"]  # -1
        events["bytes"][copies] = self._at(sizes, chosen, "MPTUNE_EVENT")
        for name, devices in (("source", sources), ("destination", destinations)):
            events[name][copies] = self._at(places, self._at(devices, chosen, "MPTUNE_EVENT"), "MPTUNE_COPY", least=-1)
        events["bytes"][memsets] = self._columns("CUPTI_ACTIVITY_KIND_MEMSET", "bytes", "rowid", [int])[0]

    def _at(self, values: Sequence[Any] | Array, indices: Array, table: str, least: int = 0) -> Array:
        """The value of each index. `least` -1: that is the last of them."""
        numpy = _numpy()
        if len(indices) and not (least <= indices.min() and indices.max() < len(values)):
            raise self._file.refuse("a number of a row of another table is out of range", f"table {table}")
        kind = "i8" if all(isinstance(value, (int, numpy.integer)) for value in values) else object
        chosen: Array = numpy.array(values, dtype=kind)[indices] if len(indices) else numpy.zeros(0, dtype=kind)
        return chosen

    def _kinds(self) -> tuple[str, ...]:
        return self._texts("MPTUNE_WHAT", "what", "name")

    def _names(self) -> tuple[str, ...]:
        """The first of StringIds; those behind are of calls without a name."""
        return self._texts("StringIds", "id", "value")[:self._meta("names")]

    def _texts(self, table: str, key: str, column: str) -> tuple[str, ...]:
        return tuple(self._columns(table, column, key, [str])[0])

    def _count(self, table: str) -> int:
        return int(self._file.rows(f"SELECT count(*) FROM {table}")[0][0])

    def _meta(self, name: str) -> int:
        rows = self._file.rows("SELECT value FROM MPTUNE_META WHERE name = ?", [name])
        try:
            return int(rows[0][0])
        except (IndexError, TypeError, ValueError) as error:
            raise self._file.refuse(f"{name} is missing, or no number", "table MPTUNE_META") from error


class Study(_File):
    """The folder of a study, as mptune.tune leaves it; also while it runs. Read-only.

        with mptune.Study("resnet50.study") as study:
            trials = study.trials()
            measured = trials[trials["outcome"] == "measured"]
            print(study.plan().n_microbatches, measured["step_s"].min())
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.folder = Path(path)
        super().__init__(self.folder, self.folder / "study.sqlite", "folder of a study")
        if self._file.number(68) != _STUDY_APPLICATION:
            raise self._file.refuse("this is not a study", remedy="name a folder that mptune tune wrote")
        if self._file.number(60) > _NEWEST_STUDY:
            raise self._file.refuse(f"a newer mptune wrote this study (version {self._file.number(60)}, this one reads {_NEWEST_STUDY})",
                                    remedy="read it with a newer mptune")

    def trials(self) -> Array:
        """The finished trials in the order in which they were made, one row each:

        id, series          number of the trial; trials of one series were measured in turn
        name                of a baseline, else "candidate"
        plan_key            the same for the same plan
        outcome             measured, out_of_memory, timed_out, crashed, wrong_result, non_finite, infeasible, interrupted or environment
        reason              why it was not measured; may be empty
        step_s              median of its samples [s], their number step_samples; not a number where it was not measured
        predicted_step_s    by the simulation, before the trial [s]; not a number for none
        lower_bound_s       no schedule of the plan is faster, by the simulation [s]
        peak_bytes          largest peak of a device; 0 where it was not measured
        loss                of its last step; not a number where it was not measured
        finished_utc        such as "2026-01-31T12:00:00.000Z"
        """
        numpy = _numpy()
        query = "id, series, name, plan_key, outcome, reason, loss, finished_utc"
        columns = dict(zip(query.split(", "), self._columns("trial", query, "id", [int, int, str, str, str, str, float, str])))
        trials: Array = numpy.zeros(len(columns["id"]), dtype=_trial_type())
        for name, values in columns.items():
            trials[name] = values
        samples = self.samples()
        predictions, peaks = self._by_trial("prediction", "step_s, lower_bound_s", float), self._by_trial("peak", "bytes", int)
        for trial in trials:
            own = samples["step_s"][samples["trial"] == trial["id"]]
            predicted = predictions.get(trial["id"], [(numpy.nan, numpy.nan)])[0]
            trial["step_s"], trial["step_samples"] = numpy.median(own) if len(own) else numpy.nan, len(own)
            trial["predicted_step_s"], trial["lower_bound_s"] = predicted
            trial["peak_bytes"] = max((peak for peak, in peaks.get(trial["id"], [])), default=0)
        return trials

    def samples(self) -> Array:
        """Every measured step, one row each: trial (its id), step_s [s], round and position in it, started_s since the series began [s]."""
        numpy = _numpy()
        names = ("trial", "step_s", "round", "position", "started_s")
        columns = self._columns("sample", "trial, value_s, round, position, started_s", "trial, number", [int, float, int, int, float])
        samples: Array = numpy.zeros(len(columns[0]), dtype=[(name, values.dtype) for name, values in zip(names, columns)])
        for name, values in zip(names, columns):
            samples[name] = values
        return samples

    def plan(self) -> Plan:
        """The recommended plan. Raises mptune.Error while there is none."""
        files = sorted(self.folder.glob("*.plan.json"))
        if len(files) != 1:
            what = f"there are {len(files)} plan files" if files else "the study has no plan yet"
            raise Error(what, str(self.folder), "name one to mptune.load_plan" if files else "finish it: mptune.tune(STUDY, resume=True)")
        with open(files[0], "rb") as file:
            return parse_plan(file.read(), str(files[0]))

    def _by_trial(self, table: str, columns: str, kind: type) -> dict[int, list[tuple[Any, ...]]]:
        """Rows of a table by its column `trial`."""
        found: dict[int, list[tuple[Any, ...]]] = {}
        types = [int] + [kind] * len(columns.split(", "))
        for trial, *values in zip(*self._columns(table, f"trial, {columns}", "trial", types)):
            found.setdefault(int(trial), []).append(tuple(values))
        return found


def _event_type() -> list[tuple[str, Any]]:
    numbers = [(name, "i4") for name in ("lane", *_TAG)]
    texts = [(name, object) for name in ("device", "kind", "name", "source", "destination")]
    return [("start_ns", "i8"), ("end_ns", "i8"), *texts[:3], *numbers, ("bytes", "i8"), *texts[3:]]


def _trial_type() -> list[tuple[str, Any]]:
    texts = [(name, object) for name in ("name", "plan_key", "outcome", "reason")]
    seconds = [(name, "f8") for name in ("step_s", "predicted_step_s", "lower_bound_s")]
    return [("id", "i8"), ("series", "i8"), *texts, *seconds, ("step_samples", "i8"), ("peak_bytes", "i8"), ("loss", "f8"),
            ("finished_utc", object)]


def _numpy() -> Any:
    try:
        import numpy
    except ImportError as error:
        raise Error("NumPy is not installed", "mptune.Trace and mptune.Study", "pip install numpy", 7) from error
    return numpy
