"""Models from files: files that are refused with one line, and all commands on a plug-in."""
import json
import os
import shutil
import unittest
import zipfile

from harness import CommandTest
from test_small import CORES, DEVICES

PLUGINS = os.environ["MPTUNE_PLUGINS"]
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden/exported")
PLUGIN = os.path.join(PLUGINS, "libresnet_plugin.so")


@unittest.skipIf(len(CORES) < 2, "needs two cores")
class Files(CommandTest):
    def environment(self, **more):
        return super().environment(**{"MPTUNE_WORKER": os.environ["MPTUNE_REAL_WORKER"], **more})

    def write(self, name, content=b""):
        with open(os.path.join(self.folder, name), "wb") as file:
            file.write(content)
        return name

    def archive(self, name, *records):
        with zipfile.ZipFile(os.path.join(self.folder, name), "w") as file:
            for record in ("version", *records):
                file.writestr(f"{name.split('.')[0]}/{record}", "3\n")
        return name

    def refused(self, words, model, *options, **environment):
        self.fails(2, words, "profile", model, "--devices", DEVICES, *options, **environment)

    def test_what_is_no_model(self):
        self.refused(["no such file", "absent.so"], "absent.so")
        self.refused(["no such file"], "./absent")
        self.refused(["folder"], "./")
        self.refused(["empty"], self.write("empty.pt"))
        self.refused(["neither"], self.write("words.so", b"no model"))
        self.refused(["neither"], self.write("existing", b"no model"))
        self.refused(["unknown model", "net.so", "net.pt"], "resnet19")

    def test_plugins(self):
        self.refused(["not a plug-in"], os.path.join(PLUGINS, "libno_plugin.so"))
        self.refused(["nothing defines model_of_a_library_that_is_not_linked()", "target_link_libraries"], os.path.join(PLUGINS, "libundefined_plugin.so"))
        with open(PLUGIN, "rb") as file:
            whole = file.read()
        self.refused(["cut short"], self.write("short.so", whole[: len(whole) // 2]))
        header = whole.index(b"mptune plug-in\0\0")
        self.refused(["mptune 9.9"], self.write("old.so", whole[: header + 16] + b"9.9\0" + whole[header + 20 :]))
        torch = header + 40
        self.refused(["LibTorch 1.13"], self.write("torch.so", whole[:torch] + b"1.13\0" + whole[torch + 5 :]))
        self.refused(["a program"], os.path.realpath(os.environ["MPTUNE_PROGRAM"]))
        for mode, words in {"std": "no weights today", "c10": "sizes do not match", "other": "other than a std::exception", "mptune": "vocabulary"}.items():
            self.refused([words], PLUGIN, MPTUNE_TEST_PLUGIN=mode)
        self.refused(["input is not known", "--input", "--data"], PLUGIN, MPTUNE_TEST_PLUGIN="no sample")
        self.refused(["integers", "--data"], PLUGIN, "--input", "16:int64", MPTUNE_TEST_PLUGIN="integers")
        self.refused(["no options"], PLUGIN + ":container=a")

    def test_archives(self):
        self.refused(["exported program", "damaged", "torch.export.save"], self.archive("net.pt2", "archive_format", "models/model.json"))
        self.refused(["checkpoint"], self.archive("state.pt", "data.pkl", "version"))
        self.refused(["no TorchScript"], self.archive("odd.pt", "picture"))
        self.refused(["damaged"], self.write("short.pt", b"PK\x03\x04 and no more"))
        self.refused(["not an option"], self.archive("net.pt", "data.pkl") + ":layers=3")

    def test_a_plugin_that_fails_is_named_with_its_layer(self):
        plugin = os.path.join(PLUGINS, "libhostile_plugin.so")
        ends = {
            "throw@forward:5": ["no weights", "in the forward of layer 'two'"],
            "abort@forward:5": ["signal 6", "in the forward of layer 'two'"],
            "exit@backward:1": ["exited with code 0", "in the backward of layer 'three'"],
            "segv@backward:2": ["signal 11", "in the backward of layer 'two'"],
        }
        for fault, words in ends.items():
            self.refused([*words, plugin], plugin, MPTUNE_HOSTILE_PLUGIN=fault)

    def test_the_loop_on_a_plugin(self):
        shutil.copy(PLUGIN, os.path.join(self.folder, "net.so"))
        common = ["--devices", DEVICES, "--batch", "4"]
        self.result("profile", "profile", "./net.so", *common, "--microbatches", "2", "--steps", "2")
        self.result("plan", "plan", "net.sqlite", "--stages", "2", "-o", "net.plan.json")
        self.result("profile", "profile", "./net.so", "--plan", "net.plan.json", "--measured", "net.sqlite", "--steps", "2", "-o", "again.sqlite")
        trained = self.result("run", "run", "./net.so", "--plan", "net.plan.json", "--strict", "--steps", "3", "--save", "state.pt")
        self.assertLess(trained["loss"][-1], trained["loss"][0])
        # The built-in model has the same layers by the same names.
        self.result("run", "run", "resnet18", "--input", "3x32x32", "--plan", "net.plan.json", "--strict", "--steps", "1", "--load", "state.pt")
        models = self.result("models", "models", "./net.so")["models"]
        self.assertEqual([models[0]["name"], models[0]["layers"][1]["name"]], ["net", "layer1.0"])

    def test_a_plugin_with_hidden_state_is_not_tuned(self):
        shutil.copy(PLUGIN, os.path.join(self.folder, "net.so"))
        done = self.mptune("--json", "check", "./net.so", MPTUNE_TEST_PLUGIN="counting")
        self.assertEqual(done.returncode, 4, done.stderr)
        difference = json.loads(done.stdout)["first_difference"]
        self.assertEqual((difference["part"], difference["what"], difference["layer_name"]), ("again", "output", "counting"))
        self.fails(2, ["the output of layer counting differs", f"`mptune check {os.path.join(self.folder, 'net.so')} "], "tune", "./net.so", "--devices", DEVICES, "--budget", "20s",
                   "--force", MPTUNE_TEST_PLUGIN="counting")

    def test_models_that_agree(self):
        plan = self.result("check", "check", "resnet18", "--input", "3x32x32", "--devices", DEVICES, "--batch", "8", "--microbatches", "4",
                           "--recompute", "all")
        self.assertTrue(plan["agrees"], plan)
        self.assertEqual([part["name"] for part in plan["parts"]], ["again", "pieces", "microbatches", "plan"])
        self.assertEqual(plan["parts"][3]["bit_equal"], plan["parts"][3]["tensors"])
        program = self.result("check", "check", os.path.join(GOLDEN, "language.pt2"))
        self.assertTrue(program["agrees"], program)
        self.assertEqual([part["agrees"] for part in program["parts"]], [True, True, True, True])
