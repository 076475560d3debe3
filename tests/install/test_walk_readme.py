"""The walk through README, over a small one."""
import pathlib
import tempfile
import unittest

import walk_readme

README = """# A program
## A real report, shortened

    cat later
    second line

```
╭─ Recommendation for resnet50 ─╮
```
## Install

    export WHERE=~/installed    # it stays
    echo "$WHERE" > later

a paragraph
    goes on

```python
import os
where = os.environ["WHERE"]
```
```python
with open("seen", "w") as file:
    file.write(where)
```
```cpp
// net/net.cc
int one();
```
```cmake
# net/net.cc
int two();
```
"""


class Walk(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="mptune-walk-")
        self.addCleanup(folder.cleanup)
        self.clone = pathlib.Path(folder.name)
        walk_readme.say, said = lambda text: None, walk_readme.say
        self.addCleanup(setattr, walk_readme, "say", said)

    def newcomer(self):
        return walk_readme.Newcomer(self.clone, self.clone / "home", None)

    def test_blocks_in_the_order_of_the_walk(self):
        steps = walk_readme.steps_of(README)
        self.assertEqual([(block.kind, block.line, len(block.lines)) for block in steps],
                         [("shell", 12, 2), ("python", 19, 2), ("python", 23, 2), ("cpp", 27, 2), ("cmake", 31, 2), ("shell", 4, 2)])
        self.assertEqual(steps[0].lines[0], "export WHERE=~/installed    # it stays")

    def test_lines_share_what_they_export_and_python_its_names(self):
        newcomer = self.newcomer()
        for block in walk_readme.steps_of(README)[:-1]:
            newcomer.follow(block)
        newcomer.leave()
        home = str(self.clone / "home" / "installed")
        self.assertEqual((self.clone / "later").read_text(), home + "\n")
        self.assertEqual((self.clone / "seen").read_text(), home)
        self.assertEqual((self.clone / "net/net.cc").read_text(), "// net/net.cc\nint one();\n# net/net.cc\nint two();\n")

    def test_what_fails_ends_the_walk(self):
        for kind, line in (("shell", "false"), ("shell", "cd missing && true"), ("python", "raise SystemExit(0)"), ("python", "1 / 0"), ("cpp", "int one();"),
                           ("cpp", "// ../net.cc")):
            with self.assertRaises(SystemExit, msg=line):
                self.newcomer().follow(walk_readme.Block("", kind, 1, [line]))

    def test_answers_of_the_program_are_no_failures(self):
        self.assertEqual(walk_readme.answers("mptune tune net.pt2 --batch 256"), {0, 5})
        self.assertEqual(walk_readme.answers("build/release/bin/mptune -v tune resnet50"), {0, 5})
        self.assertEqual(walk_readme.answers("mptune compare a b    # exit code 4: slower"), {0, 4, 5})
        for line in ("mptune check net.pt2", "examples/quickstart.sh     # builds mptune and tunes ResNet-50", "cmake --build build/release"):
            self.assertEqual(walk_readme.answers(line), {0})

    def test_blocks_that_nobody_runs_are_refused(self):
        with self.assertRaisesRegex(SystemExit, "neither run nor named"):
            walk_readme.steps_of(README + "```\nan output\n```\n")
        with self.assertRaisesRegex(SystemExit, "no block of README.md begins so any more"):
            walk_readme.steps_of(README.replace("Recommendation", "Answer").replace("```\n╭", "```python\n╭"))


if __name__ == "__main__":
    unittest.main()
