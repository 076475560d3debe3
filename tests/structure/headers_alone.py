"""Every header compiles alone: headers_alone.py COMPILER ROOT pure|torch|cuda|cupti FLAG..."""
import concurrent.futures
import os
import pathlib
import subprocess
import sys

compiler, root, kind, *flags = sys.argv[1:]
root = pathlib.Path(root)


OUTSIDE = {"cupti": ("cupti",), "cuda": ("c10/cuda/", "cuda"), "torch": ("torch/", "ATen/", "c10/")}


def included(path, seen):
    """All names that a header includes, following the project's own: torch headers of a room without LibTorch would be found here as well."""
    if path in seen or not path.exists():
        return
    seen.add(path)
    for line in path.read_text().splitlines():
        if not line.startswith("#include"):
            continue
        name = line.split()[1].strip('<>"')
        yield name
        if name.startswith("mptune/"):
            yield from included(root / name.removeprefix("mptune/"), seen)


def kind_of(path):
    names = list(included(path, set()))
    return next((k for k, prefixes in OUTSIDE.items() if any(n.startswith(prefixes) for n in names)), "pure")


def compile_alone(path):
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wno-pragma-once-outside-header", "-x", "c++", "-", *flags]
    source = f'#include "mptune/{path.relative_to(root)}"\n'
    result = subprocess.run(command, input=source, capture_output=True, text=True)
    return path, result.returncode, result.stderr


folders = ["profiler", "planner", "tuner", "reports"]
headers = [p for f in folders for p in sorted((root / f).rglob("*.h")) if kind_of(p) == kind]
assert headers, f"no {kind} headers below {root}"
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    failed = [(path, text) for path, code, text in pool.map(compile_alone, headers) if code]
for path, text in failed:
    print(f"{path} does not compile alone:\n{text}")
print(f"{len(headers) - len(failed)} of {len(headers)} {kind} headers compile alone")
sys.exit(1 if failed else 0)
