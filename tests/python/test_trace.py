"""Trace files and studies as arrays, and what is refused."""
import contextlib
import os
import pathlib
import random
import shutil
import sqlite3
import sys
import tempfile
import unittest
from unittest import mock

from support import PythonTest, mptune

try:
    import numpy
except ImportError:
    numpy = None

TUNE = {"devices": "sleep:2", "budget": 20, "trials": 1, "schedule": "1f1b", "microbatches": 4}


def change(path, *statements):
    with contextlib.closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()


@unittest.skipIf(numpy is None, "NumPy is not installed")
class Traces(PythonTest):
    def test_events_are_those_of_the_file(self):
        with mptune.Trace("trace.sqlite") as trace:
            events, ranges, devices = trace.events(), trace.ranges(), trace.devices
        self.assertEqual(devices, ("sleep:0", "sleep:1"))
        with contextlib.closing(sqlite3.connect("trace.sqlite")) as file:
            kernels = file.execute("SELECT start - 1, end - 1, d.name, s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k "
                                   "JOIN StringIds s ON s.id = shortName JOIN MPTUNE_DEVICE d ON device = deviceId "
                                   "ORDER BY k.rowid").fetchall()
            copies = file.execute("SELECT start - 1, end - 1, bytes FROM CUPTI_ACTIVITY_KIND_MEMCPY ORDER BY rowid").fetchall()
            count = file.execute("SELECT count(*) FROM MPTUNE_EVENT").fetchone()[0]
        self.assertEqual(len(events), count)
        computing = events[events["lane"] == 0]
        self.assertEqual(computing[["start_ns", "end_ns", "device", "name"]].tolist(), kernels)
        copied = events[events["kind"] == "copy"]
        self.assertEqual(copied[["start_ns", "end_ns", "bytes"]].tolist(), copies)
        self.assertGreater(len(copied), 0)
        self.assertEqual(set(copied[["source", "destination"]].tolist()), {("sleep:0", "sleep:1"), ("sleep:1", "sleep:0")})
        self.assertEqual(set(events["bytes"][events["kind"] != "copy"]), {0})
        self.assertEqual(set(ranges["kind"]), {"action", "step"})
        self.assertEqual(ranges[ranges["kind"] == "action"]["name"][0], "0F0")

    def test_host_work_has_its_times_behind_the_ranges(self):
        change("trace.sqlite", "INSERT INTO MPTUNE_EVENT SELECT count(*), 11, 0, 0, 0, -1, -1 FROM MPTUNE_EVENT",
               "INSERT INTO NVTX_EVENTS (start, end, eventType) VALUES (701, 801, 59)")
        with mptune.Trace("trace.sqlite") as trace:
            event, ranges = trace.events()[-1], trace.ranges()
        self.assertEqual((event["kind"], event["start_ns"], event["end_ns"], event["step"]), ("host", 700, 800, -1))
        self.assertEqual(ranges["start_ns"][0], 0)
        self.assertNotIn(700, ranges["start_ns"])

    def test_steps_for_other_readers_are_no_events(self):
        """They are written behind the ranges and the host events, where a device's thread has no ranges of steps."""
        with mptune.Trace("trace.sqlite") as trace:
            before = trace.events().tolist()
        change("trace.sqlite", "INSERT INTO NVTX_EVENTS (start, end, eventType) VALUES (701, 801, 59)")
        with mptune.Trace("trace.sqlite") as trace:
            self.assertEqual(trace.events().tolist(), before)

    def test_a_notebook_shows_the_report(self):
        with mptune.Trace("trace.sqlite") as trace:
            shown = trace._repr_html_()
        self.assertTrue(shown.startswith("<iframe srcdoc="))
        self.assertIn("&lt;svg", shown)
        self.assertNotIn("<svg", shown, "escaped: the page's styles stay in its frame")
        page = mptune.report("trace.sqlite")
        page.save("page.html")
        self.assertEqual(pathlib.Path("page.html").read_text(encoding="utf-8"), page.html)
        self.assertLess(len(repr(page)), 80)
        self.refused(["missing.sqlite"], mptune.report, "missing.sqlite")

    def test_events_agree_with_the_breakdown_of_the_program(self):
        profile = mptune.import_trace("trace.sqlite")
        with mptune.Trace("trace.sqlite") as trace:
            events = trace.events()
        for device in profile.devices:
            own = events[(events["device"] == device.device) & (events["lane"] == 0)]
            self.assertAlmostEqual((own["end_ns"] - own["start_ns"]).sum() / 1e9, device.compute_s + device.overlap_s, places=9)
        forward = events[events["kind"] == "forward"]
        self.assertEqual(set(forward["stage"]), {0, 1})
        self.assertEqual(set(forward["microbatch"]), {0, 1, 2, 3})
        self.assertEqual(set(forward["layer"]), set(range(6)))

    def test_a_predicted_trace_is_read_too(self):
        path = mptune.simulate("plan.json", "profile.sqlite", output="predicted.sqlite").trace
        with mptune.Trace(path) as trace:
            self.assertEqual(len(trace.events()) > 0, True)

    def test_a_frame_has_the_columns(self):
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("pandas is not installed")
        with mptune.Trace("trace.sqlite") as trace:
            frame = trace.frame()
            self.assertEqual(tuple(frame.columns), trace.events().dtype.names)
            self.assertEqual(len(frame), len(trace.events()))

    def test_what_is_not_installed_is_named(self):
        with mptune.Trace("trace.sqlite") as trace:
            for name, call in (("pandas", trace.frame), ("numpy", trace.events)):
                with mock.patch.dict(sys.modules, {name: None}):
                    self.assertEqual(self.refused([f"pip install {name}"], call).exit_code, 7)

    def test_a_folder_that_cannot_be_written_to(self):
        """There SQLite can't make the shared memory of a write-ahead log. Root may write everywhere, so SQLite's answer is made up."""
        connect = sqlite3.connect

        def refuse(path, **options):
            if "immutable" not in path:
                raise sqlite3.OperationalError("unable to open database file")
            return connect(path, **options)

        with mock.patch("sqlite3.connect", refuse), mptune.Trace("trace.sqlite") as trace:
            self.assertGreater(len(trace.events()), 0)


@unittest.skipIf(numpy is None, "NumPy is not installed")
class BadTraces(PythonTest):
    def copied(self, *statements, source="trace.sqlite"):
        shutil.copy(source, "bad.sqlite")
        change("bad.sqlite", *statements)
        return "bad.sqlite"

    def read(self, path):
        with mptune.Trace(path) as trace:
            return trace.events(), trace.ranges()

    def test_what_is_no_trace(self):
        os.mkdir("folder")
        pathlib.Path("empty").touch()
        pathlib.Path("text").write_text("hello " * 100)
        os.mkfifo("pipe")
        self.copied("CREATE TABLE t (x)", source="empty")
        os.rename("bad.sqlite", "other")
        for path, word in (("nothing", "No such file"), ("folder", "not a file"), ("empty", "not an SQLite"), ("a\0b", "null"),
                           ("text", "not an SQLite"), ("pipe", "not a file"), ("other", "no trace of mptune")):
            self.refused([word], mptune.Trace, path)
        self.refused(["no recorded steps"], self.read, "profile.sqlite")

    def test_a_file_that_is_cut_short(self):
        whole = pathlib.Path("trace.sqlite").read_bytes()
        for size in (1, 15, 16, 99, 100, 4096, len(whole) // 2, len(whole) - 1):
            pathlib.Path("short.sqlite").write_bytes(whole[:size])
            self.refused(["short.sqlite"], self.read, "short.sqlite")

    def test_a_newer_version_is_refused_and_newer_tables_are_not(self):
        newer = self.copied("UPDATE MPTUNE_META SET value = '2' WHERE name = 'schema_major'")
        self.refused(["newer mptune", "version 2"], self.read, newer)
        newer = self.copied("UPDATE MPTUNE_META SET value = '99' WHERE name = 'schema_minor'", "CREATE TABLE MPTUNE_NEW (x)",
                            "ALTER TABLE MPTUNE_EVENT ADD COLUMN new INTEGER")
        self.assertEqual(len(self.read(newer)[0]), len(self.read("trace.sqlite")[0]))

    def test_wrong_values_are_refused(self):
        for statement, word in (
            ("UPDATE MPTUNE_META SET value = 'x' WHERE name = 'schema_major'", "schema_major"),
            ("DELETE FROM MPTUNE_META WHERE name = 'time_shift_ns'", "time_shift_ns"),
            ("UPDATE MPTUNE_META SET value = x'00' WHERE name = 'names'", "names"),
            ("UPDATE MPTUNE_EVENT SET device = 7 WHERE event = 3", "out of range"),
            ("UPDATE MPTUNE_EVENT SET device = -1 WHERE event = 3", "out of range"),
            ("UPDATE MPTUNE_EVENT SET tag = -2 WHERE event = 3", "out of range"),
            ("UPDATE MPTUNE_EVENT SET what = 99 WHERE event = 3", "out of range"),
            ("UPDATE MPTUNE_EVENT SET what = 'copy' WHERE event = 3", "a what is str"),
            ("UPDATE MPTUNE_EVENT SET tag = 1.5 WHERE event = 3", "a tag is float"),
            ("UPDATE MPTUNE_EVENT SET name = 1000000 WHERE event = 3", "out of range"),
            ("UPDATE MPTUNE_COPY SET source = 5", "out of range"),
            ("DELETE FROM MPTUNE_EVENT WHERE event = 3", "a row is missing"),
            ("DELETE FROM MPTUNE_COPY WHERE copy = 0", "out of range"),
            ("DELETE FROM CUPTI_ACTIVITY_KIND_MEMCPY", "rows are missing"),
            ("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 1 WHERE rowid = 1", "a time is out of range"),
            ("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = -9223372036854775808 WHERE rowid = 1", "a time is out of range"),
            ("UPDATE MPTUNE_META SET value = '9223372036854775807' WHERE name = 'time_shift_ns'", "a time is out of range"),
            ("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon' WHERE rowid = 1", "a start is str"),
            ("DROP TABLE MPTUNE_DEVICE", "no such table"),
        ):
            with self.subTest(statement):
                self.refused([word, "bad.sqlite"], self.read, self.copied(statement))

    def test_a_table_that_is_a_query_is_refused(self):
        endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS device, 'a' AS name FROM n"
        self.refused(["is a view"], self.read, self.copied("DROP TABLE MPTUNE_DEVICE", f"CREATE VIEW MPTUNE_DEVICE AS {endless}"))

    def test_a_table_that_never_ends_is_refused(self):
        """Four levels of pages whose 500 entries all are the next page: 62 billion copies of each row."""
        with contextlib.closing(sqlite3.connect("trace.sqlite")) as file:
            root = file.execute("SELECT rootpage FROM sqlite_master WHERE name = 'MPTUNE_DEVICE'").fetchone()[0]
            size, count = (file.execute(f"PRAGMA {what}").fetchone()[0] for what in ("page_size", "page_count"))
        data = bytearray(pathlib.Path("trace.sqlite").read_bytes())
        leaf = bytes(data[(root - 1) * size:root * size])

        def inner(child):
            cell = child.to_bytes(4, "big") + b"\x01"
            first = size - 500 * len(cell)
            header = b"\x05\0\0" + (500).to_bytes(2, "big") + first.to_bytes(2, "big") + b"\0" + child.to_bytes(4, "big")
            places = b"".join((first + i * len(cell)).to_bytes(2, "big") for i in range(500))
            return (header + places).ljust(first, b"\0") + cell * 500

        data[(root - 1) * size:root * size] = inner(count + 1)
        data += inner(count + 2) + inner(count + 3) + inner(count + 4) + leaf
        data[28:32] = (count + 4).to_bytes(4, "big")
        pathlib.Path("endless.sqlite").write_bytes(data)
        self.refused(["damaged"], self.read, "endless.sqlite")

    def test_texts_of_any_bytes_are_read(self):
        path = self.copied("UPDATE StringIds SET value = CAST(x'ff41' AS TEXT) WHERE id = 1")
        self.assertIn("\ufffdA", set(self.read(path)[0]["name"]))

    def test_damaged_bytes_are_refused_or_read(self):
        whole, draw, refused = pathlib.Path("trace.sqlite").read_bytes(), random.Random(3), 0
        for _ in range(150):
            damaged = bytearray(whole)
            for _ in range(draw.choice([1, 10, 100])):
                damaged[draw.randrange(len(damaged))] = draw.randrange(256)
            pathlib.Path("damaged.sqlite").write_bytes(damaged)
            try:
                self.read("damaged.sqlite")
            except mptune.Error:
                refused += 1
        self.assertGreater(refused, 10)


@unittest.skipIf(numpy is None, "NumPy is not installed")
class Studies(PythonTest):
    made = []  # a result and a copy of its study, once for all tests

    def setUp(self):
        super().setUp()
        if not self.made:
            kept = tempfile.mkdtemp(prefix="mptune-study-")
            self.addClassCleanup(shutil.rmtree, kept)
            self.made[:] = [mptune.tune("toy", output="toy.study", **TUNE), shutil.copytree("toy.study", os.path.join(kept, "toy.study"))]
        self.tuned = self.made[0]
        shutil.copytree(self.made[1], "toy.study", dirs_exist_ok=True)

    def bad(self, *statements):
        shutil.rmtree("bad.study", ignore_errors=True)
        shutil.copytree("toy.study", "bad.study")
        change("bad.study/study.sqlite", *statements)
        return "bad.study"

    def read(self, path):
        with mptune.Study(path) as study:
            return study.trials()

    def test_trials_are_those_of_the_result(self):
        trials = self.read("toy.study")
        self.assertEqual([int(one) for one in trials["id"]], [one.id for one in self.tuned.trials])
        for trial, told in zip(trials, self.tuned.trials):
            self.assertEqual((trial["plan_key"], trial["outcome"], trial["name"], int(trial["series"])),
                             (told.plan_key, told.outcome, told.name, told.series))
            self.assertAlmostEqual(trial["step_s"], told.step_s, places=12)
            self.assertAlmostEqual(trial["predicted_step_s"], told.predicted_step_s or 0, places=12)
        self.assertEqual(int(trials["peak_bytes"][0]), 120000)

    def test_samples_and_plan(self):
        with mptune.Study(pathlib.Path("toy.study")) as study:
            samples, trials = study.samples(), study.trials()
            self.assertEqual(study.plan().devices, list(self.tuned.recommended.plan.devices))
            with mock.patch.dict(os.environ, MPTUNE_PLAN="/nowhere"):
                self.assertEqual(study.plan().devices, list(self.tuned.recommended.plan.devices), "the study's own")
        self.assertEqual(len(samples), trials["step_samples"].sum())

    def test_a_trial_that_failed_has_no_time(self):
        failed = "UPDATE trial SET outcome = 'crashed', reason = 'why', loss = NULL WHERE id = 1"
        trial = self.read(self.bad("DELETE FROM sample WHERE trial = 1", failed))[0]
        self.assertTrue(numpy.isnan(trial["step_s"]) and numpy.isnan(trial["loss"]))
        self.assertEqual((trial["outcome"], trial["reason"], int(trial["step_samples"])), ("crashed", "why", 0))

    def test_what_is_no_study_is_refused(self):
        os.mkdir("empty")
        os.mkdir("other")
        shutil.copy("trace.sqlite", "other/study.sqlite")
        for path, word in (("nothing", "No such file"), ("empty", "No such file"), ("other", "not a study"),
                           ("plan.json", "Not a directory")):
            self.refused([word], mptune.Study, path)
        self.refused(["newer mptune", "version 9"], self.read, self.bad("PRAGMA user_version = 9"))
        self.refused(["no such table"], self.read, self.bad("DROP TABLE prediction"))
        self.refused(["is a view"], self.read, self.bad("CREATE VIEW v AS SELECT 1"))

    def test_a_study_without_a_plan_says_so(self):
        os.remove("toy.study/toy.plan.json")
        with mptune.Study("toy.study") as study:
            self.refused(["no plan yet"], study.plan)
            pathlib.Path("toy.study/a.plan.json").write_text("{")
            self.refused(["a.plan.json", "JSON"], study.plan)
            pathlib.Path("toy.study/b.plan.json").touch()
            self.refused(["2 plan files"], study.plan)
