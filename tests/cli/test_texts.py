"""What every command prints, piped, at 80 and 120 columns, in ASCII and Unicode: golden files, rewritten with MPTUNE_UPDATE_GOLDEN=1.

The numbers are those of the fixtures and of the fake worker."""
import os
import re
import unittest

from harness import CommandTest

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")
DEVICES = ["--devices", "sleep:2"]
TEXTS = {
    "profile": ["profile", "toy:layers=6", *DEVICES, "--microbatches", "4"],
    "profile_all": ["-v", "profile", "toy:layers=6", *DEVICES, "--microbatches", "4"],
    "plan": ["plan", "profile.sqlite", "--stages", "2", "--microbatches", "4"],
    "plan_all": ["-v", "plan", "profile.sqlite", "--stages", "2", "--microbatches", "4"],
    "simulate": ["simulate", "--plan", "plan.json", "--profile", "profile.sqlite"],
    "import": ["import", "trace.sqlite"],
    "run": ["run", "toy", *DEVICES, "--microbatches", "4", "--memory", "1MiB"],
    "check": ["check", "toy", "--plan", "plan.json"],
    "models": ["models"],
    "models_toy": ["models", "toy"],
}


def settled(text, folder):
    """Without what differs from run to run."""
    text = text.replace(os.path.realpath(folder), "/FOLDER").replace(folder, "/FOLDER")
    return re.sub(r"simulated in [\d.]+ \w+", "simulated in TIME", text)


class Texts(CommandTest):
    maxDiff = None

    def text(self, name, width, locale):
        done = self.mptune(*TEXTS[name], COLUMNS=str(width), LC_ALL=locale)
        self.assertEqual(done.returncode, 0, f"{name}\n{done.stdout}\n{done.stderr}")
        self.assertNotIn("\x1b", done.stdout)
        return settled(done.stdout, self.folder)

    def check(self, name, width, locale):
        text = self.text(name, width, locale)
        for line in text.splitlines():
            self.assertEqual(line, line.rstrip(), name)
            if not re.match(r"(  )?mptune |\w+    ?/FOLDER", line):
                self.assertLessEqual(len(line), width, line)
        path = os.path.join(GOLDEN, f"{name}_{width}_{'ascii' if locale == 'C' else 'unicode'}.txt")
        if os.environ.get("MPTUNE_UPDATE_GOLDEN"):
            os.makedirs(GOLDEN, exist_ok=True)
            with open(path, "w") as file:
                file.write(text)
            return
        with open(path) as file:
            self.assertEqual(text, file.read(), f"MPTUNE_UPDATE_GOLDEN=1 rewrites {path}")

    def test_golden(self):
        for name in TEXTS:
            for width in (80, 120):
                for locale in ("C", "C.UTF-8"):
                    with self.subTest(name=name, width=width, locale=locale):
                        self.check(name, width, locale)

    # What it finds depends on the machine, so it has no golden file.
    def test_doctor_fits_the_terminal(self):
        for width in (80, 120):
            done = self.mptune("doctor", *DEVICES, COLUMNS=str(width), LC_ALL="C")
            self.assertRegex(done.stdout.splitlines()[0], r"^what +status +found; remedy$")
            self.assertIn("LibTorch", done.stdout)
            for line in done.stdout.splitlines():
                self.assertLessEqual(len(line), width, line)

    def test_the_answer_comes_first(self):
        lines = self.text("profile", 80, "C").splitlines()
        answer = "\n".join(lines[:12])
        for words in ("step", "idle", "largest cause of idle time", "without recording the step takes", "mptune plan /FOLDER/toy.sqlite"):
            self.assertIn(words, answer)
        self.assertEqual(lines[-1], "mptune plan /FOLDER/toy.sqlite")
        lines = self.text("plan", 80, "C").splitlines()
        self.assertIn("pipeline of 2 stages", "\n".join(lines[:3]))
        self.assertIn("toy.plan.json", "\n".join(lines[:8]))

    def test_long_tables_are_shown_when_asked(self):
        few, full = self.text("profile", 80, "C"), self.text("profile_all", 80, "C")
        self.assertIn("-v lists all 6 layers", few)
        self.assertNotIn("-v lists", full)
        self.assertLess(few.count("block"), full.count("block"))
        self.assertNotIn("Rejected ---", self.text("plan", 80, "C"))
        self.assertIn("Rejected ---", self.text("plan_all", 80, "C"))

    def test_a_name_of_a_file_begins_no_line(self):
        name = "a\nmptune run evil"
        for command in (["simulate", "--plan", "plan.json", "--profile", "profile.sqlite", "-o", name + ".sqlite"], ["plan", "profile.sqlite", "-o", name],
                        ["profile", "toy", *DEVICES, "-o", name + ".trace"], ["report", name + ".trace", "--text", "-o", name + ".txt"],
                        ["run", "toy", *DEVICES, "--microbatches", "4", "--save", name + ".pt"], ["report", name + ".trace", "--text"]):
            self.assertNotIn("\nmptune run evil", "\n" + self.succeed(*command), command)


if __name__ == "__main__":
    unittest.main()
