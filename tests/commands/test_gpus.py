"""run on several GPUs, in one process and over ranks: losses and trained values as on the CPU, bit for bit on the emulated machine."""
import functools
import json
import os
import signal
import subprocess
import time
import unittest

from harness import PROGRAM, CommandTest, left_processes, patience
from test_ranks import BERT, REPLICAS, last_checkpoint, process_of, schedule

CPU = f"cpu:{min(os.sched_getaffinity(0))}"
EMULATED = "EMULATED_MACHINE" in os.environ
WORKSPACE, NCCL_BUFFERS = (int(os.environ.get(f"EMULATED_{name}", 0)) for name in ("WORKSPACE", "NCCL_BUFFERS"))
# Losses of a few steps, on GPUs that round otherwise.
ROUNDING = 1e-3

MLP = ["mlp:layers=8,width=64", "--batch", "8", "--microbatches", "4"]
ON_CPU = ["--devices", CPU]


def on(*devices):
    return ["--devices", ",".join(devices)]


def over(*devices):
    """The same for devices that name their ranks."""
    return [*on(*devices), "--ranks", str(1 + max(int(name.split("@")[0]) for name in devices))]


@functools.cache
def gpu_count():
    done = subprocess.run([PROGRAM, "--json", "doctor"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=patience(100))
    return sum(finding["name"].startswith("device cuda:") for finding in json.loads(done.stdout)["findings"])


def names(count):
    return [f"cuda:{gpu}" for gpu in range(count)]


class GpuTest(CommandTest):
    def setUp(self):
        super().setUp()
        if gpu_count() < 2:
            self.skipTest("needs two GPUs")

    def environment(self, **more):
        machine = {name: value for name, value in os.environ.items() if name == "LD_PRELOAD" or name.startswith(("EMULATED_", "CUDA_"))}
        return super().environment(**{"MPTUNE_WORKER": os.environ["MPTUNE_REAL_WORKER"], "MPTUNE_TEST_MARKER": self.folder, **machine, **more})

    def train(self, model, plan, *more, steps=3):
        return self.result("run", "run", *model, *plan, "--steps", str(steps), *more)

    def assert_losses(self, losses, expected, exactly=EMULATED):
        self.assertEqual(len(losses), len(expected))
        if exactly:
            self.assertEqual(losses, expected)
        for loss, other in zip(losses, expected):
            self.assertAlmostEqual(loss, other, delta=ROUNDING * abs(other))

    def same_as_on_cpu(self, *plans):
        """Attention is computed by other operators on GPUs, so of one model the bits, of the other the rounded numbers."""
        for model, exactly in ((MLP, EMULATED), (BERT, False)):
            expected = self.train(model, ON_CPU, "--save", "cpu.safetensors")
            for plan in plans:
                with self.subTest(model=model[0], plan=plan):
                    result = self.train(model, plan, "--save", "gpus.safetensors")
                    self.assertGreater(min(result["peak_bytes"]), 0)
                    equal = exactly and "--replicas" not in plan  # these sum in an order of their own
                    self.assert_losses(result["loss"], expected["loss"], equal)
                    if equal:
                        self.assertTrue(self.read_bytes("gpus.safetensors") == self.read_bytes("cpu.safetensors"))


class OneProcess(GpuTest):
    def test_plans(self):
        every = names(min(gpu_count(), 4))
        self.same_as_on_cpu([*on(*every), *schedule("1f1b"), "--recompute", "all"],
                            [*on("cuda:1", CPU, "cuda:0"), *schedule("zb1p")],
                            [*on("cuda:0/1of2", "cuda:1/1of2", "cuda:0/2of2"), *schedule("gpipe"), "--offload", "0,2", "--link", "1GB/s,100us"],
                            [*on(*names(2)), *REPLICAS])

    def test_sixteen_bits(self):
        for precision in ("bf16", "fp16"):
            losses = [self.train(BERT, plan, "--precision", precision)["loss"] for plan in (on("cuda:0"), on(*names(2)), [*on(*names(2)), *REPLICAS])]
            self.assert_losses(losses[1], losses[0])
            self.assert_losses(losses[2], losses[0], exactly=False)

    def test_goes_on_under_another_plan(self):
        """Every plan goes on with what the others trained, and saves what the next one reads."""
        plans = [[*on(*names(2)), *schedule("1f1b")], over("0@cuda:0", "1@cuda:1"), [*on(CPU, "cuda:1"), *schedule("zb1p")],
                 [*on("cuda:0/1of2", "cuda:0/2of2"), "--offload", "all"], ON_CPU]
        whole = self.train(BERT, plans[0], steps=2 * len(plans))
        losses = []
        for number, plan in enumerate(plans):
            part = self.train(BERT, plan, "--checkpoint", "kept", steps=2 * number + 2)
            self.assertEqual(part["first_step"], len(losses))
            losses += part["loss"]
        self.assert_losses(losses, whole["loss"], exactly=False)
        self.assert_losses(losses[:4], whole["loss"][:4])

    def test_the_scale_of_losses_goes_on(self):
        train = [*BERT, "--precision", "fp16"]
        whole = self.train(train, on(*names(2)), steps=4)
        first = self.train(train, on(*names(2)), "--checkpoint", "kept", steps=2)
        last = self.train(train, over("0@cuda:1", "1@cuda:0"), "--checkpoint", "kept", steps=4)
        self.assert_losses(first["loss"] + last["loss"], whole["loss"])


class SeveralProcesses(GpuTest):
    def test_plans(self):
        self.same_as_on_cpu([*over("0@cuda:0", "1@cuda:1"), *schedule("1f1b"), "--recompute", "all"],
                            [*over("0@cuda:0", f"1@{CPU}", "1@cuda:1"), *schedule("zb1p")],
                            [*over("0@cuda:0", "1@cuda:1"), *REPLICAS])

    def test_sums_of_nccl(self):
        plan = [*over("0@cuda:0", "1@cuda:1"), *REPLICAS]
        for model in (MLP, BERT):
            ordered, reduced = (self.train(model, plan, "--reduce", reduce)["loss"] for reduce in ("ordered", "all-reduce"))
            self.assert_losses(reduced, ordered, exactly=False)

    def test_as_many_ranks_as_gpus(self):
        count = min(gpu_count(), 8)
        model = ["mlp:layers=16,width=32", "--batch", "16", "--microbatches", "8"]
        alone = self.train(model, [*on(*names(count)), *schedule("interleaved")], "--save", "one.safetensors")
        together = self.train(model, [*over(*(f"{gpu}@cuda:{gpu}" for gpu in range(count))), *schedule("interleaved")], "--save", "ranks.safetensors")
        self.assert_losses(together["loss"], alone["loss"])
        if EMULATED:
            self.assertTrue(self.read_bytes("one.safetensors") == self.read_bytes("ranks.safetensors"))

    def await_checkpoint(self, process):
        deadline = time.monotonic() + patience(60)
        while time.monotonic() < deadline and process.poll() is None:
            if last_checkpoint(self.folder) > 0:
                return
            time.sleep(0.05)
        self.fail("no checkpoint was made")

    def test_a_killed_rank_ends_all_and_a_checkpoint_goes_on(self):
        plan = over("0@cuda:0", "1@cuda:1")
        with subprocess.Popen([PROGRAM, "--json", "run", *BERT, *plan, "--steps", "1000000", "--checkpoint", "kept", "--every", "2"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder, env=self.environment()) as process:
            self.await_checkpoint(process)
            worker = process_of(1, True, self.folder)
            self.assertIsNotNone(worker, "rank 1 has no worker")
            os.kill(worker, signal.SIGKILL)
            _, errors = process.communicate(timeout=patience(100))
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("rank 1", errors)
        self.assertEqual(left_processes(self.folder), [])
        kept = last_checkpoint(self.folder)
        last = self.train(BERT, plan, "--checkpoint", "kept", steps=kept + 2)
        self.assert_losses(last["loss"], self.train(BERT, on(*names(2)), steps=kept + 2)["loss"][kept:])


class Memory(GpuTest):
    """Predicted peaks count what libraries keep: the workspace of cuBLAS on each GPU, NCCL's buffers between ranks."""

    def libraries(self, *plan):
        result = self.result("profile", "profile", *MLP, *plan, "--steps", "1", "-o", "memory.sqlite", "--force")
        for row in result["memory"]:
            contents = row["contents"]
            predicted = sum(contents[name] for name in contents if name != "activations") + sum(each["bytes"] for each in contents["activations"])
            self.assertGreaterEqual(predicted, row["peak_bytes"], row["device"])
        return [row["contents"]["library_bytes"] for row in result["memory"]]

    def test_one_process(self):
        for kept in self.libraries(*on(*names(2))):
            self.assertGreater(kept, 0)
            if EMULATED:
                self.assertEqual(kept, WORKSPACE)

    def test_ranks(self):
        """Either rank has a communicator for each direction."""
        for kept in self.libraries(*over("0@cuda:0", "1@cuda:1")):
            self.assertGreater(kept, 0)
            if EMULATED:
                self.assertEqual(kept, WORKSPACE + 2 * NCCL_BUFFERS)


if __name__ == "__main__":
    unittest.main()
