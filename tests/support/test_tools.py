"""The tests' own tools: limits that grow with the load, shares of Python tests, names of tests."""
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE))
import patience
import tidy

MODULE = "import unittest\nclass T(unittest.TestCase):\n" + "".join(f"    def test_{n}(self): print('ran', {n})\n" for n in range(7))


def run(*words, **options):
    return subprocess.run([sys.executable, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


class Limits(unittest.TestCase):
    def test_a_command_that_hangs_is_ended_with_its_children(self):
        with tempfile.TemporaryDirectory() as folder:
            pid = os.path.join(folder, "pid")
            done = run(HERE / "patience.py", "0.5", "sh", "-c", f"sleep 1000 & echo $! > {pid}; wait")
            self.assertEqual(done.returncode, 124, done.stderr)
            self.assertIn("0.5 s that it may take", done.stderr)
            child = int(pathlib.Path(pid).read_text())
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline and self.alive(child):
                time.sleep(0.01)
            self.assertFalse(self.alive(child))

    def alive(self, pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
        except OSError:
            return False

    def test_exit_codes_and_signals_are_handed_on(self):
        self.assertEqual(run(HERE / "patience.py", "60", "sh", "-c", "exit 3").returncode, 3)
        self.assertEqual(run(HERE / "patience.py", "60", "sh", "-c", "kill -9 $$").returncode, 128 + 9)

    def test_seconds_count_by_the_share_of_a_core(self):
        cores = len(os.sched_getaffinity(0))
        with mock.patch.object(patience, "running", return_value=4 * cores), mock.patch.object(os, "getloadavg", return_value=(0, 0, 0)):
            self.assertEqual(patience.share(), 0.25)
            self.assertEqual(patience.patience(10), 40)
        with mock.patch.object(patience, "running", return_value=1), mock.patch.object(os, "getloadavg", return_value=(8 * cores, 0, 0)):
            self.assertEqual(patience.share(), 1)
            self.assertEqual(patience.patience(10), 80)

    def test_budgets_are_written_out(self):
        done = run(HERE / "patience.py", "60", sys.executable, "-c", "import sys; print(sys.argv[1:])", "{15s}", "15s", "{s}")
        given = eval(done.stdout)
        self.assertGreaterEqual(int(given[0].removesuffix("s")), 15)
        self.assertEqual(given[1:], ["15s", "{s}"])


class Shares(unittest.TestCase):
    def test_each_test_is_in_one_share(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "seven.py").write_text(MODULE)
            ran = [sorted(run(HERE / "unittest_shard.py", share, 3, "seven", cwd=folder).stdout.split()[1::2]) for share in (1, 2, 3)]
            self.assertEqual(sorted(sum(ran, [])), [str(n) for n in range(7)])
            self.assertEqual([len(share) for share in ran], [3, 2, 2])

    def test_a_failure_is_the_exit_code(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "bad.py").write_text(MODULE.replace("print('ran', 4)", "self.fail()"))
            self.assertEqual([run(HERE / "unittest_shard.py", share, 2, "bad", cwd=folder).returncode for share in (1, 2)], [1, 0])


class Lint(unittest.TestCase):
    def test_precompiled_headers_of_gcc_are_left_out(self):
        words = tidy.without_precompiled(["c++", "-Winvalid-pch", "-include", "a/cmake_pch.hxx", "-O1", "-c", "a.cc"])
        self.assertEqual(words, ["c++", "-O1", "-c", "a.cc"])


if __name__ == "__main__":
    unittest.main()
