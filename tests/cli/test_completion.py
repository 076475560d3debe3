import os
import re
import shutil
import subprocess
import unittest

from harness import COMMANDS, SCHEDULES, CommandTest, patience

MODELS = ["mlp", "resnet18", "resnet50", "transformer", "vgg16", "bert", "unet", "late-fusion", "encoder-decoder-classifier"]
# Prints what the script proposes for the last of the words.
BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"
_mptune
printf '%s\\n' "${COMPREPLY[@]}"
"""


def options_of(help_text):
    """Long and short options that a help lists."""
    names = set()
    for line in help_text.splitlines():
        if re.match(r"  -", line):
            names.update(re.findall(r"(?:^  |,)(--?[a-z][a-z-]*)", line.split("  ", 2)[0] + "  " + line[2:].split("  ")[0]))
    return names


class Completion(CommandTest):
    def setUp(self):
        super().setUp()
        self.scripts = {shell: self.path(f"mptune.{shell}") for shell in ("bash", "zsh", "fish")}
        for shell, path in self.scripts.items():
            with open(path, "w") as file:
                file.write(self.succeed("completion", shell))

    def path(self, name):
        return os.path.join(self.folder, name)

    def script(self, shell):
        with open(self.scripts[shell]) as file:
            return file.read()

    def in_bash(self, *words):
        done = subprocess.run(["bash", "-c", BASH, "bash", self.scripts["bash"], "mptune", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, cwd=self.folder, timeout=patience(20))
        self.assertEqual((done.returncode, done.stderr), (0, ""), words)
        return done.stdout.split("\n")[:-1] if done.stdout != "\n" else []

    def in_fish(self, line):
        done = subprocess.run(["fish", "--no-config", "-c", f"source {self.scripts['fish']}; complete -C {line!r}"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, cwd=self.folder, env={**os.environ, "HOME": self.folder}, timeout=patience(20))
        self.assertEqual((done.returncode, done.stderr), (0, ""), line)
        return [proposal.split("\t")[0] for proposal in done.stdout.splitlines()]

    def test_options_are_read_from_help(self):
        self.assertEqual(options_of("  -q,--quiet                  print no progress -x\n  -o,--output PATH            a,--b file\n      --c\n  --no-config\n"),
                         {"-q", "--quiet", "-o", "--output", "--no-config"})

    def test_bash_completes_commands(self):
        self.assertEqual(sorted(self.in_bash("")), sorted(COMMANDS))
        self.assertEqual(self.in_bash("tun"), ["tune"])
        self.assertEqual(self.in_bash("--color", "always", "-q", "--config", "x.toml", "sim"), ["simulate"])
        self.assertEqual(sorted(self.in_bash("--color", "")), ["always", "auto", "never"])

    def test_bash_completes_every_option_of_help(self):
        for command in [None] + COMMANDS:
            wanted = options_of(self.succeed(*([command] if command else []), "--help"))
            self.assertIn("--json", wanted)
            self.assertEqual(set(self.in_bash(*([command] if command else []), "-")), wanted, command)

    def test_bash_completes_values(self):
        self.assertEqual(sorted(self.in_bash("plan", "a.sqlite", "--schedule", "")), sorted(SCHEDULES))
        self.assertEqual(self.in_bash("tune", "resnet50", "--schedule", "1f"), ["1f1b"])
        self.assertEqual(self.in_bash("tune", "--schedule", "=", "1f"), ["1f1b"], "bash splits words at =")
        self.assertEqual(sorted(self.in_bash("tune", "--optimizer", "=")), ["adam", "adamw", "sgd"])
        self.assertEqual(self.in_bash("plan", "--objective", "clo"), ["closed-form"])
        self.assertEqual(sorted(self.in_bash("export", "x.sqlite", "--to", "")), ["csv", "kineto", "nvtxt", "perfetto"])
        self.assertEqual(sorted(self.in_bash("run", "toy", "--loss", "m")), ["mean_square", "model", "mse"])
        self.assertEqual(self.in_bash("tune", "--memory-format", "ch"), ["channels_last"])
        self.assertEqual(self.in_bash("tune", "toy", "--batch", ""), [], "numbers are not proposed")
        self.assertEqual(sorted(self.in_bash("completion", "")), ["bash", "fish", "zsh"])
        self.assertEqual(sorted(self.in_bash("help", "")), sorted(COMMANDS + ["exit-codes"]))

    def test_bash_completes_models_and_files_where_they_are_expected(self):
        with open(self.path("res net.pt2"), "w"):
            pass
        self.assertEqual(sorted(self.in_bash("tune", "res")), ["res net.pt2", "resnet18", "resnet50"])
        self.assertTrue(set(MODELS) <= set(self.in_bash("models", "")))
        self.assertEqual(self.in_bash("run", "toy", "--plan", "plan."), ["plan.json"])
        self.assertEqual(self.in_bash("compare", "a.sqlite", "prof"), ["profile.sqlite"])
        self.assertEqual(self.in_bash("import", "prof"), ["profile.sqlite"])
        self.assertEqual(self.in_bash("tune", "--batch", "3", "--devices", "cuda", ":", "0", "resnet5"), ["resnet50"], "values are no arguments")
        self.assertEqual(self.in_bash("tune", "resnet50", "res"), [], "one model only")
        self.assertEqual(self.in_bash("tune", "transformer", ":", "d"), [])
        self.assertEqual(self.in_bash("profile", "--", "plan.js"), ["plan.json"], "a program and its files")

    def test_zsh_and_fish_name_every_command_option_and_model(self):
        for shell in ("zsh", "fish"):
            text = self.script(shell)
            for command in COMMANDS:
                for name in options_of(self.succeed(command, "--help")):
                    bare = name.lstrip("-")
                    pattern = re.escape(name) if shell == "zsh" else rf"-{'l' if name.startswith('--') else 's'} {re.escape(bare)}\b"
                    self.assertRegex(text, pattern, (shell, command))
                self.assertRegex(text, rf"\b{command}\b")
            for word in MODELS + list(SCHEDULES):
                self.assertIn(word, text, shell)
            self.assertTrue(text.isascii())

    def test_zsh_reads_its_script(self):
        if shutil.which("zsh") is None:
            self.skipTest("zsh is not installed")
        subprocess.run(["zsh", "-n", self.scripts["zsh"]], check=True, timeout=patience(20))

    def test_fish_completes(self):
        if shutil.which("fish") is None:
            self.skipTest("fish is not installed")
        subprocess.run(["fish", "--no-execute", self.scripts["fish"]], check=True, timeout=patience(20))
        self.assertTrue(set(COMMANDS) <= set(self.in_fish("mptune ")))
        self.assertEqual(self.in_fish("mptune tune --sched"), ["--schedule"])
        self.assertEqual(sorted(self.in_fish("mptune tune resnet50 --optimizer ")), ["adam", "adamw", "sgd"])
        self.assertIn("resnet50", self.in_fish("mptune tune res"))
        self.assertIn("plan.json", self.in_fish("mptune run toy --plan pla"))
        self.assertEqual(self.in_fish("mptune --color al"), ["always"])

    def test_a_shell_that_is_not_there(self):
        self.fails(2, ["'fihs'", "did you mean fish?", "bash, zsh or fish"], "completion", "fihs")
        self.fails(2, ["there is no completion for 'foo': completion; use bash, zsh or fish"], "completion", "foo")
        self.fails(2, ["SHELL"], "completion")
        self.assertEqual(self.result("completion", "completion", "bash")["script"], self.script("bash"))


if __name__ == "__main__":
    unittest.main()
