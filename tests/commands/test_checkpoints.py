"""run --checkpoint: a training that is killed and goes on, under any plan, is the one that nobody stopped."""
import glob
import os
import random
import shutil
import signal
import struct
import subprocess
import time
import unittest

from harness import PROGRAM, CommandTest, patience

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
        self.assertEqual(self.read_bytes("whole.safetensors"), self.read_bytes("parts.safetensors"))
        self.assertEqual(sorted(os.listdir(os.path.join(self.folder, "kept"))), ["step-12", "step-9"])

    def test_many_samples_go_on_in_the_middle_of_an_epoch(self):
        """Shuffled samples, a smaller last batch, the scale of fp16: all follow from the checkpoint, under another plan."""
        self.save_samples("data", 21)
        train = [*TRAIN, "--data", "data", "--precision", "fp16"]
        whole = self.result("run", *train, *PLANS[0], "--epochs", "4", "--csv", "whole.csv")
        self.assertEqual([epoch["last_step"] for epoch in whole["epochs"]], [2, 5, 8, 11])
        losses = []
        for steps, plan in zip((4, 8, 12), PLANS):
            part = self.result("run", *train, *plan, "--steps", str(steps), "--checkpoint", "kept", "--csv", "parts.csv")
            losses += part["loss"]
        self.assertEqual(losses, whole["loss"])
        rows = [[line.split(",")[:4] for line in self.read_bytes(name).decode().splitlines()] for name in ("whole.csv", "parts.csv")]
        self.assertEqual(rows[0], rows[1])
        self.assertEqual([row[2] for row in rows[0][1:]], ["8", "8", "5"] * 4)
        self.fails(2, ["made in fp16", "--precision"], *TRAIN, "--data", "data", *PLANS[0], "--steps", "14", "--checkpoint", "kept")

    def save_samples(self, folder, count):
        """Words and targets, as numpy.save writes them."""
        chance = random.Random(3)
        os.makedirs(os.path.join(self.folder, folder))
        for name, shape, most in (("input", (count, 8), 50), ("target", (count,), 2)):
            header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}"
            header += " " * (63 - (10 + len(header)) % 64) + "\n"
            numbers = [chance.randrange(1, most) for _ in range(shape[0] * (shape[1] if len(shape) > 1 else 1))]
            with open(os.path.join(self.folder, folder, name + ".npy"), "wb") as file:
                file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
                file.write(struct.pack(f"<{len(numbers)}q", *numbers))

    def test_rates_momentum_and_parameter_groups_go_on_under_another_plan(self):
        train = [*TRAIN[:-1], "sgd:momentum=0.9:weight_decay=0.01:decay=matrices", "--lr", "0.5"]
        train += ["--lr-schedule", "linear:warmup=2:end=0.5"]
        whole = self.result("run", *train, *PLANS[0], "--steps", "6", "--checkpoint", "kept", "--every", "1", "--csv", "rates.csv")
        rates = [float(line.split(",")[7]) for line in self.read_bytes("rates.csv").decode().splitlines()[1:]]
        self.assertEqual(rates, [0.25, 0.5, 0.5, 0.4375, 0.375, 0.3125])
        shutil.rmtree(os.path.join(self.folder, "kept/step-6"))
        last = self.result("run", *train, *PLANS[1], "--steps", "6", "--checkpoint", "kept")
        self.assertEqual(last["first_step"], 5)
        self.assertEqual(last["loss"], whole["loss"][5:])
        plain = self.result("run", *TRAIN[:-1], "sgd", "--lr", "0.5", *PLANS[0], "--steps", "6")
        self.assertNotEqual(plain["loss"], whole["loss"])
        self.fails(2, ["--steps or --epochs"], *train, *PLANS[2])
        self.fails(2, ["takes the whole training of 2"], *train, *PLANS[2], "--steps", "2")
        self.fails(2, ["adam has no 'momentum'"], *TRAIN[:-1], "adam:momentum=0.9", *PLANS[2], "--steps", "2")

    def test_data_that_does_not_fit_is_refused(self):
        self.save_samples("data", 7)
        train = [*TRAIN, *PLANS[2], "--data", "data"]
        self.save_samples("more", 16)
        warm = ["--data", "more", "--epochs", "1", "--lr-schedule", "cosine:warmup=2"]
        self.fails(2, ["takes the whole training of 2"], *TRAIN, *PLANS[2], *warm)
        self.fails(2, ["7 samples", "--batch 7"], *train, "--epochs", "2")
        self.fails(2, ["--epochs", "--steps"], *train, "--epochs", "2", "--steps", "3")
        self.fails(2, ["nor a share", "10%"], *train, "--epochs", "2", "--validation", "3")
        self.fails(2, ["nor a share"], *train, "--epochs", "2", "--validation", "100%")
        self.fails(2, ["--validation", "--data"], *TRAIN, *PLANS[2], "--epochs", "2", "--validation", "10%")
        self.fails(2, ["missing", "does not exist"], *TRAIN, *PLANS[2], "--data", "missing", "--epochs", "2")
        self.fails(2, [".npy"], *TRAIN, *PLANS[2], "--data", ".", "--epochs", "2")
        with open(os.path.join(self.folder, "data", "input.npy"), "r+b") as file:
            file.truncate(200)
        self.fails(2, ["input.npy", "truncated"], *train, "--epochs", "2")

    def test_what_does_not_fit_is_refused(self):
        self.train(2, *PLANS[2], "--checkpoint", "kept")
        self.fails(2, ["has 2 steps already", "--steps"], *TRAIN, *PLANS[2], "--steps", "2", "--checkpoint", "kept")
        self.fails(2, ["--steps"], *TRAIN, *PLANS[2], "--checkpoint", "kept")
        self.fails(2, ["--checkpoint"], *TRAIN, *PLANS[2], "--steps", "2", "--every", "1")
        self.fails(2, ["not a folder"], *TRAIN, *PLANS[2], "--steps", "2", "--checkpoint", "kept/step-2/checkpoint.json")
        self.fails(2, ["made with adam", "--optimizer adam"], *TRAIN[:-1], "sgd", *PLANS[2], "--steps", "4", "--checkpoint", "kept")
        self.fails(2, ["--seed 0"], *TRAIN, *PLANS[2], "--steps", "4", "--seed", "1", "--checkpoint", "kept")
        self.fails(2, ["another model, bert"], "run", "mlp", "--optimizer", "adam", *PLANS[2], "--steps", "4", "--checkpoint", "kept")
        self.fails(2, ["--checkpoint-step", "--checkpoint"], *TRAIN, *PLANS[2], "--steps", "4", "--checkpoint-step", "2")
        self.fails(2, ["no checkpoint of step 1", "steps 2"], *TRAIN, *PLANS[2], "--steps", "4", "--checkpoint", "kept", "--checkpoint-step", "1")
        tensors = os.path.join(self.folder, "kept/step-2/tensors.safetensors")
        with open(tensors, "r+b") as file:
            file.truncate(100)
        self.fails(2, ["tensors.safetensors", "no checkpoint before it"], *TRAIN, *PLANS[2], "--steps", "4", "--checkpoint", "kept")

    def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used_when_asked(self):
        train = ["--checkpoint", "kept", "--every", "2", "--csv", "log.csv"]
        whole = self.train(6, *PLANS[0], *train)
        with open(os.path.join(self.folder, "kept/step-6/tensors.safetensors"), "r+b") as file:
            file.seek(-5, os.SEEK_END)
            byte = file.read(1)
            file.seek(-5, os.SEEK_END)
            file.write(bytes([byte[0] ^ 4]))
        self.fails(2, ["step-6", "damaged", "--checkpoint-step 4"], *TRAIN, *PLANS[0], "--steps", "8", *train)
        last = self.train(8, *PLANS[0], *train, "--checkpoint-step", "4")
        self.assertEqual((last["first_step"], last["loss"][:2]), (4, whole["loss"][4:]))
        self.assertEqual(self.logged("log.csv"), list(range(8)))
        self.assertEqual(self.train(9, *PLANS[0], *train)["first_step"], 8)

    def logged(self, name):
        """Steps with a row, and that each row is whole."""
        rows = [line.split(",") for line in self.read_bytes(name).decode().splitlines()[1:]]
        self.assertEqual({len(row) for row in rows}, {8})
        return [int(row[0]) for row in rows]

    def saved(self):
        return max((int(path.split("-")[-1].split("/")[0]) for path in glob.glob(os.path.join(self.folder, "kept/step-*/checkpoint.json"))), default=0)

    def await_checkpoint(self, process):
        deadline = time.monotonic() + patience(60)
        while self.saved() == 0 and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.02)

    def test_kill_at_any_time_loses_at_most_the_steps_since_the_last_checkpoint(self):
        chance = random.Random(21)
        seen = 0
        for kill in range(KILLS):
            command = [PROGRAM, "--json", *TRAIN, "--steps", "1000000", *PLANS[kill % len(PLANS)], "--checkpoint", "kept", "--every", "5",
                       "--csv", "log.csv"]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder, env=self.environment(),
                                       start_new_session=True)
            time.sleep(0.3 + 0.6 * chance.random())
            if kill == KILLS - 1:  # however slow the machine is, one is left
                self.await_checkpoint(process)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self.assertGreaterEqual(self.saved(), seen, "what was saved stays")
            seen = self.saved()
        self.assertGreater(seen, 0, "the kills came too early to leave anything")
        last = self.train(seen + 10, *PLANS[0], "--checkpoint", "kept", "--every", "5", "--csv", "log.csv")
        self.assertEqual(last["first_step"], seen)
        self.assertEqual(self.logged("log.csv"), list(range(seen + 10)), "rows of all steps that a checkpoint counts")
        self.assertEqual(last["loss"], self.train(seen + 10, *PLANS[0])["loss"][seen:])

    def test_norm_is_clipped_over_all_devices(self):
        free, clipped = (self.train(3, *PLANS[0], *more)["loss"] for more in ([], ["--clip-norm", "1e-3"]))
        self.assertEqual(free[0], clipped[0])
        one = self.train(3, *PLANS[2], "--clip-norm", "1e-3")["loss"]
        for a, b in zip(clipped, one):
            self.assertAlmostEqual(a, b, delta=1e-6 * abs(b))


if __name__ == "__main__":
    unittest.main()
