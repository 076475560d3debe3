"""Where no plan fits, every change that the message names is made, and a plan fits then."""
import itertools
import json
import os
import re
import shlex
import unittest

from harness import CommandTest

LINK = {"bandwidth": "20GB/s", "latency": "5us"}


def chain(layers, parameters=8 << 20, activation=4 << 20):
    """A layer graph; sizes in bytes."""
    nodes = "".join(f"node{i} -- Linear(1, 1) -- forward_compute_time={1 + i % 3}.0, backward_compute_time=2.0, activation_size={activation}.0, "
                    f"parameter_size={parameters}.0\n" for i in range(layers))
    return nodes + "".join(f"\tnode{i} -- node{i + 1}\n" for i in range(layers - 1))


class Remedies(CommandTest):
    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)
        return name

    def topology(self, hosts=2, devices=2, memory="20MiB", **more):
        return {"schema": "mptune.topology/1", "between_hosts": LINK,
                "hosts": [{"name": "node", "count": hosts, "devices": devices, "memory": memory, "link": LINK, **more}]}

    def changes(self, options):
        """The options of each change that the message of a plan that does not fit names; [] where it fits."""
        done = self.mptune("plan", *options, "--json", "-o", "made.plan.json", "--force")
        if done.returncode == 0:
            return []
        self.assertEqual(done.returncode, 3, done.stderr + done.stdout)
        remedy = json.loads(done.stdout)["error"]["remedy"]
        if "more are missing on" in remedy:
            self.assertNotIn("it fits with", remedy)
            return []
        self.assertIn("it fits with ", remedy)
        named = remedy.split("it fits with ", 1)[1]
        named = re.sub(r"\([^()]*\)", "", named)
        return [change.strip() for change in named.split(", or with ") for change in [change.split(", or ")[0]]]

    def changed(self, options, change):
        """The options with a change, in place of those that say otherwise."""
        options = list(options)

        def drop(name):
            while name in options:
                at = options.index(name)
                del options[at:at + 2]

        if hosts := re.match(r"(\d+) hosts of 'node' in the topology file", change):
            with open(os.path.join(self.folder, "paper.json"), encoding="utf-8") as file:
                value = json.load(file)
            value["hosts"][0]["count"] = int(hosts[1])
            self.write("more.json", json.dumps(value))
            drop("--topology")
            return [*options, "--topology", "more.json"]
        for left_out in re.findall(r"(--\w+)(?= and | left out)", change) if change.endswith("left out") else re.findall(r"no (--\w+) option", change):
            drop(left_out)
        stated = [] if change.endswith("left out") else shlex.split(re.sub(r"no --\w+ option", "", change))
        for name in stated[::2]:
            drop(name)
            if name == "--microbatches":
                drop("--split-size")
        return options + stated

    def check(self, *options):
        """How many changes are named, all of which work."""
        changes = self.changes(options)
        for change in changes:
            with self.subTest(options=options, change=change):
                done = self.mptune("plan", *self.changed(options, change), "-q", "-o", "made.plan.json", "--force")
                self.assertEqual(done.returncode, 0, done.stderr)
        return len(changes)

    def test_recorded_profiles(self):
        """The fixture: 6 layers, batch 8, sleep:0 and sleep:1."""
        named = 0
        for memory in ("2kB", "16kB", "sleep:0=2kB,sleep:1=30kB"):
            for more in ([], ["--stages", "1"], ["--stages", "2", "--cuts", "3"], ["--microbatches", "1"], ["--split-size", "8", "--recompute", "none"],
                         ["--schedule", "interleaved"], ["--schedule", "gpipe", "--recompute", "none"], ["--replicas", "2"]):
                named += self.check("profile.sqlite", "--memory", memory, *more)
        self.assertGreater(named, 15)

    def test_layer_graphs(self):
        self.write("net.txt", chain(8))
        named = 0
        for memory, stages in itertools.product(("10MiB", "40MiB", "60MiB"), ("1", "2")):
            named += self.check("net.txt", "--link", "12GB/s", "--stages", stages, "--memory", memory)
        named += self.check("net.txt", "--link", "12GB/s", "--stages", "2", "--cuts", "7", "--memory", "60MiB")
        # With one stage, --memory would name a device that is left out: that is no change that fits.
        named += self.check("net.txt", "--link", "12GB/s", "--stages", "2", "--cuts", "7", "--memory", "device:0=8GiB,device:1=1MiB")
        named += self.check("net.txt", "--link", "12GB/s", "--stages", "4", "--virtual", "2", "--memory", "50MiB")
        named += self.check("net.txt", "--link", "12GB/s", "--replicas", "2,2", "--microbatches", "8", "--schedule", "gpipe", "--memory", "50MiB")
        self.assertGreater(named, 7)

    def test_more_devices_where_the_file_names_none(self):
        self.write("net.txt", chain(8, activation=1024))
        changes = self.changes(["net.txt", "--link", "12GB/s", "--stages", "2", "--memory", "40MiB"])
        self.assertTrue(any(change.startswith("--stages 4") for change in changes), changes)

    def test_published_objectives(self):
        self.write("net.txt", chain(8))
        named = 0
        for memory, stages in itertools.product(("10MiB", "40MiB", "300MiB"), ("2", "4")):
            named += self.check("net.txt", "--link", "12GB/s", "--stages", stages, "--objective", "closed-form", "--memory", memory)
        self.assertGreaterEqual(named, 4)

    def test_machines_on_paper(self):
        self.write("net.txt", chain(8))
        named = 0
        for memory, hosts, batch in itertools.product(("10MiB", "30MiB"), (1, 2), ("4", "32")):
            self.write("paper.json", json.dumps(self.topology(hosts, 2, memory)))
            for more in ([], ["--stages", "1"], ["--stages", "2", "--microbatches", batch, "--schedule", "gpipe"]):
                named += self.check("net.txt", "--topology", "paper.json", "--batch", batch, *more)
        self.assertGreater(named, 15)

    def test_hosts_of_one_link_alone_are_not_asked_for(self):
        self.write("net.txt", chain(8))
        paper = self.topology(1, 2, "20MiB")
        del paper["between_hosts"]
        self.write("paper.json", json.dumps(paper))
        changes = self.changes(["net.txt", "--topology", "paper.json", "--batch", "8"])
        self.assertEqual(len(changes), 1, changes)
        self.assertRegex(changes[0], "^--memory ")


if __name__ == "__main__":
    unittest.main()
