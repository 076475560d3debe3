import csv
import json
import os

import jsonschema
from harness import CommandTest, schema

RANKS, MICROBATCHES, STEPS = 4, 8, 3


def gpipe(stall=None):
    """Start and end [ms] of every action of each rank under GPipe, by step; `stall` is (step, rank, kind, micro-batch, ms longer)."""

    def lasts(step, rank, kind, microbatch):
        longer = stall[4] if stall and stall[:4] == (step, rank, kind, microbatch) else 0
        return (20 if kind == "bwd" else 15 if rank == RANKS - 1 else 10) + longer

    steps = []
    for step in range(STEPS):
        times, free = {}, [0] * RANKS
        order = [("fwd", m, r) for m in range(MICROBATCHES) for r in range(RANKS)]
        order += [("bwd", m, r) for m in range(MICROBATCHES) for r in reversed(range(RANKS))]
        for kind, m, r in order:
            neighbour = r - 1 if kind == "fwd" else r + 1
            ready = times[kind, m, neighbour][1] if 0 <= neighbour < RANKS else times.get(("fwd", m, r), (0, 0))[1]
            start = max(free[r], ready)
            free[r] = start + lasts(step, r, kind, m)
            times[kind, m, r] = (start, free[r])
        steps.append(times)
    return steps


class ActionTimes(CommandTest):
    """Start and end of a pipeline's actions, as Primus dumps them."""

    def dump(self, steps, name="pp_data", ranks=range(RANKS)):
        os.mkdir(os.path.join(self.folder, name))
        for r in ranks:
            rank = {}
            for s, times in enumerate(steps):
                rank[s + 1] = {"total": 500.0, "memory": 1.0}
                for kind in ("fwd", "bwd"):
                    pairs = [times[kind, m, r] for m in range(MICROBATCHES)]
                    rank[s + 1][kind + "_start"] = [start for start, _ in pairs]
                    rank[s + 1][kind + "_end"] = [end for _, end in pairs]
            with open(os.path.join(self.folder, name, f"pp_rank_{r}.json"), "w") as file:
                json.dump(rank, file)
        with open(os.path.join(self.folder, name, "config.json"), "w") as file:
            json.dump({"pp_size": RANKS, "vp_size": 1, "num_mbs": MICROBATCHES}, file)
        return name

    def table(self, steps, name="times.csv"):
        with open(os.path.join(self.folder, name), "w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["run", "iteration", "rank", "kind", "nth", "start_ms", "end_ms"])
            for s, times in enumerate(steps):
                for (kind, m, r), (start, end) in times.items():
                    rows.writerow(["a", s + 1, r, kind, m, start, end])
        return name

    def imported(self, *files, code=0):
        done = self.mptune("--json", "import", *files)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        value = json.loads(done.stdout)
        jsonschema.validate(value, schema("import"))
        return value, done.stderr

    def test_stalls_are_named_and_priced(self):
        stalled, plain = gpipe((1, 2, "bwd", 5, 90)), gpipe()
        price = (max(end for _, end in stalled[1].values()) - max(end for _, end in plain[1].values())) / 1000
        for source in (self.dump(stalled), self.table(stalled)):
            value, _ = self.imported(source)
            self.assertEqual(len(value["stalls"]), 1)
            stall = value["stalls"][0]
            self.assertEqual([stall[key] for key in ("device", "step", "stage", "microbatch", "what", "late", "hidden")],
                             ["rank:2", 2, 2, 5, "backward", False, False])
            for key, expected in (("time_s", 0.110), ("usual_s", 0.020), ("price_s", price)):
                self.assertAlmostEqual(stall[key], expected, places=9)
            text = self.mptune("import", source).stdout
            self.assertIn("backward of micro-batch 5, stage 2 took", text)
            self.assertIn("6 robust standard", " ".join(text.split()))
            self.assertEqual(value["bubble"] > 0, True)

    def test_hidden_stalls_are_said_to_be_hidden(self):
        value, _ = self.imported(self.table(gpipe((1, 0, "fwd", 6, 20))))  # the last rank is slower: by then it is 30 ms behind
        [stall] = value["stalls"]
        self.assertTrue(stall["hidden"])
        self.assertEqual(stall["price_s"], 0)
        self.assertIn("hidden", stall["text"])

    def test_every_command_that_reads_traces_takes_them(self):
        a, b = self.dump(gpipe((1, 2, "bwd", 5, 90)), "a"), self.table(gpipe())
        self.assertIn("Stalls", self.mptune("report", a).stdout)
        self.assertIn("Stalls", self.mptune("report", a, "--markdown").stdout)
        self.assertEqual(self.mptune("report", a, "-o", "page.html").returncode, 0)
        with open(os.path.join(self.folder, "page.html")) as file:
            self.assertIn("backward of micro-batch 5", file.read())
        self.assertIn(self.mptune("compare", a, b).returncode, (0, 4, 5))
        self.assertEqual(self.mptune("export", b, "--to", "perfetto").returncode, 0)
        files = [os.path.join(a, f"pp_rank_{r}.json") for r in range(RANKS)]
        self.assertEqual(self.mptune("import", *files, "-o", "job.sqlite").returncode, 0)
        self.assertIn("backward of micro-batch 5", " ".join(self.mptune("report", "job.sqlite").stdout.split()))

    def test_missing_ranks_are_said_and_forbid_a_verdict(self):
        value, messages = self.imported(self.dump(gpipe(), ranks=(0, 1, 3)), code=5)
        self.assertEqual(value["missing_ranks"], [2])
        self.assertEqual(value["stalls"], [])
        self.assertIn("no file of rank 2", messages)
        self.assertIn("give the files of all ranks", messages)

    def test_what_does_not_fit_is_refused(self):
        folder = self.dump(gpipe())
        other = self.table(gpipe())
        for arguments, words in (((folder, other), "another file is of rank 0"), ((other, "no.json"), "no.json")):
            done = self.mptune("import", *arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn(words, done.stderr)
