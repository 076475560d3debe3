"""Texts of other programs reach the terminal as texts: no control characters but line ends and our own colours."""
import json
import os
import re
import sqlite3
import subprocess

from harness import PROGRAM, CommandTest, patience

HOSTILE = "\x1b[31m\x1b]0;title\x07\r\b\t\x7f\x00\x85\x9b2J\u202e\u2066\u2028 end\nmptune: forged"
SPELLED = r"\u001b[31m\u001b]0;title\u0007\r\u0008\t\u007f\u0000\u0085\u009b2J\u202e\u2066\u2028end\nmptune:forged"  # without spaces
OUR_COLOURS = re.compile(r"\x1b\[(0|1|2|3[1-6])m")
STEERS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
SLEEP = ["--devices", "sleep:2"]
# Sanitizers slow every start down; the release build has all modes.
MODES = [["--color", "never"]] if os.environ.get("MPTUNE_SANITIZED") == "ON" else [["--color", "always"], ["--color", "never"], ["--json"]]
CODES = (0, 2, 3, 4, 5, 6, 7)


def column(text, title):
    """The cells of a column of the last table in a text. What the table breaks is joined, without spaces."""
    lines = text.splitlines()
    rule = max(i for i, line in enumerate(lines) if re.fullmatch("[─ ]+", line))
    spans = [slice(*found.span()) for found in re.finditer("─+", lines[rule])]
    span = next(span for span in spans if lines[rule - 1][span].strip() == title)
    cells = []
    for line in lines[rule + 1:]:
        if line.startswith("mptune: "):  # stderr follows
            break
        if line[spans[0]].strip():
            cells.append("")
        cells[-1] += line[span].replace(" ", "")
    return cells


class HostileTexts(CommandTest):
    def path(self, name):
        return os.path.join(self.folder, name)

    def run_bytes(self, *arguments, **environment):
        return subprocess.run([PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder, timeout=patience(100),
                              env=self.environment(LC_ALL="C.UTF-8", MPTUNE_FAKE_SUFFIX=json.dumps(HOSTILE), **environment))

    def expect_harmless(self, data, colours, arguments):
        text = data.decode()  # UTF-8 without a fault
        if colours:
            text = OUR_COLOURS.sub("", text)
        found = STEERS.search(text)
        self.assertIsNone(found, f"{arguments}: {found and text[max(0, found.start() - 200):found.end() + 20]!r}")

    def harmless(self, *arguments, codes=(0,), **environment):
        """Runs the command with and without colours and as JSON; returns what it said without colours."""
        said = b""
        for mode in MODES:
            done = self.run_bytes(*mode, *arguments, **environment)
            self.assertIn(done.returncode, codes, f"{arguments}\n{done.stdout}\n{done.stderr}")
            self.expect_harmless(done.stdout, "always" in mode, arguments)
            self.expect_harmless(done.stderr, False, arguments)
            self.assertNotRegex(done.stderr, rb"(?m)^mptune: forged", arguments)
            if "--json" in mode:
                json.loads(done.stdout)
            elif "never" in mode:
                said = done.stdout + done.stderr
        return said.decode()

    def test_our_colours_are_left(self):
        self.assertIn(b"\x1b[1mmodel", self.run_bytes("--color", "always", "models").stdout)
        self.assertIn(b"\x1b[2m", self.run_bytes("--color", "always", "report", "trace.sqlite", "--text").stdout)

    def test_the_worker(self):
        models = self.harmless("models", "toy")
        self.assertEqual(column(models, "name"), [f"block{i}{SPELLED}" for i in range(6)])
        self.assertEqual(column(models, "kind"), [f"Linear{SPELLED}"] * 6)
        self.assertIn(r"LibTorch\u001b[31m", self.harmless("doctor", *SLEEP))
        said = self.harmless("-v", "profile", "toy", *SLEEP, MPTUNE_FAKE_WARNING="loss", MPTUNE_FAKE_MEASURE_WARNING="layer")
        self.assertIn(r"warning: layer\u001b[31m", said)
        self.assertIn(r"warning: loss\u001b[31m", said)
        self.assertIn(r"layer costs\u001b[31m", said)
        self.harmless("run", "toy", "--plan", "plan.json")
        self.harmless("check", "toy", "--stages", "2", *SLEEP, MPTUNE_FAKE="check-again", codes=(4,))
        self.harmless("tune", "toy", *SLEEP, "--budget", "20s", "--trials", "2", "--force", codes=(0, 5))
        self.harmless("report", "toy.study", "--text")
        self.harmless("report", "toy.study", "--markdown")
        self.harmless("compare", "toy.study", "toy.study", codes=CODES)
        self.harmless("export", "toy.study", "--to", "t4", "-o", "t4.json", "--force", codes=CODES)

    def test_a_failing_worker(self):
        for command in (["profile", "toy", *SLEEP], ["tune", "toy", *SLEEP, "--budget", "10s", "--force"], ["run", "toy", *SLEEP], ["models"]):
            self.assertIn(r"\xff\u001b[31m", self.harmless(*command, MPTUNE_FAKE="last-words", codes=CODES))
            self.harmless(*command, MPTUNE_FAKE="raw-reply", codes=(0, 1, 7))
        for kind in ("describe", "measure", "record"):
            self.harmless("profile", "toy", *SLEEP, MPTUNE_FAKE=f"oom-{kind}", codes=(3,))
        self.harmless("tune", "toy", *SLEEP, "--budget", "10s", "--force", MPTUNE_FAKE="oom-series", codes=CODES)

    def test_a_live_progress_line(self):
        _, said = self.on_terminal("--color", "never", "profile", "toy", *SLEEP, TERM="xterm", MPTUNE_FAKE="slow",
                                   MPTUNE_FAKE_SUFFIX=json.dumps(HOSTILE))
        self.assertIn(r"layer costs\u001b[31m", said)
        self.expect_harmless(said.replace("\r\n", "\n").replace("\r", "").replace("\x1b[K", "").encode(), False, "a terminal")

    def changed(self, name, table, column):
        """A copy of a file of ours, hostile in one column."""
        copy = f"{table}.{column}.{name}"
        with open(self.path(name), "rb") as source, open(self.path(copy), "wb") as target:
            target.write(source.read())
        with sqlite3.connect(self.path(copy)) as database:
            database.create_function("hostile", 1, lambda text: text + HOSTILE)
            database.execute(f"UPDATE {table} SET {column} = hostile({column}) WHERE {column} IS NOT NULL")
        return copy

    def test_traces_and_profiles(self):
        columns = {"StringIds": "value", "NVTX_EVENTS": "text", "TARGET_INFO_GPU": "name", "MPTUNE_META": "value", "MPTUNE_WHAT": "name",
                   "MPTUNE_DEVICE": "name", "MPTUNE_LAYER": "name", "MPTUNE_MODULE": "module", "MPTUNE_DEVICE_CLASS": "name",
                   "MPTUNE_PROFILE_DEVICE": "name", "MPTUNE_PROFILE": "model"}
        for table, column in columns.items():
            name = self.changed("trace.sqlite", table, column)
            for command in (["import", name], ["report", name, "--text"], ["report", name, "--markdown"], ["compare", name, "trace.sqlite"],
                            ["plan", name, "-o", "new.plan.json", "--force"], ["simulate", "--plan", "plan.json", "--profile", name],
                            ["export", name, "--to", "kineto", "-o", "new.json", "--force"]):
                self.harmless(*command, codes=CODES)

    def test_traces_of_other_programs(self):
        hostile = "gemm" + HOSTILE
        rows = [{"ph": "M", "name": "thread_name", "pid": 99, "tid": 7, "args": {"name": hostile}}]
        for i in range(20):
            rows.append({"ph": "X", "cat": "cuda_runtime", "name": hostile, "pid": 99, "tid": 7, "ts": 100 * i, "dur": 5, "args": {"correlation": i + 1}})
            rows.append({"ph": "X", "cat": "kernel", "name": hostile, "pid": 0, "tid": 7, "ts": 100 * i + 10, "dur": 80,
                         "args": {"device": 0, "stream": 7, "correlation": i + 1}})
        with open(self.path("trace.json"), "w") as file:
            json.dump({"traceEvents": rows}, file)
        with open(self.path("bytes.json"), "wb") as file:
            file.write(json.dumps({"traceEvents": rows}).encode().replace(b"gemm", b"ge\xff\x9bmm"))
        for name in ("trace.json", "bytes.json"):
            for command in (["import", name], ["report", name, "--text"], ["report", name, "--markdown"]):
                self.harmless(*command, codes=CODES)

    def test_plans(self):
        with open(self.path("plan.json")) as file:
            text = file.read()
        for change in (lambda p: p["plan"]["stages"][0].update(modules=["a" + HOSTILE], first_module="a" + HOSTILE),
                       lambda p: p["plan"].update(devices=["sleep:0" + HOSTILE, "sleep:1"]), lambda p: p.update(schema="mptune.plan/1" + HOSTILE),
                       lambda p: p["fingerprint"].update(model="m" + HOSTILE, input="i" + HOSTILE, libtorch="l" + HOSTILE),
                       lambda p: p["plan"]["schedule"].update(name="1f1b" + HOSTILE), lambda p: p["plan"]["schedule"].update(actions=["0F0" + HOSTILE, ""])):
            other = json.loads(text)
            change(other)
            with open(self.path("hostile.json"), "w") as file:
                json.dump(other, file)
            for command in (["run", "toy", "--plan", "hostile.json"], ["simulate", "--plan", "hostile.json", "--profile", "profile.sqlite"],
                            ["compare", "plan.json", "hostile.json"], ["export", "hostile.json", "--to", "megatron", "-o", "args", "--force"]):
                self.harmless(*command, codes=CODES)

    def test_names_of_files_and_words(self):
        name = HOSTILE.replace("\x00", "").replace("/", "")
        for given in (name, os.fsencode(name) + b"\xff\xc2"):
            for command in (["report", given, "--text"], ["plan", given], ["run", given], ["profile", "toy", "--devices", given],
                            ["profile", "toy", "--plan", given], [given], ["models", given], ["profile", "toy", given, given], ["--color", given, "models"],
                            ["plan", "profile.sqlite", "--memory", given], ["profile", "--", given], ["compare", given, given]):
                self.harmless(*command, codes=(2, 7))
            os.rename(self.path("trace.sqlite"), os.path.join(os.fsencode(self.folder), os.fsencode(given)))
            self.harmless("import", given, codes=CODES)
            self.harmless("report", given, "--text", codes=CODES)
            os.rename(os.path.join(os.fsencode(self.folder), os.fsencode(given)), self.path("trace.sqlite"))
            for command in (["plan", "profile.sqlite", "--force"], ["simulate", "--plan", "plan.json", "--profile", "profile.sqlite", "--force"],
                            ["profile", "toy", *SLEEP, "--force"]):
                self.harmless(*command, "-o", given)

    def test_the_environment(self):
        name = HOSTILE.replace("\x00", "")
        for variable in ("TMPDIR", "MPTUNE_WORKER", "MPTUNE_PLAN", "COLUMNS", "TERM", "LANG", "MPTUNE_INJECTION", "OMP_NUM_THREADS"):
            self.harmless("profile", "toy", *SLEEP, "--force", codes=CODES, **{variable: name})
        self.harmless("profile", "--", "true", codes=CODES, CUDA_INJECTION64_PATH=name)
