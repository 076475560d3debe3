"""Busy time of a GPU in other programs' recordings: mptune's SQLite file in the layout of Nsight Systems, and torch.profiler's JSON."""
import contextlib
import gzip
import json
import sqlite3

GPU_TABLES = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")
GPU_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")


def union_seconds(intervals):
    """How long at least one of the (start, end) in nanoseconds lasts."""
    busy, reached = 0, float("-inf")
    for start, end in sorted(intervals):
        if end > reached:
            busy += end - max(start, reached)
            reached = end
    return busy * 1e-9


def gpu_events(database, where="1", values=()):
    tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master")}
    return [event for table in GPU_TABLES if table in tables
            for event in database.execute(f"SELECT start, end FROM {table} WHERE {where}", values)]


def event_count(path):
    """Number of kernels, copies and memsets in a trace."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        return len(gpu_events(database))


def host_calls(path, *parts):
    """For each part of a name, the number of calls of the CUDA runtime whose name has it."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        names = [row[0] for row in database.execute("SELECT value FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds ON StringIds.id = nameId")]
    return [sum(part in name for name in names) for part in parts]


def busy_in_trace(path, range_name):
    """Seconds and number of the GPU's events that start within the NVTX range of this name."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        window = database.execute("SELECT start, end FROM NVTX_EVENTS LEFT JOIN StringIds ON StringIds.id = textId "
                                  "WHERE coalesce(text, value) = ?", (range_name,)).fetchone()
        if window is None:
            raise ValueError(f"no NVTX range {range_name!r} in {path}")
        events = gpu_events(database, "start >= ? AND start < ?", window)
    return union_seconds(events), len(events)


def busy_in_kineto(path):
    """Seconds and number of the GPU's events."""
    with open(path) as file:
        recorded = json.load(file)["traceEvents"]
    events = [(1e3 * event["ts"], 1e3 * (event["ts"] + event["dur"])) for event in recorded
              if event.get("ph") == "X" and event.get("cat") in GPU_CATEGORIES]
    return union_seconds(events), len(events)


def compress(source, destination):
    """gzip, and the size of the result."""
    with open(source, "rb") as file:
        data = gzip.compress(file.read(), 6)
    with open(destination, "wb") as file:
        file.write(data)
    return len(data)
