"""Where commands write: what is there is replaced only if it is a regular file, never one that the command reads, and whole or not at all."""
import os
import resource
import stat
import subprocess
import unittest

from harness import PROGRAM, CommandTest, patience

SIMULATE = ["simulate", "--plan", "plan.json", "--profile", "profile.sqlite"]


class Outputs(CommandTest):
    def path(self, name):
        return os.path.join(self.folder, name)

    def bytes(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def names(self):
        return sorted(os.listdir(self.folder))

    def test_devices_are_written_to_and_stay(self):
        self.succeed(*SIMULATE, "-o", "trace.sqlite")
        for command in (["plan", "profile.sqlite"], SIMULATE, ["export", "trace.sqlite", "--to", "csv"], ["report", "trace.sqlite", "--text"]):
            for force in ([], ["--force"]):
                self.succeed(*command, "-o", "/dev/null", *force)
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))
        self.fails(7, ["/dev/full", "the disk is full"], "plan", "profile.sqlite", "-o", "/dev/full")

    def test_a_pipe_gets_the_plan(self):
        os.mkfifo(self.path("pipe"))
        with subprocess.Popen(["timeout", "60", "cat", self.path("pipe")], stdout=subprocess.PIPE, text=True) as reader:
            self.succeed("plan", "profile.sqlite", "-o", "pipe")
            self.assertIn('"mptune"', reader.communicate(timeout=patience(60))[0])
        self.assertTrue(stat.S_ISFIFO(os.stat(self.path("pipe")).st_mode))

    def test_a_folder_is_no_name_of_an_export(self):
        self.succeed(*SIMULATE, "-o", "trace.sqlite")
        names = self.names()
        for form in ("kineto", "perfetto", "nvtxt", "csv"):
            for name in (".", self.folder, self.folder + "/"):
                self.fails(2, ["this is a folder"], "export", "trace.sqlite", "--to", form, "-o", name)
        self.assertEqual(self.names(), names)

    def test_symbolic_links_stay(self):
        os.mkdir(self.path("kept"))
        for name, command in (("p.json", ["plan", "profile.sqlite"]), ("t.sqlite", SIMULATE)):
            os.symlink(os.path.join("kept", name), self.path(name))
            for _ in range(2):
                self.succeed(*command, "-o", name)
            self.assertTrue(os.path.islink(self.path(name)))
            self.assertTrue(os.path.isfile(self.path(os.path.join("kept", name))))
        self.assertEqual(sorted(os.listdir(self.path("kept"))), ["p.json", "t.sqlite"])

    def test_no_output_replaces_an_input(self):
        os.symlink("profile.sqlite", self.path("link.sqlite"))
        os.link(self.path("profile.sqlite"), self.path("hard.sqlite"))
        before = self.bytes("profile.sqlite"), self.bytes("plan.json")
        for name in ("profile.sqlite", "link.sqlite", "hard.sqlite", "./profile.sqlite", "plan.json"):
            for force in ([], ["--force"]):
                self.fails(2, [name, "would replace an input"], *SIMULATE, "-o", name, *force)
        self.fails(2, ["hard.sqlite", "would replace an input"], "plan", "profile.sqlite", "-o", "hard.sqlite", "--force")
        self.succeed(*SIMULATE, "-o", "trace.sqlite")
        for command in (["export", "trace.sqlite", "--to", "csv"], ["report", "trace.sqlite", "--text"]):
            self.fails(2, ["trace.sqlite", "would replace an input"], *command, "-o", "trace.sqlite", "--force")
        self.assertEqual((self.bytes("profile.sqlite"), self.bytes("plan.json")), before)

    def test_a_limit_on_the_size_of_files_is_an_error(self):
        names = self.names()
        for command in (["plan", "profile.sqlite", "-o", "p.json"], [*SIMULATE, "-o", "t.sqlite"]):
            done = subprocess.run([PROGRAM, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder, timeout=patience(100),
                                  env=self.environment(), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))
            self.assertEqual(done.returncode, 7, f"{command}\n{done.stdout}\n{done.stderr}")
            self.assertRegex(done.stderr, "(larger than the limit|writing failed|disk is full)")
        self.assertEqual(self.names(), names, "nothing is left")

    def test_a_closed_stream_is_no_file(self):
        tune = ["tune", "toy", "--devices", "sleep:2", "--budget", "20s", "--trials", "1", "--schedule", "1f1b", "--microbatches", "4"]
        self.succeed(*SIMULATE, "-o", "trace.sqlite")
        for command in (tune, ["plan", "profile.sqlite"], ["profile", "toy", "--devices", "sleep:2"], ["report", "trace.sqlite", "--text"], ["models"]):
            for closed in ("<&- >&- 2>&-", ">&-"):
                done = subprocess.run(["bash", "-c", f"exec \"$@\" {closed}", "bash", PROGRAM, *command], stderr=subprocess.PIPE, text=True, cwd=self.folder,
                                      env=self.environment(), timeout=patience(100))
                self.assertIn(done.returncode, (2, 7) if command is tune and closed == ">&-" else (7,), f"{command} {closed}: {done.stderr}")
        self.assertEqual(self.bytes("toy.study/study.lock"), b"", "nothing was printed into a file")
        self.succeed("report", "toy.study", "--text")

    def test_names_that_are_too_long(self):
        self.succeed(*SIMULATE, "-o", "trace.sqlite")
        for name in ("x" * 300, "x/" * 3000):
            for command in (["report", name, "--text"], ["export", "trace.sqlite", "--to", "csv", "-o", name], ["compare", name, name], ["plan", name],
                            ["export", "trace.sqlite", "--to", "kineto", "-o", name], ["plan", "profile.sqlite", "-o", name], ["import", name],
                            ["tune", "toy", "--devices", "sleep:2", "-o", name], ["run", "toy", "--plan", name]):
                self.fails(2, ["oo long"], *command)


if __name__ == "__main__":
    unittest.main()
