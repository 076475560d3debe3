"""Every header compiles alone: headers_alone.py COMPILER ROOT pure|torch|cuda|cupti FLAG...

Headers that see LibTorch are compiled after LibTorch's types, which are precompiled once: otherwise LibTorch's headers take most of the time.
So a header that relies on LibTorch for a standard header is not found.
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

compiler, root, kind, *flags = sys.argv[1:]
root = pathlib.Path(root)


OUTSIDE = {"cupti": ("cupti",), "cuda": ("c10/cuda/", "cuda"), "torch": ("torch/", "ATen/", "c10/")}


def included(path, seen):
    """All names that a header includes, directly or through headers of the project."""
    if path in seen or not path.exists():
        return
    seen.add(path)
    for line in path.read_text().splitlines():
        if not line.startswith("#include"):
            continue
        name = line.split()[1].strip('<>"')
        yield name
        yield from included(root / name, seen)


def kind_of(path):
    names = list(included(path, set()))
    return next((k for k, prefixes in OUTSIDE.items() if any(n.startswith(prefixes) for n in names)), "pure")


LANGUAGE = [compiler, "-std=c++20", "-Wall", "-Wextra", *flags]


def precompile_torch(folder):
    """Flags that include LibTorch's types first."""
    header = pathlib.Path(folder) / "torch_types.h"
    header.write_text("#include <torch/types.h>\n")
    subprocess.run([*LANGUAGE, "-x", "c++-header", str(header), "-o", f"{header}.gch"], check=True)
    return ["-include", str(header)]


def compile_alone(path, first):
    command = [*LANGUAGE, "-fsyntax-only", "-Wno-pragma-once-outside-header", *first, "-x", "c++", "-"]
    source = f'#include "{path.relative_to(root)}"\n'
    result = subprocess.run(command, input=source, capture_output=True, text=True)
    return path, result.returncode, result.stderr


folders = ["profiler", "planner", "tuner", "reports"]
headers = [p for f in folders for p in sorted((root / f).rglob("*.h")) if kind_of(p) == kind]
assert headers, f"no {kind} headers below {root}"
with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    first = precompile_torch(folder) if kind in ("torch", "cuda") else []
    failed = [(path, text) for path, code, text in pool.map(compile_alone, headers, [first] * len(headers)) if code]
for path, text in failed:
    print(f"{path} does not compile alone:\n{text}")
print(f"{len(headers) - len(failed)} of {len(headers)} {kind} headers compile alone")
sys.exit(1 if failed else 0)
