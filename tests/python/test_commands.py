"""The functions of the package against the options of the program."""
import contextlib
import fcntl
import inspect
import json
import os
import pathlib
import re
import sqlite3
import sys
import time
import types
import unittest
import zipfile
from unittest import mock

from support import PROGRAM, PythonTest, mptune

from mptune import _commands, _error, _files, _modules  # noqa: F401  (before the tests change sys.modules)

COMMANDS = {name: name for name in ("profile", "plan", "tune", "run", "check", "simulate", "compare", "models", "doctor")} | {
    "import": "import_trace"}
# Options that are no parameters: those of the output, which is JSON; --quiet is progress=False, and --with comes from a list for `b`.
ELSEWHERE = {"help", "version", "json", "color", "quiet", "with"}
# Options for which functions of their own stand: check_order, estimate, simulate_recorded.
ELSEWHERE_OF = {"check": {"runtime"}, "profile": {"estimate"}, "simulate": {"from", "stages", "virtual", "cuts", "microbatches", "schedule"}}
# Parameters that are no options: positional arguments, and what a module needs.
ARGUMENTS = {"model", "inputs", "progress", "command", "a", "b", "files"}
ECHO = """json.dump(sys.argv[1:], open('words', 'w'))
print(json.dumps({'schema': 'mptune.error/1', 'error': {'what': 'a', 'where': 'b', 'remedy': 'c'}, 'exit_code': 2}))"""


class Net:
    """Stands for an nn.Module."""

    def state_dict(self):
        return {"weight": Samples(3, 4)}


class Samples:
    """Stands for a tensor."""

    def __init__(self, *shape):
        self.shape = shape


class ExportError(RuntimeError):
    """Stands for that of mptune_export."""

    def __init__(self, what, where, remedy):
        self.what, self.where, self.remedy = what, where, remedy


class Options(PythonTest):
    def options(self, command):
        """Names of the program's options -> whether they have a value."""
        found = re.findall(r"^  (?:-\w,)?--([a-z-]+)( [A-Z]\S*)?(?:  |$)", self.succeed(command, "--help"), re.MULTILINE)
        return {name.replace("-", "_"): bool(value) for name, value in found if name not in ELSEWHERE}

    def test_every_option_is_a_parameter_and_every_parameter_an_option(self):
        for command, name in COMMANDS.items():
            options = self.options(command)
            self.assertIn("config", options, "the help is understood")
            parameters = inspect.signature(getattr(mptune, name)).parameters
            own = {key for key in parameters if key not in ARGUMENTS and (command, key) not in (("plan", "profile"), ("models", "loss"))}
            own |= ELSEWHERE_OF.get(command, set())
            self.assertEqual(own, set(options), command)
            for key in own:
                if (command, key) not in (("simulate", "plan"), ("simulate", "profile")) and key not in ELSEWHERE_OF.get(command, ()):  # which it needs
                    self.assertIs(parameters[key].default, None if options[key] else False, f"{command} {key}")

    def test_flags_are_known(self):
        self.assertEqual(_commands.FLAGS, {key for command in COMMANDS for key, valued in self.options(command).items() if not valued})

    def test_every_parameter_is_described(self):
        for name in COMMANDS.values():
            function = getattr(mptune, name)
            described = re.findall(r"^(\w+(?:, \w+)*): \S", inspect.getdoc(function), re.MULTILINE)
            parameters = inspect.signature(function).parameters
            self.assertEqual(sorted(one for names in described for one in names.split(", ")), sorted(parameters), name)


class Words(PythonTest):
    """The words that the program gets."""

    def words(self, function, *arguments, **options):
        self.fake_program(ECHO)
        self.refused(["a: b; c"], function, *arguments, **options)
        return json.loads(pathlib.Path("words").read_text())

    def test_every_option_arrives(self):
        given = {"tune": ["toy"], "run": ["toy"], "check": ["toy"], "profile": ["toy"], "models": ["toy"], "plan": ["p.sqlite"],
                 "simulate": ["plan.json", "p.sqlite"], "compare": ["a.sqlite", "b.sqlite"], "import_trace": ["a", "b"], "doctor": []}
        for command, name in COMMANDS.items():
            function, arguments = getattr(mptune, name), given[name]
            options = {key: True if parameter.default is False else "X" for key, parameter in inspect.signature(function).parameters.items()
                       if parameter.kind is parameter.KEYWORD_ONLY and key not in ARGUMENTS and (name, key) != ("models", "loss")}
            words = self.words(function, *arguments, **options)
            expected = ["--" + key.replace("_", "-") + ("" if value is True else "=X") for key, value in options.items()]
            if name == "simulate":
                expected, arguments = ["--plan=plan.json", "--profile=p.sqlite", *expected], []
            self.assertEqual(words, ["--json", command, *expected, *arguments])
            self.assertEqual(self.words(function, *given[name], progress=False)[:3], ["--json", "--quiet", command])

    def test_an_order_is_checked_without_a_model(self):
        words = self.words(mptune.check_order, pathlib.Path("order.csv"), "torch", progress=False)
        self.assertEqual(sorted(words), ["--json", "--quiet", "--runtime=torch", "--schedule=order.csv", "check"])

    def test_an_estimate_is_a_profile_for_other_hardware(self):
        words = self.words(mptune.estimate, "mlp", "h100_sxm", batch=8, progress=False)
        self.assertEqual(sorted(words), ["--batch=8", "--estimate=h100_sxm", "--json", "--quiet", "mlp", "profile"])

    def test_a_recorded_pipeline_is_simulated_without_a_plan(self):
        words = self.words(mptune.simulate_recorded, "t.csv", schedule="interleaved", virtual=2, cuts=[1, 3], progress=False)
        self.assertEqual(sorted(words), ["--cuts=1,3", "--from=t.csv", "--json", "--quiet", "--schedule=interleaved", "--virtual=2", "simulate"])

    def test_values_become_the_text_that_the_program_reads(self):
        path = pathlib.Path("net.pt2")
        words = self.words(mptune.tune, path, input=(3, 64, 64), devices=["cpu:0", "cpu:1"], cuts=[4, "fc"], recompute=[0, 2], replicas=2,
                           memory={"cpu:0": "1GiB", "cpu:1": 1000}, link=(12e9, 1e-5), budget=90.5, lr=1e-5, batch=0, exact=False,
                           resume=True)
        self.assertEqual(set(words[2:]), {
            "--input=3x64x64", "--devices=cpu:0,cpu:1", "--cuts=4,fc", "--recompute=0,2", "--replicas=2", "--batch=0",
            "--memory=cpu:0=1GiB,cpu:1=1000", "--link=12000000000.0B/s,1e-05s", "--budget=90.5", "--lr=1e-05", "--resume", "net.pt2"})

    def test_numbers_are_seconds_and_bytes_for_the_program_too(self):
        planned = mptune.plan("profile.sqlite", link=(1.2e10, 1e-5), memory={"sleep:0": 10 ** 6, "sleep:1": 10 ** 6}, time=1e1, stages=2,
                              microbatches=4, cuts=[2])
        self.assertEqual(planned.plan.stages[1].layers, (2, 6))
        self.assertEqual(self.refused(["memory"], mptune.plan, "profile.sqlite", memory=1000, output="p.json").exit_code, 3)

    def test_a_name_like_an_option_is_a_file(self):
        self.assertEqual(self.words(mptune.plan, "--help")[2:], ["./--help"])
        self.assertEqual(self.words(mptune.plan, "p.sqlite", output="--force")[2:], ["--output=--force", "p.sqlite"])

    def test_recordings_of_two_sides(self):
        self.assertEqual(self.words(mptune.compare, ["a", pathlib.Path("b")], ["c", "-d"])[2:], ["a", "b", "--with=c", "--with=-d"])
        self.assertEqual(self.words(mptune.compare, ["a"], ["c"])[2:], ["a", "c"])
        self.assertEqual(self.words(mptune.compare, "a", ["c", "d"], threshold=3)[2:], ["--threshold=3", "a", "--with=c", "--with=d"])

    def test_a_command_in_place_of_a_model(self):
        words = self.words(mptune.profile, command=["python", "train.py", "-o"], output="t.sqlite")
        self.assertEqual(words[2:], ["--output=t.sqlite", "--", "python", "train.py", "-o"])
        for options in ({"model": "toy"}, {"inputs": (1,)}, {"loss": print}):
            self.refused(["command"], mptune.profile, command=["true"], **options)


class Modules(PythonTest):
    """An nn.Module is exported; the real export is tested with torch, elsewhere."""

    def setUp(self):
        super().setUp()
        self.exported = []
        fake = types.SimpleNamespace(ExportError=ExportError, export=self.export)
        self.enterContext(mock.patch.dict(sys.modules, {"mptune.mptune_export": fake}))
        self.enterContext(mock.patch.object(mptune, "mptune_export", fake, create=True))
        self.fake_program(ECHO + "\njson.dump([os.path.exists(sys.argv[-1]), sys.argv[-1]], open('file', 'w'))")

    if not hasattr(unittest.TestCase, "enterContext"):  # before Python 3.11
        def enterContext(self, context):
            self.addCleanup(context.__exit__, None, None, None)
            return context.__enter__()

    def export(self, model, inputs, path, loss=None, example_kwargs=None):
        if inputs == "bad":
            raise ExportError("the model has no inputs", "Net", "give one")
        self.exported.append((type(model), inputs, loss))
        pathlib.Path(path).write_text("program")

    def test_a_module_is_a_file_until_the_call_ends(self):
        for function in (mptune.profile, mptune.tune, mptune.run, mptune.check, mptune.models):
            self.refused(["a: b; c"], function, Net(), inputs=(1, 2), loss=max)
            there, path = json.loads(pathlib.Path("file").read_text())
            self.assertTrue(there)
            self.assertEqual(pathlib.Path(path).name, "Net.pt2", "the name of what is written")
            self.assertFalse(pathlib.Path(path).parent.exists(), "nothing is left where nothing was begun")
            self.assertEqual(self.exported.pop(), (Net, (1, 2), max))
            self.assertNotIn("--loss", pathlib.Path("words").read_text())

    def test_the_batch_is_that_of_the_inputs(self):
        nested = ({"words": [5, Samples(), Samples(64, 3)]}, Samples(32))
        for function in (mptune.profile, mptune.tune, mptune.run, mptune.check):
            for options, expected in (({}, ["--batch=64"]), ({"batch": 16}, ["--batch=16"]),
                                      ({"plan": "p.json"}, ["--batch=64"] if function is mptune.tune else [])):
                self.refused(["a: b; c"], function, Net(), inputs=nested, **options)
                words = json.loads(pathlib.Path("words").read_text())
                self.assertEqual([word for word in words if word.startswith("--batch")], expected, function)
        with mock.patch.dict(os.environ, MPTUNE_PLAN="p.json"):
            self.refused(["a: b; c"], mptune.run, Net(), inputs=nested)
            self.assertNotIn("--batch", pathlib.Path("words").read_text())

    def test_the_export_is_announced(self):
        for function in (mptune.tune, mptune.check):
            self.said.truncate(0)
            self.said.seek(0)
            self.refused(["a: b; c"], function, Net(), inputs=(1,))
            self.assertEqual(self.said.getvalue(), "mptune: exporting Net\n")
            self.refused(["a: b; c"], function, Net(), inputs=(1,), progress=False)
            self.assertEqual(self.said.getvalue(), "mptune: exporting Net\n")

    def test_a_long_export_is_announced_again(self):
        with mock.patch.object(_modules, "_PERIOD_S", 0.01), mock.patch.object(_files, "export", lambda *_, **__: time.sleep(0.5)):
            self.refused(["a: b; c"], mptune.check, Net(), inputs=(1,))
        self.assertRegex(self.said.getvalue(), r"^mptune: exporting Net\n(mptune: exporting Net, \d+ s\n)+$")

    def test_the_budget_begins_before_the_export(self):
        self.fake_program(ECHO.replace("sys.argv[1:]", "os.environ.get('MPTUNE_BEGUN')"))
        before = time.monotonic()
        self.refused(["a: b; c"], mptune.tune, Net(), inputs=(1,))
        self.assertTrue(before <= float(json.loads(pathlib.Path("words").read_text())) <= time.monotonic())
        self.refused(["a: b; c"], mptune.tune, "toy")
        self.assertIsNone(json.loads(pathlib.Path("words").read_text()))

    def study(self, folder="Net.study", state=None):
        """A study that has begun, with its program."""
        path = pathlib.Path(folder)
        path.mkdir()
        (path / "study.sqlite").write_text("database")
        with zipfile.ZipFile(path / "Net.pt2", "w") as archive:
            config = {name: {"tensor_meta": {"sizes": [{"as_int": size} for size in sizes]}} for name, sizes in (state or {}).items()}
            archive.writestr("Net/data/weights/model_weights_config.json", json.dumps({"config": config}))
        return path

    def test_a_study_keeps_the_program(self):
        self.fake_program("open('Net.study/study.sqlite', 'w').write('database')\n" + ECHO)
        self.refused(["a: b; c"], mptune.tune, Net(), inputs=(1, 2), force=True)
        self.assertEqual(pathlib.Path("Net.study/Net.pt2").read_text(), "program")
        self.assertEqual(json.loads(pathlib.Path("words").read_text())[-1], "Net.study/Net.pt2")
        self.refused(["the study exists: Net.study", "resume=True", "force=True", "output="], mptune.tune, Net(), inputs=(1, 2))
        self.refused(["a: b; c"], mptune.tune, Net(), inputs=(3,), force=True)
        self.assertEqual(len(self.exported), 2)
        with open("Net.study/study.lock", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.refused(["another mptune is using this study"], mptune.tune, Net(), inputs=(1,), force=True)
        self.assertEqual(len(self.exported), 2)

    def test_a_study_in_which_nothing_was_measured_is_replaced(self):
        path = self.study()
        os.remove(path / "study.sqlite")
        with contextlib.closing(sqlite3.connect(path / "study.sqlite")) as database:
            database.executescript("CREATE TABLE value (name TEXT PRIMARY KEY, value TEXT); CREATE TABLE trial (outcome TEXT)")
        self.refused(["a: b; c"], mptune.tune, Net(), inputs=(1, 2))
        (path / "traces").mkdir()
        (path / "traces" / "profile.sqlite").write_text("profile")
        self.refused(["the study exists"], mptune.tune, Net(), inputs=(1, 2))
        with contextlib.closing(sqlite3.connect(path / "study.sqlite")) as database, database:
            database.execute("INSERT INTO value VALUES ('failed', 'yes')")
        self.refused(["a: b; c"], mptune.tune, Net(), inputs=(1, 2))
        with contextlib.closing(sqlite3.connect(path / "study.sqlite")) as database, database:
            database.execute("INSERT INTO trial VALUES ('measured')")
        self.refused(["the study exists"], mptune.tune, Net(), inputs=(1, 2))
        self.assertEqual(len(self.exported), 2)

    def test_a_study_of_a_module_goes_on(self):
        self.study(state={"weight": [3, 4]})
        self.refused(["a: b; c"], mptune.tune, Net(), inputs=(Samples(64),), resume=True, budget=5)
        self.assertEqual(json.loads(pathlib.Path("words").read_text()), ["--json", "tune", "--budget=5", "--resume", "Net.study"])
        self.study("other.study", state={"weight": [3, 5]})
        self.refused(["another model", "'weight'"], mptune.tune, Net(), inputs=(1,), resume=True, output="other.study")
        self.assertEqual(self.exported, [])
        self.refused(["a: b; c"], mptune.tune, Net(), inputs=(1,), resume=True, output="none.study")
        self.assertEqual(json.loads(pathlib.Path("words").read_text())[-3:], ["--resume", "--output=none.study", "none.study/Net.pt2"])

    def test_a_folder_of_others_is_left_alone(self):
        pathlib.Path("mine").mkdir()
        pathlib.Path("mine/net.pt2").write_text("mine")
        self.refused(["is not a study"], mptune.tune, Net(), inputs=(1,), output="mine", force=True)
        self.refused(["is a file"], mptune.tune, Net(), inputs=(1,), output="mine/net.pt2")
        self.refused(["can't be made"], mptune.tune, Net(), inputs=(1,), output="mine/net.pt2/x.study")
        self.assertEqual(([one.name for one in pathlib.Path("mine").iterdir()], self.exported), (["net.pt2"], []))

    def test_a_profile_has_the_program_beside_it(self):
        os.environ["MPTUNE_PROGRAM"] = PROGRAM
        with mock.patch.object(_commands.ProfileResult, "from_json"), mock.patch.object(_commands, "run_program"):
            mptune.profile(Net(), inputs=(1,), output=pathlib.Path("traces.d", "net.sqlite"))
        self.assertEqual(pathlib.Path("traces.d/net.profile/Net.pt2").read_text(), "program")

    def test_a_loss_of_the_program_goes_with_a_module_too(self):
        self.refused(["a: b; c"], mptune.tune, Net(), inputs=(1,), loss="mse")
        self.assertEqual(self.exported, [(Net, (1,), None)])
        self.assertIn("--loss=mse", pathlib.Path("words").read_text())

    def test_a_failed_export_is_an_error_and_leaves_nothing(self):
        self.refused(["the model has no inputs: Net; give one"], mptune.tune, Net(), inputs="bad")
        self.refused(["the model has no inputs"], mptune.export, Net(), "bad", "net.pt2")
        self.assertEqual([name.name for name in pathlib.Path(self.folder).iterdir() if name.name.startswith("mptune-")], [])

    def test_a_module_needs_inputs_and_a_file_has_none(self):
        self.refused(["inputs"], mptune.tune, Net())
        self.refused(["inputs"], mptune.models, 5)
        self.refused(["nn.Module"], mptune.tune, "toy", inputs=(1,))
        self.refused(["nn.Module"], mptune.check, "toy", loss=max)


class Plans(PythonTest):
    def test_a_plan_is_read(self):
        self.assertEqual(mptune.load_plan("plan.json").n_microbatches, 4)

    def test_a_bad_plan_is_an_error(self):
        text = pathlib.Path("plan.json").read_text()
        pathlib.Path("short.json").write_text(text[:200])
        pathlib.Path("newer.json").write_text(text.replace("mptune.plan/1", "mptune.plan/2"))
        for name, word in (("nothing.json", "nothing.json"), ("short.json", "cut short"), ("newer.json", "version"),
                           ("trace.sqlite", "JSON")):
            self.refused([word], mptune.load_plan, name)


class Package(PythonTest):
    def test_every_name_is_there(self):
        for name in mptune.__all__:
            if name != "Pipeline":  # needs torch
                self.assertIsNotNone(getattr(mptune, name), name)
            self.assertIn(name, dir(mptune))
        with self.assertRaises(AttributeError):
            getattr(mptune, "nothing")  # noqa: B009

    def test_help_shows_the_functions(self):
        for name in (*COMMANDS.values(), "Trace", "Study", "Pipeline", "Error"):
            self.assertIn(name, mptune.__doc__)
