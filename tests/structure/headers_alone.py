"""Every header compiles alone: headers_alone.py COMPILER|names ROOT pure|torch|cuda|cupti... -- FLAG...

Clang is three times faster at it than g++.

Headers of the standard library and LibTorch's types are precompiled once and come first: otherwise they take most of the time. So that a header
includes the standard headers that it uses (or a header of the project does that it includes) is looked up by name; "names" looks at no more.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

split = sys.argv.index("--")
compiler, root, *kinds = sys.argv[1:split]
flags = sys.argv[split + 1:]
root = pathlib.Path(root)

# What standard headers declare, by the names that headers of the project use.
STANDARD = {"vector": "vector", "string": "string", "to_string": "string", "optional": "optional", "nullopt": "optional", "unique_ptr": "memory",
            "shared_ptr": "memory", "weak_ptr": "memory", "make_unique": "memory", "make_shared": "memory", "function": "functional", "map": "map",
            "multimap": "map", "pair": "utility", "move": "utility", "forward": "utility", "exchange": "utility", "array": "array", "string_view": "string_view",
            "atomic": "atomic", "span": "span", "numeric_limits": "limits", "tuple": "tuple", "variant": "variant", "visit": "variant",
            "mutex": "mutex", "lock_guard": "mutex", "unique_lock": "mutex", "unordered_map": "unordered_map", "set": "set",
            "exception_ptr": "exception", "exception": "exception", "thread": "thread", "runtime_error": "stdexcept", "logic_error": "stdexcept",
            "condition_variable": "condition_variable", "deque": "deque", "int64_t": "cstdint", "int32_t": "cstdint", "uint64_t": "cstdint",
            "uint32_t": "cstdint", "uint8_t": "cstdint", "any_of": "algorithm", "max": "algorithm", "min": "algorithm", "sort": "algorithm"}
# Headers that bring another.
SAME = {"utility": {"algorithm", "array", "deque", "functional", "map", "memory", "optional", "set", "string", "tuple", "unordered_map", "variant", "vector"},
        "cstdint": {"chrono", "atomic"}, "exception": {"stdexcept"}, "string_view": {"string"}}
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


CLANG = "clang" in os.path.basename(compiler)
LANGUAGE = [compiler, "-std=c++20", "-Wall", "-Wextra", *flags]


def missing_standard_headers(path):
    """Standard headers that a header uses but does not include."""
    text = re.sub(r"//.*|\"(\\.|[^\"])*\"", "", path.read_text())
    needed = {STANDARD[name] for name in re.findall(r"\bstd::(?:chrono::|this_thread::|ranges::)?(\w+)", text) if name in STANDARD}
    there = set(included(path, set()))
    return sorted(header for header in needed if not there & {header, *SAME.get(header, ())})


def precompile(headers, folder):
    """Flags that include what the headers use of the standard library, and LibTorch's types, first."""
    names = {name for path in headers for name in included(path, set())}
    standard = sorted(name for name in names if re.fullmatch("[a-z_]+", name))
    torch = ["torch/types.h"] if any(name.startswith(OUTSIDE["torch"]) for name in names) else []
    header = pathlib.Path(folder) / "first.h"
    header.write_text("".join(f"#include <{name}>\n" for name in standard + torch))
    # Clang would instantiate the templates of LibTorch's types for every header again: that takes two thirds of the time.
    once = ["-fpch-instantiate-templates"] if CLANG else []
    subprocess.run([*LANGUAGE, *once, "-x", "c++-header", str(header), "-o", f"{header}.gch"], check=True)
    return ["-include-pch", f"{header}.gch"] if CLANG else ["-include", str(header)]


def compile_alone(path, first):
    command = [*LANGUAGE, "-fsyntax-only", "-Wno-pragma-once-outside-header", *first, "-x", "c++", "-"]
    source = f'#include "{path.relative_to(root)}"\n'
    result = subprocess.run(command, input=source, capture_output=True, text=True)
    return path, result.returncode, result.stderr


def failures_to_compile(headers):
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        first = precompile(headers, folder)
        return [(path, text) for path, code, text in pool.map(compile_alone, headers, [first] * len(headers)) if code]


folders = ["profiler", "planner", "tuner", "reports"]
headers = [p for f in folders for p in sorted((root / f).rglob("*.h")) if kind_of(p) in kinds]
assert headers, f"no {kinds} headers below {root}"
failed = [(path, f"it does not include <{name}>, which it uses") for path in headers for name in missing_standard_headers(path)]
if compiler != "names":
    failed += failures_to_compile(headers)
for path, text in failed:
    print(f"{path}: {text}")
good = len(headers) - len({path for path, _ in failed})
what = "include the standard headers that they use" if compiler == "names" else "compile alone"
print(f"{good} of {len(headers)} {' and '.join(kinds)} headers {what}")
sys.exit(1 if failed else 0)
