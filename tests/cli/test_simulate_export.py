"""What simulate, export and import say to somebody who uses them for the first time."""
import json
import os

import jsonschema
from harness import CommandTest, schema
from timelines import write_timeline


class Simulate(CommandTest):
    def test_files_in_each_others_place_are_told(self):
        self.fails(2, ["the file is a trace, not a plan", "profile.sqlite", "--plan"], "simulate", "--plan", "profile.sqlite", "--profile", "plan.json")
        self.fails(2, ["the file is a plan, not a trace", "plan.json", "--profile"], "simulate", "--plan", "plan.json", "--profile", "plan.json")

    def test_a_device_that_the_profile_lacks_is_told_with_its_file(self):
        self.fails(2, ["sleep:0", "other_machine.sqlite"], "simulate", "--plan", "plan.json", "--profile", "other_machine.sqlite")

    def test_a_plan_of_another_model_is_a_warning(self):
        with open(os.path.join(self.folder, "plan.json")) as file:
            plan = json.load(file)
        plan["fingerprint"]["model"] = "sha256:another"
        with open(os.path.join(self.folder, "another.json"), "w") as file:
            json.dump(plan, file)
        done = self.mptune("simulate", "--plan", "another.json", "--profile", "profile.sqlite")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("another.json was made for another model than profile.sqlite was measured of", done.stderr)
        self.assertNotIn("another model", self.mptune("simulate", "--plan", "plan.json", "--profile", "profile.sqlite").stderr)


class SimulateRecorded(CommandTest):
    """Other plans of a pipeline that a trace recorded."""

    def timeline(self, steps):
        write_timeline(os.path.join(self.folder, "t.json"), steps)
        return "t.json"

    def test_another_schedule_by_hand(self):
        # One micro-batch through two stages: forwards of 10 and 20 ms, backwards of twice as long. In halves, two stages on each device take as long.
        trace = self.timeline([(10, 20)] * 6)
        for options in ((), ("--schedule", "gpipe"), ("--schedule", "interleaved", "--virtual", "2")):
            result = self.result("simulate", "simulate", "--from", trace, *options)
            self.assertAlmostEqual(result["predicted"]["step_s"], 0.09, msg=str(options))
            self.assertAlmostEqual(result["recorded"]["step_s"], 0.09)
            for end in result["recorded"]["varied_step_range95_s"]:
                self.assertAlmostEqual(end, 0.09)
        # Two micro-batches of half the size: the second stage is busy for 60 ms, after the first's forward of 5 ms and before its backward of 10 ms.
        self.assertAlmostEqual(self.result("simulate", "simulate", "--from", trace, "--microbatches", "2")["predicted"]["step_s"], 0.075)

    def test_the_range_is_that_of_the_trace(self):
        result = self.result("simulate", "simulate", "--from", self.timeline([(10, 20)] * 18 + [(30, 20)] * 2))
        low, high = result["recorded"]["varied_step_range95_s"]
        self.assertAlmostEqual(low, 0.09)
        # A forward 20 ms longer and a backward 40 ms longer, each in a tenth of the steps, are drawn independently: both come in one of a hundred.
        self.assertAlmostEqual(high, 0.13)
        self.assertAlmostEqual(result["recorded"]["simulated_step_s"], 0.09)

    def test_texts_fit_and_say_what_is_assumed(self):
        trace = self.timeline([(10, 20)] * 6)
        for width in (80, 120):
            text = self.succeed("simulate", "--from", trace, "--schedule", "zb1p", "--runtime", "torch", COLUMNS=str(width))
            self.assertLessEqual(max(map(len, text.splitlines())), width)
            words = " ".join(text.split())
            for part in ("predicted step", "recorded step 90.0 ms (6 steps)", "stages send and wait as in torch", "copies that take no time",
                         "half of a backward for the gradients of inputs"):
                self.assertIn(part, words)
            self.assertNotIn("Memory", text)

    def test_a_recording_of_ours_is_taken_and_the_predicted_trace_is_written(self):
        self.succeed("simulate", "--from", "trace.sqlite", "--schedule", "gpipe", "-o", "predicted.sqlite")
        self.succeed("report", "predicted.sqlite")
        self.fails(2, ["plan.json"], "simulate", "--from", "plan.json")

    def test_a_trace_of_half_a_pipeline_is_refused(self):
        trace = self.timeline([(10, 20)] * 6)
        with open(os.path.join(self.folder, trace)) as file:
            events = json.load(file)["traceEvents"]
        half = [event for event in events if event["name"] != "backward-compute" or event["pid"] != 1]
        with open(os.path.join(self.folder, "half.json"), "w") as file:
            json.dump({"traceEvents": half}, file)
        self.fails(2, ["lacks a forward or a backward of micro-batch 0 of stage 1", "half.json"], "simulate", "--from", "half.json")

    def test_recomputation_is_part_of_the_backward(self):
        self.succeed("plan", "profile.sqlite", "--schedule", "zb1p", "--stages", "2", "--recompute", "all", "-o", "r.json")
        made = self.result("simulate", "simulate", "--plan", "r.json", "--profile", "profile.sqlite", "-o", "r.sqlite")
        again = self.result("simulate", "simulate", "--from", "r.sqlite")
        # The part that ran before the gradient arrived is counted after it: here it costs a tenth of the step. Left out, it would save a quarter.
        self.assertTrue(1 <= again["predicted"]["step_s"] / made["predicted"]["step_s"] < 1.15, again["predicted"])
        self.assertTrue([text for text in again["assumed"] if "recomputation" in text])

    def test_mistakes_are_told(self):
        trace = self.timeline([(10, 20)] * 6)
        self.fails(2, ["--from", "leave --plan"], "simulate", "--from", trace, "--plan", "plan.json")
        self.fails(2, ["--plan is required"], "simulate", "--profile", "profile.sqlite")
        self.fails(2, ["--plan names the plan", "--schedule gpipe"], "simulate", "--plan", "plan.json", "--profile", "profile.sqlite", "--schedule", "gpipe")
        self.fails(2, ["--from takes everything but the plan"], "simulate", "--from", trace, "--allow-renamed")
        self.fails(2, ["not simulated here"], "simulate", "--from", trace, "--microbatches", "1048575")
        self.fails(2, ["cut '2' is out of range"], "simulate", "--from", trace, "--cuts", "2")
        self.fails(2, ["stage"], "simulate", "--from", trace, "--stages", "5")


class Export(CommandTest):
    def test_a_file_on_stdout_is_nothing_but_that_file(self):
        done = self.mptune("export", "trace.sqlite", "--to", "csv", "-o", "/dev/stdout")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.succeed("export", "trace.sqlite", "--to", "csv", "-o", "trace.csv")
        with open(os.path.join(self.folder, "trace.csv")) as file:
            self.assertEqual(done.stdout, file.read())
        self.assertIn("left out    plan and profile", done.stderr)


class Import(CommandTest):
    def test_no_line_is_wider_than_the_terminal(self):
        for width in (80, 120):
            text = self.succeed("import", "trace.sqlite", COLUMNS=str(width))
            self.assertIn("ideal step ", text)
            self.assertLessEqual(max(len(line) for line in text.splitlines()), width)


class Runtimes(CommandTest):
    """Predictions and checks under the rules by which other projects send and wait."""

    def written(self, name, *rows):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write("\n".join(rows) + "\n")
        return name

    def checked(self, order, runtime, code):
        done = self.mptune("--json", "check", "--schedule", order, "--runtime", runtime)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        result = json.loads(done.stdout)
        jsonschema.validate(result, schema("check-order"))
        return result

    def test_other_runtimes_wait_for_more(self):
        names = ("mptune", "torch", "megatron", "deepspeed")
        found = {name: self.result("plan-result", "plan", "profile.sqlite", "--schedule", "1f1b", "--stages", "2", "--runtime", name, "-o", f"{name}.json") for name in names}
        for name in names:
            self.assertEqual(found[name]["runtime"], name)
            again = self.result("simulate", "simulate", "--plan", f"{name}.json", "--profile", "profile.sqlite", "--runtime", name)
            self.assertAlmostEqual(again["predicted"]["step_s"], found[name]["predicted"]["step_s"])
            with open(os.path.join(self.folder, f"{name}.json")) as file:
                self.assertEqual(json.load(file)["predicted"].get("runtime", "mptune"), name)
        self.assertIn("stages send and wait as in torch", self.succeed("simulate", "--plan", "torch.json", "--profile", "profile.sqlite", "--runtime", "torch"))

    def test_what_a_runtime_lacks_is_refused(self):
        self.fails(2, ["deepspeed can't run zb1p", "--runtime"], "plan", "profile.sqlite", "--schedule", "zb1p", "--runtime", "deepspeed", "-o", "p.json")
        self.fails(2, ["'touch' is not a runtime", "torch"], "plan", "profile.sqlite", "--runtime", "touch", "-o", "p.json")
        self.fails(2, ["closed-form knows no runtime"], "plan", "profile.sqlite", "--runtime", "torch", "--objective", "closed-form", "-o", "p.json")
        self.succeed("plan", "profile.sqlite", "--schedule", "gpipe", "--stages", "2", "-o", "gpipe.json")
        self.fails(2, ["megatron can't run this plan", "gpipe.json", "mptune plan --runtime megatron"], "simulate", "--plan", "gpipe.json", "--profile",
                   "profile.sqlite", "--runtime", "megatron")

    def test_an_order_is_checked_before_it_runs(self):
        circle = self.written("circle.csv", "0F0,0F1,0B1,0B0", "1F0,1B0,1F1,1B1")
        pair = "rank 0 waits to receive the gradient of micro-batch 1 of stage 1, while rank 1 waits to send the gradient of micro-batch 0 of stage 1"
        for runtime in ("megatron", "deepspeed"):
            done = self.mptune("check", "--schedule", circle, "--runtime", runtime, COLUMNS="300")
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn(pair, done.stdout)
            self.assertEqual(self.checked(circle, runtime, 4)["deadlock"], pair)
        self.assertIn("torch ends this order", self.succeed("check", "--schedule", circle, "--runtime", "torch"))

    def test_the_price_of_waiting_is_told_with_the_pair_of_actions(self):
        order = self.written("order.csv", "0F0,0F1,0F2,0B0,0B1,0B2", "1F0,1B0,1F1,1B1,1F2,1B2")
        result = self.checked(order, "megatron", 0)
        self.assertGreater(result["slowdown"], 1.1)
        # By hand: the first rank has the output at 5, and the second, which waited for the other's third forward, is ready for it at 8.
        self.assertEqual(result["longest_wait"], {"action": "0F2", "device": "rank 0", "other_action": "1B1", "other_device": "rank 1", "forwards": 3})
        self.assertIn("1.25 times", self.succeed("check", "--schedule", order, "--runtime", "megatron"))

    def test_named_messages_are_posted_in_their_order(self):
        circle = self.written("named.csv", "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1", "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1")
        deadlock = self.checked(circle, "torch", 4)["deadlock"]
        self.assertIn("rank 0 waits to send the output of micro-batch 1 of stage 0, while rank 1 waits to send the gradient of micro-batch 0", deadlock)
        order = self.written("good.csv", "0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0")
        self.assertIn("ends this order", self.succeed("check", "--schedule", order, "--runtime", "torch"))
        lost = self.written("lost.csv", "0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0")
        self.assertIn("never sends", self.checked(lost, "torch", 4)["deadlock"])
        wrong = self.written("wrong.csv", "0F0,1SEND_F0,0B0", "1F0,1B0")
        self.fails(2, ["1SEND_F0", "wrong.csv, row 1"], "check", "--schedule", wrong, "--runtime", "torch")

    def test_odd_orders_are_refused_before_they_cost_memory(self):
        for row in ("2147483647F0,2147483647B0", "100000000F0,100000000B0", "0F2147483647,0B2147483647"):
            self.fails(2, ["than the file has actions", "odd.csv, row 1"], "check", "--schedule", self.written("odd.csv", row), "--runtime", "torch")
        for first in ("0F0,0SEND_F0,0SEND_F0,0RECV_B0,0B0", "0SEND_F0,0F0,0RECV_B0,0B0"):
            self.fails(2, ["0SEND_F0", "stands twice, or before"], "check", "--schedule", self.written("odd.csv", first, "1RECV_F0,1F0,1B0,1SEND_B0"),
                       "--runtime", "torch")
        self.assertIn("which rank 1 never receives",
                      self.checked(self.written("odd.csv", "0F0,0SEND_F0,0RECV_B0,0B0", "1F0,1B0,1SEND_B0"), "torch", 4)["deadlock"])
        split = self.written("odd.csv", "0F0,0I0,0W0", "1F0,1I0,1W0")
        self.fails(2, ["deepspeed can't run this order", "split backward"], "check", "--schedule", split, "--runtime", "deepspeed")
        self.fails(2, ["--runtime takes nothing but an order"], "check", "--schedule", split, "--runtime", "torch", "--stages", "2")

    def test_an_order_that_our_senders_end_is_no_deadlock(self):
        order = self.written("order.csv", "0F0,0F1,0B1,0B0", "1F0,1B0,1F1,1B1")
        self.assertIsNone(self.checked(order, "mptune", 0)["deadlock"])

    def test_long_queues_of_messages_end(self):
        count = 20000
        rows = [[f"{stage}F{i}" for i in range(count)] + [f"{stage}B{i}" for i in range(count)] for stage in range(2)]
        self.assertIn("ends this order", self.succeed("check", "--schedule", self.written("long.csv", *map(",".join, rows)), "--runtime", "torch"))

    def test_what_is_no_order_is_refused(self):
        self.fails(2, ["--schedule", "missing"], "check", "--runtime", "torch")
        self.fails(2, ["leave MODEL out"], "check", "toy", "--schedule", "order.csv", "--runtime", "torch")
        self.fails(2, ["none.csv"], "check", "--schedule", "none.csv", "--runtime", "torch")
        self.fails(2, ["is not an action", "row 1"], "check", "--schedule", self.written("bad.csv", "hello"), "--runtime", "torch")
        self.fails(2, ["lists 3 actions, too few"], "check", "--schedule", self.written("half.csv", "0F0", "1F0,1B0"), "--runtime", "torch")
