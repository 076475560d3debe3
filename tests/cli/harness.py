"""Runs mptune with the fake worker in a temporary folder, and checks its JSON against the schemas."""
import fcntl
import json
import os
import pty
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

import jsonschema

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from patience import patience

PROGRAM = os.environ["MPTUNE_PROGRAM"]
SCHEMAS = os.environ["MPTUNE_SCHEMAS"]
WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake_worker.py")
COMMANDS = ["profile", "plan", "tune", "run", "check", "simulate", "compare", "models", "doctor", "report", "import", "export", "completion", "help"]
SCHEDULES = {"naive": 2, "gpipe": 2, "1f1b": 2, "eager-1f1b": 2, "interleaved": 4, "looped-bfs": 4, "zb1p": 2, "zb2p": 2, "zbv": 4, "v-half": 4,
             "v-min": 4, "dualpipe-v": 4, "list": 2}  # and the stages that each has on two devices
TWO_PARTS = ["zb1p", "zb2p", "zbv", "v-half", "v-min", "dualpipe-v", "list"]  # backwards in two parts


def schema(name):
    """The schema, with the definitions that it shares with others inside, where jsonschema finds them by their $id."""
    found = read_schema(name)
    found.setdefault("$defs", {})["shared"] = read_schema("definitions")
    return found


def read_schema(name):
    with open(os.path.join(SCHEMAS, f"mptune.{name}.1.json")) as file:
        return json.load(file)


def left_processes(marker, seconds=3):
    """Processes with MPTUNE_TEST_MARKER=marker in their environment that are still there after a moment."""
    deadline = time.monotonic() + patience(seconds)
    while (left := [pid for pid in filter(str.isdigit, os.listdir("/proc")) if is_marked(pid, marker)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def is_marked(pid, marker):
    try:
        with open(f"/proc/{pid}/environ", "rb") as environ, open(f"/proc/{pid}/stat") as stat:
            return f"MPTUNE_TEST_MARKER={marker}".encode() in environ.read().split(b"\0") and stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False  # it has just ended, or is another user's


def seconds(budget):
    """A --budget of so many seconds of an unloaded machine."""
    return f"{patience(budget):.0f}s"


class CommandTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="mptune-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        if "MPTUNE_FIXTURES" in os.environ:
            subprocess.run([os.environ["MPTUNE_FIXTURES"], self.folder], check=True)

    def environment(self, **more):
        kept = {name: os.environ[name] for name in ("HOME", "LD_LIBRARY_PATH", "ASAN_OPTIONS") if name in os.environ}
        # This Python first: scripts that choose among several for each of the fake worker's starts would take most of the tests' time.
        path = os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", os.defpath)
        return {**kept, "PATH": path, "LC_ALL": "C", "MPTUNE_WORKER": WORKER, "MPTUNE_FAKE_FILES": self.folder,
                "MPTUNE_FAKE_PID": os.path.join(self.folder, "pid"), "TMPDIR": self.folder, **more}

    def mptune(self, *arguments, stdout=subprocess.PIPE, cwd=None, **environment):
        return subprocess.run([PROGRAM, *arguments], stdout=stdout, stderr=subprocess.PIPE, text=True, cwd=cwd or self.folder,
                              env=self.environment(**environment), timeout=patience(100))

    def on_terminal(self, *arguments, rows=24, columns=80, **environment):
        """Runs mptune in a terminal of this size. Returns its exit code and all it wrote, with the terminal's ends of lines."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        with subprocess.Popen([PROGRAM, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, cwd=self.folder,
                              env=self.environment(**environment)) as process:
            os.close(theirs)
            text = b""
            try:
                while block := os.read(ours, 65536):
                    text += block
            except OSError:
                pass  # so a terminal tells that the other side is closed
        os.close(ours)
        return process.returncode, text.decode()

    def read_bytes(self, name):
        with open(os.path.join(self.folder, name), "rb") as file:
            return file.read()

    def succeed(self, *arguments, **environment):
        done = self.mptune(*arguments, **environment)
        self.assertEqual(done.returncode, 0, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def result(self, name, *arguments, **environment):
        """The object of a --json call, valid against its schema."""
        text = self.succeed("--json", *arguments, **environment)
        self.assertEqual(text.count("\n"), 1, "exactly one object")
        value = json.loads(text, parse_constant=lambda word: self.fail(f"{word} is no JSON"))
        jsonschema.validate(value, schema(name))
        return value

    def fails(self, code, words, *arguments, **environment):
        """Checks a failure: the exit code, one line with the words on stderr, the same as an object with --json, no stack trace."""
        done = self.mptune(*arguments, **environment)
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.stdout}\n{done.stderr}")
        self.assertEqual(done.stdout, "", arguments)
        lines = [line for line in done.stderr.splitlines() if "; " in line]
        self.assertEqual(len(lines), 1, f"{arguments}: {done.stderr}")
        self.assertRegex(lines[0], r"^mptune: .+: .+; .+", arguments)
        for word in words:
            self.assertIn(word, lines[0], arguments)
        done = self.mptune("--json", *arguments, **environment)
        self.assertEqual(done.returncode, code, f"{arguments}: {done.stderr}")
        value = json.loads(done.stdout)
        jsonschema.validate(value, schema("error"))
        self.assertEqual(value["exit_code"], code)
        for key in ("what", "where", "remedy"):
            self.assertNotEqual(value["error"][key], "", arguments)
        return value
