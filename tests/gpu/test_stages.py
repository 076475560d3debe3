"""The runner of stages and the readers of recordings, without mptune and without a GPU."""
import argparse
import contextlib
import io
import json
import os
import random
import sqlite3
import sys
import tempfile
import time
import unittest

import recordings
import run_stages
import stages
from commands import Failed, Skipped, shortened

NO_MACHINE = stages.Machine({}, [], None, False)


def command(*words):
    return lambda context: str(context.commands.run(words).code)


def fail(context):
    raise Failed("as planned")


def skip(context):
    raise Skipped("nothing to see")


def running(command_line):
    """The numbers of the processes with this command line."""
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{process}/cmdline") as file:
            found += [process] if file.read() == command_line else []
    return found


class Runner(unittest.TestCase):
    def summary(self, *bodies, minutes=1.0, skip_all=""):
        """Exit code and lines of a run of stages a, b, ... of two seconds each."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = folder.name
        every = [stages.Stage(name, 2, body) for name, body in zip("abcdefgh", bodies)]
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            code = run_stages.run_all(every, argparse.Namespace(out=self.out, minutes=minutes), NO_MACHINE, skip_all)
        with open(os.path.join(self.out, "summary.txt")) as file:
            written = file.read()
        self.assertEqual(written, shown.getvalue())
        return code, written.splitlines()

    def log(self, name):
        with open(os.path.join(self.out, name)) as file:
            return file.read()

    def test_stages_that_fail_hang_crash_and_raise_do_not_stop_the_next(self):
        sleep_behind = "import subprocess; subprocess.Popen(['sleep', '100']); print('started', flush=True); subprocess.run(['sleep', '100'])"
        code, lines = self.summary(fail, command(sys.executable, "-c", sleep_behind), command("sh", "-c", "kill -SEGV $$"), lambda context: 1 / 0,
                                   lambda context: context.commands.run(["/nowhere/program"]), skip, lambda context: "42 GB/s")
        self.assertEqual(code, 1)
        for line, begin, word in zip(lines, ("FAIL  a", "FAIL  b", "PASS  c", "FAIL  d", "FAIL  e", "SKIP  f", "PASS  g"),
                                     ("as planned", "no end after 2 s", "-11", "ZeroDivisionError", "/nowhere/program", "nothing to see", "42 GB/s")):
            self.assertTrue(line.startswith(begin), line)
            self.assertIn(word, line)
        self.assertEqual(lines[-1], "2 passed, 4 failed, 1 skipped")
        self.assertIn("started\n[killed at its time limit", self.log("02-b.log"))

    def test_what_a_hanging_stage_started_is_gone(self):
        word = f"86400.{os.getpid()}"
        self.summary(command("sh", "-c", f"sleep {word} & sleep {word}"))
        # A killed process ends when it is next scheduled: on a busy machine that is later than its parent's end.
        until = time.monotonic() + 60
        while running(f"sleep\0{word}\0") and time.monotonic() < until:
            time.sleep(0.05)
        self.assertEqual(running(f"sleep\0{word}\0"), [])

    def test_all_is_skipped_for_one_reason(self):
        code, lines = self.summary(fail, fail, skip_all="no NVIDIA driver")
        self.assertEqual(code, 0)
        self.assertTrue(all(line.startswith("SKIP") and line.endswith("no NVIDIA driver") for line in lines[:-1]), lines)

    def test_what_has_no_time_left_is_skipped(self):
        code, lines = self.summary(command("sleep", "1"), fail, minutes=0.01)
        self.assertEqual(code, 0)
        self.assertRegex(lines[0], "^SKIP  a .*no time left of 0.01 minutes: no end after 1 s: sleep 1")
        self.assertRegex(lines[1], "^SKIP  b .*no time left of 0.01 minutes$")

    def test_lines_and_logs_stay_short(self):
        code, lines = self.summary(*[command(sys.executable, "-c", "print('x' * 10_000_000)")] * 2, lambda context: "y" * 100_000)
        self.assertEqual(code, 0)
        self.assertLess(max(map(len, lines)), 2000)
        self.assertLess(len(self.log("01-a.log")), run_stages.MOST_LOG)
        self.assertIn("left out", self.log("01-a.log"))
        self.assertEqual(shortened("short"), "short")

    def test_full_log_ends(self):
        with tempfile.TemporaryDirectory() as folder:
            log = run_stages.Log(os.path.join(folder, "log"))
            for _ in range(30):
                log.write("z" * 50_000)
            self.assertLess(os.path.getsize(log.path), run_stages.MOST_LOG + 100)


class Recordings(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_union_is_that_of_counting_every_nanosecond(self):
        random.seed(1)
        for _ in range(200):
            events = [(start, start + random.randrange(8)) for start in (random.randrange(30) for _ in range(random.randrange(6)))]
            covered = {at for start, end in events for at in range(start, end)}
            self.assertAlmostEqual(recordings.union_seconds(events), len(covered) * 1e-9, places=15)

    def test_traces(self):
        path = os.path.join(self.folder, "trace.sqlite")
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.executescript("""
                CREATE TABLE StringIds (id INTEGER, value TEXT);
                CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, text TEXT, textId INTEGER);
                CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER);
                CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER);
                INSERT INTO StringIds VALUES (7, 'measured');
                INSERT INTO NVTX_EVENTS VALUES (0, 5, 'other', NULL), (100, 200, NULL, 7);
                INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10, 90), (110, 130), (120, 150), (210, 220);
                INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (190, 195);""")
        self.assertEqual(recordings.event_count(path), 5)
        busy, events = recordings.busy_in_trace(path, "measured")
        self.assertAlmostEqual(busy, 45e-9)
        self.assertEqual(events, 3)
        with self.assertRaisesRegex(ValueError, "no NVTX range 'another'"):
            recordings.busy_in_trace(path, "another")

    def test_calls_of_the_host(self):
        path = os.path.join(self.folder, "calls.sqlite")
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.executescript("""
                CREATE TABLE StringIds (id INTEGER, value TEXT);
                CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, nameId INTEGER);
                INSERT INTO StringIds VALUES (1, 'cudaEventCreateWithFlags_v3020'), (2, 'cudaEventSynchronize_v3020'), (3, 'cudaEventRecord_v3020');
                INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 2, 1), (3, 4, 2), (5, 6, 2), (7, 8, 3);""")
        self.assertEqual(recordings.host_calls(path, "cudaEventCreate", "Synchronize", "cudaHostAlloc"), [1, 2, 0])

    def test_kineto(self):
        path = os.path.join(self.folder, "kineto.json")
        events = [{"ph": "X", "cat": "kernel", "ts": 1, "dur": 2}, {"ph": "X", "cat": "gpu_memcpy", "ts": 2, "dur": 2.5},
                  {"ph": "X", "cat": "cpu_op", "ts": 0, "dur": 100}, {"ph": "M"}]
        with open(path, "w") as file:
            json.dump({"traceEvents": events}, file)
        busy, count = recordings.busy_in_kineto(path)
        self.assertAlmostEqual(busy, 3.5e-6)
        self.assertEqual(count, 2)


class Faults(unittest.TestCase):
    def test_each_loss_is_one(self):
        good = {"dropped": 0, "zero_stamped": 0, "out_of_window": 0, "untagged": 1, "unmatched": 1}
        self.assertEqual(stages.faults_of(good, 1000), [])
        for name, count in (("dropped", 1), ("zero_stamped", 1), ("out_of_window", 1), ("untagged", 2), ("unmatched", 2)):
            self.assertEqual(len(stages.faults_of({**good, name: count}, 1000)), 1, name)


class Choices(unittest.TestCase):
    def test_stages_are_chosen_by_the_beginnings_of_their_names(self):
        every = stages.all_stages(stages.gpu_machine([0, 1, 2]), ["test_a"])
        self.assertEqual([stage.name for stage in run_stages.chosen(every, "doctor, tune resnet50")],
                         ["doctor", "tune resnet50 on halves", "tune resnet50 on quarters"])
        self.assertEqual(run_stages.chosen(every, None), every)
        with self.assertRaisesRegex(run_stages.Usage, "no stage begins with 'doktor'"):
            run_stages.chosen(every, "doctor,doktor")

    def test_neighbouring_cores_are_one_device(self):
        self.assertEqual([stages.core_set(cores) for cores in ([3], [0, 1], [2, 3, 4, 7], [0, 2])], ["cpu:3", "cpu:0-1", "cpu:2-4", "cpu:0"])

    def test_ratios_are_of_rounds(self):
        self.assertEqual(stages.ratio({"recommended": [1.0, 2.0, 1.0], "naive": [2.0, 2.0, 3.0]}, "naive"), "2.00x [1.00, 3.00]")


if __name__ == "__main__":
    unittest.main()
