import os
import subprocess

from harness import COMMANDS, PROGRAM, SCHEDULES, CommandTest


class Help(CommandTest):
    def test_every_command_has_help_with_an_example(self):
        for command in COMMANDS:
            text = self.succeed(command, "--help")
            self.assertIn("Example:\n  mptune " + command, text)

    def test_the_program_lists_its_commands_and_no_others(self):
        text = self.succeed("--help")
        listed = [line.split()[0] for line in text.split("Commands:")[1].split("\n\n")[0].splitlines() if line[2:3].strip()]
        self.assertEqual(sorted(listed), sorted(COMMANDS))
        self.assertIn("Example:", text)

    def test_no_line_is_wider_than_the_terminal(self):
        for command in [[]] + [[command] for command in COMMANDS]:
            narrow = self.succeed(*command, "--help", COLUMNS="80")
            self.assertLessEqual(max(map(len, narrow.splitlines())), 80, command)
            least = self.succeed(*command, "--help", COLUMNS="60")
            # A single word, or a line of a file, is not broken.
            self.assertLessEqual(max(len(line) for line in least.splitlines() if " " in line.strip() and '"' not in line), 60, command)
            # Examples that are broken are still commands.
            self.assertEqual(least.replace(" \\\n", "").count("  mptune "), narrow.count("  mptune "), command)
            wide = self.succeed(*command, "--help", COLUMNS="200")
            self.assertLessEqual(max(len(line) for line in wide.splitlines()), 120, command)
            self.assertEqual(narrow.split(), wide.split())
            self.assertNotIn("\n\n\n", narrow)

    def test_help_of_an_unknown_command_is_a_mistake(self):
        self.fails(2, ["no command 'frobnicate'"], "frobnicate", "--help")
        self.fails(2, ["no command 'tun'", "did you mean tune"], "tun", "--help")

    def test_help_is_a_command_as_well(self):
        self.assertEqual(self.succeed("help"), self.succeed("--help"))
        for command in COMMANDS:
            self.assertEqual(self.succeed("help", command), self.succeed(command, "-h"))
        self.assertEqual(self.result("help", "help", "tune"), self.result("help", "tune", "--help"))
        self.fails(2, ["no help on 'tun'", "did you mean tune?"], "help", "tun")
        self.fails(2, ["no help on 'exit-code'", "did you mean exit-codes?"], "help", "exit-code")

    def test_headings_are_coloured_where_colours_are_wanted(self):
        bold = "\x1b[1mDevices:\x1b[0m"
        self.assertIn(bold, self.succeed("--color", "always", "tune", "--help"))
        self.assertIn(bold, self.succeed("tune", "--help", CLICOLOR_FORCE="1"))
        for environment in ({}, {"TERM": "xterm"}, {"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}):
            self.assertNotIn("\x1b", self.succeed("tune", "--help", **environment))
        self.assertNotIn("\x1b", self.succeed("tune", "--help", "--color", "never", CLICOLOR_FORCE="1"))
        for environment, coloured in (({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({"TERM": "xterm", "NO_COLOR": "1"}, False)):
            code, text = self.on_terminal("tune", "--help", **environment)
            self.assertEqual((code, "\x1b[1m" in text), (0, coloured), environment)

    def test_every_option_stands_in_a_group_with_its_default(self):
        for command in COMMANDS:
            text = self.succeed(command, "--help", COLUMNS="120")
            self.assertNotIn("\nOptions:\n", text, command)
            self.assertIn("\nGlobal:\n", text, command)
        text = self.succeed("tune", "--help")
        for group in ("Arguments", "Model", "Devices", "Search only plans with", "Plan", "Step", "Search", "Output", "Global"):
            self.assertIn(f"\n{group}:\n", text)
        for words in ("default: auto", "default: not throttled", "default: what the device has", "default: 5min", "default: sgd", "default: 0"):
            self.assertIn(words, " ".join(text.split()))

    def test_help_as_recorded(self):
        """MPTUNE_UPDATE_GOLDEN=1 rewrites golden_help.*.txt; look at the difference before you commit it."""
        for columns in (80, 120):
            text = "".join(f"== {command or 'mptune'} ==\n" + self.succeed(*([command] if command else []), "--help", COLUMNS=str(columns))
                           for command in ["", *COMMANDS])
            path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"golden_help.{columns}.txt")
            if os.environ.get("MPTUNE_UPDATE_GOLDEN"):
                with open(path, "w") as file:
                    file.write(text)
            with open(path) as file:
                self.assertEqual(text, file.read(), f"MPTUNE_UPDATE_GOLDEN=1 rewrites {path}")
            self.assertTrue(text.isascii())

    def test_a_mistake_of_typing_is_recognised(self):
        profile = ["plan", "profile.sqlite"]
        for wanted, arguments in {
                "1f1b": ["profile", "toy", "--devices", "sleep:2", "--schedule", "1fb1"], "interleaved": [*profile, "--schedule", "interleavd"],
                "closed-form": [*profile, "--objective", "closedform"], "perfetto": ["export", "profile.sqlite", "--to", "perfeto"],
                "sgd": ["run", "toy", "--devices", "sleep:2", "--optimizer", "sdg"], "mse": ["tune", "toy", "--devices", "sleep:2", "--loss", "msee"],
                "channels_last": ["tune", "toy", "--devices", "sleep:2", "--memory-format", "channel_last"], "always": ["--color", "alway", "models"],
                "--memory": ["tune", "toy", "--memroy", "1GiB"], "--color": ["tune", "toy", "--colr", "auto"], "zsh": ["completion", "zhs"],
        }.items():
            self.fails(2, [f"did you mean {wanted}?"], *arguments)

    def test_version(self):
        self.assertRegex(self.succeed("--version"), r"^mptune \d+\.\d+\.\d+\n(LibTorch \d.*|without LibTorch), (CUPTI \d+|without CUPTI)\n$")
        self.assertIn("built_with", self.result("version", "--version"))

    def test_options_of_the_interface(self):
        shared = ["--devices", "--memory", "--stages", "--cuts", "--cut-at", "--microbatches", "--split-size", "--schedule", "--recompute", "--replicas", "--batch", "--virtual"]
        step = ["--link", "--input", "--plan", "--strict", "--optimizer", "--lr", "--loss", "--seed", "--data"]
        wanted = {
            "profile": shared + step + ["--steps", "-o", "--force"],
            "tune": shared + step + ["--budget", "--trials", "--target", "--resume", "-o", "--force"],
            "plan": shared + ["--link", "--objective", "-o", "--force"],
            "run": shared + step + ["--steps", "--load", "--save"],
            "check": ["--devices", "--stages", "--cuts", "--cut-at", "--microbatches", "--split-size", "--schedule", "--recompute", "--replicas", "--batch",
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

    def test_something_is_said_before_the_worker_answers(self):
        for command in (["profile", "toy", "--devices", "sleep:2"], ["tune", "toy", "--devices", "sleep:2"], ["models"], ["models", "toy"],
                        ["run", "toy", "--devices", "sleep:2"]):
            process = subprocess.Popen([PROGRAM, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=self.folder,
                                       env=self.environment(MPTUNE_FAKE="hang-describe"))
            self.assertRegex(process.stderr.readline().decode(), r"^mptune: \w+ing ", command)
            process.kill()
            process.wait()
            process.stderr.close()
