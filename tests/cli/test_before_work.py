import json
import os
import unittest

from harness import CommandTest

SLEEP = ["--devices", "sleep:2"]
# In each of these commands, what is wrong is wrong for every model.
EVERYWHERE = {
    "--devices": ["gpu:0", "cpu:9999", "sleep:0"], "--batch": ["0", "many"], "--stages": ["0", "x"], "--virtual": ["0", "x"], "--microbatches": ["0", "x"],
    "--split-size": ["0", "x"], "--schedule": ["fastest", "."], "--recompute": ["9", "some"], "--replicas": ["0", "x", "1,", "5"],
    "--memory-format": ["nchw"], "--threads": ["0", "2"], "--optimizer": ["best"], "--lr": ["x", "-1"], "--loss": ["none"], "--seed": ["-1"],
    "--data": ["missing.pt"], "--plan": ["missing.json", "profile.sqlite"],
}
NOT_OF_CHECK = {"--link": ["fast", "0GB/s"], "--memory": ["lots", "sleep:7=1GiB"]}
OWN = {
    "profile": {"--steps": ["0", "x"], "--measured": ["missing.sqlite", "trace.json"], "-o": ["nowhere/out.sqlite", "mine.txt", "."]},
    "tune": {"--budget": ["soon", "0s"], "--trials": ["0", "x"], "--target": ["x", "101"], "-o": ["mine.txt", "other"]},
    "run": {"--steps": ["0", "x"], "--load": ["missing.pt"], "--save": ["nowhere/out.pt", "mine.txt"]},
    "check": {},
}


class BeforeWork(CommandTest):
    """A worker that can't be started would be an error of the environment (exit code 7): these mistakes are found before."""

    def setUp(self):
        super().setUp()
        for name in ("mine.txt", "trace.json"):
            with open(os.path.join(self.folder, name), "w") as file:
                file.write("of another program\n")
        os.mkdir(os.path.join(self.folder, "other"))
        with open(os.path.join(self.folder, "other", "file"), "w"):
            pass

    def refused(self, words, *arguments):
        done = self.mptune(*arguments, MPTUNE_WORKER="/nonexistent/worker")
        self.assertEqual(done.returncode, 2, f"{arguments}: {done.stderr}")
        for word in words:
            self.assertIn(word, done.stderr, arguments)

    def test_the_worker_would_be_missed(self):
        for command in OWN:
            done = self.mptune(command, "toy", *SLEEP, "--stages", "2", MPTUNE_WORKER="/nonexistent/worker")
            self.assertEqual(done.returncode, 7, f"{command}: {done.stderr}")

    def test_nonsense_in_each_option(self):
        for command, own in OWN.items():
            for option, values in {**EVERYWHERE, **({} if command == "check" else NOT_OF_CHECK), **own}.items():
                rest = [] if option in ("--devices", "--plan") else [*SLEEP]
                rest += [] if option in ("--devices", "--plan", "--stages") or command == "tune" else ["--stages", "2"]
                for value in values:
                    self.refused([], command, "toy", *rest, *([option, value] if option == "-o" else [f"{option}={value}"]))

    def test_options_that_exclude_each_other(self):
        for command in OWN:
            self.refused(["both"], command, "toy", *SLEEP, "--microbatches", "2", "--split-size", "4")
            self.refused(["2 micro-batches", "batch of 1"], command, "toy", *SLEEP, "--batch", "1", "--microbatches", "2", "--stages", "2")
            self.refused(["--replicas"], command, "toy", *SLEEP, "--replicas", "2,1")
            self.refused(["zbv", "two stages"], command, "toy", *SLEEP, "--schedule", "zbv", "--virtual", "3")
            self.refused(["--cuts"], command, "toy", *SLEEP, "--stages", "2", "--cuts", "a,b")
        for command in ("profile", "check"):
            self.refused(["both"], command, "toy", "--plan", "plan.json", "--stages", "2")
        self.refused(["both"], "run", "toy", "--plan", "plan.json", "--devices", "sleep:2")
        self.refused(["--resume"], "tune", "toy", *SLEEP, "--resume", "--force")
        self.refused(["no study"], "tune", "toy", *SLEEP, "--resume")

    def test_a_study_that_exists(self):
        self.assertIn(self.mptune("tune", "toy", *SLEEP, "--budget", "20s", "--trials", "1").returncode, (0, 5))
        self.refused(["the study exists", "--resume"], "tune", "toy", *SLEEP)

    def test_what_only_the_model_can_tell_is_left_to_it(self):
        with open(os.path.join(self.folder, "plan.json")) as file:
            layers = json.load(file)["plan"]["stages"][1]["layers"]
        for arguments in (["--cuts", f"block{layers[0]}"], ["--split-size", "2"], ["--microbatches", "2"], ["--cuts", "3"], ["--replicas", "2"],
                          ["--schedule", "interleaved"], ["--virtual", "2", "--schedule", "looped-bfs"]):
            self.assertEqual(self.mptune("profile", "toy", *SLEEP, *arguments).returncode, 0, arguments)


if __name__ == "__main__":
    unittest.main()
