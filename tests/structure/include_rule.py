"""The include rule: profiler <- planner <- tuner <- reports; profiler/base includes no other module; no two modules, and no two libraries,
need each other; pure modules see no LibTorch, CUDA, CUPTI or SQLite. A module is a folder that makes a library, with the folders in it that make
none.

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
PUBLISHED = ("planner/published/", "profiler/trace/formats/")
JSON = re.compile(r"^nlohmann/")
BASE = "profiler/base"
# Each sees the ones before it, as its CMakeLists.txt says.
MODEL_MODULES = {
    "profiler/model/random": set(),
    "profiler/model/kernels": set(),
    "profiler/model/layers": {"random"},
    "profiler/model/plugin": {"layers"},
    "profiler/model/nn": {"layers", "plugin"},
    "profiler/model/builtin": {"layers", "nn"},
    "profiler/model/files": {"layers"},
    "profiler/model/exported": {"layers", "files", "random"},
    "profiler/model/script": {"layers"},
    "profiler/model/loading": {"layers", "builtin", "files", "exported", "script", "plugin"},
}
TORCH_MODULES = {"profiler/device", "profiler/measure", "tuner/check", "tuner/runtime", "tuner/runtime/between", "tuner/runtime/training",
                 "tuner/worker/program", *MODEL_MODULES}
SQLITE_MODULES = {"profiler/trace/store", "tuner/study/store"}
CUPTI_MODULES = {"profiler/trace/collect"}
FORMATS, PLAN_FILE = "profiler/trace/formats", "planner/plan/file"


def ours(name):
    """Path of an included header of the project, else None."""
    path = pathlib.PurePosixPath(name)
    return path if len(path.parts) > 1 and path.parts[0] in ORDER else None


def module_of(path, modules):
    """Module of a file: the innermost folder around it that is one of `modules`, else its own folder."""
    return next((folder for parent in path.parents if (folder := parent.as_posix()) in modules), path.parent.as_posix())


def modules_in(root):
    """Folders whose CMakeLists.txt makes a library."""
    lists = (path for folder in ORDER for path in (root / folder).rglob("CMakeLists.txt"))
    return {path.parent.relative_to(root).as_posix() for path in lists if re.search(r"^\s*mptune_module\(", path.read_text(), re.M)}


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


def cycles_in(root, paths, modules):
    includes, libraries = {}, {}
    for path in paths:
        text = (root / path).read_text()
        if path.name == "CMakeLists.txt":
            libraries |= {name: set(re.findall(r"\bmptune_\w+", needs)) - {name} for name, needs in LIBRARY.findall(text)}
        else:
            module = module_of(path, modules)
            targets = {module_of(target, modules) for name in INCLUDE.findall(text) if (target := ours(name))}
            includes.setdefault(module, set()).update(targets - {module})
    for cycle in cycles_of(includes):
        yield f"{', '.join(sorted(cycle))}: include each other"
    for cycle in cycles_of(libraries):
        yield f"{', '.join(sorted(cycle))}: link each other"


def violations_of(path, text, modules):
    module, folder = module_of(path, modules), path.parts[0]
    for name in INCLUDE.findall(text):
        target = ours(name)
        if target and ORDER.index(target.parts[0]) > ORDER.index(folder):
            yield f"{path}: includes {name}, which lies to the right of {folder}"
        if target and module == BASE and module_of(target, modules) != BASE:
            yield f"{path}: {BASE} stands below all other modules, but it includes {name}"
        if TORCH.match(name) and module not in TORCH_MODULES:
            yield f"{path}: a module without LibTorch includes {name}"
        if name == "torch/torch.h" and path.suffix == ".h" and path.name != "nn.h":
            yield f"{path}: only mptune/nn.h includes torch/torch.h"
        if SQLITE.match(name) and module not in SQLITE_MODULES:
            yield f"{path}: only {' and '.join(sorted(SQLITE_MODULES))} see SQLite, but it includes {name}"
        if CUPTI.match(name) and module not in CUPTI_MODULES and not path.name.startswith(("cuda_", "nccl_")):
            yield f"{path}: only {', '.join(sorted(CUPTI_MODULES))}, cuda_* and nccl_* see CUPTI and CUDA, but it includes {name}"
        if ZLIB.match(name) and module != FORMATS:
            yield f"{path}: only {FORMATS} sees zlib, but it includes {name}"
        if folder == "planner" and JSON.match(name) and "json" not in path.name and module != PLAN_FILE:
            yield f"{path}: the planner is std only but for the plan file, and includes {name}"
        if folder == "planner" and module != "planner/published" and name.startswith(PUBLISHED):
            yield f"{path}: only planner/published knows published objectives and tables, but it includes {name}"
        included = module_of(target, modules) if target else None
        if module in MODEL_MODULES and included in MODEL_MODULES and included != module and included.split("/")[-1] not in MODEL_MODULES[module]:
            yield f"{path}: {module} does not see {included}, but it includes {name}"
        if name.endswith("profiler/model/nn/nn.h") and path.name not in ("nn.cc", "nn.h"):
            yield f"{path}: {name} is for users"


def check(root):
    found, paths, modules = [], [], modules_in(root)
    for folder in ORDER:
        paths += [p.relative_to(root) for p in sorted((root / folder).rglob("*")) if p.suffix in (".h", ".cc") or p.name == "CMakeLists.txt"]
    for path in paths:
        if path.name != "CMakeLists.txt":
            found += violations_of(path, (root / path).read_text(), modules)
    return found + list(cycles_in(root, paths, modules))


def found_in(files):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return check(root)


def self_check():
    bad = {
        "profiler/trace/values/a.h": "planner/plan/plan.h",
        "profiler/base/n.h": "profiler/trace/values/trace.h",
        "planner/cost/b.cc": "tuner/study/tune.h",
        "tuner/study/c.h": "reports/values/report.h",
        "planner/cost/d.cc": "torch/types.h",
        "profiler/model/layers/e.h": "torch/torch.h",
        "profiler/device/list/device_list.cc": "torch/types.h",
        "profiler/device/list/gpu_plans.h": "c10/core/Device.h",
        "profiler/device/device.cc": "c10/cuda/CUDAStream.h",
        "reports/values/f.cc": "sqlite3.h",
        "tuner/trial/g.h": "cupti.h",
        "profiler/trace/collect/m.cc": "ATen/ATen.h",
        "profiler/trace/store/k.cc": "zlib.h",
        "planner/search/joint/h.cc": "nlohmann/json.hpp",
        "planner/partition/n.cc": "planner/published/aceso.h",
        "planner/search/o.h": "profiler/trace/formats/operator_row.h",
        "tuner/worker/program/i.cc": "profiler/model/nn/nn.h",
        "profiler/model/exported/n.cc": "profiler/model/loading/load_model.h",
    }
    good = {
        "profiler/device/cuda/cuda_lanes.h": "c10/cuda/CUDAStream.h",
        "profiler/device/cuda/nccl_lanes.cc": "c10/cuda/CUDAGuard.h",
        "profiler/device/tag_scope.cc": "ATen/record_function.h",
        "reports/values/j.cc": "profiler/trace/values/trace.h",
        "profiler/trace/store/l.cc": "SQLiteCpp/SQLiteCpp.h",
        "planner/plan/file/plan_file.cc": "nlohmann/json.hpp",
        "tuner/runtime/step/l.h": "torch/types.h",
        "planner/published/p.cc": "profiler/trace/formats/operator_row.h",
    }
    modules = [f"{folder}/CMakeLists.txt" for folder in ("profiler/device", "profiler/device/list", "tuner/runtime", "planner/search")]
    found = found_in({**{name: f"#include <{include}>\n" for name, include in {**bad, **good}.items()},
                      **{name: "mptune_module(mptune_x TORCH)\n" for name in modules}})
    missed = [name for name in bad if not any(line.startswith(name + ":") for line in found)]
    wrong = [line for line in found if line.split(":")[0] in good]
    assert not missed and not wrong, (missed, wrong)


def self_check_of_cycles():
    def include(path):
        return f'#include "{path}"\n'

    module = "mptune_module(mptune_x)\n"
    inside = {"planner/s/CMakeLists.txt": module, "planner/s/a.h": include("planner/s/t/b.h"), "planner/s/t/b.cc": include("planner/s/a.h")}
    assert not found_in(inside), found_in(inside)
    apart = {**inside, "planner/s/t/CMakeLists.txt": module.replace("x", "y")}
    assert found_in(apart) == ["planner/s, planner/s/t: include each other"], found_in(apart)
    around = {"planner/s/s.h": include("planner/t/t.h"), "planner/t/t.cc": include("planner/plan.h"), "planner/plan.cc": include("planner/s/u.h")}
    assert found_in(around) == ["planner, planner/s, planner/t: include each other"], found_in(around)
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
