"""What a terminal of 80 x 24 shows when a command has ended: the answer, whatever came before it."""
import re

from harness import CommandTest

TUNE = ["tune", "toy", "--devices", "sleep:2", "--budget", "20s", "--trials", "6"]
VERDICTS = r"FAST|SLOW|SAME|AMBIGUOUS|UNKNOWN|the same plan as"


def shown(line):
    """What a line shows of all that was written to it: a carriage return begins it again, ESC [ K clears what follows."""
    text = ""
    for piece in line.split("\r"):
        before, clears, after = piece.partition("\x1b[K")
        text = before + ("" if clears else text[len(before):]) + after
    return text


def screen(written, rows=24, columns=80):
    """The last lines on a terminal, the one of the prompt included; colours are left out."""
    lines = []
    for line in re.sub(r"\x1b\[[\d;]*m", "", written).split("\n"):
        text = shown(line)
        lines += [text[at:at + columns] for at in range(0, max(1, len(text)), columns)]
    return lines[-rows:]


class Terminal(CommandTest):
    def test_a_screen(self):
        self.assertEqual(screen("a\r\nbcd\x1b[1mef\x1b[0mg\r\n", rows=3, columns=4), ["bcde", "fg", ""])
        self.assertEqual(screen("\rmeasuring\x1b[K\rdone\x1b[K\r\x1b[K1 of 2\r2\r\n", rows=9), ["2 of 2", ""])

    def expect_answer(self, written, report):
        last = screen(written)
        self.assertEqual(last[-1], "", "the prompt has a line of its own")
        words = " ".join(" ".join(last).split())
        plan = report["recommended"]["description"]
        self.assertIn(plan, words)
        self.assertRegex(words[words.rindex(plan):], VERDICTS)
        self.assertRegex("".join(last), r"mptune profile toy --plan \S+/toy\.plan\.json$")

    def test_the_last_screen_holds_the_answer(self):
        code, written = self.on_terminal(*TUNE, TERM="xterm")
        self.assertIn(code, (0, 5), written)
        self.assertGreater(written.count("\n"), 24, "all of it does not fit")
        report = self.result("report", "report", "toy.study")["data"]
        self.expect_answer(written, report)
        for options in ([], ["-v"]):
            code, written = self.on_terminal(*options, "report", "toy.study", TERM="xterm")
            self.assertEqual(code, 0, written)
            self.expect_answer(written, report)

    def test_so_does_that_of_profile(self):
        for options in ([], ["-v"]):
            code, written = self.on_terminal(*options, "profile", "toy", "--devices", "sleep:2", TERM="xterm")
            self.assertEqual(code, 0, written)
            self.assertRegex("".join(screen(written)), r"mptune plan \S+/toy\.sqlite$")
