"""Runs clang-tidy over the sources that standard input names, a path each line: tidy.py BUILD [MOST].

A header is checked with the source of its own name. Sources that BUILD does not compile are left out. Of more than MOST sources it takes MOST at
random, others for each state of standard input.
"""
import concurrent.futures
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

# Options of g++ that clang does not know, or that name precompiled headers of g++.
DROPPED = {"-Wconversion", "-Winvalid-pch", "-fpch-preprocess", "-Wno-restrict", "-Wno-maybe-uninitialized"}


def without_precompiled(arguments):
    """The command without its `-include .../cmake_pch.hxx`, which clang can't read."""
    kept, words = [], iter(arguments)
    for word in words:
        if word == "-include":
            next(words)
        elif word not in DROPPED:
            kept.append(word)
    return kept


def commands(build):
    for entry in json.loads((build / "compile_commands.json").read_text()):
        arguments = without_precompiled(entry["command"].split())
        yield {**entry, "command": " ".join(arguments[next(i for i, word in enumerate(arguments) if os.path.basename(word) in COMPILERS):])}


COMPILERS = {"c++", "g++", "clang++"}


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    named = {pathlib.Path(line.strip()).resolve().with_suffix(".cc") for line in sys.stdin if line.strip().endswith((".cc", ".h"))}
    entries = {entry["file"]: entry for entry in commands(build) if pathlib.Path(entry["file"]) in named}
    most = int(sys.argv[2]) if len(sys.argv) > 2 else len(entries)
    names = [os.path.relpath(source) for source in sorted(entries)]
    sources = random.Random(repr(names)).sample(names, min(most, len(names)))
    if not entries:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "compile_commands.json").write_text(json.dumps(list(entries.values())))

        def tidy(path):
            return subprocess.run(["clang-tidy", "--quiet", "--warnings-as-errors=*", "-p", folder, path], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True)

        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            done = list(pool.map(tidy, sources))
    # clang 14 can't compile some of libstdc++'s ranges: g++ has compiled these sources, so that is no finding.
    unread = [one for one in done if "[clang-diagnostic-error]" in one.stdout]
    for one in unread:
        print(f"clang-tidy can't compile {one.args[-1]}, which is not checked")
    failed = [one for one in done if one.returncode != 0 and one not in unread]
    for one in failed:
        print(one.stdout, end="")
    left_out = f"; {len(entries) - len(done)} others were left out, which tests/lint.sh --all checks" if len(entries) > len(done) else ""
    print(f"clang-tidy: {len(done) - len(failed) - len(unread)} of {len(done)} sources have no finding{left_out}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
