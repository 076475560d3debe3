"""What simulate, export and import say to somebody who uses them for the first time."""
import json
import os

from harness import CommandTest


class Simulate(CommandTest):
    def test_files_in_each_others_place_are_told(self):
        self.fails(2, ["the file is a trace, not a plan", "profile.sqlite", "--plan"], "simulate", "--plan", "profile.sqlite", "--profile", "plan.json")
        self.fails(2, ["the file is a plan, not a trace", "plan.json", "--profile"], "simulate", "--plan", "plan.json", "--profile", "plan.json")

    def test_a_device_that_the_profile_lacks_is_told_with_its_file(self):
        self.fails(2, ["sleep:0", "other_machine.sqlite"], "simulate", "--plan", "plan.json", "--profile", "other_machine.sqlite")

    def test_a_plan_of_another_model_is_a_warning(self):
        with open(os.path.join(self.folder, "plan.json")) as file:
            plan = json.load(file)
        plan["fingerprint"]["model"] = "sha256:another"
        with open(os.path.join(self.folder, "another.json"), "w") as file:
            json.dump(plan, file)
        done = self.mptune("simulate", "--plan", "another.json", "--profile", "profile.sqlite")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("another.json was made for another model than profile.sqlite was measured of", done.stderr)
        self.assertNotIn("another model", self.mptune("simulate", "--plan", "plan.json", "--profile", "profile.sqlite").stderr)


class Export(CommandTest):
    def test_a_file_on_stdout_is_nothing_but_that_file(self):
        done = self.mptune("export", "trace.sqlite", "--to", "csv", "-o", "/dev/stdout")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.succeed("export", "trace.sqlite", "--to", "csv", "-o", "trace.csv")
        with open(os.path.join(self.folder, "trace.csv")) as file:
            self.assertEqual(done.stdout, file.read())
        self.assertIn("left out    plan and profile", done.stderr)


class Import(CommandTest):
    def test_no_line_is_wider_than_the_terminal(self):
        for width in (80, 120):
            text = self.succeed("import", "trace.sqlite", COLUMNS=str(width))
            self.assertIn("ideal step ", text)
            self.assertLessEqual(max(len(line) for line in text.splitlines()), width)
