"""mptune profile MODEL: what it shows, says and keeps."""
import os
import sqlite3

from harness import CommandTest

TWO = ["profile", "toy", "--devices", "sleep:2"]


class Profile(CommandTest):
    def path(self, name):
        return os.path.join(self.folder, name)

    def test_profile(self):
        value = self.result("profile", *TWO, "--microbatches", "4")
        for step in value["steps"]:
            for device in step["devices"]:
                parts = [device[key] for key in ("compute_ns", "copy_ns", "overlap_ns", "idle_ns")]
                self.assertEqual(sum(parts), device["window_ns"])
                self.assertEqual(sum(device["idle"].values()), device["idle_ns"])
        self.assertEqual(value["plan"]["num_microbatches"], 4)
        self.assertAlmostEqual(value["bubble_theory"], 1 / 5, places=2)  # (stages - 1) / (micro-batches + stages - 1)
        self.assertEqual(value["step_samples"], 6)
        self.assertAlmostEqual(value["overhead"]["percent"], 1.0, places=6)
        self.assertEqual(value["trace"], "toy.sqlite")
        with sqlite3.connect(self.path("toy.sqlite")) as database:
            tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        self.assertTrue(any(name.startswith("MPTUNE_") for name in tables))
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("mptune-")], [], "no temporary folder is left")

    def test_profile_report_and_import_show_the_same_peaks(self):
        peaks = [row["peak_bytes"] for row in self.result("profile", "profile", "toy", "--devices", "sleep:2")["devices"]]
        self.assertEqual(peaks, [1000, 2000])
        for value in (self.result("report", "report", "toy.sqlite")["data"], self.result("import", "import", "toy.sqlite")):
            self.assertEqual([row["peak_bytes"] for row in value["devices"]], peaks)
            self.assertEqual([row["peak_bytes"] for row in value["memory"]], peaks)

    def test_profile_says_what_its_recording_lacks(self):
        done = self.mptune(*TWO, MPTUNE_FAKE_WARNING="GPUs are not shown")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("mptune: warning: GPUs are not shown\n", done.stderr)

    def test_profile_says_what_was_not_measured(self):
        done = self.mptune(*TWO, MPTUNE_FAKE_MEASURE_WARNING="there are no costs in channels_last")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("mptune: warning: there are no costs in channels_last\n", done.stderr)

    def test_profile_with_a_plan_file(self):
        value = self.result("profile", "profile", "toy", "--plan", "plan.json", "-o", "other.sqlite")
        self.assertEqual(value["trace"], "other.sqlite")

    def test_profile_with_costs_measured_before(self):
        value = self.result("profile", *TWO, "--measured", "profile.sqlite", "-o", "second.sqlite", MPTUNE_FAKE="hang-measure")
        self.assertEqual(len(value["layers"]), 6)
        self.fails(2, ["sleep:2", "--measured"], "profile", "toy", "--devices", "sleep:3", "--measured", "profile.sqlite", "-o", "third.sqlite")
        self.fails(2, ["another model"], "profile", "other", "--devices", "sleep:2", "--measured", "profile.sqlite", "-o", "third.sqlite")
        self.fails(2, ["missing.sqlite"], *TWO, "--measured", "missing.sqlite", "-o", "third.sqlite")

    def test_many_links_have_one_line(self):
        summary = "30 links: 10.0 GB/s, latency 10.0 us; -v lists them"
        links = [f"link sleep:{i} to sleep:{k}: 10.0 GB/s, latency 10.0 us" for i in range(6) for k in range(6) if i != k]
        value = self.result("profile", "profile", "toy", "--devices", "sleep:6")
        self.assertEqual((len(value["links"]), len(value["devices"])), (30, 6))
        def shown(*command):
            return [line for line in self.succeed(*command).splitlines() if ", latency " in line]
        self.assertEqual(shown("profile", "toy", "--devices", "sleep:6"), [summary])
        self.assertEqual(shown("-v", "profile", "toy", "--devices", "sleep:6"), links)
        self.assertEqual(shown(*TWO), [links[0], links[5]])
