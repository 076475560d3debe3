"""Every command that an output, an error or an advice suggests works as printed, from another folder."""
import os
import re
import shlex
import sqlite3
import unittest

from harness import PROGRAM, CommandTest
from suggestions import named_commands, run_as_printed, suggestions

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = ["toy:layers=6", "--input", "8:float32", "--batch", "8"]
STEP = ["--optimizer", "adam", "--lr", "0.1", "--loss", "mse", "--seed", "3", "--data", "my data.pt"]
MACHINE = ["--devices", "sleep:2", "--link", "1GB/s,10us"]
TUNE = ["tune", *MODEL, *MACHINE, *STEP, "--trials", "4"]

WRITER = "says which command writes such a file"
TYPED = "where the error was: the command that was typed"
# Where the sources name a command, with the words in front of it. Either a test here runs it, or this is why nobody pastes it.
SOURCES = {
    ("reports/cli/commands/command_check.cc", "mptune check"): "where the error is",
    ("reports/cli/commands/command_check.cc", "see mptune check"): "help, tested for every command",
    ("reports/cli/commands/command_compare.cc", " and was not written by mptune compare"): WRITER,
    ("planner/advise/recorded_run.cc", "give a recording of mptune profile"): WRITER,
    ("reports/cli/commands/command_simulate.cc", "mptune simulate"): "where the error is",
    ("reports/cli/commands/command_simulate.cc", "see mptune simulate"): "help, tested for every command",
    ("reports/cli/options/runtime_option.cc", "make one for it: mptune plan"): "run by test_a_plan_for_another_runtime_works",
    ("reports/render/compare_ci.cc", '}>\\n  <testsuite name=\\"mptune compare'): "the name of a suite",
    ("reports/render/compare_ci.h", "<!-- mptune compare"): "the first bytes of a comment",
    ("reports/render/compare_ci.h", '"?>\\n<testsuites name=\\"mptune compare'): "the first bytes of a file",
    ("reports/cli/commands/command_profile.cc", "give a trace file that mptune profile"): WRITER,
    ("reports/cli/commands/command_simulate.cc", "give a trace that mptune profile"): WRITER,
    ("reports/cli/program/completion_fish.cc", "ptune in fish, made by: mptune completion"): "the head of a file that a command made",
    ("reports/html/html.h", "<!doctype html>\\n<!-- mptune report"): "the first bytes of a page",
    ("reports/html/plan_page.cc", ": mptune report"): "the title of a page",
    ("reports/html/study_page.cc", ": mptune report"): "the title of a page",
    ("reports/html/trace_page.cc", ": mptune report"): "the title of a page",
    ("planner/plan/file/plan_file.cc", "ain with mptune tune or mptune plan"): WRITER,
    ("planner/plan/file/plan_file.cc", "ile that mptune tune or mptune plan"): WRITER,
    ("planner/plan/file/plan_file.cc", "ite the plan again with mptune tune"): WRITER,
    ("planner/plan/file/plan_file.cc", "use a file that mptune tune"): WRITER,
    ("planner/plan/file/plan_json.cc", " or write it again with mptune tune"): WRITER,
    ("planner/plan/file/plan_json.cc", "ain with mptune tune or mptune plan"): WRITER,
    ("profiler/trace/collect/cuda_injection.cc", "start the program with mptune profile"): "names the way to record any program",
    ("profiler/device/device.cc", "is process may use (see mptune doctor"): "run by test_doctor_works_as_printed",
    ("profiler/device/list/device_list.cc", "r give the plan file of mptune tune"): WRITER,
    ("profiler/trace/formats/any_profile.cc", "give a file that mptune profile"): WRITER,
    ("profiler/trace/formats/read_kineto_export.cc", "give the files as mptune export"): WRITER,
    ("profiler/trace/formats/read_kineto_export.cc", "it was not written by mptune export"): WRITER,
    ("profiler/trace/store/read.cc", "name a trace made by 'mptune profile"): WRITER,
    ("reports/cli/commands/recordings.cc", "e files of all devices: mptune import"): "the form of the command: where the other files are is not known",
    ("reports/cli/commands/recordings.cc", "it was written by mptune export"): WRITER,
    ("reports/cli/commands/command_plan.cc", "mptune plan"): TYPED,
    ("reports/cli/commands/plan_objective.cc", "mptune plan"): TYPED,
    ("reports/cli/commands/plan_topology.cc", "mptune plan"): TYPED,
    ("reports/cli/commands/replan.cc", "mptune run"): TYPED,
    ("reports/cli/commands/command_plan.cc", "trace file of mptune profile"): WRITER,
    ("reports/cli/commands/profile_estimate.cc", "mptune plan"): "run by test_estimate's test_a_plan_for_eight_gpus_needs_none",
    ("reports/cli/commands/profile_estimate.cc", "t it does not take out; mptune plan"): "says which command takes the option",
    ("reports/cli/commands/command_plan.cc", "re not of this machine: mptune tune"): "says which command trains, on a machine that is not this one",
    ("reports/cli/commands/command_profile.cc", "mptune plan"): "run by test_profile_leads_to_plan_and_to_training",
    ("reports/cli/commands/command_profile_program.cc", "g another CUDA program: mptune profile"): "the form of the command, in its help",
    ("reports/cli/commands/command_profile_program.cc", "mptune profile"): TYPED,
    ("reports/cli/commands/command_profile_program.cc", "mptune report"): "run by test_program",
    ("reports/cli/commands/command_profile_program.cc", "name a program, as in: mptune profile"): "an example of another program",
    ("reports/cli/commands/command_profile_program.cc", "r program over devices: mptune tune"): "no command is known: the model is in another program",
    ("reports/cli/commands/command_simulate.cc", "trace file made by mptune profile"): WRITER,
    ("reports/cli/options/plan_choice.cc", ", or only plan it, with mptune plan"): "names the command that plans what can't run",
    ("reports/values/follow_up.cc", "mptune tune"): "run by resume()",
    ("reports/render/recommendation_text.cc", "see `mptune doctor"): "run by test_doctor_works_as_printed",
    ("tuner/study/stored_recommendation.cc", "mptune tune"): "run by test_errors_of_tune",
    ("tuner/study/store/study.cc", "give a folder that mptune tune"): WRITER,
    ("tuner/study/store/summary.cc", "mptune tune"): "run by test_damaged_summaries",
    ("tuner/worker/program/training_run.cc", "make one with mptune profile"): WRITER,
}


class Suggestions(CommandTest):
    def setUp(self):
        super().setUp()
        self.work = os.path.join(self.folder, "it's a folder")
        self.elsewhere = os.path.join(self.folder, "elsewhere")
        for folder in (self.work, self.elsewhere):
            os.mkdir(folder)
        with open(os.path.join(self.work, "my data.pt"), "w") as file:
            file.write("a batch")

    def printed(self, *arguments, code=0, **environment):
        """What the command suggests: the words of its two streams together."""
        done = self.mptune(*arguments, cwd=self.work, **environment)
        self.assertIn(done.returncode, (0, 5) if code is None else (code,), f"{arguments}\n{done.stdout}\n{done.stderr}")
        return suggestions(done.stdout + "\n" + done.stderr)

    def follow(self, command, codes=(0,)):
        done = run_as_printed(command, PROGRAM, self.elsewhere, self.environment())
        self.assertIn(done.returncode, codes, f"{command}\n{done.stdout}\n{done.stderr}")
        return suggestions(done.stdout + "\n" + done.stderr)

    def says_all(self, command, *without):
        """The command has all that was asked for."""
        words = shlex.split(command)
        expected = [*MODEL, *STEP, "--link", "1GB/s,10us"]
        for word in expected:
            if word not in without:
                self.assertIn(os.path.join(self.work, word) if word.endswith(".pt") else word, words, command)

    def test_profile_leads_to_plan_and_to_training(self):
        for plan in self.printed("profile", *MODEL, *MACHINE, *STEP):
            self.assertIn("plan", plan.split()[1])
            trained = self.follow(plan)
            self.assertEqual(len(trained), 1, trained)
            self.says_all(trained[0], "--batch", "8")  # the plan's
            self.follow(trained[0] + " --steps 2")

    def test_simulate_leads_to_training(self):
        plan = self.printed("profile", *MODEL, *MACHINE, *STEP)[0]
        self.follow(plan)
        profile, planned = os.path.join(self.work, "toy.sqlite"), os.path.join(self.elsewhere, "toy.plan.json")
        commands = self.printed("simulate", "--plan", planned, "--profile", profile)
        self.assertEqual([command.split()[1] for command in commands], ["profile"])
        self.says_all(commands[0], "--batch", "8")
        self.follow(commands[0] + " --steps 2")

    def test_plan_finds_files_beside_the_profile_and_says_what_it_does_not_find(self):
        plan = self.printed("profile", *MODEL, *MACHINE, *STEP)[0]
        os.rename(os.path.join(self.work, "my data.pt"), os.path.join(self.folder, "gone.pt"))
        done = run_as_printed(plan, PROGRAM, self.elsewhere, self.environment())
        self.assertIn("put its folder in front of my data.pt, which the profile does not hold:", done.stdout)
        with open(os.path.join(self.elsewhere, "toy.plan.json")) as file:
            self.assertNotIn(self.folder, file.read(), "a plan file is handed on: it names no folder")
        with open(os.path.join(self.work, "toy.sqlite"), "rb") as file:
            self.assertNotIn(self.folder.encode(), file.read(), "nor does a trace")

    def test_profiles_of_earlier_versions_say_what_is_missing(self):
        text = self.succeed("plan", "profile.sqlite")
        self.assertIn("the profile does not hold the model's options: give them to run, with", text)
        option = re.search(r"(?m)^--plan (.*)$", text).group(1)
        self.follow(f"mptune run toy --plan {option}")

    def test_tune_leads_to_training_and_to_more_measuring(self):
        # Each worker takes so long that the budget ends before the last baselines.
        commands = self.printed(*TUNE, "--budget", "3s", MPTUNE_FAKE_SERIES_S="1.2", code=None)
        self.assertEqual([command.split()[1] for command in commands], ["profile", "tune"], "sleeping devices train nothing; few rounds")
        self.says_all(commands[0], "--batch", "8")
        self.assertRegex(commands[1], r"^mptune tune --resume '.*/toy\.study' --budget \d+min$")
        self.follow(commands[0] + " --steps 2")
        self.assertEqual(self.printed("report", "toy.study", "--text"), commands)
        self.follow_where_the_study_is(self.printed("report", "toy.study", "--markdown"))
        self.follow(f"mptune plan {shlex.quote(os.path.join(self.work, 'toy.study/traces/profile.sqlite'))} -o of_study.plan.json")
        self.resume(commands[1])

    def follow_where_the_study_is(self, commands):
        """Those of a document that is handed on, which names no folder of its maker."""
        self.assertEqual([command.split()[1] for command in commands], ["profile", "tune"])
        for command in commands:
            self.assertNotIn(self.folder, command)
        self.assertRegex(commands[1], r"^mptune tune --resume toy\.study --budget \d+min$")
        done = run_as_printed(commands[0] + " --steps 2", PROGRAM, self.work, self.environment())
        self.assertEqual(done.returncode, 0, f"{commands[0]}\n{done.stdout}\n{done.stderr}")

    def resume(self, command):
        """Where tune takes the study's folder alone."""
        if "--resume STUDY" not in self.succeed("tune", "--help"):
            self.skipTest("tune --resume needs the model here")
        self.follow(command, codes=(0, 5))

    def test_a_study_moves_with_its_folder(self):
        self.printed(*TUNE)
        os.rename(os.path.join(self.work, "toy.study"), os.path.join(self.folder, "moved.study"))
        for command in suggestions(self.succeed("report", "moved.study", "--text")):
            self.assertIn("moved.study", command)

    def test_failed_plans_can_be_run(self):
        commands = self.printed(*TUNE, MPTUNE_FAKE_PLANS='{"candidate": "crash", "default_pipeline": "crash"}')
        shown = [command for command in commands if "--plan" not in command and "--resume" not in command]
        self.assertEqual(len(shown), 1, commands)
        self.assertIn("--schedule", shown[0])
        self.says_all(shown[0])
        self.follow(shown[0] + " --steps 2")

    def test_errors_of_tune(self):
        refused = self.printed(*TUNE, code=2, MPTUNE_FAKE="check-differs")
        self.assertEqual([command.split()[1] for command in refused], ["check"])
        self.says_all(refused[0], "--link", "1GB/s,10us")
        self.follow(refused[0])
        every = '{"candidate": "crash", "single_device": "crash", "naive_model_parallel": "crash", "default_pipeline": "crash", "data_parallel": "crash"}'
        failed = self.printed(*TUNE, "-o", "none.study", code=6, MPTUNE_FAKE_PLANS=every)
        self.assertEqual({command.split()[1] for command in failed}, {"profile"}, "every plan would crash again")
        self.follow(failed[-1] + " --steps 2")
        self.assertEqual(self.printed("report", "none.study", "--text", code=6), [], "its plans are in files; going on helps none")
        hopeless = self.mptune("report", "none.study", "--text", cwd=self.work).stderr
        self.assertIn("no plan of this study could be measured: crashed by signal 11", hopeless)
        self.assertIn("train with a plan of its folder 'failed' (run --plan)", hopeless)
        self.printed(*TUNE, "-o", "begun.study", "--budget", "2s", code=6, MPTUNE_FAKE_SERIES_S="5")
        unfinished = self.printed("report", "begun.study", "--text", code=6)
        self.assertEqual([command.split()[1:3] for command in unfinished], [["tune", "--resume"]])
        self.resume(unfinished[0])

    def test_no_memory_leads_to_a_plan_that_fits(self):
        commands = self.printed("run", *MODEL, *MACHINE, *STEP, "--microbatches", "4", code=3, MPTUNE_FAKE="oom-train")
        self.assertEqual([command.split()[1] for command in commands], ["tune"])
        self.says_all(commands[0])
        self.follow(commands[0] + " --trials 2", codes=(0, 5))

    def test_damaged_summaries(self):
        self.printed(*TUNE)
        with sqlite3.connect(os.path.join(self.work, "toy.study", "study.sqlite")) as database:
            self.assertGreater(database.execute("UPDATE value SET value = '{' WHERE name = 'summary'").rowcount, 0)
        commands = self.printed("report", "toy.study", "--text", code=2)
        self.assertEqual([command.split()[1:3] for command in commands], [["tune", "--resume"]])
        self.resume(commands[0])

    def test_doctor_works_as_printed(self):
        self.follow("mptune doctor")

    def test_a_plan_for_another_runtime_works(self):
        self.succeed("plan", "profile.sqlite", "--schedule", "gpipe", "--stages", "2", "-o", "gpipe.json")
        done = self.mptune("simulate", "--plan", "gpipe.json", "--profile", "profile.sqlite", "--runtime", "megatron")
        command = done.stderr.strip().rsplit(": ", 1)[1]
        self.assertEqual(command, "mptune plan --runtime megatron")
        self.succeed("plan", "profile.sqlite", *command.split()[2:], "-o", "megatron.json")
        self.succeed("simulate", "--plan", "megatron.json", "--profile", "profile.sqlite", "--runtime", "megatron")

    def test_no_command_is_named_unseen(self):
        self.assertEqual(named_commands(ROOT), set(SOURCES), "suggest it so that it works as printed, and run it here")


if __name__ == "__main__":
    unittest.main()
