"""A class is whole: its members are defined in two sources at the most. No source has more than 500 lines.

Usage: whole_classes.py ROOT     checks a tree, one line per violation, exit 1 if there is one
       whole_classes.py --self   checks the checker
"""
import collections
import pathlib
import re
import sys
import tempfile

FOLDERS = ["profiler", "planner", "tuner", "reports"]
MOST_SOURCES, MOST_LINES = 2, 500
CLASS = re.compile(r"^(?:class|struct) (\w+)(?: final)?(?: : [^;{]*)? \{", re.M)
MEMBER = re.compile(r"^(?!\s|//)[^;(){}=]*?\b([A-Z]\w+)::~?\w+\(", re.M)


def sources_of_classes(texts):
    """Sources with members of each class of ours, by the name of the class and its first folder."""
    ours = {(path.parts[0], name) for path, text in texts.items() if path.suffix == ".h" for name in CLASS.findall(text)}
    sources = collections.defaultdict(set)
    for path, text in texts.items():
        for name in MEMBER.findall(text) if path.suffix == ".cc" else ():
            if (path.parts[0], name) in ours:
                sources[path.parts[0], name].add(path.as_posix())
    return sources


def check(root):
    paths = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*")) if path.suffix in (".h", ".cc")]
    texts = {path.relative_to(root): path.read_text() for path in paths}
    for path, text in texts.items():
        if (lines := text.count("\n")) > MOST_LINES:
            yield f"{path}: has {lines} lines, at most {MOST_LINES} are allowed; cut it along what it does"
    for (folder, name), sources in sorted(sources_of_classes(texts).items()):
        if len(sources) > MOST_SOURCES:
            yield f"{folder}: {name} has members in {len(sources)} sources: {', '.join(sorted(sources))}; make it several classes"


def self_check():
    files = {
        "tuner/a.h": "class Whole {\n};\nclass Torn : public Base {\n};\n",
        "tuner/a.cc": "Whole::Whole() {}\nint Torn::one() {}\n  Torn::used();\n",
        "tuner/b.cc": "int Whole::other() {}\nvoid Torn::two(int a) const {}\n",
        "tuner/c.cc": "Torn::Torn(int a)\n    : a_(a) {}\nstd::vector<int> Other::of() {}\nconst int x = Whole::made(1);\n",
        "planner/long.cc": "\n" * 501,
        "planner/short.cc": "\n" * 500,
    }
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        found = list(check(root))
    assert len(found) == 2 and found[0].startswith("planner/long.cc: has 501") and found[1].startswith("tuner: Torn has members in 3"), found
    print("the checker finds what it should")


if sys.argv[1] == "--self":
    self_check()
else:
    violations = list(check(pathlib.Path(sys.argv[1])))
    print("\n".join(violations) or "classes are whole, and no source is too long")
    sys.exit(1 if violations else 0)
