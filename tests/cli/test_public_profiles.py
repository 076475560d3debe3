import json
import os

from harness import CommandTest

HEADER = "op_name,forward-compute,backward-compute,input_size,output_size,weights,activations,fwd_reserved,bwd_reserved\n"


def chain(layers, activation=0):
    nodes = "".join(f"node{i} -- Linear(1, 1) -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size={activation}.0, "
                    f"parameter_size=1048576.0\n" for i in range(layers))
    return nodes + "".join(f"\tnode{i} -- node{i + 1}\n" for i in range(layers - 1))


def placement(nodes, devices=2):
    listed = [{"id": i, "name": f"n{i}", "fpgaLatency": ms, "cpuLatency": 1000, "size": 1048576} for i, ms in enumerate(nodes)]
    edges = [{"sourceId": i, "destId": i + 1, "cost": 0.5, "size": 1} for i in range(len(nodes) - 1)]
    return json.dumps({"nodes": listed, "edges": edges, "maxFPGAs": devices, "maxCPUs": 0, "maxSizePerFPGA": 1e9})


class PublicProfiles(CommandTest):
    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(text)
        return name

    def test_layer_graph(self):
        self.write("net.graph.txt", chain(4))
        value = self.result("plan-result", "plan", "net.graph.txt", "--stages", "2", "--link", "12GB/s", "--schedule", "1f1b", "--microbatches", "4")
        self.assertEqual(value["plan"]["devices"], ["device:0", "device:1"])
        self.assertEqual(value["plan"]["stages"][1]["layers"], [2, 4])
        self.assertAlmostEqual(value["predicted"]["step_s"], (4 + 2 - 1) * 0.006, places=9)  # equal stages, copies of nothing
        self.assertEqual(value["plan_file"], "net.plan.json")
        self.assertTrue(any("micro-batch that was profiled" in text for text in value["assumed"]))
        self.assertTrue(any("batch of 4" in text for text in value["assumed"]))

    def test_links_and_batches_change_the_step(self):
        self.write("net.txt", chain(4, activation=6000000))
        at = lambda *options: self.result("plan-result", "plan", "net.txt", "--stages", "2", "--schedule", "1f1b", "--force", *options)
        fast, slow = at("--link", "100GB/s"), at("--link", "1GB/s,1ms")
        self.assertGreater(slow["predicted"]["step_s"], fast["predicted"]["step_s"] + 0.01)
        self.assertEqual(fast["plan"]["num_microbatches"], 8)  # 4 a device
        larger = at("--link", "100GB/s", "--batch", "20")
        self.assertEqual((larger["plan"]["num_microbatches"], larger["plan"]["global_batch_size"]), (20, 20))
        self.fails(3, ["no plan fits"], "plan", "net.txt", "--stages", "2", "--link", "1GB/s", "--memory", "3MiB")

    def test_one_stage_needs_no_link(self):
        self.write("net.txt", chain(3))
        value = self.result("plan-result", "plan", "net.txt", "--stages", "1")
        self.assertAlmostEqual(value["predicted"]["step_s"], 4 * 0.009, places=9)

    def test_replicas_count_devices(self):
        self.write("net.txt", chain(6))
        value = self.result("plan-result", "plan", "net.txt", "--replicas", "2,1", "--link", "12GB/s", "--microbatches", "12")
        self.assertEqual(len(value["plan"]["devices"]), 3)
        self.assertEqual(value["plan"]["stages"][1]["layers"], [4, 6])

    def test_stages_per_device_share_the_stages_out(self):
        self.write("net.txt", chain(8))
        for options in (["--virtual", "2"], ["--schedule", "zbv"], ["--schedule", "interleaved"]):
            value = self.result("plan-result", "plan", "net.txt", "--stages", "4", "--link", "12GB/s", "--microbatches", "4", "--force", *options)
            self.assertEqual((value["plan"]["num_stages"], len(value["plan"]["devices"])), (4, 2))
            self.assertIn("4 stages on 2 devices, 2 on each", value["assumed"])
        self.write("large.txt", chain(30, activation=600000000))
        text = self.succeed("plan", "large.txt", "--stages", "4", "--link", "12GB/s", "--schedule", "zbv", "--microbatches", "8", COLUMNS="80")
        self.assertLessEqual(max(len(line) for line in text.splitlines()), 80)
        self.fails(2, ["--stages", "multiple of 2"], "plan", "net.txt", "--stages", "3", "--link", "12GB/s", "--virtual", "2")
        self.fails(2, ["--stages", "at least 2 devices"], "plan", "net.txt", "--stages", "2", "--link", "12GB/s", "--schedule", "v-half")

    def test_operator_tables(self):
        for samples in (1, 2):
            rows = f"embedding,{100 * samples},200,0,1,4,1,0,0\nenc-a,{1000 * samples},{2000 * samples},1,1,2,1,1,1\nhead,500,1000,1,0,4,1,1,1\n"
            self.write(f"net_mbs{samples}_tp1_algo0.csv", HEADER + rows)
        self.fails(2, ["net", "links", "--link"], "plan", "net", "--stages", "2")
        self.write("p2p_intra_node.csv", "1,1024\n10,10\n")
        value = self.result("plan-result", "plan", "net", "--stages", "2", "--batch", "16")
        self.assertEqual(value["plan"]["stages"][1]["layers"][1], 26)
        self.assertTrue(any("p2p_intra_node.csv" in text for text in value["assumed"]))
        self.assertEqual(value["plan"]["stages"][0]["modules"][:2], ["embedding", "0.enc-a"])
        self.fails(2, ["net_mbs1_tp1_algo0.csv", "prefix"], "plan", "net_mbs1_tp1_algo0.csv", "--stages", "2")
        self.write("p2p_intra_node.csv", "1,1024\n10\n")
        self.fails(2, ["p2p_intra_node.csv:2"], "plan", "net", "--stages", "2")

    def test_objectives(self):
        self.write("net.txt", chain(4))
        value = self.result("plan-result", "plan", "net.txt", "--stages", "2", "--link", "1TB/s", "--microbatches", "4", "--objective", "closed-form")
        self.assertEqual(value["plan"]["stages"][1]["layers"], [2, 4])
        self.assertAlmostEqual(value["objective"]["step_s"], (4 + 2 - 1) * 0.006, places=6)
        self.assertEqual((value["objective"]["name"], value["gap"]), ("closed-form", 0))
        text = self.succeed("plan", "net.txt", "--stages", "2", "--link", "1TB/s", "--microbatches", "4", "--objective", "closed-form", COLUMNS="80")
        self.assertIn("by closed-form the step takes 0.03 s", text)
        self.assertIn("1 plan simulated", text)
        self.assertLessEqual(max(len(line) for line in text.splitlines()), 80)
        self.fails(2, ["gpipe", "--schedule"], "plan", "net.txt", "--stages", "2", "--link", "1GB/s", "--objective", "closed-form", "--schedule", "gpipe", "--force")
        self.fails(2, ["aceso", "operator tables"], "plan", "net.txt", "--stages", "2", "--link", "1GB/s", "--objective", "aceso")
        self.fails(3, ["no plan fits"], "plan", "net.txt", "--stages", "2", "--link", "1GB/s", "--objective", "closed-form", "--memory", "3MiB", "--force")
        rows = "embedding,100,200,0,1,4,1,0,0\nenc-a,1000,2000,1,1,2,1,1,1\nhead,500,1000,1,0,4,1,1,1\n"
        self.write("ops_mbs1_tp1_algo0.csv", HEADER + rows)
        self.write("p2p_intra_node.csv", "1,2\n10,10\n")
        value = self.result("plan-result", "plan", "ops", "--stages", "2", "--batch", "16", "--objective", "aceso")
        self.assertEqual(value["plan"]["stages"][1]["layers"], [13, 26])
        copy = 1.024 / 10240
        first, second = 0.0003 + 12 * 0.003 + copy, 12 * 0.003 + 0.0015 + copy
        self.assertAlmostEqual(value["objective"]["step_s"], first + 16 * second, places=6)
        self.assertEqual(value["objective"]["gap"], 0)
        self.fails(3, ["no plan fits"], "plan", "ops", "--stages", "2", "--batch", "16", "--objective", "aceso", "--memory", "1MiB", "--force")

    def test_placement(self):
        self.write("net.json", placement([3, 4, 2, 6]))
        value = self.result("placement", "plan", "net.json")
        self.assertAlmostEqual(value["load_s"], 0.0085, places=9)  # 2 + 6 and the copy before them
        self.assertEqual(value["gap"], 0)
        self.assertEqual([part["nodes"] for part in value["parts"]], [["n0", "n1"], ["n2", "n3"]])
        self.assertIn("8.5 ms", self.succeed("plan", "net.json", "--objective", "max-load"))
        self.assertEqual(len(self.result("placement", "plan", "net.json", "--stages", "1")["parts"]), 1)
        self.fails(3, ["net"], "plan", "net.json", "--memory", "1MiB")
        self.fails(2, ["max-load"], "plan", "net.json", "--objective", "simulate")
        self.fails(2, ["--stages, --memory"], "plan", "net.json", "--schedule", "1f1b")

    def test_largest_load_of_layers(self):
        self.write("net.txt", chain(5))
        split = lambda *options: self.result("placement", "plan", "net.txt", "--link", "12GB/s", "--objective", "max-load", *options)
        value = split("--stages", "2")
        self.assertAlmostEqual(value["load_s"], 0.009, places=9)  # three of five layers of 3 ms
        self.assertEqual((value["gap"], value["samples"]), (0, 1))
        self.assertEqual([part["device"] for part in value["parts"]], ["device:0", "device:1"])
        self.assertEqual(sorted(name for part in value["parts"] for name in part["nodes"]),
                         sorted(name for i in range(5) for name in (f"node{i}", f"node{i} backward")))
        self.assertAlmostEqual(split("--stages", "5")["load_s"], 0.003, places=9)
        load = "plan", "net.txt", "--stages", "2", "--link", "12GB/s", "--objective", "max-load"
        self.assertIn("9 ms", self.succeed(*load))
        self.fails(2, ["--schedule"], *load, "--schedule", "gpipe")
        self.fails(2, ["-o", "plan file"], *load, "-o", "x.plan.json")
        self.fails(3, ["net"], *load, "--memory", "1MiB")

    def test_largest_load_of_a_recording(self):
        split = lambda *options: self.result("placement", "plan", "profile.sqlite", "--objective", "max-load", *options)
        whole, half, one = split(), split("--microbatches", "2"), split("--stages", "1")
        self.assertLess(half["load_s"], whole["load_s"])
        self.assertEqual(whole["samples"], 2 * half["samples"])
        self.assertEqual(len(one["parts"]), 1)
        self.assertEqual(whole["gap"], 0)

    def test_what_a_file_lacks(self):
        self.write("net.txt", chain(4))
        self.fails(2, ["devices", "--stages K"], "plan", "net.txt")
        self.fails(2, ["links", "--link"], "plan", "net.txt", "--stages", "2")
        self.fails(2, ["--link"], "plan", "net.txt", "--stages", "2", "--link", "fast")
        self.fails(2, ["--stages"], "plan", "net.txt", "--stages", "129", "--link", "1GB/s")
        self.fails(2, ["5 stages", "4 layers"], "plan", "net.txt", "--stages", "5", "--link", "1GB/s")
        self.fails(2, ["--microbatches"], "plan", "net.txt", "--stages", "2", "--link", "1GB/s", "--microbatches", "x")
        self.fails(2, ["'fastest'", "--objective"], "plan", "net.txt", "--stages", "2", "--objective", "fastest")

    def test_links_of_a_recording_can_be_replaced(self):
        at = lambda link: self.result("plan-result", "plan", "profile.sqlite", "--stages", "2", "--microbatches", "4", "--force", "--link", link)
        self.assertGreater(at("1MB/s,10ms")["predicted"]["step_s"], at("1TB/s")["predicted"]["step_s"])

    def test_broken_files_name_the_line(self):
        for name, text, where in (("a", "node1 -- x -- forward_compute_time=nan", "a:1"), ("b", chain(3) + "\tnode2 -- node0\n", "b:6"),
                                  ("c", '{"nodes": [', "c:byte 12"), ("d", placement([1]).replace("1048576", "-1"), "d:/nodes/0/size"),
                                  ("e", "", "e"), ("f", "\x01\x02\x03", "f")):
            self.write(name, text)
            self.fails(2, [where], "plan", name, "--stages", "2", "--link", "1GB/s") if name in "abef" else self.fails(2, [where], "plan", name)
        self.write("g_mbs1_tp1_algo0.csv", HEADER + "a,1\n")
        self.fails(2, ["g_mbs1_tp1_algo0.csv:2"], "plan", "g", "--stages", "2")
