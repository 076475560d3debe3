"""walk_readme.py SOURCE [WORK]: does what README.md says, literally and line by line, as a newcomer does: in a fresh clone, a fresh home folder
and a fresh virtual environment, all in WORK. Without WORK it lists what it would do. Exit 77 where pip has nothing, or with one core.

- Shell lines are typed in the clone's folder. What they export stays. The virtual environment is active from the first line of pip on.
- Python blocks run one after another in one Python of that environment.
- C++ and CMake blocks name their file in their first line. It is written, or where it is there already, the block is added to it.
"""
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import fresh

FILES = ("cpp", "cmake")
# Blocks that are not run, by how they begin, and why.
NOT_RUN = {"╭─ Recommendation for resnet50": "it is what the command above it prints"}
# Sections that are walked after another one, and why.
AFTER = {"A real report, shortened": ("Install", "it shows what the program prints that is built there")}
# Exit codes of mptune that are answers besides 0: undecided, slower.
ANSWERS = {"tune": {5}, "profile": {5}, "compare": {4, 5}}

SESSION = """
import json, os, sys
blocks, done = os.fdopen(int(sys.argv[1])), int(sys.argv[2])
names = {"__name__": "__main__"}
for block in blocks:
    exec(compile(json.loads(block), "README.md", "exec"), names)
    os.write(done, b".")
"""


@dataclasses.dataclass
class Block:
    section: str
    kind: str  # "shell", or the language of a fenced block, "" without one
    line: int  # of its first line
    lines: list


def blocks_of(text):
    """Fenced blocks, and indented ones, which begin after an empty line."""
    blocks, section, fenced, indented, may_begin = [], "", None, None, True
    for number, line in enumerate(text.splitlines(), 1):
        if fenced is not None:
            if line == "```":
                fenced, may_begin = None, True
            else:
                fenced.lines.append(line)
            continue
        if not line.startswith("    "):
            indented = None
        if line.startswith("```"):
            fenced = Block(section, line[3:].strip(), number + 1, [])
            blocks.append(fenced)
        elif line.startswith("## "):
            section = line[3:]
        elif line.startswith("    ") and (indented or may_begin):
            if indented is None:
                indented = Block(section, "shell", number, [])
                blocks.append(indented)
            indented.lines.append(line[4:])
        may_begin = not line
    return blocks


def in_walking_order(blocks):
    order = list(dict.fromkeys(block.section for block in blocks))
    for section, (other, _) in AFTER.items():
        order.remove(section)
        order.insert(order.index(other) + 1, section)
    return sorted(blocks, key=lambda block: order.index(block.section))


def file_of(block):
    """The file that the first line of a block of C++ or CMake names."""
    named = re.fullmatch(r"(?://|#) ([\w./-]+)", block.lines[0])
    if not named or ".." in named[1] or named[1].startswith("/"):
        sys.exit(f"README.md:{block.line}: the block does not begin with the name of its file")
    return named[1]


def is_run(block):
    if block.lines[0].startswith(tuple(NOT_RUN)):
        return False
    if block.kind not in ("shell", "python", *FILES):
        sys.exit(f"README.md:{block.line}: the block is neither run nor named in {pathlib.Path(__file__).name} with a reason")
    return True


def answers(line):
    return {0}.union(*(codes for command, codes in ANSWERS.items() if re.search(rf"\bmptune\b.*\b{command}\b", line)))


def steps_of(text):
    blocks = in_walking_order(blocks_of(text))
    stale = [begin for begin in NOT_RUN if not any(block.lines[0].startswith(begin) for block in blocks)]
    if stale:
        sys.exit(f"{pathlib.Path(__file__).name}: no block of README.md begins so any more: {stale}")
    return [block for block in blocks if is_run(block)]


def say(text):
    print(text, flush=True)


class Newcomer:
    """Works in the folder of a clone, with a home folder and an environment that is not active yet."""

    def __init__(self, clone, home, environment):
        self.clone, self.environment = clone, environment
        self.variables = {**fresh.without_python(), "HOME": str(home)}
        self.exports, self.session = [], None

    def start(self, command, **options):
        """The command with what was exported so far."""
        script = "\n".join([*self.exports, 'exec "$@"'])
        return subprocess.Popen(["bash", "-c", script, "bash", *command], cwd=self.clone, env=self.variables, **options)

    def type(self, line):
        if line.startswith("pip ") and "VIRTUAL_ENV" not in self.variables:
            self.variables = fresh.activated(self.environment, self.variables)
        say(f"$ {line}")
        code = self.start(["bash", "-c", line]).wait()
        if code not in answers(line):
            sys.exit(f"exit code {code} of: {line}")
        if line.startswith("export "):
            self.exports.append(line)

    def python(self, text):
        say(">>> " + text.replace("\n", "\n... "))
        if self.session is None:
            blocks, self.to_session = os.pipe()
            self.from_session, done = os.pipe()
            self.session = self.start(["python", "-c", SESSION, str(blocks), str(done)], pass_fds=(blocks, done), stdin=subprocess.DEVNULL)
            os.close(blocks)
            os.close(done)
        os.write(self.to_session, (json.dumps(text) + "\n").encode())
        if os.read(self.from_session, 1) != b".":
            sys.exit(f"Python ended with {self.session.wait()}")

    def write(self, name, text):
        say(f"{name}:\n{text}")
        path = self.clone / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a") as file:
            file.write(text)

    def follow(self, block):
        if block.kind == "shell":
            for line in block.lines:
                self.type(line)
        elif block.kind == "python":
            self.python("\n".join(block.lines))
        else:
            self.write(file_of(block), "\n".join(block.lines) + "\n")

    def leave(self):
        if self.session is not None:
            os.close(self.to_session)
            if self.session.wait() != 0:
                sys.exit(f"Python ended with {self.session.returncode}")


def newcomer_in(work, source):
    """Everything is new, but programs find their settings and caches."""
    shutil.rmtree(work, ignore_errors=True)
    environment = fresh.environment(work / "environment")
    fresh.require_index(environment, work / "downloads")
    fresh.clone(source, work / "mptune")
    fresh.commit(work / "mptune")
    home = work / "home"
    home.mkdir()
    for entry in pathlib.Path.home().iterdir():
        if entry.name != "mptune":  # where README installs it
            (home / entry.name).symlink_to(entry)
    return Newcomer(work / "mptune", home, environment)


def main(source, work=None):
    steps = steps_of((pathlib.Path(source) / "README.md").read_text())
    if work is None:
        for block in steps:
            what = block.kind + (" " + file_of(block) if block.kind in FILES else "")
            say("\n".join([f"README.md:{block.line}: {what}", *("    " + line for line in block.lines)]))
        return
    if len(os.sched_getaffinity(0)) < 2:
        fresh.skip("README's examples need two cores")
    newcomer = newcomer_in(pathlib.Path(work).resolve(), pathlib.Path(source).resolve())
    for block in steps:
        newcomer.follow(block)
    newcomer.leave()
    say(f"{len(steps)} blocks of README.md work as they stand there")
    shutil.rmtree(work)


if __name__ == "__main__":
    main(*sys.argv[1:])
