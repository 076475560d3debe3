"""mptune_plan.py against plans that mptune wrote, and against mptune's own reader: what one refuses, the other refuses."""

import itertools
import json
import os
import sys
import unittest
from unittest import mock

import mptune_plan
from harness import SCHEDULES, CommandTest
from mptune_plan import PlanError


class PlanTest(CommandTest):
    def setUp(self):
        super().setUp()
        os.environ.pop("MPTUNE_PLAN", None)

    def planned(self, *options):
        """The path of a plan that `mptune plan` makes of the fixture's profile: 6 layers, batch 8, sleep:0 and sleep:1."""
        self.succeed("plan", "profile.sqlite", "--force", "-o", "made.plan.json", *options)
        return os.path.join(self.folder, "made.plan.json")

    def changed(self, path, change):
        """The path of a copy with `change` done to its JSON."""
        with open(path) as file:
            value = json.load(file)
        change(value)
        other = os.path.join(self.folder, "changed.plan.json")
        with open(other, "w") as file:
            json.dump(value, file)
        return other

    def refused(self, path, *words):
        with self.assertRaises(PlanError) as caught:
            mptune_plan.load_plan(path)
        line = str(caught.exception)
        self.assertRegex(line, r"^[^\n]+: [^\n]+; [^\n]+$")
        for word in words:
            self.assertIn(word, line)


class GoodPlans(PlanTest):
    def test_what_a_plan_says(self):
        path = self.planned("--stages", "2", "--cuts", "2", "--microbatches", "4", "--schedule", "1f1b", "--recompute", "none")
        plan = mptune_plan.load_plan(path)
        self.assertEqual((plan.n_microbatches, plan.microbatch_sizes, plan.global_batch_size), (4, [2, 2, 2, 2], 8))
        self.assertEqual((plan.devices, plan.schedule, plan.balance()), (["sleep:0", "sleep:1"], "1f1b", [2, 4]))
        self.assertEqual(plan.split_spec(), {"net.block2": "BEGINNING"})
        self.assertEqual(plan.stages[1].modules, ["net.block2", "net.block3", "net.block4", "net.block5"])
        self.assertEqual((plan.stages[0].devices, plan.stages[0].recompute), (["sleep:0"], "none"))
        self.assertEqual(" ".join(map(str, plan.actions[1])), "1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3")
        self.assertEqual(plan.schedule_csv().splitlines()[1], "1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3")
        self.assertEqual(plan.fingerprint["model"], "sha256:toy")
        self.assertGreaterEqual(plan.predicted["step_s"], plan.predicted["lower_bound_s"])

    def test_balance_counts_the_children_of_a_sequential(self):
        path = self.planned("--stages", "2", "--cuts", "2", "--schedule", "1f1b")
        blocks = {f"net.block{i}": [f"{i}.linear", f"{i}.relu"] for i in range(6)}

        def rename(value):
            for stage in value["plan"]["stages"]:
                stage["modules"] = [name for old in stage["modules"] for name in blocks[old]]
                stage["first_module"] = stage["modules"][0]

        class Sequential:
            def __init__(self, *names):
                self.names = names

            def named_children(self):
                return [(name, None) for name in self.names]

        plan = mptune_plan.load_plan(self.changed(path, rename))
        self.assertEqual(plan.balance(Sequential("0", "1", "flatten", "2", "3", "4", "5")), [3, 4])
        with self.assertRaisesRegex(PlanError, "no module '5.linear'.*; give the torch.nn.Sequential"):
            plan.balance(Sequential("0", "1", "2", "3", "4"))
        with self.assertRaisesRegex(PlanError, "stage 1 begins inside 'net'.*; plan with --cut-at '\\*'"):
            mptune_plan.load_plan(path).balance(Sequential("net"))

    def test_deepspeed(self):
        plan = mptune_plan.load_plan(self.planned("--stages", "2", "--cuts", "3", "--microbatches", "4", "--schedule", "1f1b", "--recompute", "none"))
        settings, lossy = plan.to_deepspeed()
        self.assertEqual(settings["config"], {"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4})
        self.assertEqual(settings["pipeline_module"],
                         {"num_stages": 2, "partition_method": "uniform", "activation_checkpoint_interval": 0})
        self.assertEqual(lossy, ["which device is which rank: start them in the order of plan.devices"])
        plan = mptune_plan.load_plan(self.planned("--stages", "2", "--cuts", "2", "--microbatches", "4", "--schedule", "zb1p", "--recompute", "all"))
        settings, lossy = plan.to_deepspeed()
        self.assertEqual(settings["pipeline_module"], {"num_stages": 2, "partition_method": "parameters", "activation_checkpoint_interval": 1})
        self.assertEqual([words.partition(":")[0] for words in lossy[1:]], ["schedule zb1p", "layers of the stages, [2, 4]"])
        virtual = mptune_plan.load_plan(self.planned("--stages", "4", "--microbatches", "4", "--schedule", "interleaved"))
        with self.assertRaisesRegex(PlanError, "several stages per device.*; plan with one stage per device"):
            virtual.to_deepspeed()

    def test_accelerate(self):
        path = self.planned("--stages", "2", "--cuts", "2", "--microbatches", "4", "--schedule", "1f1b", "--recompute", "none")

        def on_gpus(value):
            plan = value["plan"]
            plan["devices"] = ["cuda:0/2of2", "1@cuda:1"]
            for stage, device in zip(plan["stages"], plan["devices"]):
                stage["devices"] = [device]

        self.assertEqual(set(mptune_plan.load_plan(path).to_accelerate().settings.values()), {"cpu"})
        settings, lossy = mptune_plan.load_plan(self.changed(path, on_gpus)).to_accelerate()
        self.assertEqual(list(settings.items())[1:3], [("net.block1", "cuda:0"), ("net.block2", "cuda:1")])
        self.assertEqual(lossy, ["schedule 1f1b and 4 micro-batches: one device computes at a time"])

        def nested(value):
            on_gpus(value)
            value["plan"]["stages"][0]["modules"] = ["net", "net.first"]
            value["plan"]["stages"][0]["first_module"] = "net"

        settings, _ = mptune_plan.load_plan(self.changed(path, nested)).to_accelerate()
        self.assertNotIn("net", settings, "its modules lie on two devices")
        self.assertEqual(settings["net.first"], "cuda:0")

    def test_torch_pipelining_takes_no_replicas(self):
        """Before torch is imported."""
        path = self.planned("--stages", "1", "--replicas", "2", "--microbatches", "4", "--schedule", "gpipe")
        with self.assertRaisesRegex(PlanError, "replicas have no form.*; plan with --replicas 1"):
            mptune_plan.load_plan(path).to_torch_pipelining(None, (), None)

    def test_fused_weight_gradients_become_single_ones_in_torchs_form(self):
        path = self.planned("--stages", "2", "--microbatches", "4", "--schedule", "1f1b")

        def change(file):
            file["plan"]["schedule"]["actions"][1] = "1F0 1I0 1F1 1I1 1F2 1I2 1W0-2 1F3 1B3"

        plan = mptune_plan.load_plan(self.changed(path, change))
        self.assertEqual(str(plan.actions[1][6]), "1W0-2")
        self.assertFalse(plan.options.exact)
        self.assertIn("fused", "; ".join(plan.options.left_out()))
        with self.assertWarnsRegex(UserWarning, "no fused weight gradients"):
            row = plan.schedule_csv().splitlines()[1]
        self.assertEqual(row, "1F0,1I0,1F1,1I1,1F2,1I2,1W0,1W1,1W2,1F3,1B3")

    def test_stages_that_offload_are_read_and_left_out_of_exports(self):
        path = self.planned("--stages", "2", "--microbatches", "4", "--schedule", "1f1b", "--recompute", "none")
        self.assertEqual([stage.offload for stage in mptune_plan.load_plan(path).stages], [False, False])

        def change(file):
            file["plan"]["stages"][0]["offload"] = True

        offloading = self.changed(path, change)
        self.assertEqual([stage.offload for stage in mptune_plan.load_plan(offloading).stages], [True, False])
        self.assertEqual(self.mptune("report", offloading).returncode, 0)
        lossy = []
        self.assertFalse(mptune_plan.load_plan(offloading)._recomputes_all(lossy))
        self.assertIn("host memory", lossy[0])

    def test_every_schedule_and_form_that_mptune_writes_is_read(self):
        for options in [
            ["--stages", "2", "--schedule", "gpipe"],
            ["--stages", "2", "--schedule", "zb1p"],
            ["--stages", "4", "--schedule", "interleaved", "--virtual", "2"],
            ["--stages", "4", "--schedule", "zbv", "--virtual", "2"],
            ["--replicas", "2"],
            ["--recompute", "0"],
            ["--microbatches", "3"],
            [],
        ]:
            with self.subTest(options=options):
                plan = mptune_plan.load_plan(self.planned(*options))
                with open(plan.where) as file:
                    written = json.load(file)["plan"]
                self.assertEqual(plan.n_microbatches, written["num_microbatches"])
                self.assertEqual([" ".join(map(str, row)) for row in plan.actions], written["schedule"]["actions"])
                self.assertEqual(plan.data_parallel_size, written["data_parallel_size"])
                self.assertEqual([stage.recompute for stage in plan.stages], [stage["recompute"] for stage in written["stages"]])

    def test_a_plan_without_module_names_has_no_split(self):
        plan = mptune_plan.load_plan(os.path.join(self.folder, "plan.json"))
        self.assertEqual(plan.balance(), [3, 3])
        with self.assertRaisesRegex(PlanError, "names no modules"):
            plan.split_spec()

    def test_the_variable_takes_the_place_of_the_path(self):
        with mock.patch.dict(os.environ, MPTUNE_PLAN=self.planned("--stages", "1")):
            self.assertEqual(mptune_plan.load_plan("missing.plan.json").balance(), [6])

    def test_unknown_keys_are_ignored(self):
        path = self.changed(
            self.planned(), lambda file: (file.update(later=1), file["plan"].update(later=[]), file["plan"]["stages"][0].update(later={}))
        )
        self.assertEqual(sum(mptune_plan.load_plan(path).balance()), 6)


class BadFiles(PlanTest):
    def test_files_that_are_no_plan(self):
        path = self.planned()
        with open(path) as file:
            text = file.read()
        for name, content, word in [
            ("cut", text[: len(text) // 2], "cut short"),
            ("empty", "", "cut short"),
            ("list", "[]", "not a JSON object"),
            ("other", '{"schema": "mptune.tune/1"}', "not a plan file"),
            ("none", "{}", "schema is missing"),
            ("newer", text.replace("mptune.plan/1", "mptune.plan/2"), "another version"),
            ("nan", text.replace('"trial": -1', '"trial": NaN'), "not JSON"),
            ("deep", "[" * 100000, "not JSON"),
        ]:
            with self.subTest(name=name):
                other = os.path.join(self.folder, name)
                with open(other, "w") as file:
                    file.write(content)
                self.refused(other, word, other)
        with open(os.path.join(self.folder, "bytes"), "wb") as file:
            file.write(b"\xff\xfe\x00{}")
        self.refused(os.path.join(self.folder, "bytes"), "not JSON")
        self.refused(os.path.join(self.folder, "missing"), "No such file", "name an existing plan file")
        self.refused(self.folder, "not a regular file")
        self.refused("a\0b", "can't open")

    def test_both_readers_refuse_the_same(self):
        two = self.planned("--stages", "2", "--microbatches", "4", "--schedule", "1f1b", "--recompute", "none")
        stage = lambda file, i=0: file["plan"]["stages"][i]
        rows = lambda file: file["plan"]["schedule"]["actions"]

        def put(where, key, value):
            return lambda file: where(file).__setitem__(key, value)

        plan = lambda file: file["plan"]
        top = lambda file: file
        changes = [
            put(plan, key, value)
            for key in ("global_batch_size", "micro_batch_size", "num_microbatches", "num_stages", "data_parallel_size")
            for value in (0, -1, 3, 1 << 40, 2.0, "2", True, None, [])
        ]
        changes += [
            put(plan, "microbatch_sizes", value) for value in ([2, 2, 2, 2], [1, 3, 2, 2], [2, 2, 2], [2, 2, 2, 3], [4, 4, 0, 0], "2")
        ]
        changes += [
            put(plan, "devices", value)
            for value in ([], ["sleep:0"], ["sleep:0", "sleep:0"], ["sleep:1", "sleep:0"], ["", "x"], "x", [1, 2])
        ]
        changes += [
            put(stage, key, value)
            for key, value in [
                ("layers", [0, 2]),
                ("layers", [1, 3]),
                ("layers", [0, 0]),
                ("layers", [3, 0]),
                ("layers", [0]),
                ("layers", "03"),
                ("layers", [0, 2.5]),
                ("devices", []),
                ("devices", ["sleep:1"]),
                ("devices", ["sleep:0", "sleep:0"]),
                ("devices", ["cuda:0"]),
                ("index", 1),
                ("index", "0"),
                ("first_module", "net.block1"),
                ("modules", []),
                ("modules", None),
                ("modules", [1]),
                ("recompute", "some"),
                ("recompute", None),
                ("recompute", "all"),
                ("recompute", {"layers": [0]}),
                ("recompute", {"layers": []}),
                ("recompute", {"layers": [1, 0]}),
                ("recompute", {"layers": [5]}),
                ("recompute", {"layers": [0], "microbatches": [3]}),
                ("recompute", {"layers": [0], "microbatches": [4]}),
                ("recompute", {"layers": [0], "microbatches": "0"}),
                ("offload", True),
                ("offload", False),
                ("offload", "all"),
            ]
        ]
        changes += [
            put(rows, 0, value)
            for value in (
                "",
                "0F0 0F1 0B0 0B1",
                "0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3",
                "0F0 0B0 0F1 0B1 0F2 0B2 0F3 0B3",
                "0B0 0F0 0F1 0F2 0F3 0B1 0B2 0B3",
                "0F0 0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3",
                "1F0 0F1",
                "0F0 0F1 0F2 0F3 0I0 0W0 0B1 0B2 0B3",
                "0F0 0F1 0F2 0F3 0W0 0I0 0B1 0B2 0B3",
                "0F0 0F1 0F2 0F3 0I0 0B1 0B2 0B3",
                "0F0 0F1 0F2 0F3 0I0 0I1 0W0-1 0B2 0B3",
                "0F0 0F1 0F2 0F3 0I3 0I2 0I1 0I0 0W0-3",
                "0F0 0F1 0F2 0F3 0I0 0W0-1 0I1 0B2 0B3",
                "0F0 0F1 0F2 0F3 0B0 0I1 0W0-1 0B2 0B3",
                "0F0 0F1 0F2 0F3 0B0 0B1 0I2 0I3 0W2-4",
                "0F0-1 0F2 0F3 0B0 0B1 0B2 0B3",
                "0W1-1",
                "0W0-",
                "0F4",
                "7F0",
                "7W0-1",
                "7W0-999999999",
                "0f0",
                "-1F0",
                "0F-1",
                "F0",
                "0F",
                "0X0",
                "99999999999F0",
                5,
                None,
            )
        ]
        changes += [
            put(plan, "options", value)
            for value in (
                {},
                [],
                5,
                None,
                {"memory_format": "contiguous", "exact": True},
                {"memory_format": "contiguous", "exact": False},
                {"memory_format": "channels_first"},
                {"precision": "fp8"},
                {"memory_format": 1},
                {"replace_slow_kernels": True},
                {"replace_slow_kernels": True, "exact": True},
                {"replace_slow_kernels": 1},
                {"idle_devices_help": True, "exact": True},
                {"idle_devices_help": "yes"},
                {"exact": False},
                {"exact": 1},
                {"threads": []},
                {"threads": [1, 1]},
                {"threads": [1, 1], "exact": False},
                {"threads": [2, 1]},
                {"threads": [1]},
                {"threads": [0, 1]},
                {"threads": 1},
                {"threads": ["1", 1]},
                {"threads": [1.0, 1]},
                {"threads": None},
            )
        ]
        changes += [
            lambda file: rows(file).append(""),
            lambda file: rows(file).pop(),
            lambda file: rows(file).reverse(),
            lambda file: rows(file).__setitem__(1, "1F3 1B3 1F2 1B2 1F1 1B1 1F0 1B0"),
            lambda file: plan(file)["stages"].pop(),
            lambda file: plan(file)["stages"].reverse(),
            lambda file: plan(file).pop("schedule"),
            put(plan, "stages", {}),
            put(plan, "schedule", []),
            put(top, "plan", None),
            put(top, "plan", []),
            put(top, "schema", 1),
            put(top, "fingerprint", 1),
            put(top, "fingerprint", {"devices": [1]}),
            put(top, "fingerprint", None),
            put(top, "predicted", {}),
            put(top, "predicted", {"step_s": 1, "lower_bound_s": 1, "peak_bytes": [-1]}),
            put(top, "alternatives", {}),
            put(top, "alternatives", [{"reason": "no plan"}]),
            put(top, "alternatives", [1]),
            put(top, "alternatives", [{"reason": 1, "plan": {}}]),
        ]
        good = {"step_s": 1, "step_ci95_s": [1, 2], "step_samples": 3, "peak_bytes": [1, 2], "verdict": "FAST"}
        changes += [
            put(top, "measured", good),
            put(top, "measured", {**good, "step_ci95_s": [2, 1]}),
            put(top, "measured", {**good, "verdict": "fast"}),
            put(top, "measured", {**good, "speedup": {"over": "naive", "estimate": 1.5, "ci95": [1.4, 1.6]}}),
            put(top, "measured", {**good, "speedup": {"over": "naive"}}),
            put(top, "measured", {**good, "step_s": "1"}),
        ]
        verdicts = set()
        for number, change in enumerate(changes):
            with self.subTest(number=number):
                path = self.changed(two, change)
                done = self.mptune("simulate", "--plan", path, "--profile", "profile.sqlite")
                self.assertIn(done.returncode, (0, 2), done.stderr)
                verdicts.add(done.returncode)
                if done.returncode == 0:
                    mptune_plan.load_plan(path)
                else:
                    self.refused(path, path)
        self.assertEqual(verdicts, {0, 2})


class Exports(PlanTest):
    def named(self, modules, *options):
        """A plan whose layers are renamed: one module a layer."""

        def rename(file):
            for stage in file["plan"]["stages"]:
                stage["modules"] = modules[slice(*stage["layers"])]
                stage["first_module"] = stage["modules"][0]

        return mptune_plan.load_plan(self.changed(self.planned(*options), rename))

    TRANSFORMER = ["embedding", "blocks.0", "blocks.1", "blocks.2", "blocks.3", "head"]

    def test_torchtitan(self):
        plan = self.named(self.TRANSFORMER, "--stages", "2", "--cuts", "2", "--split-size", "2", "--schedule", "1f1b", "--recompute", "all")
        toml = plan.to_torchtitan().settings
        for line in [
            "pipeline_parallel_degree = 2",
            "pipeline_parallel_microbatch_size = 2",
            'pipeline_parallel_schedule = "1F1B"',
            "local_batch_size = 8",
            'module_fqns_per_model_part = [["embedding", "blocks.0"], ["blocks.1", "blocks.2", "blocks.3", "head"]]',
            'mode = "full"',
        ]:
            self.assertIn(line, toml.splitlines())
        if sys.version_info >= (3, 11):
            import tomllib

            self.assertEqual(tomllib.loads(toml)["parallelism"]["data_parallel_replicate_degree"], 1)
        runtime = self.named(self.TRANSFORMER, "--stages", "2", "--schedule", "zb1p", "--split-size", "2").to_torchtitan().settings
        self.assertIn('pipeline_parallel_schedule = "PipelineScheduleMulti"', runtime.splitlines())
        self.assertIn('pipeline_parallel_schedule_csv = "pipeline.csv"', runtime.splitlines())

    def test_the_precision_is_read_and_said(self):
        path = self.planned("--stages", "2", "--schedule", "1f1b", "--split-size", "2")

        def change(file):
            file["plan"]["options"] = {"precision": "bf16", "exact": True}
            for stage in file["plan"]["stages"]:
                stage["modules"] = self.TRANSFORMER[slice(*stage["layers"])]
                stage["first_module"] = stage["modules"][0]

        plan = mptune_plan.load_plan(self.changed(path, change))
        self.assertEqual((plan.options.precision, plan.options.exact), ("bf16", True))
        for exported in (plan.to_torchtitan(), plan.to_megatron_args()):
            self.assertIn("precision bf16: run forward and loss under torch.autocast with torch.bfloat16", exported.lossy)

    def test_both_say_that_they_cannot_hold_the_memory_format(self):
        path = self.planned("--stages", "2", "--schedule", "1f1b", "--split-size", "2")

        def change(file):
            file["plan"]["options"] = {"memory_format": "channels_last", "idle_devices_help": True, "exact": False}
            for stage in file["plan"]["stages"]:
                stage["modules"] = self.TRANSFORMER[slice(*stage["layers"])]
                stage["first_module"] = stage["modules"][0]

        plan = mptune_plan.load_plan(self.changed(path, change))
        self.assertEqual((plan.options.memory_format, plan.options.exact), ("channels_last", False))
        for exported in (plan.to_torchtitan(), plan.to_megatron_args()):
            self.assertIn("memory_format channels_last: call model.to(memory_format=torch.channels_last)", exported.lossy)
            self.assertIn("idle devices that compute weight gradients of other stages", exported.lossy)
        plain = mptune_plan.load_plan(path)
        self.assertEqual((plain.options, plain.options.exact), (mptune_plan.Options(), True))

    def on_cores(self, threads=None, devices=("cpu:0-3", "cpu:4"), **options):
        """A plan for CPU devices, of 4 cores and of 1."""
        path = self.planned("--stages", "2", "--schedule", "1f1b", "--split-size", "2")

        def change(file):
            plan = file["plan"]
            plan["devices"] = list(devices)
            for stage, device in zip(plan["stages"], devices):
                stage["devices"] = [device]
            plan["options"] = options if threads is None else {"threads": threads, **options}

        return self.changed(path, change)

    def test_threads(self):
        plan = mptune_plan.load_plan(self.on_cores([2, 1], exact=False))
        self.assertEqual((plan.options.threads, plan.threads, plan.options.exact), ([2, 1], [2, 1], False))
        self.assertIn("threads of the devices: call torch.set_num_threads() with 2, 1", plan.options.left_out())
        for threads in (None, [], [4, 1]):
            plan = mptune_plan.load_plan(self.on_cores(threads, exact=True))
            self.assertEqual((plan.options, plan.threads, plan.options.exact), (mptune_plan.Options(), [4, 1], True))
        for device in ("cpu:3-1", "cpu:5000", "cpu:0-5000", "cpu:", "cpu:1-", "cuda:0", "sleep:3", "cpu:0/auto"):
            self.assertEqual(mptune_plan._default_threads(device), 1, device)

    def test_threads_are_checked_as_mptune_does(self):
        for threads in ([5, 1], [4, 2], [0, 1], [-1, 1], [4], [4, 1, 1], [2, 1.5], "2", [None, 1], [True, 1]):
            path = self.on_cores(threads)
            with self.subTest(threads=threads):
                self.assertEqual(self.mptune("report", path).returncode, 2)
                self.refused(path, path)
        for exact, threads in ((True, [2, 1]), (False, [4, 1])):
            path = self.on_cores(threads, exact=exact)
            self.assertEqual(self.mptune("report", path).returncode, 2)
            self.refused(path, path)

    def test_megatron(self):
        plan = self.named(
            self.TRANSFORMER, "--stages", "2", "--cuts", "4", "--split-size", "2", "--schedule", "gpipe", "--recompute", "none"
        )
        arguments, lossy = plan.to_megatron_args()
        self.assertEqual(
            arguments,
            [
                "--pipeline-model-parallel-size",
                "2",
                "--pipeline-model-parallel-layout",
                "Et*3|tL",
                "--micro-batch-size",
                "2",
                "--global-batch-size",
                "8",
            ],
        )
        self.assertIn("schedule gpipe: Megatron-LM runs 1f1b", lossy)
        looped = self.named(
            self.TRANSFORMER, "--schedule", "interleaved", "--virtual", "2", "--cuts", "1,3,5", "--split-size", "2", "--recompute", "1"
        )
        arguments, lossy = looped.to_megatron_args()
        self.assertEqual(arguments[:4], ["--pipeline-model-parallel-size", "2", "--pipeline-model-parallel-layout", "E|t*2|t*2|L"])
        self.assertIn("--recompute-granularity", arguments)
        self.assertTrue(any("recomputation" in words for words in lossy))
        alone = self.named(self.TRANSFORMER, "--replicas", "2", "--split-size", "2", "--recompute", "none").to_megatron_args().settings
        self.assertEqual(alone[:4], ["--pipeline-model-parallel-size", "1", "--pipeline-model-parallel-layout", "Et*4L"])

    def test_what_has_no_form(self):
        options = ["--stages", "2", "--cuts", "4", "--schedule", "1f1b"]
        with self.assertRaisesRegex(PlanError, "not one row of transformer layers"):
            self.named(["stem", "layer1.0", "layer1.1", "layer2.0", "layer2.1", "head"], *options, "--split-size", "2").to_megatron_args()
        uneven = self.named(self.TRANSFORMER, *options, "--split-size", "3")
        for export in (uneven.to_megatron_args, uneven.to_torchtitan):
            with self.assertRaisesRegex(PlanError, "micro-batches of different sizes"):
                export()
        with self.assertRaisesRegex(PlanError, "names no modules"):
            mptune_plan.load_plan(os.path.join(self.folder, "plan.json")).to_torchtitan()

    def test_modules_are_listed_once_and_in_one_stage(self):
        options = ["--stages", "2", "--cuts", "3", "--schedule", "1f1b", "--split-size", "2"]
        plan = self.named(["net", "net.a", "net.a", "net", "net.b", "head"], *options)
        exported = plan.to_torchtitan()
        self.assertIn('module_fqns_per_model_part = [["net.a"], ["net.b", "head"]]', exported.settings.splitlines())
        self.assertIn("modules that several stages have parts of, net: their parts are named alone", exported.lossy)
        self.assertEqual(plan.to_accelerate().settings, {"net.a": "cpu", "net.b": "cpu", "head": "cpu"})
        inside = self.named(["stem", "net.a", "net.a", "net.a", "net.b", "head"], *options)
        for export in (inside.to_torchtitan, inside.to_accelerate):
            with self.assertRaisesRegex(PlanError, "stages 0 and 1 both have layers of module 'net.a'.*; plan with --cut-at 'net.\\*'"):
                export()
        with self.assertRaisesRegex(PlanError, "stage 1 begins inside 'net.a'"):
            inside.split_spec()


def plan_of(schedule, ranks, microbatches, replicas=1):
    """A plan of so many micro-batches of a pipeline, without rows: exporters of settings read none. As many stages on each device as usual."""
    names = [[f"cuda:{rank * replicas + i}" for i in range(replicas)] for rank in range(ranks)]
    homes = list(range(ranks))
    if schedule in ("interleaved", "looped-bfs"):
        homes += range(ranks)
    elif schedule in ("zbv", "v-half", "v-min", "dualpipe-v"):
        homes += reversed(range(ranks))
    stages = [mptune_plan.Stage(i, names[home], i, i + 1, [f"blocks.{i}"], "none") for i, home in enumerate(homes)]
    return mptune_plan.Plan("made.plan.json", sum(names, []), [2] * microbatches * replicas, stages, schedule, [])


class TorchtitanSchedules(unittest.TestCase):
    """What torchtitan gets is what torch 2.11 makes; every other schedule is a file of rows, or refused where replicas have no such file."""

    # When torch makes the class, from the checks of its __init__ in torch/distributed/pipelining/schedules.py. tests/python/torchtitan_config.py
    # asks torch itself.
    TORCH = {
        "gpipe": ("GPipe", lambda m, ranks, stages: True),
        "1f1b": ("1F1B", lambda m, ranks, stages: m >= stages),
        "interleaved": ("Interleaved1F1B", lambda m, ranks, stages: m % max(1, m // ranks) == 0),
        "looped-bfs": ("LoopedBFS", lambda m, ranks, stages: True),
        "zbv": ("ZBVZeroBubble", lambda m, ranks, stages: True),
        "dualpipe-v": ("DualPipeV", lambda m, ranks, stages: m >= stages),
    }

    def settings_of(self, plan):
        """Values of the lines `key = "value"`."""
        lines = [line.split(" = ", 1) for line in plan.to_torchtitan().settings.splitlines() if " = " in line]
        return {key: json.loads(value) for key, value in lines}

    def test_every_schedule(self):
        seen = {"named": 0, "rows": 0, "refused": 0}
        for schedule, ranks, m, replicas in itertools.product(SCHEDULES, range(2, 9), range(1, 25), (1, 2)):
            plan = plan_of(schedule, ranks, m, replicas)
            name, makes = self.TORCH.get(schedule, ("", lambda m, ranks, stages: False))
            made = makes(m, ranks, len(plan.stages))
            with self.subTest(schedule=schedule, ranks=ranks, microbatches=m, replicas=replicas):
                if not made and replicas > 1:
                    seen["refused"] += 1
                    with self.assertRaisesRegex(PlanError, "torch.*; plan with --schedule"):
                        plan.to_torchtitan()
                    continue
                settings, said = self.settings_of(plan), " ".join(plan.to_torchtitan().lossy)
                self.assertEqual(settings["local_batch_size"] // settings["pipeline_parallel_microbatch_size"], m)
                self.assertEqual(settings["pipeline_parallel_degree"], ranks)
                seen["named" if made else "rows"] += 1
                if made:
                    self.assertEqual(settings["pipeline_parallel_schedule"], name)
                    self.assertNotIn("pipeline_parallel_schedule_csv", settings)
                    self.assertEqual("order of the actions" in said, schedule in ("looped-bfs", "zbv"))
                else:
                    in_a_v = schedule in ("zbv", "v-half", "v-min", "dualpipe-v")
                    self.assertEqual(settings["pipeline_parallel_schedule"], "ZBVZeroBubble" if in_a_v else "PipelineScheduleMulti")
                    self.assertEqual(settings["pipeline_parallel_schedule_csv"], "pipeline.csv")
                    self.assertIn("write schedule_csv() to pipeline.csv", said)
        self.assertGreater(min(seen.values()), 100, seen)


class AccelerateDevices(unittest.TestCase):
    def exported(self, *devices):
        plan = plan_of("1f1b", len(devices), 4)
        stages = [mptune_plan.Stage(i, [name], i, i + 1, [f"blocks.{i}"], "none") for i, name in enumerate(devices)]
        return mptune_plan.Plan("made.plan.json", list(devices), plan.microbatch_sizes, stages, "1f1b", []).to_accelerate()

    def test_devices_that_exist(self):
        for devices, expected in ((["cuda:1", "cuda:0"], ["cuda:1", "cuda:0"]), (["cuda:0/1of2", "cuda:0/2of2"], ["cuda:0"] * 2),
                                  (["cpu:0-3", "cpu:4"], ["cpu"] * 2), (["0@cuda:0", "0@cuda:1"], ["cuda:0", "cuda:1"])):
            exported = self.exported(*devices)
            self.assertEqual(list(exported.settings.values()), expected)
            self.assertEqual(len(exported.lossy), 1, exported.lossy)

    def test_devices_on_paper_are_said(self):
        for devices in (["device:0", "device:2"], ["0@device:0", "0@device:2"], ["0@sleep:0", "0@sleep:2"]):
            exported = self.exported(*devices)
            self.assertEqual(list(exported.settings.values()), ["cuda:0", "cuda:2"])
            self.assertEqual(exported.lossy[1], f"devices that exist on paper: {devices[0]} is cuda:0, {devices[1]} is cuda:2")
        exported = self.exported("sleep:0", "sleep:1")
        self.assertEqual(set(exported.settings.values()), {"cpu"})
        self.assertEqual(exported.lossy[1], "sleeping devices: modules of sleep:0, sleep:1 are on the CPU")

    def test_several_hosts_are_refused(self):
        for devices in (["0@cuda:0", "1@cuda:0"], ["0@device:0", "3@device:0"], ["0@cpu:0", "1@cpu:0"]):
            with self.assertRaisesRegex(PlanError, "devices of 2 hosts have no form in accelerate.*; plan for the devices of one host"):
                self.exported(*devices)


if __name__ == "__main__":
    unittest.main()
