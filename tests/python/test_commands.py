"""The functions of the package against the options of the program."""
import inspect
import json
import pathlib
import re
import sys
import types
import unittest
from unittest import mock

from support import PythonTest, mptune

from mptune import _commands  # noqa: F401  (before the tests change sys.modules)

COMMANDS = {name: name for name in ("profile", "plan", "tune", "run", "check", "simulate", "compare", "models", "doctor")} | {
    "import": "import_trace"}
# Options that are no parameters: those of the output, which is JSON; --quiet is progress=False, and --with comes from a list for `b`.
ELSEWHERE = {"help", "version", "json", "color", "quiet", "with"}
# Parameters that are no options: positional arguments, and what a module needs.
ARGUMENTS = {"model", "inputs", "progress", "command", "a", "b", "files"}
ECHO = """json.dump(sys.argv[1:], open('words', 'w'))
print(json.dumps({'schema': 'mptune.error/1', 'error': {'what': 'a', 'where': 'b', 'remedy': 'c'}, 'exit_code': 2}))"""


class Net:
    """Stands for an nn.Module."""


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
            self.assertEqual(own, set(options), command)
            for key in own:
                if command != "simulate" or key not in ("plan", "profile"):  # which it needs
                    self.assertIs(parameters[key].default, None if options[key] else False, f"{command} {key}")

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
            self.assertFalse(pathlib.Path(path).parent.exists())
            self.assertEqual(self.exported.pop(), (Net, (1, 2), max))
            self.assertNotIn("--loss", pathlib.Path("words").read_text())

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
