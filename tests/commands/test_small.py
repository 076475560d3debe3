"""All commands on small models with the real worker, on two cores."""
import json
import os
import signal
import subprocess
import time
import unittest

import jsonschema
from harness import PROGRAM, CommandTest, patience, schema, seconds

CORES = sorted(os.sched_getaffinity(0))[:2]
DEVICES = ",".join(f"cpu:{core}" for core in CORES)
MODEL = "mlp:layers=6,width=256"


@unittest.skipIf(len(CORES) < 2, "needs two cores")
class Small(CommandTest):
    def environment(self, **more):
        return super().environment(**{"MPTUNE_WORKER": os.environ["MPTUNE_REAL_WORKER"], **more})

    def test_models_and_doctor(self):
        names = [model["name"] for model in self.result("models", "models")["models"]]
        self.assertEqual(sorted(names), ["bert", "encoder-decoder-classifier", "late-fusion", "mlp", "resnet18", "resnet50", "transformer", "unet", "vgg16"])
        self.result("doctor", "doctor", "--devices", DEVICES)

    def test_the_loop(self):
        profile = self.result("profile", "profile", MODEL, "--batch", "16", "--devices", DEVICES, "--microbatches", "4", "-o", "p.sqlite")
        for step in profile["steps"]:
            for device in step["devices"]:
                self.assertEqual(sum(device[key] for key in ("compute_ns", "copy_ns", "overlap_ns", "idle_ns")), device["window_ns"])
        planned = self.result("plan", "plan", "p.sqlite", "--stages", "2", "-o", "p.plan.json")
        self.assertEqual(planned["plan"]["num_stages"], 2)
        self.assertIsNone(planned["changed_numerics"])
        self.result("simulate", "simulate", "--plan", "p.plan.json", "--profile", "p.sqlite")
        trained = self.result("run", "run", MODEL, "--plan", "p.plan.json", "--strict", "--steps", "6", "--save", "state.pt")
        self.assertEqual(len(trained["loss"]), 6)
        self.result("run", "run", MODEL, "--plan", "p.plan.json", "--steps", "2", "--load", "state.pt")
        self.assertIn(DEVICES.split(",")[0], self.succeed("report", "p.sqlite", "--text"))

    @unittest.skipIf(CORES[-1] != CORES[0] + 1, "needs neighbouring cores")
    def test_threads(self):
        both = f"cpu:{CORES[0]}-{CORES[-1]}"
        profile = self.result("profile", "profile", "mlp", "--devices", both, "--threads", "1", "--steps", "3", "-o", "t.sqlite")
        self.assertEqual(profile["plan"]["options"]["threads"], [1])
        self.assertEqual({cost["threads"] for layer in profile["layers"] for cost in layer["costs"]}, {0, 1})
        for threads in ("1", "2"):
            planned = self.result("plan-result", "plan", "t.sqlite", "--threads", threads, "-o", f"{threads}.plan.json")
            self.assertEqual(planned["plan"].get("options", {}).get("threads", []), [1] if threads == "1" else [])
        again = self.result("profile", "profile", "mlp", "--plan", "1.plan.json", "--steps", "3", "-o", "again.sqlite")
        self.assertEqual(again["plan"]["options"]["threads"], [1])
        self.result("simulate", "simulate", "--plan", "1.plan.json", "--profile", "again.sqlite")
        trained = self.result("run", "run", "mlp", "--plan", "1.plan.json", "--steps", "3")
        self.assertEqual(trained["plan"]["options"]["exact"], False)
        self.result("check", "check", "mlp", "--plan", "1.plan.json")
        parts = self.result("check", "check", "mlp", "--batch", "4", "--precision", "bf16")["parts"]
        self.assertEqual((parts[-1]["name"], parts[-1]["agrees"], parts[-1]["tolerance"]), ("precision", None, None))
        self.assertGreater(parts[-1]["largest_difference"], 1e-4)

    def test_tune_and_resume(self):
        tune = ["tune", MODEL, "--batch", "16", "--devices", DEVICES, "--budget", seconds(12), "--trials", "4"]
        first = self.mptune("--json", *tune)
        self.assertIn(first.returncode, (0, 5), first.stderr)
        value = json.loads(first.stdout)
        jsonschema.validate(value, schema("tune"))
        again = self.mptune("--json", *tune, "--resume")
        self.assertEqual(len(json.loads(again.stdout)["trials"]), len(value["trials"]))
        self.assertIn("mptune run", self.succeed("report", "mlp.study", "--text").splitlines()[-1])

    def test_keep_numerics(self):
        self.succeed("profile", "late-fusion:width=4", "--input", "2x3x32x32", "--batch", "8", "--devices", DEVICES, "--microbatches", "2", "--steps", "2", "-o", "n.sqlite")
        plan = ["plan", "n.sqlite", "--stages", "2", "-o", "n.plan.json", "--force"]
        changed = self.result("plan-result", *plan, "--microbatches", "4")["changed_numerics"]
        self.assertEqual((changed["samples"], changed["batch"], len(changed["norms"]), changed["writers"]), (2, 8, 18, []))
        self.assertIn("normalise over 2 samples, not over 8; --keep-numerics", " ".join(self.succeed(*plan, "--microbatches", "4").split()))
        kept = self.result("plan-result", *plan, "--keep-numerics")
        self.assertEqual((kept["plan"]["num_microbatches"], kept["changed_numerics"]), (1, None))
        self.fails(2, ["first.stem normalises over the samples of a micro-batch", "--keep-numerics"], *plan, "--microbatches", "4", "--keep-numerics")

    def test_bad_input(self):
        self.fails(2, ["unknown model"], "profile", "nonsense", "--devices", DEVICES)
        self.fails(2, ["--input"], "profile", "resnet18", "--input", "3xlarge", "--devices", DEVICES)
        self.fails(2, [], "profile", "mlp:layers=0", "--devices", DEVICES)
        self.fails(2, ["stages"], "profile", "mlp", "--devices", DEVICES, "--stages", "3")
        self.fails(2, ["empty stage"], "profile", MODEL, "--devices", DEVICES, "--cuts", "3,3")

    def test_interrupt(self):
        process = subprocess.Popen([PROGRAM, "tune", MODEL, "--devices", DEVICES, "--budget", "60s"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True, cwd=self.folder, env=self.environment())
        time.sleep(3)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=patience(20))[1]
        self.assertLess(time.monotonic() - start, patience(1))
        self.assertEqual(process.returncode, 130, errors)
