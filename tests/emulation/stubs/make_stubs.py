#!/usr/bin/env python3
"""Writes the sources of libraries whose functions say that they are not emulated:

    make_stubs.py --torch FOLDER --cuda-header FILE --emulated LIBRARY... --out FOLDER SONAME...

For each SONAME a SONAME.cc and a SONAME.map with the functions that LibTorch's libraries need from it, under the version names that they ask for.
The soname libmptune_emulated_missing.so is ours: all functions of runtime, driver, CUPTI, NCCL and NVRTC that the emulated libraries don't define.
"""

import argparse
import pathlib
import re
import subprocess
import sys

MISSING = "libmptune_emulated_missing.so"
STUBS = {
    "libcublas.so.13", "libcublasLt.so.13", "libcudnn.so.9", "libcufft.so.12", "libcusparse.so.12", "libcusparseLt.so.0", "libcurand.so.10",
    "libcusolver.so.12", "libcufile.so.0", "libnvshmem_host.so.3",
}
# Whose functions have no version names, or one that is not the soname.
UNVERSIONED = {
    "cuFile": "libcufile.so.0",
    "cusparseLt": "libcusparseLt.so.0",
    "curand": "libcurand.so.10",
    "nvshmem": "libnvshmem_host.so.3",
    "nccl": MISSING,
}
OTHER_NODES = {"NVSHMEM": "libnvshmem_host.so.3"}
EMULATED = re.compile(r"lib(cudart|cupti|nvrtc|nccl|cuda)\.so\.")
DRIVER = re.compile(r"cu[A-Z]\w*$")
GIVES_TEXT = re.compile(r"Get\w*(String|Name)$|GetLastErrorString$")
# What programs ask for without using the library.
ANSWERS = {"cudnnGetVersion": 91002, "cudnnGetCudartVersion": 13000, "cusparseLtGetVersion": 0}


def symbols(library: pathlib.Path, which: str) -> set[tuple[str, str]]:
    """Names with their version names, which may be empty."""
    lines = subprocess.run(["nm", "-D", which, library], check=True, capture_output=True, text=True).stdout.splitlines()
    found = set()
    for line in lines:
        name, _, version = line.split()[-1].replace("@@", "@").partition("@")
        found.add((name, version))
    return found


def asked_by_name(library: pathlib.Path) -> set[str]:
    """Driver functions whose names are texts in a library, which looks them up at run time."""
    return {text.decode() for text in re.findall(rb"(?<=\0)cu[A-Z][A-Za-z0-9_]{2,60}(?=\0)", library.read_bytes())}


def home(name: str, version: str) -> str | None:
    """The soname of the library that a function belongs to; None if it is nothing of CUDA."""
    if version:
        soname = OTHER_NODES.get(version, version)
        if EMULATED.match(soname):
            return MISSING
        return soname if soname.startswith(("libcu", "libnv")) else None
    for prefix, soname in UNVERSIONED.items():
        if name.startswith(prefix):
            return soname
    return MISSING if DRIVER.match(name) else None


def needed(torch: pathlib.Path, header: pathlib.Path) -> dict[str, set[tuple[str, str]]]:
    libraries: dict[str, set[tuple[str, str]]] = {}
    declared = set(re.findall(r"\bcu[A-Z]\w*", header.read_text()))
    for library in sorted(torch.glob("lib*.so")):
        for name, version in symbols(library, "--undefined-only"):
            if soname := home(name, version):
                libraries.setdefault(soname, set()).add((name, version))
        if "cuda" in library.name or "nvrtc" in library.name:
            libraries.setdefault(MISSING, set()).update((name, "") for name in asked_by_name(library) & declared)
    return libraries


def body(name: str) -> str:
    if name in ANSWERS:
        return f'extern "C" EMULATION_EXPORT long {name}() {{ return {ANSWERS[name]}; }}'
    if GIVES_TEXT.search(name):
        return f'extern "C" EMULATION_EXPORT const char* {name}() {{ return "not emulated"; }}'
    return f'extern "C" EMULATION_EXPORT long {name}() {{ return emulation::not_emulated("{name}"); }}'


def write(out: pathlib.Path, soname: str, functions: set[tuple[str, str]]) -> None:
    lines = ['#include "tests/emulation/machine/machine.h"', ""]
    lines += [body(name) for name in sorted({name for name, _ in functions})]
    (out / f"{soname}.cc").write_text("\n".join(lines) + "\n")
    versions = sorted({version for _, version in functions if version})
    script = ""
    for version in versions:
        names = "".join(f" {name};" for name in sorted(name for name, node in functions if node == version))
        script += f"{version} {{ global:{names} }};\n"
    (out / f"{soname}.map").write_text(script or "{ global: *; };\n")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", type=pathlib.Path, required=True)
    parser.add_argument("--cuda-header", type=pathlib.Path, required=True)
    parser.add_argument("--emulated", type=pathlib.Path, nargs="*", default=[])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("sonames", nargs="+")
    options = parser.parse_args()
    libraries = needed(options.torch, options.cuda_header)
    if unknown := sorted(set(libraries) - {*STUBS, MISSING}):
        print(f"make_stubs.py: LibTorch needs libraries without stubs: {', '.join(unknown)}", file=sys.stderr)
        return 1
    defined = {name for library in options.emulated for name, _ in symbols(library, "--defined-only")}
    defined |= {name.rsplit("_v", 1)[0] for name in defined if re.search(r"_v\d$", name)}
    for soname in options.sonames:
        functions = libraries.get(soname, set())
        if soname == MISSING:
            functions = {(name, version) for name, version in functions if name not in defined}
        write(options.out, soname, functions)
    return 0


if __name__ == "__main__":
    sys.exit(main())
