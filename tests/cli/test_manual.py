import os
import shutil
import subprocess
import unittest

from harness import COMMANDS, CommandTest, patience
from test_completion import options_of


class Manual(CommandTest):
    def pages(self):
        for command in [""] + COMMANDS:
            yield command, self.succeed("help", "--man", *([command] if command else []))

    def test_every_option_and_command_is_named(self):
        for command, page in self.pages():
            plain = page.replace("\\-", "-")
            for name in options_of(self.succeed(*([command] if command else []), "--help")):
                self.assertIn(f"\\fB{name}\\fR", plain, command)
            if not command:
                for other in COMMANDS:
                    self.assertIn(f"\\fB{other}\\fR", plain)
            for section in ("NAME", "SYNOPSIS", "OPTIONS", "EXIT STATUS", "EXAMPLES", "SEE ALSO"):
                self.assertIn(f".SH {section}\n", page, command)
            self.assertTrue(page.isascii(), command)
            self.assertIn(f"mptune {command}".rstrip(), plain)

    def test_formatters_find_nothing_to_say(self):
        checked = False
        for program, arguments in {"mandoc": ["-T", "lint", "-W", "error"], "groff": ["-man", "-ww", "-Tascii", "-z"]}.items():
            if shutil.which(program) is None:
                continue
            checked = True
            for command, page in self.pages():
                done = subprocess.run([program, *arguments], input=page, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=patience(60))
                self.assertEqual((done.returncode, done.stderr), (0, ""), (program, command, done.stdout))
        if not checked:
            self.skipTest("neither mandoc nor groff is installed")

    def test_man_shows_a_page(self):
        if shutil.which("groff") is None:
            self.skipTest("groff is not installed")
        text = subprocess.run(["groff", "-man", "-Tascii", "-P-cbou"], input=self.succeed("help", "--man", "tune"), stdout=subprocess.PIPE,
                              text=True, check=True, timeout=patience(60)).stdout
        self.assertIn("mptune tune resnet50 --input 3x64x64 --devices cpu:0,cpu:1 --budget 150s", text)
        self.assertIn("--budget TIME", text)
        self.assertIn("the best plans are too close to tell apart", " ".join(text.split()))

    def test_pages_and_scripts_of_an_installation(self):
        self.assertEqual(self.succeed("help", "--write", "share"), "")
        written = sum(len(files) for _, _, files in os.walk(os.path.join(self.folder, "share")))
        self.assertEqual(written, 1 + len(COMMANDS) + 3 + 1)
        for name in ("man/man1/mptune.1", "man/man1/mptune-tune.1", "bash-completion/completions/mptune", "zsh/site-functions/_mptune",
                     "fish/vendor_completions.d/mptune.fish", "mptune/options.json"):
            with open(os.path.join(self.folder, "share", name)) as file:
                self.assertTrue(file.read().endswith("\n"), name)


if __name__ == "__main__":
    unittest.main()
