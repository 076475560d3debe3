"""The include rule: profiler <- planner <- tuner <- reports; pure rooms see no LibTorch, CUDA, CUPTI or SQLite.

Usage: include_rule.py ROOT     checks a tree, one line per violation, exit 1 if there is one
       include_rule.py --self   checks the checker
"""
import pathlib
import re
import sys
import tempfile

ORDER = ["profiler", "planner", "tuner", "reports"]
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)
TORCH = re.compile(r"^(torch|ATen|c10)/")
SQLITE = re.compile(r"^(sqlite3|SQLiteCpp)")
CUPTI = re.compile(r"^(cupti|cuda|nvml|c10/cuda|ATen/cuda)")
ZLIB = re.compile(r"^zlib")
PUBLISHED = ("mptune/planner/published/", "mptune/profiler/formats/")
JSON = re.compile(r"^nlohmann/")
TORCH_ROOMS = {"profiler/device", "profiler/model", "profiler/measure", "tuner/runtime", "tuner/worker"}
SQLITE_ROOMS = {"profiler/store", "tuner/study"}
CUPTI_ROOMS = {"profiler/collect"}
# The library that other programs load holds the rest of its room, and no LibTorch.
TORCH_FILES = {"profiler/collect/tag_scope.cc"}


def room_of(path):
    parts = path.parts
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def violations_of(path, text):
    room, folder = room_of(path), path.parts[0]
    for name in INCLUDE.findall(text):
        target = name.removeprefix("mptune/").split("/")[0] if name.startswith("mptune/") else None
        if target in ORDER and ORDER.index(target) > ORDER.index(folder):
            yield f"{path}: includes {name}, which lies to the right of {folder}"
        if TORCH.match(name) and room not in TORCH_ROOMS and path.as_posix() not in TORCH_FILES:
            yield f"{path}: a room without LibTorch includes {name}"
        if TORCH.match(name) and room == "profiler/device" and path.stem in ("device_spec", "gpu_driver", "gpu_plans"):
            yield f"{path}: device names must not need LibTorch, but it includes {name}"
        if name == "torch/torch.h" and path.suffix == ".h" and path.name != "nn.h":
            yield f"{path}: only mptune/nn.h includes torch/torch.h"
        if SQLITE.match(name) and room not in SQLITE_ROOMS:
            yield f"{path}: only {' and '.join(sorted(SQLITE_ROOMS))} see SQLite, but it includes {name}"
        if CUPTI.match(name) and room not in CUPTI_ROOMS and not path.name.startswith("cuda_"):
            yield f"{path}: only {' and '.join(sorted(CUPTI_ROOMS))} and cuda_* see CUPTI and CUDA, but it includes {name}"
        if ZLIB.match(name) and room != "profiler/formats":
            yield f"{path}: only profiler/formats sees zlib, but it includes {name}"
        if folder == "planner" and JSON.match(name) and "json" not in path.name and path.name != "plan_file.cc":
            yield f"{path}: the planner is std only but for the plan file, and includes {name}"
        if folder == "planner" and room != "planner/published" and name.startswith(PUBLISHED):
            yield f"{path}: only planner/published knows published objectives and tables, but it includes {name}"
        if name.endswith("profiler/model/nn.h") and path.name not in ("nn.cc", "nn.h"):
            yield f"{path}: {name} is for users"


def check(root):
    found = []
    for folder in ORDER:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cc"):
                found += violations_of(path.relative_to(root), path.read_text())
    return found


def self_check():
    bad = {
        "profiler/trace/a.h": "mptune/planner/plan.h",
        "planner/b.cc": "mptune/tuner/tune.h",
        "tuner/study/c.h": "mptune/reports/report.h",
        "planner/cost/d.cc": "torch/types.h",
        "profiler/model/e.h": "torch/torch.h",
        "profiler/device/device_spec.cc": "torch/types.h",
        "profiler/device/gpu_plans.h": "c10/core/Device.h",
        "profiler/device/device.cc": "c10/cuda/CUDAStream.h",
        "reports/f.cc": "sqlite3.h",
        "tuner/trial/g.h": "cupti.h",
        "profiler/collect/m.cc": "ATen/ATen.h",
        "profiler/store/k.cc": "zlib.h",
        "planner/search/h.cc": "nlohmann/json.hpp",
        "planner/partition/n.cc": "mptune/planner/published/aceso.h",
        "planner/search/o.h": "mptune/profiler/formats/operator_row.h",
        "tuner/worker/i.cc": "mptune/profiler/model/nn.h",
    }
    good = {"profiler/device/cuda_lanes.h": "c10/cuda/CUDAStream.h", "profiler/collect/tag_scope.cc": "ATen/record_function.h", "reports/j.cc": "mptune/profiler/trace/trace.h", "profiler/store/l.cc": "SQLiteCpp/SQLiteCpp.h", "tuner/runtime/l.h": "torch/types.h", "planner/published/p.cc": "mptune/profiler/formats/operator_row.h"}
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, include in {**bad, **good}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(f"#include <{include}>\n")
        found = check(root)
    missed = [name for name in bad if not any(line.startswith(name + ":") for line in found)]
    wrong = [line for line in found if line.split(":")[0] in good]
    assert not missed and not wrong, (missed, wrong)


if __name__ == "__main__":
    if sys.argv[1] == "--self":
        self_check()
        sys.exit(0)
    lines = check(pathlib.Path(sys.argv[1]))
    print("\n".join(lines) or "the include rule holds")
    sys.exit(1 if lines else 0)
