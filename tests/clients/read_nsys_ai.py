"""read_nsys_ai.py CLIENT_FILES FOLDER: nsys-ai finds all columns, and the same busy time per device as mptune (to its 0.01 ms)."""
import json
import pathlib
import subprocess
import sys

from nsys_ai.profile import Profile

writer, folder = sys.argv[1], pathlib.Path(sys.argv[2])
subprocess.run([writer, folder], check=True)
expected = json.loads((folder / "expected.json").read_text())
database = str(folder / "golden.sqlite")

missing = Profile(database).schema.missing_required_columns()
assert missing == [], missing

command = [sys.executable, "-m", "nsys_ai", "skill", "run", "pipeline_bubble_metrics", database, "--format", "json"]
result = subprocess.run(command, capture_output=True, text=True)
print(result.stdout, result.stderr)
assert result.returncode == 0
rows = json.loads(result.stdout)
found = {row["deviceId"]: row["active_ms"] for row in (rows if isinstance(rows, list) else rows["rows"])}
assert sorted(found) == list(range(len(expected))), found
for device, ours in enumerate(expected):
    print(f"device {device}: theirs {found[device]} ms, ours {ours['busy_ns'] / 1e6} ms")
    assert abs(found[device] - ours["busy_ns"] / 1e6) <= 0.01
