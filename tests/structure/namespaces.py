"""Headers that are installed, and profiler/base, are in namespace mptune; all others are in that of their folder, mptune::planner and so on.

Usage: namespaces.py ROOT     checks a tree, one line per violation, exit 1 if there is one
       namespaces.py --self   checks the checker
"""
import pathlib
import re
import sys
import tempfile

FOLDERS = ["profiler", "planner", "tuner", "reports"]
PUBLIC = ["tuner/runtime/training/mptune.h", "profiler/model/nn/nn.h"]
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
NAMESPACE = re.compile(r"^namespace (mptune[\w:]*) \{", re.M)


def installed(root):
    """The public headers and all that they include."""
    seen, todo = set(), list(PUBLIC)
    while todo:
        name = todo.pop()
        if name not in seen and (root / name).exists():
            seen.add(name)
            todo += INCLUDE.findall((root / name).read_text())
    return seen


def check(root):
    public = installed(root)
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.h")):
            name = path.relative_to(root).as_posix()
            wanted = "mptune" if name in public or name.startswith("profiler/base/") else f"mptune::{folder}"
            if wrong := set(NAMESPACE.findall(path.read_text())) - {wanted}:
                yield f"{name}: is in namespace {', '.join(sorted(wrong))} instead of {wanted}"


def self_check():
    files = {
        "tuner/runtime/training/mptune.h": '#include "planner/plan/plan.h"\n',
        "planner/plan/plan.h": "namespace mptune::planner {\n",
        "planner/search/space/choices.h": "namespace mptune {\n",
        "profiler/base/error.h": "namespace mptune::profiler {\n",
        "reports/values/report.h": "namespace mptune::tuner {\n",
        "tuner/study/tune.h": "namespace mptune::tuner {\n",
    }
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        found = [line.split(":")[0] for line in check(root)]
    wanted = ["planner/plan/plan.h", "planner/search/space/choices.h", "profiler/base/error.h", "reports/values/report.h"]
    assert sorted(found) == wanted, found
    print("the checker finds what it should")


if sys.argv[1] == "--self":
    self_check()
else:
    violations = list(check(pathlib.Path(sys.argv[1])))
    print("\n".join(violations) or "headers are in the namespaces of their folders")
    sys.exit(1 if violations else 0)
