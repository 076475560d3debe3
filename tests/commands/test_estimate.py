"""Profiles that are estimated for GPUs that are not there."""
import json
import os
import unittest

from harness import CommandTest


class Estimates(CommandTest):
    def environment(self, **more):
        return super().environment(**{"MPTUNE_WORKER": os.environ["MPTUNE_REAL_WORKER"], **more})

    def estimated(self, model, *options, hardware="h100_sxm"):
        return self.result("estimate", "profile", model, "--estimate", hardware, "-o", "e.sqlite", "--force", *options)

    def test_a_plan_for_eight_gpus_needs_none(self):
        result = self.estimated("transformer:d=64,layers=6,seq=32,vocab=100", "--batch", "32")
        self.assertEqual(result["hardware"], "h100_sxm")
        plan = self.result("plan-result", "plan", "e.sqlite", "-o", "e.plan.json")
        self.assertTrue(set(plan["plan"]["devices"]) <= {f"h100_sxm:{i}" for i in range(8)})
        self.assertTrue(any("estimated, not measured" in one for one in plan["assumed"]))
        again = self.result("simulate", "simulate", "--plan", "e.plan.json", "--profile", "e.sqlite")
        self.assertEqual(again["predicted"]["step_s"], plan["predicted"]["step_s"])

    def test_hosts_of_a_topology(self):
        self.estimated("mlp:width=64,layers=8", "--batch", "32")
        link = {"bandwidth": "450GB/s", "latency": "10us"}
        hosts = [{"name": "node", "count": 2, "devices": 8, "memory": "80GiB", "link": link}]
        with open(os.path.join(self.folder, "cluster.json"), "w", encoding="utf8") as file:
            json.dump({"schema": "mptune.topology/1", "hosts": hosts, "between_hosts": {**link, "shared": "device"}}, file)
        plan = self.result("plan-result", "plan", "e.sqlite", "--topology", "cluster.json", "-o", "t.plan.json")
        self.assertTrue(any("estimated, not measured" in one for one in plan["assumed"]))

    def test_every_gpu_and_every_model(self):
        for hardware in ("v100_sxm", "a30", "a100_pcie", "a100_sxm", "l4", "l40s", "h100_pcie", "h100_sxm", "h200_sxm", "b200_sxm", "mi300x"):
            result = self.estimated("mlp", hardware=hardware)
            for layer in result["layers"]:
                for cost in layer["costs"]:
                    self.assertGreater(cost["forward_s"], 0)
                    self.assertGreater(cost["backward_s"], 0)
        for model in ("resnet18", "vgg16:width=8", "bert:d=64,layers=2,heads=2", "unet:base=8", "late-fusion:width=8",
                      "encoder-decoder-classifier"):
            self.assertGreater(len(self.estimated(model, "--batch", "4")["layers"]), 1)

    def test_what_it_refuses(self):
        self.fails(2, ["'h100' is no GPU that estimates are made for"], "profile", "mlp", "--estimate", "h100")
        self.fails(2, ["an estimate takes no --devices"], "profile", "mlp", "--estimate", "h100_sxm", "--devices", "cpu:0")
        self.fails(2, ["an estimate takes no options of a plan"], "profile", "mlp", "--estimate", "h100_sxm", "--stages", "2")
        self.fails(2, ["an estimate can't follow autocast"], "profile", "mlp", "--estimate", "h100_sxm", "--precision", "bf16")


if __name__ == "__main__":
    unittest.main()
