import os
import subprocess
import time
import unittest

from harness import COMMANDS, PROGRAM, SCHEDULES, CommandTest


SANITIZED = unittest.skipIf(os.environ.get("MPTUNE_SANITIZED") == "ON", "sanitizers slow every start down: the release build is held to it")


class Help(CommandTest):
    def test_every_command_has_help_with_an_example(self):
        for command in COMMANDS:
            text = self.succeed(command, "--help")
            self.assertIn("Example:\n  mptune " + command, text)

    def test_the_program_lists_its_commands_and_no_others(self):
        text = self.succeed("--help")
        listed = [line.split()[0] for line in text.split("Subcommands:")[1].split("\n\n")[0].splitlines() if line[2:3].strip()]
        self.assertEqual(sorted(listed), sorted(COMMANDS))
        self.assertIn("Example:", text)

    def test_no_line_is_wider_than_the_terminal(self):
        for command in [[]] + [[command] for command in COMMANDS]:
            narrow = self.succeed(*command, "--help", COLUMNS="80")
            # Examples are not wrapped, so that they can be pasted.
            self.assertLessEqual(max(len(line) for line in narrow.splitlines() if not line.startswith("  mptune ")), 80, command)
            wide = self.succeed(*command, "--help", COLUMNS="200")
            self.assertLessEqual(max(len(line) for line in wide.splitlines()), 120, command)
            self.assertEqual(narrow.split(), wide.split())
            self.assertNotIn("\n\n\n", narrow)

    def test_help_of_an_unknown_command_is_a_mistake(self):
        self.fails(2, ["no command 'frobnicate'"], "frobnicate", "--help")
        self.fails(2, ["no command 'tun'", "did you mean tune"], "tun", "--help")

    def test_version(self):
        self.assertRegex(self.succeed("--version"), r"^mptune \d+\.\d+\.\d+\n$")

    def test_options_of_the_interface(self):
        shared = ["--devices", "--memory", "--stages", "--cuts", "--microbatches", "--split-size", "--schedule", "--recompute", "--replicas", "--batch", "--virtual"]
        step = ["--link", "--input", "--plan", "--strict", "--optimizer", "--lr", "--loss", "--seed", "--data"]
        wanted = {
            "profile": shared + step + ["--steps", "-o", "--force"],
            "tune": shared + step + ["--budget", "--trials", "--target", "--resume", "-o", "--force"],
            "plan": shared + ["--link", "--objective", "-o", "--force"],
            "run": shared + step + ["--steps", "--load", "--save"],
            "check": ["--devices", "--stages", "--cuts", "--microbatches", "--split-size", "--schedule", "--recompute", "--replicas", "--batch",
                      "--virtual", "--input", "--plan", "--strict", "--loss", "--seed", "--data"],
            "simulate": ["--plan", "--profile", "--memory", "-o", "--force"],
        }
        for command, options in wanted.items():
            text = self.succeed(command, "--help")
            for option in options:
                self.assertIn(option, text, command)

    def test_help_of_profile_tells_how_other_programs_are_recorded(self):
        for arguments in (["profile", "--help"], ["profile", "--help", "--", "python"]):
            text = " ".join(self.succeed(*arguments).split())
            self.assertIn("mptune profile -- python train.py", text)
            self.assertIn("Recording another CUDA program: mptune profile [-o FILE] [--force] -- COMMAND ...", text)
            self.assertIn("Every process that uses a GPU is recorded", text)
            self.assertIn("Exit code 5 where the command failed", text)

    def test_every_schedule_is_named(self):
        refused = self.fails(2, ["zigzag", "--schedule"], "plan", "profile.sqlite", "--schedule", "zigzag")["error"]["remedy"]
        for text in (refused, *(self.succeed(command, "--help") for command in ("profile", "plan", "tune", "run"))):
            for schedule in SCHEDULES:
                self.assertIn(schedule, text)

    @SANITIZED
    def test_help_takes_less_than_50_ms(self):
        for command in [None] + COMMANDS:
            arguments = [PROGRAM] + ([command] if command else []) + ["--help"]
            # The fastest of several runs: least disturbed by other programs.
            least = min(self.seconds(arguments) for _ in range(10))
            self.assertLess(least, 0.05, command)

    def seconds(self, arguments):
        start = time.monotonic()
        subprocess.run(arguments, stdout=subprocess.DEVNULL, check=True)
        return time.monotonic() - start

    @SANITIZED
    def test_first_output_within_100_ms(self):
        least = 1.0
        for _ in range(5):
            start = time.monotonic()
            process = subprocess.Popen([PROGRAM, "tune", "toy", "--devices", "sleep:2"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                       cwd=self.folder, env=self.environment(MPTUNE_FAKE="hang-describe"))
            self.assertTrue(process.stderr.readline())
            least = min(least, time.monotonic() - start)
            process.kill()
            process.wait()
            process.stderr.close()
        self.assertLess(least, 0.1)
