"""Recordings that are made up: pipeline timelines of two stages."""
import json


def write_timeline(path, steps):
    """A step per pair: how long the forwards of the first and of the second stage take [ms]; backwards take twice as long."""
    events = [{"ph": "M", "name": "thread_name", "pid": stage, "tid": stage, "args": {"name": f"PP rank {stage}, TP rank 0, compute"}} for stage in (0, 1)]
    now = 0
    for step, (first, second) in enumerate(steps):
        for stage, what, length in ((0, "forward", first), (1, "forward", second), (1, "backward", 2 * second), (0, "backward", 2 * first)):
            events.append({"ph": "X", "pid": stage, "tid": stage, "name": what + "-compute", "cat": what + "-compute", "ts": 1000 * now,
                           "dur": 1000 * length, "args": {"step": step, "model_chunk": 0, "mb_id": 0, "seq_id": 0}})
            now += length
    with open(path, "w") as file:
        json.dump({"traceEvents": events}, file)
