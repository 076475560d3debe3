"""The commands of docs/questions.md print what the page shows. MPTUNE_UPDATE_GOLDEN=1 writes what they print into the page."""
import os
import re
import shutil
import subprocess
import unittest

from harness import PROGRAM, CommandTest

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PAGE = os.path.join(SOURCE, "docs", "questions.md")
LEAST = 15  # questions


class Questions(CommandTest):
    def printed(self, command, folder):
        path = os.pathsep.join([os.path.dirname(PROGRAM), os.environ.get("PATH", os.defpath)])
        done = subprocess.run(["sh", "-c", command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
                              env=self.environment(PATH=path, COLUMNS="100", PYTHONPATH=os.path.join(SOURCE, "python", "export")))
        return done.stdout

    def test_commands_print_what_the_page_shows(self):
        with open(PAGE, encoding="utf-8") as file:
            page = file.read()
        folder = os.path.join(self.folder, "questions")
        shutil.copytree(os.path.join(SOURCE, "docs", "questions"), folder)

        def renewed(block):
            commands = [line[2:] for line in block[1].splitlines() if line.startswith("$ ")]
            return "```\n" + "".join(f"$ {command}\n{self.printed(command, folder)}" for command in commands) + "```"

        made = re.sub(r"```\n(\$ .*?)```", renewed, page, flags=re.S)
        if os.environ.get("MPTUNE_UPDATE_GOLDEN") == "1":
            with open(PAGE, "w", encoding="utf-8") as file:
                file.write(made)
        self.assertEqual(made.splitlines(), page.splitlines())

    def test_every_question_has_a_command(self):
        with open(PAGE, encoding="utf-8") as file:
            questions = file.read().split("\n## ")[1:]
        self.assertGreaterEqual(len(questions), LEAST)
        for question in questions[:-1]:  # the last one says where they are from
            self.assertIn("\n$ ", question, question.splitlines()[0])


if __name__ == "__main__":
    unittest.main()
