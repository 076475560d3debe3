import os
import re
import unittest

from harness import COMMANDS, CommandTest

DOCUMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "commands.md")


class ExitCodes(CommandTest):
    def rows(self):
        text = self.succeed("help", "exit-codes", COLUMNS="200")
        return [(int(code), command) for code, command in re.findall(r"^ *(\d+)  (\S+) +\S", text, re.M)]

    def test_the_table_has_every_code_of_the_document(self):
        with open(DOCUMENT) as file:
            section = file.read().split("## Exit codes")[1]
        documented = {int(code) for row in re.findall(r"^\| ([\d, ]+) \|", section, re.M) for code in row.split(",")}
        self.assertEqual({code for code, _ in self.rows()}, documented)
        self.assertEqual(documented, {0, 1, 2, 3, 4, 5, 6, 7, 130, 143})

    def test_the_table_names_commands(self):
        self.assertTrue({command for _, command in self.rows()} - {"all"} <= set(COMMANDS))
        self.assertEqual([command for code, command in self.rows() if code == 4], ["compare", "check"])

    def test_help_of_a_command_has_its_rows(self):
        for command in COMMANDS:
            text = self.succeed(command, "--help")
            shown = [int(code) for code in re.findall(r"^ +(\d+)  \S", text.partition("Exit codes:")[2], re.M)]
            self.assertEqual(shown, [code for code, of in self.rows() if of == command], command)

    def test_verdicts_and_usage_are_apart(self):
        """A verdict is never the code of a mistake: scripts tell them apart."""
        self.assertEqual(self.mptune("check", "toy", MPTUNE_FAKE="check-differs").returncode, 4)
        self.assertEqual(self.mptune("check", "toy").returncode, 0)
        self.assertEqual(self.mptune("compare", "plan.json", "profile.sqlite").returncode, 2)
        self.assertEqual(self.mptune("compare", "plan.json", "missing.json").returncode, 2)
        self.assertEqual(self.mptune("plan", "profile.sqlite", "--memory", "1kB").returncode, 3)
        self.assertEqual(self.mptune("models", MPTUNE_WORKER="/nonexistent/worker").returncode, 7)


if __name__ == "__main__":
    unittest.main()
