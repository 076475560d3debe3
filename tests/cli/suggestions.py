"""The commands that a text of mptune suggests: on lines of their own, or in back-quotes. Each is one line for sh."""
import os
import re
import subprocess

from harness import patience

COMMANDS = "profile|plan|tune|run|check|simulate|compare|report|export|import|models|doctor|completion"
NAMED = re.compile(rf"\bmptune ({COMMANDS})\b")


def suggestions(text):
    alone = re.findall(rf"(?m)^(?:  )?(mptune (?:{COMMANDS})\b.*)$", text)
    return list(dict.fromkeys(alone + re.findall(rf"`(mptune (?:{COMMANDS})\b[^`]*)`", text)))


def run_as_printed(command, program, folder, environment):
    """In `folder`, by a shell that finds the program as `mptune`."""
    bin_folder = os.path.join(folder, "bin")
    os.makedirs(bin_folder, exist_ok=True)
    if not os.path.lexists(os.path.join(bin_folder, "mptune")):
        os.symlink(program, os.path.join(bin_folder, "mptune"))
    path = bin_folder + os.pathsep + environment.get("PATH", os.defpath)
    return subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
                          env={**environment, "PATH": path}, timeout=patience(100))


def literals(text):
    """Literals of a C++ source, neighbours joined; comments are no literals."""
    text = re.sub(r"(?m)^\s*//.*$", "", text)
    text = re.sub(r"(?m)\s//[/ ].*$", "", text)
    for found in re.finditer(r'(?:"(?:[^"\\\n]|\\.)*"\s*)+', text):
        yield "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', found.group(0)))


def named_commands(root):
    """{(file, what stands around the command)} of every literal that names a command of mptune, help examples left out."""
    found = set()
    for top in ("profiler", "planner", "tuner", "reports"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if not name.endswith((".cc", ".h")):
                    continue
                with open(os.path.join(folder, name)) as file:
                    for literal in literals(file.read()):
                        words = literal.split("Example:")[0]  # test_help runs the examples' options
                        for match in NAMED.finditer(words):
                            around = words[max(0, match.start() - 24):match.end()]
                            found.add((os.path.relpath(os.path.join(folder, name), root), around))
    return found
