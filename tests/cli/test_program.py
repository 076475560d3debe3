"""mptune profile -- COMMAND, on a machine without a CUDA driver: recordings come from the fixtures."""
import ctypes
import json
import os
import shutil
import signal
import stat
import subprocess
import time
import unittest

import jsonschema
from harness import PROGRAM, CommandTest, patience, schema

CUDA_PROGRAM = os.environ.get("MPTUNE_CUDA_PROGRAM", "")
# A file as a recorded process writes it.
LEAVE = 'cp trace.sqlite "$MPTUNE_RECORD_PATH.$$.sqlite"'


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@unittest.skipIf(has_driver(), "this machine has a CUDA driver")
@unittest.skipUnless(CUDA_PROGRAM, "built without the GPU recorder")
class RecordedProgram(CommandTest):
    def path(self, name):
        return os.path.join(self.folder, name)

    def record(self, script, *options):
        """Output of profile for a shell script."""
        done = self.mptune("--json", "profile", *options, "--", "sh", "-c", script)
        value = json.loads(done.stdout)
        jsonschema.validate(value, schema("profile" if done.returncode in (0, 5) else "error"))
        return done, value

    def no_temporary_folder_is_left(self):
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("mptune-")], [])

    def test_bad_commands(self):
        self.fails(2, ["no command follows --", "mptune profile -- python train.py"], "profile", "--")
        self.fails(2, ["not found", "no-such-program"], "profile", "--", "no-such-program")
        self.fails(2, ["not found", "./no-such-program"], "profile", "--", "./no-such-program")
        with open(self.path("text"), "w") as file:
            file.write("this is text")
        self.fails(2, ["not executable", "./text"], "profile", "--", "./text")
        os.chmod(self.path("text"), stat.S_IRWXU)
        self.fails(2, ["not a program", "./text"], "profile", "--", "./text")
        self.fails(2, ["not executable"], "profile", "--", self.folder)
        self.fails(2, ["'toy' is one argument too many"], "profile", "toy", "--", "true")
        self.fails(2, ["there is no option '--batch'"], "profile", "--batch", "3", "--", "true")
        self.no_temporary_folder_is_left()

    def test_bad_outputs(self):
        with open(self.path("mine.txt"), "w") as file:
            file.write("precious")
        marker = self.path("started")
        for output, word in (("mine.txt", "--force"), ("missing/out", "folder"), (self.folder, "folder")):
            self.fails(2, [word], "profile", "-o", output, "--", "touch", marker)
        self.assertFalse(os.path.exists(marker), "refused before the command starts")

    def test_without_a_driver_it_says_so(self):
        for command in (["true"], ["python3", "-c", "print('no GPU')"], [CUDA_PROGRAM], [CUDA_PROGRAM, "2"]):
            done = self.mptune("profile", "--", *command)
            self.assertEqual(done.returncode, 7, done.stderr)
            errors = [line for line in done.stderr.splitlines() if "; " in line]
            self.assertEqual(len(errors), 1, done.stderr)
            self.assertRegex(errors[0], r"^mptune: there is no CUDA driver on this machine.*: libcuda.so.1; record on a machine")
        self.no_temporary_folder_is_left()

    def test_a_program_that_starts_cuda_goes_on_and_keeps_its_status(self):
        done = self.mptune("profile", "--", CUDA_PROGRAM, "1", "3")
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertIn("the command failed with status 3", done.stderr)

    def test_the_library_says_why_it_did_not_record(self):
        done = self.mptune("profile", "--", "sh", "-c", 'printf "another tool\\nNsight\\nend it\\n7\\n" > "$MPTUNE_RECORD_PATH.$$.error"')
        self.assertEqual(done.returncode, 7)
        self.assertIn("mptune: another tool: Nsight; end it\n", done.stderr)

    def test_a_library_that_could_not_say_why_is_no_success(self):
        done = self.mptune("profile", "--", "sh", "-c", ': > "$MPTUNE_RECORD_PATH.$$.error"')
        self.assertEqual(done.returncode, 7)

    def test_a_recording(self):
        done, value = self.record(f"echo of the program; {LEAVE}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("of the program\n", done.stderr, "under --json the command's output is no result")
        self.assertEqual(value["trace"], "sh.sqlite")
        self.assertEqual(value["command"][:2], ["sh", "-c"])
        self.assertEqual(value["exit_status"], 0)
        self.assertEqual(len(value["processes"]), 1)
        self.assertTrue(os.path.exists(self.path("sh.sqlite")))
        for step in value["steps"]:
            for device in step["devices"]:
                self.assertEqual(sum(device["idle"].values()), device["idle_ns"])
        self.no_temporary_folder_is_left()

    def test_text(self):
        text = self.succeed("profile", "-o", "mine.sqlite", "--", "sh", "-c", f"echo of the program; {LEAVE}")
        self.assertTrue(text.startswith("of the program\n"), text)
        self.assertIn("mptune can't split another program over devices", text)
        self.assertIn("mine.sqlite", text)
        self.assertIn("sleep:0", text)
        self.succeed("report", "mine.sqlite", "--text")
        # A file of mptune is replaced.
        self.succeed("profile", "-o", "mine.sqlite", "--", "sh", "-c", LEAVE)

    def test_children_have_files_of_their_own(self):
        done, value = self.record(f"sh -c '{LEAVE}; true'; sh -c '{LEAVE}; true'; {LEAVE}", "-o", "all.sqlite")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([process["trace"] for process in value["processes"]], ["all.sqlite", "all.2.sqlite", "all.3.sqlite"])
        self.assertEqual(len({process["process"] for process in value["processes"]}), 3)
        for process in value["processes"]:
            self.assertTrue(os.path.exists(self.path(process["trace"])))
            self.assertGreater(process["busy_s"], 0)

    def test_a_command_that_fails_is_still_reported(self):
        done, value = self.record(f"{LEAVE}; exit 3")
        self.assertEqual(done.returncode, 5)
        self.assertEqual(value["exit_status"], 3)
        self.assertIn("the command failed with status 3", done.stderr)
        done, value = self.record(f"{LEAVE}; kill -9 $$")
        self.assertEqual(done.returncode, 5)
        self.assertEqual(value["exit_status"], 137)
        self.assertIn("was ended by signal 9 (Killed)", done.stderr)

    def test_a_damaged_recording(self):
        self.fails(2, ["recording"], "profile", "--", "sh", "-c", 'head -c 3000 trace.sqlite > "$MPTUNE_RECORD_PATH.$$.sqlite"')

    def test_the_command_keeps_its_input_and_arguments(self):
        done = subprocess.run([PROGRAM, "profile", "--", "sh", "-c", f'cat; echo "$@"; {LEAVE}', "sh", "--json", "--", "-q"], input="typed\n",
                              capture_output=True, text=True, cwd=self.folder, env=self.environment(), check=True)
        self.assertTrue(done.stdout.startswith("typed\n--json -- -q\n"), done.stdout)

    def test_its_variables(self):
        done = self.mptune("profile", "--", "sh", "-c", 'echo "$CUDA_INJECTION64_PATH $NVTX_INJECTION64_PATH"', CUDA_INJECTION64_PATH="/other.so")
        cuda, nvtx = done.stdout.split()
        self.assertEqual(cuda, nvtx)
        self.assertTrue(os.path.exists(cuda))
        self.assertIn("CUDA_INJECTION64_PATH is set already", done.stderr)

    def test_a_library_that_is_not_there(self):
        os.mkdir(self.path("elsewhere"))
        program = shutil.copy(PROGRAM, self.path("elsewhere"))
        done = subprocess.run([program, "profile", "--", "true"], capture_output=True, text=True, cwd=self.folder, env=self.environment(), check=False)
        self.assertEqual(done.returncode, 7)
        self.assertRegex(done.stderr, r"^mptune: the recorder of CUDA programs was not found: .*libmptune_injection.so; build with")
        os.makedirs(self.path("elsewhere/bin"))
        os.makedirs(self.path("elsewhere/libexec/mptune"))
        program = shutil.move(program, self.path("elsewhere/bin"))
        shutil.copy(os.path.join(os.path.dirname(PROGRAM), "libmptune_injection.so"), self.path("elsewhere/libexec/mptune"))
        done = subprocess.run([program, "profile", "--", "sh", "-c", f"{LEAVE}\n# {'long ' * 20}"], capture_output=True, text=True, cwd=self.folder,
                              env=self.environment(), check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr.splitlines()[0], r"^mptune: recording sh -c cp trace.sqlite .{20,40} \.\.\.$")

    def interrupt(self, number, script):
        process = subprocess.Popen([PROGRAM, "profile", "--", "sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   cwd=self.folder, env=self.environment())
        deadline = time.monotonic() + patience(20)
        while not os.path.exists(self.path("ready")) and time.monotonic() < deadline:
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        time.sleep(0.05)
        start = time.monotonic()
        process.send_signal(number)
        errors = process.communicate(timeout=patience(20))[1]
        seconds = time.monotonic() - start
        with open(self.path("ready")) as file:
            pids = [int(word) for word in file.read().split()]
        os.remove(self.path("ready"))
        for pid in pids:
            self.assertFalse(self.alive(pid), f"{script}: a process is left")
        self.assertLess(seconds, patience(1), script)
        return process.returncode, errors

    def alive(self, pid):
        try:
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rsplit(")", 1)[1].split()[0] != "Z"
        except FileNotFoundError:
            return False

    def test_interrupt_and_terminate_end_the_command_within_a_second(self):
        scripts = {
            "sleeps": "echo $$ > ready; exec sleep 60",
            "ignores signals": "trap '' INT TERM; echo $$ > ready; while true; do sleep 0.1; done",
            "has a child of its own group": "setsid sleep 60 & echo $$ $! > ready; wait",
            "left a child behind": "(sh -c 'sleep 60' & echo $! > ready); sleep 60",
        }
        for number, code, word in ((signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")):
            for name, script in scripts.items():
                returncode, errors = self.interrupt(number, script)
                self.assertEqual(returncode, code, f"{name}: {errors}")
                self.assertIn(f"mptune: {word}: mptune; start the command again", errors)
        self.no_temporary_folder_is_left()

    def test_what_was_recorded_until_an_interrupt_is_kept(self):
        _, errors = self.interrupt(signal.SIGINT, f"trap '{LEAVE}; exit 1' INT; echo $$ > ready; while true; do sleep 0.02; done")
        self.assertIn(f"mptune: interrupted: mptune; `mptune report {os.path.join(self.folder, 'sh.sqlite')} --text` shows", errors)
        self.succeed("report", "sh.sqlite", "--text")
