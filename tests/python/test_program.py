"""How the package finds and runs the program: errors, interrupts, what the program says meanwhile."""
import contextlib
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import time
from unittest import mock

from support import STAGE, PythonTest, left_processes, mptune, patience

from mptune import _program

WAITS = "import mptune\ntry:\n    mptune.profile('toy', devices='sleep:2')\nexcept KeyboardInterrupt:\n    print('interrupted')\n"
ECHO = "print(json.dumps({'schema': 'mptune.doctor/1', 'findings': [{'name': %s, 'status': 'ok', 'value': '', 'remedy': ''}]}))"


class Finding(PythonTest):
    def executable(self, path, text=b"\x7fELF"):
        path = pathlib.Path(self.folder, path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
        path.chmod(0o755)
        return path

    def found(self, path_folders=()):
        path = os.pathsep.join(map(str, path_folders))
        with mock.patch.dict(os.environ, PATH=path), mock.patch.object(_program, "_FOLDER", self.package):
            return _program.program()

    def setUp(self):
        super().setUp()
        self.package = pathlib.Path(self.folder, "package")
        del os.environ["MPTUNE_PROGRAM"]

    def test_the_variable_is_first_then_the_package_then_the_path(self):
        on_path = self.executable("programs/mptune")
        self.assertEqual(self.found([on_path.parent]), str(on_path))
        inside = self.executable("package/bin/mptune")
        self.assertEqual(self.found([on_path.parent]), str(inside))
        os.environ["MPTUNE_PROGRAM"] = str(self.executable("given"))
        self.assertEqual(self.found([on_path.parent]), os.environ["MPTUNE_PROGRAM"])

    def test_the_command_of_this_package_is_not_taken_for_the_program(self):
        script = self.executable("scripts/mptune", b"#!/usr/bin/python3\nfrom mptune.__main__ import main\nmain()\n")
        program = self.executable("programs/mptune")
        self.assertEqual(self.found([script.parent, program.parent]), str(program))
        self.assertEqual(self.refused(["install"], self.found, [script.parent]).exit_code, 7)

    def test_what_is_no_program_is_refused(self):
        self.refused(["MPTUNE_PROGRAM"], self.found, ["", "/nowhere", self.folder])
        for given in (self.folder, "/nowhere/mptune", pathlib.Path(self.folder, "plan.json")):
            os.environ["MPTUNE_PROGRAM"] = str(given)
            self.refused([str(given), "MPTUNE_PROGRAM"], self.found)


class Environment(PythonTest):
    def library_path(self, before=None):
        packages = pathlib.Path(self.folder, "site-packages")
        for folder in ("torch/lib", "nvidia/cublas/lib", "nvidia/cu13/lib", "nvidia/nolibs"):
            packages.joinpath(folder).mkdir(parents=True, exist_ok=True)
        packages.joinpath("torch/__init__.py").write_text("raise SystemExit('torch was imported')")
        set_before = {} if before is None else {"LD_LIBRARY_PATH": before}
        os.environ.pop("LD_LIBRARY_PATH", None)
        with mock.patch.dict(os.environ, set_before), mock.patch.object(sys, "path", [str(packages), *sys.path]):
            return [path.replace(str(packages), "") for path in _program.environment()["LD_LIBRARY_PATH"].split(":")]

    def test_the_libraries_of_an_installed_torch_are_found(self):
        libraries = ["/torch/lib", "/nvidia/cu13/lib", "/nvidia/cublas/lib"]
        self.assertEqual(self.library_path(), libraries)
        self.assertEqual(self.library_path(""), libraries, "no empty entry, which would be the current folder")
        self.assertEqual(self.library_path("/mine:/too"), ["/mine", "/too", *libraries])

    def test_without_torch_nothing_is_set(self):
        os.environ.pop("LD_LIBRARY_PATH", None)
        with mock.patch("importlib.util.find_spec", return_value=None):
            self.assertNotIn("LD_LIBRARY_PATH", _program.environment())

    def test_importing_mptune_imports_neither_torch_nor_numpy(self):
        names = "mptune.tune, mptune.Trace, mptune.load_plan, mptune.export"
        code = f"import sys, mptune; {names}; assert not {{'torch', 'numpy'}} & {{*sys.modules}}"
        subprocess.run([sys.executable, "-c", code], check=True)


class Errors(PythonTest):
    def test_a_failure_has_its_parts(self):
        error = self.refused(["nothing.sqlite"], mptune.plan, "nothing.sqlite")
        self.assertEqual((error.where, error.exit_code), ("nothing.sqlite", 2))
        self.assertEqual(self.said.getvalue(), "mptune: reading nothing.sqlite\n", "what is raised is not printed, too")
        self.assertEqual(str(error) + "\n", self.mptune("--quiet", "plan", "nothing.sqlite").stderr, "str() is the line of the program")
        os.environ["MPTUNE_FAKE"] = "oom-train"
        self.assertEqual(self.refused(["sleep:1"], mptune.run, "toy", plan="plan.json").exit_code, 3)
        os.environ["MPTUNE_FAKE"] = "cannot-load"
        self.assertEqual(self.refused(["libtorch.so"], mptune.profile, "toy", devices="sleep:2").exit_code, 7)

    def test_options_are_parameters_in_what_an_error_says(self):
        said = {"give --batch 64 or less": "give batch=64 or less", "give the same --batch, or leave --plan out": "give the same batch=, or leave plan= out",
                "go on with --resume, or give another -o": "go on with resume=True, or give another output=",
                "give --split-size N": "give split_size=N", "give --precision bf16": 'give precision="bf16"', "see mptune run --help": "see help(mptune.run)",
                "go on with `mptune tune --resume a.study -o b`, or --force": "go on with `mptune tune --resume a.study -o b`, or force=True",
                "./--force": "./--force", "a-o --json": "a-o --json"}
        for text, expected in said.items():
            self.assertEqual(mptune.Error("what", "where", text).remedy, expected)
            self.assertEqual(mptune.Error("what", "where", expected).remedy, expected, "a second time changes nothing")
        self.refused(["stages="], mptune.plan, "profile.sqlite", stages="x")

    def test_lines_that_may_be_an_error_are_held_back(self):
        for said in ("mptune: warning: a; b\n", "mptune: a: b; c\nmptune: d\n", "x: y; z\n", "mptune: a: b; c"):
            self.said.truncate(0)
            self.said.seek(0)
            self.fake_program(f"os.write(2, {said.encode()!r})\n" + ECHO % "'x'")
            mptune.doctor()
            self.assertEqual(self.said.getvalue(), said, "of a program that did not fail, all is shown")

    def test_an_error_without_place_or_remedy_is_printed_without(self):
        self.assertEqual(str(mptune.Error("it is so")), "mptune: it is so")
        error = pickle.loads(pickle.dumps(mptune.Error("what", "where", "remedy", 7)))
        self.assertEqual((str(error), error.exit_code, type(error).__module__), ("mptune: what: where; remedy", 7, "mptune"))

    def test_a_verdict_is_a_result(self):
        os.environ["MPTUNE_FAKE"] = "check-differs"
        self.assertFalse(mptune.check("toy", devices="sleep:2").agrees)
        self.assertFalse(mptune.simulate("plan.json", "profile.sqlite", memory="1kB").fit.fits)
        self.assertEqual(mptune.compare("plan.json", "other_machine.plan.json").verdict, "UNKNOWN")

    def test_a_program_that_prints_no_result(self):
        for lines, word, code in (("sys.exit(9)", "exit code 9", 9), ("print('{}')", "no result", 1), ("print('[1')", "no result", 1),
                                  ("print('[' * 100000)", "no result", 1), ("os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL", 1),
                                  ("print('{\"schema\": \"mptune.error/1\"}')", "missing", 2)):
            self.fake_program(lines)
            self.assertEqual(self.refused([word], mptune.doctor).exit_code, code, lines)

    def test_a_program_that_cannot_be_started(self):
        path = pathlib.Path(self.folder, "empty")
        path.write_bytes(b"\x7fELF")
        path.chmod(0o755)
        os.environ["MPTUNE_PROGRAM"] = str(path)
        self.refused([str(path)], mptune.doctor)


class Streams(PythonTest):
    def test_progress_is_written_as_it_comes(self):
        seen = []
        self.said.write = lambda text: seen.append((time.monotonic(), text))
        self.fake_program("for word in ('one \\u00e9', 'two'):\n    os.write(2, word.encode() + b' \\xff\\n')\n    time.sleep(0.3)\n"
                          + ECHO % "'x'")
        mptune.doctor()
        self.assertEqual("".join(text for _, text in seen), "one \u00e9 \ufffd\ntwo \ufffd\n")
        self.assertGreater(len({round(when, 1) for when, _ in seen}), 1, "not all at the end")

    def test_without_progress_only_warnings_are_left(self):
        mptune.profile("toy", devices="sleep:2")
        self.assertNotEqual(self.said.getvalue(), "")
        self.said.truncate(0)
        os.environ["MPTUNE_FAKE_WARNING"] = "a warning of the worker"
        mptune.profile("toy", devices="sleep:2", progress=False, force=True)
        self.assertEqual(len(self.said.getvalue().strip("\0").splitlines()), 1)
        self.assertIn("a warning of the worker", self.said.getvalue())

    def test_a_closed_stderr_is_no_reason_to_hang(self):
        self.fake_program("sys.stderr.write('x' * 1000000)\n" + ECHO % "'x'")
        for stream in (None, open(os.devnull, "w")):
            if stream is not None:
                stream.close()
            with contextlib.redirect_stderr(stream):
                self.assertEqual(mptune.doctor().findings[0].name, "x")

    def test_the_program_has_no_input_and_a_large_output_arrives(self):
        reading, writing = os.pipe()
        os.write(writing, b"typed")
        os.close(writing)
        kept = os.dup(0)
        self.addCleanup(lambda: (os.dup2(kept, 0), os.close(kept)))
        os.dup2(reading, 0)
        os.close(reading)
        self.fake_program(ECHO % "sys.stdin.read() + 'x' * 5000000")
        self.assertEqual(len(mptune.doctor().findings[0].name), 5000000)


class Interrupts(PythonTest):
    def setUp(self):
        super().setUp()
        self.marker = os.path.basename(self.folder)

    def start(self, code, mode="hang-measure"):
        """A Python process that runs the code; returns it when the worker hangs."""
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=self.environment(MPTUNE_FAKE=mode, MPTUNE_TEST_MARKER=self.marker), start_new_session=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.wait_for("pid")
        return process

    def wait_for(self, name):
        deadline = time.monotonic() + patience(20)
        while not (os.path.exists(name) and os.path.getsize(name)):
            self.assertLess(time.monotonic(), deadline, f"no {name}")
            time.sleep(0.01)

    def test_an_interrupt_is_raised_when_the_program_has_ended(self):
        process = self.start(WAITS)
        self.assertNotEqual(left_processes(self.marker, 0), [], "the marker is seen")
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=patience(20))
        self.assertEqual(left_processes(self.marker), [])
        self.assertEqual(output, "interrupted\n", errors)
        self.assertIn("mptune: interrupted", errors)
        self.assertNotIn("Traceback", errors)

    def test_a_key_that_reaches_the_whole_group_interrupts_once(self):
        counts = ("seen = []\nsignal.signal(signal.SIGINT, lambda *_: seen.append(1))\nopen('pid', 'w').write(str(os.getpgrp()))\n"
                  "while not seen: time.sleep(0.01)\ntime.sleep(0.5)\nopen('count', 'w').write(str(len(seen)))")
        self.fake_program(counts)
        program = os.environ["MPTUNE_PROGRAM"]
        with mock.patch.object(self, "environment", lambda **more: {**os.environ, **more, "MPTUNE_PROGRAM": program}):
            process = self.start(WAITS)
        self.assertNotEqual(pathlib.Path("pid").read_text(), str(process.pid), "a group of its own")
        os.killpg(process.pid, signal.SIGINT)
        self.assertEqual(process.communicate(timeout=patience(20))[0], "interrupted\n")
        self.assertEqual(pathlib.Path("count").read_text(), "1")

    def test_a_second_interrupt_kills(self):
        self.fake_program("signal.signal(signal.SIGINT, lambda *_: open('asked', 'w').write('yes'))\n"
                          "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nopen('pid', 'w').write('started')\n"
                          "while True: time.sleep(0.01)")
        program = os.environ["MPTUNE_PROGRAM"]
        with mock.patch.object(self, "environment", lambda **more: {**os.environ, **more, "MPTUNE_PROGRAM": program}):
            process = self.start(WAITS)
        process.send_signal(signal.SIGINT)
        self.wait_for("asked")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.communicate(timeout=patience(20))[0], "interrupted\n")
        self.assertEqual(left_processes(self.marker), [])

    def test_another_exception_ends_the_program_too(self):
        code = "import signal\ndef late(*_): raise TimeoutError\nsignal.signal(signal.SIGUSR1, late)\n"
        process = self.start(code + WAITS.replace("KeyboardInterrupt", "TimeoutError"))
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.communicate(timeout=patience(20))[0], "interrupted\n")
        self.assertEqual(left_processes(self.marker), [])

    def test_the_program_ends_when_python_is_killed(self):
        process = self.start(WAITS)
        process.kill()
        process.wait()
        self.assertEqual(left_processes(self.marker), [])

    def test_the_launcher_gives_up_where_the_starter_has_ended(self):
        launcher = os.path.join(STAGE, "mptune", "_launch.py")
        done = subprocess.run([sys.executable, launcher, "1", "/bin/echo", "started"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (143, ""), done.stderr)


class AsAProgram(PythonTest):
    def test_python_m_mptune_is_the_program(self):
        for arguments in (["--version"], ["--json", "plan", "nothing.sqlite"], ["models", "toy"]):
            done = subprocess.run([sys.executable, "-m", "mptune", *arguments], capture_output=True, text=True)
            other = self.mptune(*arguments)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (other.returncode, other.stdout, other.stderr))

    def test_without_a_program_it_says_so_in_one_line(self):
        os.environ["MPTUNE_PROGRAM"] = "/nowhere"
        done = subprocess.run([sys.executable, "-m", "mptune", "--version"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (7, "", 1))
        self.assertRegex(done.stderr, r"^mptune: .+: /nowhere.*; .+")
