"""The include rule: profiler <- planner <- tuner <- reports; profiler/base includes no other module; no two modules, and no two libraries,
need each other; pure modules see no LibTorch, CUDA, CUPTI or SQLite.

Usage: include_rule.py ROOT     checks a tree, one line per violation, exit 1 if there is one
       include_rule.py --self   checks the checker
"""
import pathlib
import re
import sys
import tempfile

ORDER = ["profiler", "planner", "tuner", "reports"]
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)
LIBRARY = re.compile(r"^\s*mptune_\w+\((mptune_\w+)\b([^)]*)\)", re.M)
TORCH = re.compile(r"^(torch|ATen|c10)/")
SQLITE = re.compile(r"^(sqlite3|SQLiteCpp)")
CUPTI = re.compile(r"^(cupti|cuda|nvml|c10/cuda|ATen/cuda)")
ZLIB = re.compile(r"^zlib")
PUBLISHED = ("planner/published/", "profiler/formats/")
JSON = re.compile(r"^nlohmann/")
BASE = "profiler/base"
# Each sees the ones before it, as its CMakeLists.txt says.
MODEL_MODULES = {
    "profiler/randomness": set(),
    "profiler/kernels": set(),
    "profiler/model": {"profiler/randomness"},
    "profiler/plugin": {"profiler/model"},
    "profiler/nn": {"profiler/model", "profiler/plugin"},
    "profiler/models": {"profiler/model", "profiler/nn"},
    "profiler/state": {"profiler/model"},
    "profiler/exported": {"profiler/model", "profiler/state", "profiler/randomness"},
    "profiler/script": {"profiler/model"},
    "profiler/loading": {"profiler/model", "profiler/models", "profiler/state", "profiler/exported", "profiler/script", "profiler/plugin"},
}
TORCH_MODULES = {"profiler/device", "profiler/measure", "tuner/distributed", "tuner/runtime", "tuner/training", "tuner/worker", *MODEL_MODULES}
SQLITE_MODULES = {"profiler/store", "tuner/study"}
CUPTI_MODULES = {"profiler/collect"}
# The library that other programs load contains its module without the LibTorch part.
TORCH_FILES = {"profiler/collect/tag_scope.cc"}


def ours(name):
    """Path of an included header of the project, else None."""
    path = pathlib.PurePosixPath(name)
    return path if len(path.parts) > 1 and path.parts[0] in ORDER else None


def module_of(path):
    """Module of a file: its folder, or for files beside folders, such as planner/plan.cc, their header."""
    return "/".join(path.parts[:2]) if len(path.parts) > 2 else path.with_suffix(".h").as_posix()


def cycles_of(needs):
    """Cycles: sets of names in `needs` (name -> names) that reach each other."""
    def reached_from(start):
        seen, todo = set(), [start]
        while todo:
            todo += (new := needs.get(todo.pop(), set()) - seen)
            seen |= new
        return seen

    reached = {name: reached_from(name) for name in needs}
    return {frozenset(other for other in reached[name] if name in reached.get(other, ())) for name in needs if name in reached[name]}


def cycles_in(root, paths):
    includes, libraries = {}, {}
    for path in paths:
        text = (root / path).read_text()
        if path.name == "CMakeLists.txt":
            libraries |= {name: set(re.findall(r"\bmptune_\w+", needs)) - {name} for name, needs in LIBRARY.findall(text)}
        else:
            targets = {module_of(target) for name in INCLUDE.findall(text) if (target := ours(name))}
            includes.setdefault(module_of(path), set()).update(targets - {module_of(path)})
    for cycle in cycles_of(includes):
        folders = {name.split("/")[0] if name.endswith(".h") else name for name in cycle}
        if len(folders) > 1:  # files beside each other are one module
            yield f"{', '.join(sorted(cycle))}: include each other"
    for cycle in cycles_of(libraries):
        yield f"{', '.join(sorted(cycle))}: link each other"


def violations_of(path, text):
    module, folder = module_of(path), path.parts[0]
    for name in INCLUDE.findall(text):
        target = ours(name)
        if target and ORDER.index(target.parts[0]) > ORDER.index(folder):
            yield f"{path}: includes {name}, which lies to the right of {folder}"
        if target and module == BASE and module_of(target) != BASE:
            yield f"{path}: {BASE} stands below all other modules, but it includes {name}"
        if TORCH.match(name) and module not in TORCH_MODULES and path.as_posix() not in TORCH_FILES:
            yield f"{path}: a module without LibTorch includes {name}"
        if TORCH.match(name) and module == "profiler/device" and path.stem in ("device_list", "gpu_driver", "gpu_plans"):
            yield f"{path}: device lists must not need LibTorch, but it includes {name}"
        if name == "torch/torch.h" and path.suffix == ".h" and path.name != "nn.h":
            yield f"{path}: only mptune/nn.h includes torch/torch.h"
        if SQLITE.match(name) and module not in SQLITE_MODULES:
            yield f"{path}: only {' and '.join(sorted(SQLITE_MODULES))} see SQLite, but it includes {name}"
        if CUPTI.match(name) and module not in CUPTI_MODULES and not path.name.startswith(("cuda_", "nccl_")):
            yield f"{path}: only {', '.join(sorted(CUPTI_MODULES))}, cuda_* and nccl_* see CUPTI and CUDA, but it includes {name}"
        if ZLIB.match(name) and module != "profiler/formats":
            yield f"{path}: only profiler/formats sees zlib, but it includes {name}"
        if folder == "planner" and JSON.match(name) and "json" not in path.name and path.name != "plan_file.cc":
            yield f"{path}: the planner is std only but for the plan file, and includes {name}"
        if folder == "planner" and module != "planner/published" and name.startswith(PUBLISHED):
            yield f"{path}: only planner/published knows published objectives and tables, but it includes {name}"
        included = module_of(target) if target else None
        if module in MODEL_MODULES and included in MODEL_MODULES and included not in {module, *MODEL_MODULES[module]}:
            yield f"{path}: {module} does not see {included}, but it includes {name}"
        if name.endswith("profiler/nn/nn.h") and path.name not in ("nn.cc", "nn.h"):
            yield f"{path}: {name} is for users"


def check(root):
    found, paths = [], []
    for folder in ORDER:
        paths += [p.relative_to(root) for p in sorted((root / folder).rglob("*")) if p.suffix in (".h", ".cc") or p.name == "CMakeLists.txt"]
    for path in paths:
        if path.name != "CMakeLists.txt":
            found += violations_of(path, (root / path).read_text())
    return found + list(cycles_in(root, paths))


def found_in(files):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return check(root)


def self_check():
    bad = {
        "profiler/trace/a.h": "planner/plan.h",
        "profiler/base/n.h": "profiler/trace/trace.h",
        "planner/b.cc": "tuner/tune.h",
        "tuner/study/c.h": "reports/report.h",
        "planner/cost/d.cc": "torch/types.h",
        "profiler/model/e.h": "torch/torch.h",
        "profiler/device/device_list.cc": "torch/types.h",
        "profiler/device/gpu_plans.h": "c10/core/Device.h",
        "profiler/device/device.cc": "c10/cuda/CUDAStream.h",
        "reports/f.cc": "sqlite3.h",
        "tuner/trial/g.h": "cupti.h",
        "profiler/collect/m.cc": "ATen/ATen.h",
        "profiler/store/k.cc": "zlib.h",
        "planner/search/h.cc": "nlohmann/json.hpp",
        "planner/partition/n.cc": "planner/published/aceso.h",
        "planner/search/o.h": "profiler/formats/operator_row.h",
        "tuner/worker/i.cc": "profiler/nn/nn.h",
        "profiler/exported/n.cc": "profiler/loading/load_model.h",
    }
    good = {"profiler/device/cuda_lanes.h": "c10/cuda/CUDAStream.h", "profiler/device/nccl_lanes.cc": "c10/cuda/CUDAGuard.h", "profiler/collect/tag_scope.cc": "ATen/record_function.h", "reports/j.cc": "profiler/trace/trace.h", "profiler/store/l.cc": "SQLiteCpp/SQLiteCpp.h", "tuner/runtime/l.h": "torch/types.h", "planner/published/p.cc": "profiler/formats/operator_row.h"}
    found = found_in({name: f"#include <{include}>\n" for name, include in {**bad, **good}.items()})
    missed = [name for name in bad if not any(line.startswith(name + ":") for line in found)]
    wrong = [line for line in found if line.split(":")[0] in good]
    assert not missed and not wrong, (missed, wrong)


def self_check_of_cycles():
    def include(path):
        return f'#include "{path}"\n'

    apart = {"planner/plan.h": include("profiler/trace/a.h"), "planner/plan.cc": include("planner/plan.h"), "planner/file.cc": include("planner/s/s.h"),
             "planner/file.h": include("planner/plan.h"), "planner/s/s.h": include("planner/plan.h"), "planner/plan_b.h": include("planner/file.h")}
    assert not found_in(apart), found_in(apart)
    beside = {"planner/a.h": include("planner/b.h"), "planner/b.cc": include("planner/a.h")}
    assert not found_in(beside), found_in(beside)
    around = {"planner/s/s.h": include("planner/t/t.h"), "planner/t/t.cc": include("planner/plan.h"), "planner/plan.cc": include("planner/s/u.h")}
    assert found_in(around) == ["planner/plan.h, planner/s, planner/t: include each other"], found_in(around)
    libraries = {"planner/CMakeLists.txt": "mptune_module(mptune_a SOURCES a.cc\n  DEPENDS mptune_b)\nmptune_module(mptune_b DEPENDS mptune_c)\n",
                 "planner/s/CMakeLists.txt": "mptune_module(mptune_c DEPENDS mptune_d mptune_a)\nmptune_module(mptune_d)\n"}
    assert found_in(libraries) == ["mptune_a, mptune_b, mptune_c: link each other"], found_in(libraries)


if __name__ == "__main__":
    if sys.argv[1] == "--self":
        self_check()
        self_check_of_cycles()
        sys.exit(0)
    lines = check(pathlib.Path(sys.argv[1]))
    print("\n".join(lines) or "the include rule holds")
    sys.exit(1 if lines else 0)
