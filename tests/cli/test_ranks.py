import gzip
import json
import os
import sqlite3

import jsonschema
from harness import CommandTest, schema

OFFSET_US = 2345.678
DRIFT = 3e-5
STEPS = 10
SLOW_US = 130  # rank 1; rank 0 takes 100


class Ranks(CommandTest):
    """Kineto traces of the ranks of one job, on clocks of their own."""

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, value):
        opener = gzip.open if name.endswith(".gz") else open
        with opener(self.path(name), "wt") as file:
            json.dump(value, file)
        return name

    def rank(self, rank, name=None, change=lambda rows: None, info=True, described=True, slow_us=SLOW_US):
        """Data parallelism: a computation, then the sum of gradients, which takes 20 us once both have come."""
        def own(us):
            return (us - OFFSET_US) / (1 + DRIFT) if rank == 1 else us
        rows, call = [], 100
        def row(category, text, start, end, device=None, **args):
            rows.append({"ph": "X", "cat": category, "name": text, "pid": 9, "tid": 7, "ts": round(own(start), 3), "dur": round(own(end) - own(start), 3),
                         "args": {**({} if device is None else {"device": 0, "stream": device}), **args}})
        for step in range(STEPS):
            start = 10000 + 1000 * step
            came = start + 50 + (100 if rank == 0 else slow_us)
            ends = start + 50 + max(100, slow_us) + 20
            row("user_annotation", f"ProfilerStep#{step}", start, start + 45)
            for text, begins, stops, stream in (("gemm", start + 50, came, 7), ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", came, ends, 20)):
                call += 1
                args = {"Collective name": "allreduce", "In msg nelems": 256, "Out msg nelems": 256, "dtype": "Float", "Group size": 2, "Process Group Name": "0",
                        "Process Group Ranks": "[0, 1]", "Seq": step} if stream == 20 and described else {}
                row("cuda_runtime", "cudaLaunchKernel", start + 10 + stream, start + 12 + stream, correlation=call)
                row("kernel", text, begins, stops, device=stream, correlation=call, **args)
        change(rows)
        value = {"baseTimeNanoseconds": 1700000000000000000, "traceEvents": rows}
        if info:
            value["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 2}
        return self.write(name or f"rank{rank}.json", value)

    def imported(self, *names, code=0):
        done = self.mptune("--json", "import", *names)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        value = json.loads(done.stdout)
        jsonschema.validate(value, schema("import"))
        return value

    def test_clock_and_straggler_are_found(self):
        value = self.imported(self.rank(1, "b.json.gz"), self.rank(0, "a.json"))
        first, second = value["ranks"]
        self.assertEqual((first["rank"], first["file"], first["clock_source"]), (0, "a.json", "reference"))
        self.assertEqual((second["rank"], second["clock_source"], second["communications"], second["without_counterpart"]), (1, "communications", STEPS, 0))
        self.assertAlmostEqual(second["clock_offset_s"] * 1e6, 10000 - (10000 - OFFSET_US) / (1 + DRIFT), delta=1)
        self.assertAlmostEqual(second["clock_drift"], DRIFT, delta=1e-6)
        self.assertLess(second["clock_error_s"], 1e-6)
        self.assertEqual(value["missing_ranks"], [])
        self.assertEqual([device["device"] for device in value["devices"]], ["0@cuda:0", "1@cuda:0"])
        waits, slow = value["devices"]
        self.assertAlmostEqual(waits["idle"]["straggler"] * 1e6, SLOW_US - 100, delta=1)
        self.assertAlmostEqual(slow["idle"]["straggler"] * 1e6, 0, delta=1)
        text = self.succeed("import", "b.json.gz", "a.json")
        self.assertRegex(text, r"(?m)^1 +b\.json\.gz +.*drift \+30 ppm")

    def test_ranks_without_numbers_are_numbered_and_said(self):
        value = self.imported(self.rank(0, "x.json", info=False), self.rank(1, "y.json", info=False))
        self.assertEqual([(rank["rank"], rank["rank_assumed"], rank["file"]) for rank in value["ranks"]], [(0, True, "x.json"), (1, True, "y.json")])
        self.assertIn("0 (assumed)", self.succeed("import", "x.json", "y.json"))

    def test_kernels_stand_for_what_is_not_described(self):
        value = self.imported(self.rank(0, described=False), self.rank(1, described=False))
        self.assertEqual(value["ranks"][1]["communications"], STEPS)
        self.assertAlmostEqual(value["ranks"][1]["clock_drift"], DRIFT, delta=1e-6)

    def unequal(self, rank, kernel, offset_us=0.0, process="{}", ranks=3):
        """Rows of a rank that computes 1, 2, ... ms of each step of 10 ms; a collective of 200 us follows. Nothing describes it."""
        rows, call = [], 100 * rank
        for step in range(4):
            start = 10000 * step - offset_us
            rows.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": process.format(99), "tid": 1, "ts": start, "dur": 9990})
            for text, stream, begins, ends in (("gemm", 7, 0, 1000 * (rank + 1)), (kernel, 20 + rank, 1000 * (rank + 1), 1000 * ranks + 200)):
                call += 1
                rows.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": process.format(99), "tid": 1, "ts": start + begins - 9 * (begins > 0), "dur": 3, "args": {"correlation": call}})
                rows.append({"ph": "X", "cat": "kernel", "name": text, "pid": process.format(0), "tid": stream, "ts": start + begins, "dur": ends - begins,
                             "args": {"device": 0, "stream": stream, "correlation": call}})
        return rows

    def test_collectives_of_every_kind_wait(self):
        for kernel in ("ncclDevKernel_SendRecv(x)", "ncclDevKernel_AllGather_RING_LL(x)", "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(x)", "ncclDevKernel_Broadcast_RING_LL(x)"):
            with self.subTest(kernel=kernel):
                value = self.imported(*(self.write(f"r{rank}.json", {"traceEvents": self.unequal(rank, kernel)}) for rank in range(3)))
                self.assertEqual([round(1000 * device["compute_s"], 1) for device in value["devices"]], [1.2, 2.2, 3.2])
                self.assertEqual(next(advice["device"] for advice in value["advice"] if advice["cause"] == "straggler"), "2@cuda:0")

    def test_what_nothing_proves_has_no_verdict(self):
        files = [self.write(f"r{rank}.json", {"traceEvents": self.unequal(rank, "ncclDevKernel_SendRecv(x)", (0, 700, -2500)[rank])}) for rank in range(3)]
        value = self.imported(*files, code=5)
        self.assertEqual((value["advice"], value["quality"]["unmatched_ns"]), ([], 4 * 3_600_000))
        done = self.mptune("import", *files)
        self.assertIn("in communications without a counterpart in the files", done.stderr)
        self.assertIn("4, 4 without counterpart", done.stdout)
        self.imported(*files, "-o", "job.sqlite", code=5)
        self.assertEqual(self.imported("job.sqlite", code=5)["advice"], [])

    def test_a_merged_file_keeps_its_ranks(self):
        rows = [row for rank in range(3) for row in self.unequal(rank, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", process=f"[TP{rank:02}] {{}}")]
        value = self.imported(self.write("merged.json", {"traceEvents": rows}))
        self.assertEqual([(device["device"], round(1000 * device["compute_s"], 1)) for device in value["devices"]], [("0@cuda:0", 1.2), ("1@cuda:0", 2.2), ("2@cuda:0", 3.2)])
        self.assertEqual([rank["file"] for rank in value["ranks"]], [f"merged.json, [TP{rank:02}]" for rank in range(3)])
        self.assertIn("2@cuda:0", self.succeed("report", "merged.json"))

    def export(self, name, offset_us):
        """An export of Nsight Systems: a kernel, then the sum of gradients, in each of some steps of 1 ms."""
        with sqlite3.connect(self.path(name)) as database:
            database.executescript(
                "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT); INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL');"
                "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER,"
                " correlationId INTEGER, globalPid INTEGER, shortName INTEGER);")
            for i in range(STEPS):
                start = 1000 * (1000 * i + offset_us)
                for begins, ends, kernel in ((0, 100, 1), (100 if offset_us else SLOW_US, 200, 2)):
                    database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 1, ?, ?, 1, ?)", (start + 1000 * begins, start + 1000 * ends, 6 + kernel, 10 * i + kernel, kernel))
        return name

    def test_exports_of_nsight_systems_are_merged_by_their_kernels(self):
        value = self.imported(self.export("a.sqlite", 0), self.export("b.sqlite", 400))
        self.assertEqual([rank["communications"] for rank in value["ranks"]], [STEPS, STEPS])
        self.assertLess(value["ranks"][1]["clock_error_s"], 1e-6)
        self.assertAlmostEqual(value["ranks"][1]["clock_offset_s"], -400e-6, delta=1e-6)

    def test_a_missing_rank_is_named(self):
        def third(rows):
            for row in rows:
                if "Process Group Ranks" in row["args"]:
                    row["args"]["Process Group Ranks"] = "[0, 1, 5]"
        value = self.imported(self.rank(0, change=third), self.rank(1, change=third))
        self.assertEqual(value["missing_ranks"], [5])
        self.assertIn("no file of rank 5", self.succeed("import", "rank0.json", "rank1.json"))

    def test_how_long_ranks_without_a_file_were_waited_for_is_not_known(self):
        def third(rows):
            for row in rows:
                if "Process Group Ranks" in row["args"]:
                    row["args"]["Process Group Ranks"] = "[0, 1, 5]"
        value = self.imported(self.rank(0, change=third), self.rank(1, change=third))
        self.assertAlmostEqual(value["with_missing_ranks_s"] * 1e6, 2 * STEPS * 20, delta=2)
        self.assertIn("how long others waited for it is not known", " ".join(self.succeed("import", "rank0.json", "rank1.json").split()))

    def test_one_rank_alone_communicates_and_does_not_compute(self):
        value = self.imported(self.rank(0))
        [device] = value["devices"]
        self.assertAlmostEqual(device["compute_s"] * 1e6, 100, delta=1)
        self.assertAlmostEqual(device["copy_s"] * 1e6, SLOW_US - 100 + 20, delta=1)
        self.assertEqual(value["lone_collectives"]["count"], STEPS)
        self.assertAlmostEqual(value["lone_collectives"]["step_share"], (SLOW_US - 80) / (SLOW_US + 70), delta=0.01)
        self.assertIn("waiting for the others inside of them can't be told from the transfer", " ".join(self.succeed("import", "rank0.json").split()))
        self.assertNotIn("lone_collectives", self.imported("rank0.json", self.rank(1)))

    def test_recordings_without_steps_are_compared_over_the_time_that_all_hold(self):
        def window(first, last):
            """Without steps, from one turn to another."""
            def change(rows):
                rows[:] = [row for i, row in enumerate(rows) if row["cat"] != "user_annotation" and first <= i // 5 < last]
            return change
        value = self.imported(self.rank(0, change=window(0, STEPS - 2)), self.rank(1, change=window(3, STEPS)))
        self.assertEqual([rank["without_counterpart"] for rank in value["ranks"]], [0, 0])
        self.assertEqual([rank["beyond_common_steps"] for rank in value["ranks"]], [3, 2])
        self.assertAlmostEqual(value["common_window_s"] * 1e3, STEPS - 6 + 0.1 + SLOW_US / 1000, delta=0.2)
        text = " ".join(self.succeed("import", "rank0.json", "rank1.json").split())
        self.assertIn("cover different times", text)
        self.assertIn("3 beyond the common time", text)

    def test_python_functions_of_stacks_tell_forward_from_backward(self):
        """Megatron-LM under PyTorch's profiler with stacks: no range, but the functions of its schedule."""
        for rank in (0, 1):
            def change(rows, rank=rank):
                call = [row for row in rows if row["cat"] == "cuda_runtime" and row["args"]["correlation"] % 2 == 1]
                for i, row in enumerate(call):
                    name = "megatron/core/pipeline_parallel/schedules.py(284): " + ("forward_step" if i % 2 == 0 else "backward_step")
                    rows.append({**row, "cat": "python_function", "name": name, "ts": row["ts"] - 0.5, "dur": row["dur"] + 1, "args": {"Python id": i}})
                    rows.append({**row, "cat": "python_function", "name": "torch/nn/modules/module.py(1): _call_impl", "args": {}})
            self.rank(rank, change=change)
        self.imported("rank0.json", "rank1.json", "-o", "job.sqlite")
        self.assertEqual(self.mptune("export", "job.sqlite", "--to", "csv").returncode, 0)
        with open(self.path("job.csv")) as file:
            kinds = {line.split(",")[4] for line in file if ",gemm," in line}
        self.assertEqual(kinds, {"forward", "backward"})

    def test_what_has_no_counterpart_is_said(self):
        def less(rows):
            del rows[-4:]
        self.rank(0)
        self.rank(1, change=less)
        done = self.mptune("import", "rank0.json", "rank1.json")
        self.assertIn(f"{STEPS}, 1 without counterpart", done.stdout)

    def test_files_that_make_no_job_are_refused(self):
        self.rank(0)
        self.fails(2, ["it is of rank 0, as is", "one file of every rank"], "import", "rank0.json", "rank0.json")
        self.fails(2, ["missing.json"], "import", "rank0.json", "missing.json")
        self.write("timeline.json", [{"ph": "X", "name": "forward-compute", "pid": 0, "tid": 1, "ts": 1, "dur": 1, "args": {"step": 0}}])
        self.fails(2, ["holds all ranks", "give it alone"], "import", "rank0.json", "timeline.json")
        with open(self.path("rank0.json")) as file:
            whole = file.read()
        with open(self.path("cut.json"), "w") as file:
            file.write(whole[:2000])
        self.fails(2, ["cut.json"], "import", "rank0.json", "cut.json")

    def test_odd_descriptions_do_no_harm(self):
        for key, odd in (("Process Group Ranks", "[0, 1, ..., 63]"), ("Process Group Ranks", "[-1]"), ("Process Group Ranks", 7), ("Seq", -5), ("Seq", 1e300), ("dtype", "Quaternion"),
                         ("In msg nelems", 9e18), ("Process Group Name", "\x1b[2J"), ("Collective name", "\x1b]0;t\x07" * 1000)):
            def change(rows, key=key, odd=odd):
                for row in rows:
                    if key in row["args"]:
                        row["args"][key] = odd
            with self.subTest(key=key, odd=odd):
                done = self.mptune("import", self.rank(0, change=change), self.rank(1, change=change))
                self.assertIn(done.returncode, (0, 5), done.stderr)
                self.assertNotIn("\x1b", done.stdout + done.stderr)

    def test_the_joined_trace_is_one_like_any_other(self):
        joined = self.imported(self.rank(0), self.rank(1), "-o", "job.sqlite")
        self.assertEqual(joined["trace"], "job.sqlite")
        again = self.imported("job.sqlite")
        for key in ("devices", "steps", "bubble", "critical_path", "link_use"):
            self.assertEqual(again[key], joined[key], key)
        self.assertIn("1@cuda:0", self.succeed("report", "job.sqlite"))
        self.assertEqual(self.mptune("compare", "job.sqlite", "job.sqlite").returncode, 0)
        files = self.result("export", "export", "job.sqlite", "--to", "kineto")["files"]
        self.assertEqual(self.imported(*files)["devices"], joined["devices"])
        self.fails(2, ["holds all devices", "give it alone"], "import", "job.sqlite", "rank0.json")
        self.fails(2, ["job.rank0.json", "one export alone"], "import", "rank0.json", "job.rank0.json")
        self.write("mine.txt", "mine")
        self.fails(2, ["mine.txt"], "import", "rank0.json", "rank1.json", "-o", "mine.txt")

    def test_ranks_of_gloo_on_the_cpu(self):
        def on_cpu(rows):
            """One thread computes, waits for the sum and adds it, all of it inside the step."""
            rows[:] = [row for row in rows if row["cat"] != "cuda_runtime"]
            for row in list(rows):
                row["pid"] = row["tid"]
                if row["cat"] == "user_annotation":
                    row["dur"] = 900
                elif row["name"] == "gemm":
                    row.update(cat="cpu_op", name="aten::mm", dur=row["dur"] - 1, args={})
                else:
                    row.update(cat="user_annotation", name="gloo:all_reduce", args={})
                    rows.append({**row, "cat": "cpu_op", "name": "aten::add_", "ts": round(row["ts"] + row["dur"] + 1, 3), "dur": 10})
        slow = 500
        value = self.imported(*(self.rank(rank, change=on_cpu, slow_us=slow) for rank in (0, 1)))
        self.assertEqual([device["device"] for device in value["devices"]], ["0@main", "1@main"])
        self.assertEqual(value["ranks"][1]["without_counterpart"], 0)
        waits, late = (device["idle"]["straggler"] * 1e6 for device in value["devices"])
        self.assertAlmostEqual(waits, slow - 100, delta=2)
        self.assertAlmostEqual(late, 0, delta=2)
        self.assertEqual([device["device"] for device in self.imported("rank1.json")["devices"]], ["main"])
