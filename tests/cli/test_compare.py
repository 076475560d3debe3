"""compare as a gate: several recordings a side, thresholds, exit codes, Markdown, and what is not alike."""
import json
import os
import random
import shutil
import sqlite3
import xml.etree.ElementTree

import jsonschema
from harness import CommandTest, schema
from timelines import write_timeline

TUNE = ["tune", "toy", "--devices", "sleep:2", "--budget", "20s", "--trials", "8"]


class Compare(CommandTest):
    def setUp(self):
        super().setUp()
        self.random = random.Random(3)

    def path(self, name):
        return os.path.join(self.folder, name)

    def recordings(self, name, *factors, second=1.0):
        """A recording per factor, eight steps of about 600 ms times it, whose second stage takes `second` as long as the first."""
        names = []
        for number, factor in enumerate(factors, start=1):
            names.append(f"{name}{number}.json")
            steps = [100 * factor * self.random.uniform(0.998, 1.002) for _ in range(8)]
            write_timeline(self.path(names[-1]), [(step, step * second) for step in steps])
        return names

    def compared(self, code, *arguments):
        """Object and text of compare; checks that the text fits its width."""
        done = self.mptune("--json", "compare", *arguments)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        value = json.loads(done.stdout, parse_constant=lambda word: self.fail(f"{word} is no JSON"))
        jsonschema.validate(value, schema("compare"))
        for width in ("80", "120"):
            done = self.mptune("compare", *arguments, COLUMNS=width)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertTrue(done.stdout.startswith(value["verdict"] + ": "), done.stdout)
            self.assertLessEqual(max(len(line) for line in done.stdout.splitlines()), int(width), done.stdout)
        return value, done.stdout

    def test_several_recordings_a_side(self):
        base = self.recordings("base", 1, 1.01, 0.99)
        new = self.recordings("new", 1.1, 1.11, 1.09, second=1.2)
        value, text = self.compared(4, *base, "--with", *new)
        self.assertEqual((value["verdict"], value["drift_covered"]), ("SLOW", True))
        self.assertEqual([row["name"] for row in value["a"]["recordings"]], base)
        self.assertEqual([row["name"] for row in value["b"]["recordings"]], new)
        self.assertEqual((value["a"]["step_samples"], value["a"]["step_ci95_s"]), (24, None))
        self.assertIn("of 3 and 3 recordings lies above 1", value["reason"])
        self.assertIn("3 recordings of ", text)
        self.assertNotIn("drifts", text)
        low, high = value["ratio"]["ci95"]
        self.assertLess(low, value["ratio"]["estimate"])
        self.assertGreater(high - low, 0.03, "as wide as recordings differ")
        self.assertEqual(self.compared(0, *new, "--with", *base)[0]["verdict"], "FAST")

    def test_one_recording_a_side_says_that_drift_is_not_covered(self):
        base, = self.recordings("base", 1)
        new, = self.recordings("new", 1.2)
        value, text = self.compared(4, base, new)
        self.assertFalse(value["drift_covered"])
        self.assertIn("warning: what drifts between the two is not in the interval", text)
        self.assertEqual(self.compared(4, base, "--with", new)[0]["verdict"], "SLOW")

    def test_the_reason_names_what_made_it_slower(self):
        base, = self.recordings("base", 1)
        new, = self.recordings("new", 1, second=1.5)
        value, text = self.compared(4, base, new)
        cause = value["main_cause"]
        self.assertEqual(cause["part"], "compute")
        self.assertAlmostEqual(cause["share_of_difference"], 1, places=1)
        self.assertTrue(value["reason"].endswith("; mostly " + cause["text"]), value["reason"])
        self.assertIn(cause["text"], " ".join(text.split()))
        other = [device for device in value["per_device"] if device["device"] != cause["device"]][0]
        self.assertFalse(other["parts"]["compute"]["clear"])
        self.assertIn("no clear change", text)
        self.assertNotIn(other["device"] + " compute", [change["device"] + " " + change["part"] for change in value["largest_changes"]])
        total = value["all_devices"]["parts"]
        for part in ("window", "compute", "idle"):
            self.assertAlmostEqual(total[part]["difference_s"], sum(device["parts"][part]["difference_s"] for device in value["per_device"]), places=9)
        self.assertIn("\nall devices, summed ", text)

    def test_threshold(self):
        base, new = self.recordings("base", 1, 1), self.recordings("new", 1.05, 1.05)
        self.assertEqual(self.compared(4, *base, "--with", *new)[0]["threshold_percent"], 2)
        value, text = self.compared(0, *base, "--with", *new, "--threshold", "8")
        self.assertEqual((value["verdict"], value["threshold_percent"]), ("SAME", 8))
        self.assertIn("lies within 8 % of 1", text)
        self.compared(4, *base, "--with", *new, "--threshold", "0")

    def test_fail_on(self):
        noisy = self.recordings("noisy", 1, 1.3), self.recordings("other", 1.1, 1.25)
        for options, code in (([], 5), (["--fail-on", "inconclusive"], 5), (["--fail-on", "slower"], 0)):
            self.assertEqual(self.compared(code, *noisy[0], "--with", *noisy[1], *options)[0]["verdict"], "AMBIGUOUS")
        base, new = self.recordings("base", 1, 1), self.recordings("new", 1.5, 1.5)
        self.compared(4, *base, "--with", *new, "--fail-on", "slower")

    def test_markdown(self):
        base, new = self.recordings("base", 1, 1.01), self.recordings("new", 1.2, 1.21, second=1.5)
        done = self.mptune("compare", *base, "--with", *new, "--markdown")
        self.assertEqual(done.returncode, 4)
        self.assertTrue(done.stdout.startswith("**SLOW**: B takes 1."), done.stdout)
        self.assertIn("\n| A | base1.json, base2.json | step ", done.stdout)
        self.assertRegex(done.stdout, r"\n\| \S.* \| compute \| ")
        self.assertEqual(done.stdout.count("<details>"), 1)
        self.assertEqual(done.stdout.count("</details>"), 1)
        for block in done.stdout.split("\n\n"):
            lines = [line for line in block.splitlines() if line.startswith("|")]
            self.assertEqual(len({line.replace("\\|", "").count("|") for line in lines}), 1 if lines else 0, block)
        self.assertTrue(done.stdout.isascii())
        value, _ = self.compared(4, *base, "--with", *new, )
        self.assertNotIn("markdown", value)
        done = self.mptune("--json", "compare", *base, "--with", *new, "--markdown")
        jsonschema.validate(json.loads(done.stdout), schema("compare"))
        self.assertIn("**SLOW**", json.loads(done.stdout)["markdown"])

    def our_trace(self, name, changes=(), machine=None):
        shutil.copy(self.path("trace.sqlite"), self.path(name))
        with sqlite3.connect(self.path(name)) as database:
            for statement in changes:
                database.execute(statement)
            if machine is not None:
                database.execute("UPDATE MPTUNE_META SET value = ? WHERE name = 'environment'", (json.dumps(machine),))
        database.close()

    def junit(self, code, *arguments):
        done = self.mptune("compare", *arguments, "--junit", "junit.xml")
        self.assertEqual(done.returncode, code, done.stderr)
        suites = xml.etree.ElementTree.parse(self.path("junit.xml")).getroot()
        case, = suites.iter("testcase")
        for element in (suites, suites[0]):
            self.assertEqual((element.get("tests"), element.get("failures"), element.get("skipped")),
                             ("1", str(len(case.findall("failure"))), str(len(case.findall("skipped")))))
        return case

    def test_junit_fails_where_the_command_does(self):
        base, slow = self.recordings("base", 1, 1.01, 0.99), self.recordings("slow", 1.2, 1.21, 1.19)
        case = self.junit(4, *base, "--with", *slow)
        self.assertRegex(case.find("failure").get("message"), r"^SLOW: B takes 1\.2\d* times as long as A")
        self.assertIn("mostly compute on", " ".join(case.find("failure").text.split()))
        self.assertAlmostEqual(float(case.get("time")), self.compared(4, *base, "--with", *slow)[0]["b"]["step_s"], places=5)
        even, again = self.recordings("even", 1, 1.001, 0.999, 1), self.recordings("again", 1, 0.999, 1.001, 1)
        self.assertEqual([part.tag for part in self.junit(0, *even, "--with", *again)], ["system-out"])
        noisy = self.recordings("noisy", 1, 1.4, 0.9)
        self.assertEqual(self.junit(5, *base, "--with", *noisy).find("failure").get("type"), "AMBIGUOUS")
        self.assertEqual([part.tag for part in self.junit(0, *base, "--with", *noisy, "--fail-on", "slower")], ["skipped", "system-out"])

    def test_github_gets_a_comment_a_summary_and_a_benchmark(self):
        base, new = self.recordings("base", 1, 1.01, 0.99), self.recordings("new", 1.2, 1.21, 1.19)
        with open(self.path("summary"), "w") as file:
            file.write("of another command\n")
        for _ in range(2):  # the second replaces the files
            done = self.mptune("--json", "compare", *base, "--with", *new, "--markdown", "--github", GITHUB_STEP_SUMMARY=self.path("summary"))
            self.assertEqual(done.returncode, 4, done.stderr)
            value = json.loads(done.stdout)
            self.assertEqual(value["files"], ["comparison.md", "benchmark.json"])
        with open(self.path("comparison.md")) as file:
            self.assertEqual(file.read(), "<!-- mptune compare -->\n\n" + value["markdown"])
        with open(self.path("summary")) as file:
            self.assertEqual(file.read(), "of another command\n" + 2 * value["markdown"])
        with open(self.path("benchmark.json")) as file:
            benchmarks = json.load(file)
        self.assertEqual(benchmarks[0]["name"], "mptune: step")
        self.assertAlmostEqual(benchmarks[0]["value"], value["b"]["step_s"] * 1e3)
        self.assertEqual({"name", "unit", "value"}, set().union(*benchmarks) - {"range"})
        self.assertEqual({one["unit"] for one in benchmarks}, {"ms"})
        self.assertEqual(len(benchmarks), 1 + 3 * len(value["per_device"]))

    def test_files_of_others_are_kept(self):
        base, new = self.recordings("base", 1), self.recordings("new", 1)
        with open(self.path("comparison.md"), "w") as file:
            file.write("my notes")
        self.fails(2, ["comparison.md", "was not written by mptune compare", "--force"], "compare", *base, *new, "--github")
        self.assertNotIn("benchmark.json", os.listdir(self.folder))
        self.fails(2, [base[0]], "compare", *base, *new, "--junit", base[0])
        self.fails(2, ["missing"], "compare", *base, *new, "--junit", "missing/junit.xml")
        os.remove(self.path("comparison.md"))
        self.fails(2, ["--github writes another file"], "compare", *base, *new, "--github", "--junit", "./benchmark.json")
        with open(self.path("comparison.md"), "w") as file:
            file.write("my notes")
        done = self.mptune("compare", *base, *new, "--github", "--force")
        self.assertNotEqual(done.returncode, 2, done.stderr)
        with open(self.path("comparison.md")) as file:
            self.assertTrue(file.read().startswith("<!--"))

    def test_what_is_not_alike_is_said_first(self):
        machine = {"cpu": "EPYC 7763", "cores": 8, "clock_mhz": 2450}
        self.our_trace("a.sqlite", machine=machine)
        self.our_trace("b.sqlite", machine={**machine, "cpu": "Xeon 8481C"})
        value, text = self.compared(0, "a.sqlite", "b.sqlite")
        self.assertEqual(value["unlike"], [{"what": "CPU", "a": "EPYC 7763", "b": "Xeon 8481C", "text": "CPU: EPYC 7763 -> Xeon 8481C"}])
        self.assertTrue(any("across machines" in warning for warning in value["warnings"]), value["warnings"])
        self.assertLess(text.index("Not alike, A -> B\n  CPU: EPYC 7763 -> Xeon 8481C\n"), text.index("\nA  a.sqlite"))
        self.assertIn("- CPU: EPYC 7763 -> Xeon 8481C\n", self.succeed("compare", "a.sqlite", "b.sqlite", "--markdown"))
        self.assertEqual(self.compared(0, "a.sqlite", "a.sqlite")[0]["unlike"], [])

    def test_studies_say_what_they_did_not_measure(self):
        self.succeed(*TUNE)
        failing = {"MPTUNE_FAKE_PLANS": json.dumps({"single_device": "crash", "candidate": {"type": "wrong_result", "reason": "another loss"}})}
        self.succeed(*TUNE, "-o", "failing.study", **failing)
        done = self.mptune("--json", "compare", "toy.study", "failing.study")
        value = json.loads(done.stdout)
        jsonschema.validate(value, schema("compare"))
        self.assertEqual(value["a"]["baselines_not_measured"] + value["a"]["failed_plans"], [])
        self.assertEqual([(row["name"], row["why_not"]) for row in value["b"]["baselines_not_measured"]], [("single_device", "crashed by signal 11")])
        self.assertGreater(len(value["b"]["failed_plans"]), 0)
        text = self.mptune("compare", "toy.study", "failing.study", COLUMNS="120").stdout
        self.assertIn("\n  B  single_device: crashed by signal 11; predicted ", text)
        self.assertIn("  B  wrong result: another loss: ", text)
        self.assertIn("- B: single\\_device: crashed by signal 11", self.mptune("compare", "toy.study", "failing.study", "--markdown").stdout)
        self.assertNotIn("Not measured", self.succeed("compare", "toy.study", "toy.study"))

    def test_batches_that_differ_are_compared_by_samples_per_second(self):
        self.succeed(*TUNE)
        self.succeed(*TUNE, "--batch", "4", "-o", "smaller.study")
        value, text = self.compared(5, "toy.study", "smaller.study")
        self.assertEqual([(thing["what"], thing["a"], thing["b"]) for thing in value["unlike"]], [("batch", "8", "4")])
        for side in (value["a"], value["b"]):
            self.assertAlmostEqual(side["samples_per_second"], side["batch"] / side["step_s"])
        rate = value["b"]["samples_per_second"] / value["a"]["samples_per_second"]
        self.assertIn(f"warning: the batches differ: B makes {rate:.3f} times as many samples per second as A", " ".join(text.split()))

    def test_mistakes(self):
        base = self.recordings("base", 1, 1.01, 1.02)
        self.fails(2, ["A is required"], "compare")
        self.fails(2, ["A is required"], "compare", "--with", base[0])
        self.fails(2, ["B is required", "--with"], "compare", base[0])
        self.fails(2, ["3 files are given", "--with"], "compare", *base)
        self.fails(2, ["--with"], "compare", *base, "--with")
        self.fails(2, ["no_a"], "compare", "no_a", "no_b")
        self.fails(2, ["no_a"], "compare", base[0], "no_a", "--with", "no_b")
        self.fails(2, ["WHEN missing"], "compare", base[0], base[1], "--fail-on")
        self.fails(2, ["a trace can't be compared with a plan"], "compare", base[0], base[1], "--with", "plan.json")
        self.fails(2, ["a side may have several recordings"], "compare", "plan.json", "plan.json", "--with", "plan.json")
        self.fails(2, ["two recordings of one side are the same"], "compare", base[0], base[0], "--with", base[1])
        self.fails(2, ["recordings of one side differ: devices"], "compare", base[0], "trace.sqlite", "--with", base[1])
        for value in ("-1", "many", "nan", "2%", "1e9"):
            self.fails(2, ["--threshold"], "compare", base[0], base[1], "--threshold=" + value)
        self.fails(2, ["can't fail on 'never'", "--fail-on"], "compare", base[0], base[1], "--fail-on", "never")
