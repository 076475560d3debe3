"""read_nsys_stats.py CLIENT_FILES FOLDER: nsys stats and SQL give the same sums of kernels; exits with 77 (skipped) without nsys."""
import csv
import io
import pathlib
import shutil
import sqlite3
import subprocess
import sys

if shutil.which("nsys") is None:
    print("nsys is not installed")
    sys.exit(77)
writer, folder = sys.argv[1], pathlib.Path(sys.argv[2])
subprocess.run([writer, folder], check=True)
database = folder / "golden.sqlite"
with sqlite3.connect(database) as connection:
    count, time = connection.execute("SELECT count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()

command = ["nsys", "stats", "--report", "cuda_gpu_kern_sum", "--format", "csv", "--quiet", str(database)]
result = subprocess.run(command, capture_output=True, text=True)
print(result.stdout, result.stderr)
assert result.returncode == 0
lines = result.stdout.splitlines()
header = next(i for i, line in enumerate(lines) if "Total Time (ns)" in line)
rows = list(csv.DictReader(io.StringIO("\n".join(lines[header:]))))
assert sum(int(row["Instances"]) for row in rows) == count
assert sum(int(row["Total Time (ns)"]) for row in rows) == time
