"""run --checkpoint: a training that is killed and goes on, under any plan, is the one that nobody stopped."""
import glob
import os
import random
import signal
import subprocess
import time
import unittest

from harness import PROGRAM, CommandTest

CORES = sorted(os.sched_getaffinity(0))[:2]
DEVICES = ",".join(f"cpu:{core}" for core in CORES)
# Dropout: its numbers depend on the step.
TRAIN = ["run", "bert:d=32,layers=2,heads=2,seq=8,vocab=50", "--batch", "8", "--microbatches", "4", "--optimizer", "adam"]
PLANS = (["--devices", DEVICES, "--schedule", "1f1b"], ["--devices", DEVICES, "--schedule", "zb1p", "--recompute", "all"],
         ["--devices", f"cpu:{CORES[0]}", "--schedule", "gpipe"])
KILLS = 20


@unittest.skipIf(len(CORES) < 2, "needs two cores")
class Checkpoints(CommandTest):
    def environment(self, **more):
        return super().environment(**{"MPTUNE_WORKER": os.environ["MPTUNE_REAL_WORKER"], **more})

    def train(self, steps, *options):
        return self.result("run", *TRAIN, "--steps", str(steps), *options)

    def test_goes_on_under_another_plan(self):
        whole = self.train(12, *PLANS[0], "--save", "whole.safetensors")
        losses = []
        for steps, plan in zip((4, 8, 12), PLANS):
            part = self.train(steps, *plan, "--checkpoint", "kept", "--every", "3", "--save", "parts.safetensors")
            self.assertEqual(part["first_step"], len(losses))
            self.assertEqual(part["resumed_from"], f"kept/step-{len(losses)}" if losses else None)
            self.assertEqual(part["checkpoint"], f"kept/step-{steps}")
            losses += part["loss"]
        self.assertEqual(losses, whole["loss"])
        self.assertEqual(self.read("whole.safetensors"), self.read("parts.safetensors"))
        self.assertEqual(sorted(os.listdir(os.path.join(self.folder, "kept"))), ["step-12", "step-9"])

    def test_what_does_not_fit_is_refused(self):
        self.train(2, *PLANS[2], "--checkpoint", "kept")
        self.fails(2, ["has 2 steps already", "--steps"], *TRAIN, *PLANS[2], "--steps", "2", "--checkpoint", "kept")
        self.fails(2, ["--steps"], *TRAIN, *PLANS[2], "--checkpoint", "kept")
        self.fails(2, ["--checkpoint"], *TRAIN, *PLANS[2], "--steps", "2", "--every", "1")
        self.fails(2, ["no folder"], *TRAIN, *PLANS[2], "--steps", "2", "--checkpoint", "kept/step-2/checkpoint.json")
        self.fails(2, ["made with adam", "--optimizer adam"], *TRAIN[:-1], "sgd", *PLANS[2], "--steps", "4", "--checkpoint", "kept")
        self.fails(2, ["--seed 0"], *TRAIN, *PLANS[2], "--steps", "4", "--seed", "1", "--checkpoint", "kept")
        self.fails(2, ["another model, bert"], "run", "mlp", "--optimizer", "adam", *PLANS[2], "--steps", "4", "--checkpoint", "kept")
        tensors = os.path.join(self.folder, "kept/step-2/tensors.safetensors")
        with open(tensors, "r+b") as file:
            file.truncate(100)
        self.fails(2, ["tensors.safetensors"], *TRAIN, *PLANS[2], "--steps", "4", "--checkpoint", "kept")

    def test_kill_at_any_time_loses_at_most_the_steps_since_the_last_checkpoint(self):
        chance = random.Random(21)
        seen = 0
        for kill in range(KILLS):
            command = [PROGRAM, "--json", *TRAIN, "--steps", "1000000", *PLANS[kill % len(PLANS)], "--checkpoint", "kept", "--every", "5"]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder, env=self.environment(),
                                       start_new_session=True)
            time.sleep(0.3 + 0.6 * chance.random())
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            found = [int(path.split("-")[-1].split("/")[0]) for path in glob.glob(os.path.join(self.folder, "kept/step-*/checkpoint.json"))]
            self.assertGreaterEqual(max(found, default=0), seen, "what was saved stays")
            seen = max(found, default=0)
        self.assertGreater(seen, 0, "the kills came too early to leave anything")
        last = self.train(seen + 10, *PLANS[0], "--checkpoint", "kept", "--every", "5")
        self.assertEqual(last["first_step"], seen)
        self.assertEqual(last["loss"], self.train(seen + 10, *PLANS[0])["loss"][seen:])

    def test_norm_is_clipped_over_all_devices(self):
        free, clipped = (self.train(3, *PLANS[0], *more)["loss"] for more in ([], ["--clip-norm", "1e-3"]))
        self.assertEqual(free[0], clipped[0])
        one = self.train(3, *PLANS[2], "--clip-norm", "1e-3")["loss"]
        for a, b in zip(clipped, one):
            self.assertAlmostEqual(a, b, delta=1e-6 * abs(b))

    def read(self, name):
        with open(os.path.join(self.folder, name), "rb") as file:
            return file.read()


if __name__ == "__main__":
    unittest.main()
