import json
import os
import sqlite3

import jsonschema
from harness import CommandTest, schema

KERNELS = 100


class ForeignTraces(CommandTest):
    """Traces of other programs that are cut out of longer ones, or hold odd rows."""

    def path(self, name):
        return os.path.join(self.folder, name)

    def export(self, name="export.sqlite", first_call=0, last_kernel=KERNELS, change=""):
        """An export of Nsight Systems: a kernel every 100 us, launched 1 ms ahead."""
        if os.path.exists(self.path(name)):
            os.remove(self.path(name))
        with sqlite3.connect(self.path(name)) as database:
            database.executescript(
                "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT); INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'cudaLaunchKernel');"
                "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER,"
                " correlationId INTEGER, globalPid INTEGER, shortName INTEGER);"
                "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER,"
                " correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER);"
                "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);")
            process = 0x1000001000000
            for i in range(KERNELS):
                start = 5_000_000 + 100_000 * i
                if i < last_kernel:
                    database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 1, 7, ?, ?, 1)", (start, start + 80_000, 1000 + i, process))
                if i >= first_call:
                    database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, 2)", (start - 1_000_000, start - 995_000, process + 9, 1000 + i))
            database.executescript(change)
        return name

    def kineto(self, name="trace.json", change=lambda rows: None):
        rows = [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{s}", "pid": 99, "tid": 7, "ts": 5000 * s, "dur": 4990} for s in (0, 1)]
        for i in range(KERNELS):
            rows.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 99, "tid": 7, "ts": 100 * i, "dur": 5, "args": {"correlation": 500 + i}})
            rows.append({"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 100 * i + 10, "dur": 80,
                         "args": {"device": 0, "stream": 7, "correlation": 500 + i}})
        change(rows)
        with open(self.path(name), "w") as file:
            json.dump({"traceEvents": rows}, file)
        return name

    def imported(self, code, name):
        done = self.mptune("--json", "import", name)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        value = json.loads(done.stdout)
        jsonschema.validate(value, schema("import"))
        self.assertEqual(self.mptune("import", name).returncode, code)
        return value, done.stderr

    GRAPHS = ("CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, graphId INTEGER, contextId INTEGER,"
              " streamId INTEGER, correlationId INTEGER, globalPid INTEGER);"
              "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE SELECT start, end, deviceId, 1, contextId, streamId, correlationId, globalPid"
              " FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE correlationId % 2 = 0;"
              "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE correlationId % 2 = 0;")

    def test_graphs_recorded_as_a_whole_are_work_of_unknown_contents(self):
        value, _ = self.imported(0, self.export(change=self.GRAPHS))
        self.assertAlmostEqual(value["devices"][0]["compute_s"], KERNELS * 80e-6)
        self.assertEqual(value["whole_graphs"]["count"], KERNELS // 2)
        self.assertAlmostEqual(value["whole_graphs"]["compute_share"], 0.5)
        self.assertIn("--cuda-graph-trace=node", " ".join(self.mptune("import", "export.sqlite").stdout.split()))
        self.assertNotIn("whole_graphs", self.imported(0, self.export())[0])

    def test_rows_in_any_order_import_the_same(self):
        first, _ = self.imported(0, self.export(change=self.GRAPHS))
        mixed = "".join(f"CREATE TEMP TABLE mixed AS SELECT * FROM {table} ORDER BY random(); DELETE FROM {table};"
                        f"INSERT INTO {table} SELECT * FROM mixed; DROP TABLE mixed;"
                        for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"))
        self.assertEqual(self.imported(0, self.export(change=self.GRAPHS + mixed))[0], first)

    def test_overruns_are_cut_and_named(self):
        def overrun(rows):
            rows[3 + 2 * 30]["dur"] = 1200
        self.refused(self.kineto(change=overrun), "overrun", "cuda:0, stream 7",
                     "ts 3010.000, dur 1200.000 [us]; the next has ts 3110.000, dur 80.000 [us]")

    def test_what_holds_no_work_gets_no_advice(self):
        for change, words in (("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL", "no work of a device"),
                              ("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 0, end = 0", "stamped them 0"),
                              ("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start", "no work of a device")):
            done = self.mptune("import", self.export(change=change))
            self.assertEqual((done.returncode, done.stdout), (2, ""), change)
            self.assertIn(words, done.stderr)

    def test_windows_of_longer_recordings_keep_their_verdict(self):
        for code, name in ((0, self.export("whole.sqlite")), (0, self.export("late.sqlite", first_call=60)), (0, self.export("early.sqlite", last_kernel=40)),
                           (0, self.kineto("whole.json")), (0, self.kineto("late.json", lambda rows: rows.__delitem__(slice(2, 62, 2))))):
            value, err = self.imported(code, name)
            self.assertEqual(value["quality"]["unmatched"], 0, name)
            self.assertNotIn("warning", err)
        self.assertEqual(self.imported(0, "late.sqlite")[0]["quality"]["cut_off"], 60)
        self.assertIn("60 cut off at the ends of the recording", self.succeed("import", "late.sqlite"))

    def test_what_is_missing_within_forbids_the_verdict(self):
        name = self.export(change="DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE correlationId BETWEEN 1040 AND 1049")
        _, err = self.imported(5, name)
        self.assertIn("10.0 % of all events have no counterpart", err)

    def test_unified_memory_needs_no_launch(self):
        name = self.export(change="WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999) INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY "
                                  "SELECT 5000000 + 9000 * i, 5002000 + 9000 * i, 0, 1, 0, NULL, 0x1000001000000, 4096, 11 + i % 2 FROM n")
        value, _ = self.imported(0, name)
        self.assertEqual(sorted((link["source"], link["destination"], link["copies"]) for link in value["link_use"]), [("cuda:0", "host", 500), ("host", "cuda:0", 500)])

    def refused(self, name, fault, where, times):
        value, err = self.imported(5, name)
        self.assertEqual([(row["fault"], row["what"], row["where"], row["times"]) for row in value["implausible_times"]], [(fault, "kernel 'gemm'", where, times)])
        self.assertEqual(value["advice"], [])
        for part in ("kernel 'gemm' on " + where, times, "Correct or delete it"):
            self.assertIn(part, err)
        self.assertIn("no verdict: kernel 'gemm'", self.mptune("import", name).stdout)

    def test_one_absurd_time_is_named(self):
        at = "cuda:0, stream 7"
        update = "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET {} WHERE correlationId = 1030"
        self.refused(self.export(change=update.format("end = start - 5")), "backward", at, "start 8000000, end 7999995 [ns]")
        self.refused(self.export(change=update.format("end = 14000000")), "too_long", at, "start 8000000, end 14000000 [ns]")
        self.refused(self.export(change=update.format("start = 4000000000000000000, end = start")), "far", at, "start 4000000000000000000, end 8000000 [ns]")

        def change(key, number):
            return lambda rows: rows[2 + 2 * 30 + 1].__setitem__(key, number)
        self.refused(self.kineto(change=change("dur", -5)), "backward", at, "ts 3010.000, dur -5.000 [us]")
        self.refused(self.kineto(change=change("dur", 6000)), "too_long", at, "ts 3010.000, dur 6000.000 [us]")
        self.refused(self.kineto(change=change("ts", 10 ** 15)), "far", at, "ts 1000000000000000.000, dur 80.000 [us]")
        self.refused(self.kineto(change=change("ts", 10 ** 19)), "far", at, "ts 10000000000000000000 [us]")

    def test_a_trace_of_nothing_but_absurd_times_is_refused(self):
        self.fails(2, ["kernel 'gemm'", "end 4999999 [ns]"], "import", self.export(change="UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 1"))
        self.fails(2, ["kernel 'gemm'", "dur -1.000 [us]"], "import", self.kineto(change=lambda rows: [row.__setitem__("dur", -1) for row in rows[3::2]]))
