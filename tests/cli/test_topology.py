"""Plans and simulations for machines that are not there."""
import json
import os
import unittest

import jsonschema
from harness import CommandTest, schema

NODE = {"name": "node", "count": 4, "devices": 2, "memory": "4GiB", "link": {"bandwidth": "20GB/s", "latency": "5us"}}
BETWEEN = {"bandwidth": "2GB/s", "latency": "20us", "shared": "host"}


class Topology(CommandTest):
    def write(self, name="paper.json", hosts=(NODE,), between=BETWEEN, **more):
        value = {"schema": "mptune.topology/1", "hosts": list(hosts), "between_hosts": between, **more}
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            json.dump(value, file)
        return name

    def plan(self, *more, topology="paper.json"):
        return self.result("plan-result", "plan", "profile.sqlite", "--topology", topology, "-o", "paper.plan.json", "--force", *more)

    def test_plan_is_a_plan_file_on_the_topologys_devices(self):
        self.write()
        planned = self.plan("--batch", "64")
        names = {f"{host}@sleep:{index}" for host in range(4) for index in range(2)}
        self.assertLessEqual(set(planned["plan"]["devices"]), names)
        self.assertGreaterEqual(planned["gap"], 0)
        self.assertGreater(planned["lower_bound_s"], 0)
        self.assertEqual(planned["topology"]["devices"], 8)
        self.assertRegex(planned["assumed"][0], "as fast as sleep of the profile, alone; links as the topology says")
        simulated = self.result("simulate", "simulate", "--plan", "paper.plan.json", "--profile", "profile.sqlite", "--topology", "paper.json")
        self.assertEqual(simulated["predicted"], planned["predicted"])
        self.assertEqual(simulated["topology"]["gradient_sum"], planned["topology"]["gradient_sum"])

    def test_the_sum_that_takes_least_is_used(self):
        self.write()
        sums = self.plan("--batch", "64", "--stages", "1")["topology"]["gradient_sum"]
        costs = {name: sums[name + "_s"] for name in ("ring", "tree", "hierarchical") if sums[name + "_s"] is not None}
        self.assertEqual(sums["used"], min(costs, key=costs.get))
        self.assertEqual(len(costs), 3)

    def test_choices_and_caps(self):
        self.write()
        planned = self.plan("--batch", "64", "--stages", "2", "--microbatches", "16", "--schedule", "gpipe")
        self.assertEqual(planned["plan"]["num_stages"], 2)
        self.assertEqual(planned["plan"]["num_microbatches"], 16)
        self.assertEqual(planned["plan"]["schedule"]["name"], "gpipe")
        self.fails(3, ["no plan fits", "needs", "more on 0@sleep:0"], "plan", "profile.sqlite", "--topology", "paper.json", "--memory", "10kB",
                   "-o", "paper.plan.json", "--force")
        done = self.mptune("simulate", "--plan", "paper.plan.json", "--profile", "profile.sqlite", "--topology", "paper.json", "--memory", "10kB")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("does not fit:", done.stdout)

    def test_text_names_step_bound_and_ways_to_sum(self):
        self.write()
        for columns in ("80", "120"):
            text = self.succeed("plan", "profile.sqlite", "--topology", "paper.json", "--batch", "64", "-o", "p.plan.json", "--force",
                                COLUMNS=columns)
            self.assertRegex(text, "predicted step .*; (lower|no plan)")
            self.assertIn("assumed devices of node as fast as", text)
            self.assertIn("of 8 devices used", text)
            self.assertLessEqual(max(len(line) for line in text.splitlines()), int(columns))

    def test_same_inputs_same_bytes(self):
        self.write()
        first, second = self.plan("--batch", "64"), self.plan("--batch", "64")
        del first["search_s"], second["search_s"]
        self.assertEqual(first, second)

    def test_files_match_their_schema(self):
        with open(os.path.join(self.folder, self.write()), encoding="utf-8") as file:
            jsonschema.validate(json.load(file), schema("topology"))

    def test_what_does_not_apply_is_refused(self):
        self.write()
        ask = ("plan", "profile.sqlite", "--topology", "paper.json")
        self.fails(2, ["--devices"], *ask, "--devices", "cpu:0")
        self.fails(2, ["--link"], *ask, "--link", "1GB/s")
        self.fails(2, ["--replicas 2"], *ask, "--replicas", "2")
        self.fails(2, ["--objective"], *ask, "--objective", "max-load")
        self.fails(2, ["interleaved"], *ask, "--schedule", "interleaved")
        self.fails(2, ["no uniform plan"], *ask, "--stages", "9")
        self.fails(2, ["machines on paper have no trace"], "simulate", "--plan", "p.plan.json", "--profile", "profile.sqlite", "--topology",
                   "paper.json", "-o", "p.sqlite")

    def test_bad_files(self):
        ask = ("plan", "profile.sqlite", "--batch", "64", "--topology")
        self.fails(2, ["can't open", "nowhere.json"], *ask, "nowhere.json")
        self.fails(2, ["is a trace, not a topology"], *ask, "profile.sqlite")
        self.fails(2, ["hosts[0].count is not from 1"], *ask, self.write(hosts=[{**NODE, "count": 0}]))
        self.fails(2, ["hosts[0].link is missing"], *ask, self.write(hosts=[{"name": "a", "count": 1, "devices": 2}]))
        self.fails(2, ["control character"], *ask, self.write(hosts=[{**NODE, "name": "\x1b[31m"}]))
        self.fails(2, ["like 'tpu'", "classes (sleep)"], *ask, self.write(hosts=[{**NODE, "like": "tpu"}]))
        self.fails(2, ["another version"], *ask, self.write(schema="mptune.topology/2"))
        with open(os.path.join(self.folder, "cut.json"), "w", encoding="utf-8") as file:
            file.write('{"schema": "mptune.topology/1", "hosts": [')
        self.fails(2, ["not JSON, or cut short"], *ask, "cut.json")

    def test_a_plan_for_another_topology_is_refused(self):
        self.write()
        self.plan("--batch", "64", "--stages", "1")
        self.write("small.json", hosts=[{**NODE, "count": 1}])
        self.fails(2, ["does not have the plan's device"], "simulate", "--plan", "paper.plan.json", "--profile", "profile.sqlite",
                   "--topology", "small.json")


if __name__ == "__main__":
    unittest.main()
