"""Packs the kit, moves it to a folder with another HOME, and uses it there. Arguments: BUILD, and the Python that has torch."""
import glob
import gzip
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD, PYTHON = sys.argv[1:3]
MOST_BYTES = 60_000_000
# All that the kit may ask for: LibTorch, CUDA's runtime, libc, and what LibTorch itself brings along.
ALLOWED = re.compile(r"lib(torch_cpu|torch_cuda|c10|c10_cuda)\.so|libcudart\.so\.13|lib(c|m|dl|pthread|rt)\.so\.\d|ld-linux-x86-64\.so\.2")
ALLOWED_BESIDE_LIBTORCH = re.compile(r"libstdc\+\+\.so\.6|libgcc_s\.so\.1")


def torch_works():
    return subprocess.run([PYTHON, "-c", "import torch"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def has_driver():
    return subprocess.run([sys.executable, "-c", "import ctypes; ctypes.CDLL('libcuda.so.1')"], stderr=subprocess.DEVNULL).returncode == 0


def needed(path):
    text = subprocess.run(["readelf", "-d", path], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", text), re.findall(r"\((?:RPATH|RUNPATH)\)", text)


class Kit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="mptune-kit-test-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        packed = os.path.join(cls.folder, "packed")
        done = subprocess.run([os.path.join(HERE, "pack.sh"), packed], env={**os.environ, "BUILD": BUILD}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        assert done.returncode == 0, done.stdout
        cls.kit = os.path.join(cls.folder, "another folder", "kit")
        os.makedirs(os.path.dirname(cls.kit))
        os.rename(packed, cls.kit)
        cls.home = os.path.join(cls.folder, "home")
        os.makedirs(cls.home)

    def files(self):
        return sorted(glob.glob(os.path.join(self.kit, "bin", "*")))

    def run_sh(self, *arguments, python=PYTHON, limit=280):
        environment = {"PATH": "/usr/bin:/bin", "HOME": self.home, "PYTHON": python, "LC_ALL": "C"}
        return subprocess.run([os.path.join(self.kit, "run.sh"), *arguments], env=environment, cwd=self.home, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=limit)

    def test_is_small_and_asks_for_libtorch_cuda_and_libc_alone(self):
        size = sum(os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(self.kit) for name in names)
        self.assertLessEqual(size, MOST_BYTES)
        for path in self.files():
            libraries, paths = needed(path)
            self.assertEqual(paths, [], f"{path} looks for libraries where it was built")
            beside = os.path.basename(path) == "libmptune_cuda.so"
            for library in libraries:
                self.assertTrue(ALLOWED.fullmatch(library) or (beside and ALLOWED_BESIDE_LIBTORCH.fullmatch(library)), f"{path}: {library}")

    def test_has_every_program_with_tests_of_gpus(self):
        listing = subprocess.run(["ctest", "--test-dir", BUILD, "-N", "-L", "gpu", "--show-only=json-v1"], stdout=subprocess.PIPE, check=True).stdout
        # A test in Python of mptune's commands is none of the kit's programs: it reads the repository.
        commands = [test["command"][0] for test in json.loads(listing)["tests"]]
        programs = {os.path.basename(command) for command in commands if os.path.realpath(command).startswith(os.path.realpath(BUILD) + os.sep)}
        self.assertGreaterEqual(len(programs), 4)
        self.assertLessEqual(programs | {"mptune", "mptune-worker", "benchmark_recording"}, {os.path.basename(path) for path in self.files()})

    def test_every_program_starts_and_finds_its_libraries(self):
        done = self.run_sh("--check")
        lines = dict(re.findall(r"^(?:PASS|FAIL)  (\S+) *(.*)$", done.stdout, re.MULTILINE))
        self.assertEqual(sorted(lines), [os.path.basename(path) for path in self.files()], done.stdout)
        for name, faults in lines.items():
            # Of what LibTorch's CUDA part needs itself (cuDNN, ...) a machine without GPUs may have nothing; our own needs must be there.
            own, _ = needed(os.path.join(self.kit, "bin", name)) if name == "libmptune_cuda.so" else ([], [])
            foreign = {f"library not found: {library}" for library in re.findall(r"library not found: ([^;]+)", faults) if own and library not in own}
            self.assertEqual([fault for fault in faults.split("; ") if fault and fault not in foreign], [], name)
        self.assertEqual(done.returncode, 1 if any(lines.values()) else 0)

    def test_what_is_broken_is_found(self):
        broken = os.path.join(self.folder, "broken")
        shutil.copytree(self.kit, broken)
        os.remove(os.path.join(broken, "bin", "mptune-worker"))
        subprocess.run(["patchelf", "--add-needed", "libnowhere.so.1", os.path.join(broken, "bin", "test_profiler_cupti")], check=True)
        with open(os.path.join(broken, "bin", "test_tuner_worker"), "wb") as file:
            file.write(b"\x7fELF")
        done = subprocess.run([os.path.join(broken, "run.sh"), "--check"], env={"PATH": "/usr/bin:/bin", "PYTHON": PYTHON}, stdout=subprocess.PIPE,
                              text=True)
        self.assertEqual(done.returncode, 1)
        for name, words in (("mptune-worker", "it is missing"), ("test_profiler_cupti", "library not found: libnowhere.so.1"),
                            ("test_tuner_worker", "it can't be started"), ("test_profiler_cupti", "exit 127")):
            self.assertRegex(done.stdout, rf"(?m)^FAIL  {name} +.*{words}")
        self.assertRegex(done.stdout, "(?m)^PASS  benchmark_recording$")

    def test_without_a_driver_every_stage_is_skipped(self):
        if has_driver():
            self.skipTest("this machine has a driver")
        out = os.path.join(self.folder, "skipped")
        done = self.run_sh(out, limit=60)
        self.assertEqual(done.returncode, 0, done.stdout)
        lines = done.stdout.splitlines()
        stages = self.run_sh("--list").stdout.splitlines()
        self.assertGreater(len(stages), 15)
        self.assertEqual(lines[-1], f"0 passed, 0 failed, {len(stages)} skipped")
        for stage, line in zip(stages, lines[:-1], strict=True):
            self.assertRegex(line, rf"^SKIP  {re.escape(stage)} +0\.0 s  no NVIDIA driver$")
        with open(os.path.join(out, "summary.txt")) as file:
            self.assertEqual(file.read(), done.stdout)

    def test_rehearsal_on_the_cpu_goes_through_the_stages(self):
        out = os.path.join(self.folder, "rehearsed")
        done = self.run_sh("--cpu", "--only", "doctor,recording,profile,throttled,two ranks,memory,tune mlp on halves,run mlp on halves", out)
        self.assertEqual(done.returncode, 0, done.stdout)
        lines = done.stdout.splitlines()
        for name in ("doctor", "recording mlp", "memory cap"):
            self.assertTrue(any(line.startswith(f"PASS  {name}") for line in lines), done.stdout)
        if len(os.sched_getaffinity(0)) >= 2:
            for name in ("profile mlp on halves", "throttled link", "two ranks", "tune mlp on halves", "run mlp on halves"):
                self.assertTrue(any(line.startswith(f"PASS  {name}") for line in lines), done.stdout)
            with gzip.open(os.path.join(out, "traces", "mlp-halves-step.sqlite.gz")) as file:
                database = sqlite3.connect(":memory:")
                database.deserialize(file.read())
            self.assertEqual(database.execute("SELECT count(*) FROM MPTUNE_STEP").fetchone(), (1,))
        size = sum(os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(out) for name in names)
        self.assertLess(size, 16_000_000)
        self.assertEqual(os.listdir(self.home), [], "the kit leaves nothing behind but its output")

    def test_programs_can_be_used_by_themselves(self):
        done = self.run_sh("--", "mptune", "run", "mlp:layers=2,width=8", "--batch", "4", "--devices", "cpu:0", "--stages", "1", "--steps", "1")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("step", done.stdout)

    def test_what_is_missing_is_said(self):
        done = self.run_sh("out", python="/nowhere/python3")
        self.assertEqual(done.returncode, 7)
        self.assertIn("there is no /nowhere/python3; install Python", done.stdout)
        bare = os.path.join(self.folder, "bare")
        with open(bare, "w") as file:
            file.write(f"#!/bin/sh\nexec {sys.executable} -S -E \"$@\"\n")
        os.chmod(bare, 0o755)
        done = self.run_sh("--check", python=bare)
        self.assertEqual(done.returncode, 7, done.stdout)
        self.assertIn("this python3 has no torch; install torch 2.11", done.stdout)
        done = self.run_sh(self.kit)
        self.assertEqual(done.returncode, 2)
        self.assertIn("is not empty; name a new folder", done.stdout)

    def test_pack_replaces_nothing_but_a_kit(self):
        done = subprocess.run([os.path.join(HERE, "pack.sh"), self.home], env={**os.environ, "BUILD": BUILD}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("is no kit; name a new folder", done.stdout)
        self.assertTrue(os.path.isdir(self.home))


if __name__ == "__main__":
    if not torch_works():
        print("skipped: no Python with torch")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
