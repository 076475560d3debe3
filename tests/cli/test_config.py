import json
import os
import unittest

from harness import CommandTest

SLEEP = ["--devices", "sleep:2"]


class Config(CommandTest):
    """Defaults from mptune.toml. The fake worker fails with "hang-describe" only if it is started, so mistakes are found before."""

    def setUp(self):
        super().setUp()
        self.project = os.path.join(self.folder, "project")
        self.inner = os.path.join(self.project, "a", "b")
        self.home = os.path.join(self.folder, "home")
        os.makedirs(self.inner)

    def write(self, text, *names):
        path = os.path.join(*names) if names else os.path.join(self.project, "mptune.toml")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return path

    def profile(self, *arguments, cwd=None, **environment):
        """Standard error of a recording, and the devices of its plan."""
        done = self.mptune("--json", "profile", "toy", "-o", os.path.join(self.folder, "out.sqlite"), *arguments, cwd=cwd or self.inner,
                           XDG_CONFIG_HOME=self.home, **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr, json.loads(done.stdout)["plan"]["devices"]

    def refused(self, words, text, *arguments, name="mptune.toml"):
        path = self.write(text, self.project, name)
        for command in ("profile", "tune"):
            done = self.mptune(command, "toy", *arguments, cwd=self.project)
            self.assertEqual(done.returncode, 2, done.stderr)
            lines = done.stderr.splitlines()
            self.assertEqual(len(lines), 1, done.stderr)
            self.assertRegex(lines[0], r"^mptune: .+: .+; .+")
            for word in [path, *words]:
                self.assertIn(word, lines[0])

    def test_the_nearest_file_up_to_the_repository_counts(self):
        outer = self.write('devices = "sleep:1"\n', self.folder, "mptune.toml")
        errors, devices = self.profile()
        self.assertIn(f"mptune: defaults from {outer}: devices\n", errors)
        self.assertEqual(devices, ["sleep:0"])
        os.mkdir(os.path.join(self.project, ".git"))
        self.write('devices = ["sleep:2"]\n', self.home, "mptune", "mptune.toml")
        errors, devices = self.profile()
        self.assertIn(f"defaults from {self.home}/mptune/mptune.toml: devices\n", errors)
        self.assertEqual(devices, ["sleep:0", "sleep:1"])
        own = self.write('devices = "sleep:1"\n')
        errors, devices = self.profile()
        self.assertIn(f"defaults from {own}: devices\n", errors)
        self.assertEqual(devices, ["sleep:0"])

    def test_the_home_of_configurations_is_that_of_the_user(self):
        path = self.write('devices = "sleep:2"\n', self.folder, ".config", "mptune", "mptune.toml")
        done = self.mptune("profile", "toy", HOME=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"defaults from {path}: devices", done.stderr)

    def test_the_command_line_beats_the_file(self):
        self.write('devices = "sleep:4"\nmemory = "1GiB"\n')
        errors, devices = self.profile(*SLEEP)
        self.assertIn("mptune.toml: memory\n", errors)
        self.assertEqual(devices, ["sleep:0", "sleep:1"])
        self.write('devices = "sleep:4"\n')
        self.assertNotIn("defaults from", self.profile(*SLEEP)[0])

    def test_a_file_can_be_named_or_ignored(self):
        self.write("this is no TOML")
        other = self.write('devices = "sleep:2"\n', self.folder, "other.toml")
        self.assertIn(f"defaults from {other}: devices", self.profile("--config", other)[0])
        self.assertNotIn("defaults from", self.profile("--no-config", *SLEEP)[0])
        self.assertNotIn("defaults from", self.profile("-q", "--config", other)[0])
        self.fails(2, ["--no-config", "--config"], "--config", other, "--no-config", "profile", "toy")
        self.fails(2, ["missing.toml", "does not exist"], "--config", "missing.toml", "profile", "toy")
        self.fails(2, ["missing.toml", "does not exist"], "--config", "missing.toml", "plan", "profile.sqlite")

    def test_commands_ignore_what_does_not_apply_to_them(self):
        self.write('devices = "sleep:2"\nbudget = "1s"\nlink = "1GB/s"\nmemory = "1kB"\n')
        for command in (["plan", os.path.join(self.folder, "profile.sqlite")], ["models"], ["help", "tune"]):
            done = self.mptune(*command, cwd=self.project)
            self.assertEqual((done.returncode, "defaults" in done.stderr), (0, False), command)
        self.write('devices = "sleep:2"\nbudget = "1s"\n')
        self.assertIn("mptune.toml: devices\n", self.profile()[0])

    def test_a_list_of_devices_is_that_of_the_option(self):
        self.write('devices = ["cpu:0", "cpu:0"]\n')
        done = self.mptune("profile", "toy", cwd=self.project, MPTUNE_WORKER="/nonexistent/worker")
        self.assertEqual(done.returncode, 2)
        typed = self.mptune("profile", "toy", "--no-config", "--devices", "cpu:0,cpu:0").stderr
        self.assertIn(": --devices;", typed)
        place = f"devices in {self.project}/mptune.toml:1"
        self.assertEqual(done.stderr.splitlines()[-1], typed.splitlines()[-1].replace("--devices", place))

    def test_a_budget(self):
        self.write('budget = "soon"\n')
        done = self.mptune("tune", "toy", *SLEEP, cwd=self.project, MPTUNE_FAKE="hang-describe")
        self.assertEqual(done.returncode, 2)
        self.assertIn("mptune.toml: budget", done.stderr)
        self.assertRegex(done.stderr.splitlines()[-1], r"'soon'.*: budget in .*/mptune.toml:1; ")
        done = self.mptune("tune", "toy", *SLEEP, "--budget", "soon", cwd=self.project)
        self.assertIn(": --budget; ", done.stderr.splitlines()[-1], "what was typed is named as it was typed")

    def test_a_mistake_in_a_value_is_named_by_its_line(self):
        for command in ("profile", "tune"):
            for text, line, words in (('\ndevices = ["gpu9"]\n', 2, "invalid device 'gpu9': devices in "),
                                      ('devices = "sleep:2"\nmemory = "much"\n', 2, "'much': memory in "),
                                      ('devices = "sleep:2"\n\nlink = "12"\n', 3, "invalid link '12': link in ")):
                path = self.write(text)
                done = self.mptune(command, "toy", cwd=self.project)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(f"{words}{path}:{line}; ", done.stderr.splitlines()[-1], (command, text))
                value = json.loads(self.mptune("--json", command, "toy", cwd=self.project).stdout)
                self.assertTrue(value["error"]["where"].endswith(f" in {path}:{line}"), value)

    def test_a_plan_file_may_stand_beside_devices(self):
        self.write('devices = "sleep:4"\n')
        done = self.mptune("run", "toy", "--plan", os.path.join(self.folder, "plan.json"), "--steps", "2", cwd=self.project)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_mistakes_name_file_line_and_remedy(self):
        self.refused([":2;", "no default 'device'", "did you mean devices?"], '\ndevice = "cpu:0"\n')
        self.refused([":1;", "no default 'schedule'", "devices, memory, link, budget"], 'schedule = "1f1b"\n')
        self.refused([":1;", "no default 'tune'"], '[tune]\nbudget = "1min"\n')
        self.refused([":3;", "budget", "must be a text in quotes", 'budget = "..."'], '# defaults\n\nbudget = 150\n')
        self.refused([":2;", "devices", 'devices = ["cpu:0", "cpu:1"]'], 'devices = ["cpu:0",\n  1]\n')
        self.refused([":1;", "devices"], "devices = []\n")
        self.refused([":1;", "memory"], 'memory = ["1GiB"]\n')
        self.refused([":1;", "is empty"], 'link = ""\n')
        self.refused([":2;", "not TOML"], 'budget = "1min"\nbudget = "2min"\n')
        self.refused([":1;", "not TOML"], "devices = cpu:0\n")
        self.refused([":1;", "not TOML"], b"\x7fELF\x02\x01\x01\0\0\0\xff\xfe")
        self.refused([":2;", "not TOML"], b'budget = "1min"\nlink = "\xff\xfe"\n')
        self.refused(["too large"], b"#" * 100_000)

    def test_what_is_no_file(self):
        os.mkdir(os.path.join(self.project, "mptune.toml"))
        done = self.mptune("profile", "toy", cwd=self.project)
        self.assertEqual(done.returncode, 2)
        self.assertIn("a file of defaults is expected", done.stderr)
        self.fails(2, ["/dev/zero"], "--config", "/dev/zero", "profile", "toy")
        os.mkfifo(os.path.join(self.folder, "pipe"))
        self.fails(2, ["pipe"], "--config", "pipe", "profile", "toy")

    @unittest.skipIf(os.geteuid() == 0, "root reads every file")
    def test_a_file_without_permission(self):
        path = self.write('devices = "sleep:2"\n')
        os.chmod(path, 0)
        done = self.mptune("profile", "toy", cwd=self.project)
        self.assertEqual(done.returncode, 2)
        self.assertIn("can't be read", done.stderr)


if __name__ == "__main__":
    unittest.main()
