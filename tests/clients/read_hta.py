"""read_hta.py CLIENT_FILES FOLDER: HTA's compute and idle times per device equal mptune's within 2 us per interval."""
import json
import os
import pathlib
import subprocess
import sys

writer, folder = sys.argv[1], pathlib.Path(sys.argv[2])
subprocess.run([writer, folder], check=True)
expected = json.loads((folder / "expected.json").read_text())
os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
from hta.trace_analysis import TraceAnalysis  # noqa: E402  reads the environment

table = TraceAnalysis(trace_dir=str(folder / "kineto"), include_last_profiler_step=True).get_temporal_breakdown(visualize=False)
print(table.to_string())
found = {int(row["rank"]): row for row in table.to_dict("records")}
assert sorted(found) == list(range(len(expected))), sorted(found)
for rank, device in enumerate(expected):
    for column, ours in (("compute_time(ns)", "compute_ns"), ("idle_time(ns)", "idle_ns")):
        column = column if column in found[rank] else column.replace("ns", "us")
        theirs = float(found[rank][column]) * (1 if "(ns)" in column else 1000)
        allowed = 2000 * device["intervals"]
        print(f"device {rank} {ours}: theirs {theirs:.0f}, ours {device[ours]}, allowed {allowed}")
        assert abs(theirs - device[ours]) <= allowed
