"""The objects of mptune.results against what the program prints."""
import copy
import dataclasses
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

from support import ROOT, PythonTest, mptune

from mptune import results

TUNE = {"devices": "sleep:2", "budget": 20, "trials": 1, "schedule": "1f1b", "microbatches": 4}
GENERATE = [sys.executable, str(ROOT / "python" / "generate_results.py")]
SCHEMAS = ROOT / "reports" / "schemas"


def plain(value):
    """JSON of an object, from its fields alone."""
    if dataclasses.is_dataclass(value):
        return {field.name.rstrip("_"): plain(getattr(value, field.name)) for field in dataclasses.fields(value) if field.name != "json"}
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, tuple) else value


def leaves(value, path=()):
    """Paths of all values that are no objects and no lists, but of one element of each list."""
    parts = value.items() if isinstance(value, dict) else list(enumerate(value))[:1] if isinstance(value, list) else None
    if parts is None:
        yield path
    for key, part in parts or ():
        yield from leaves(part, (*path, key))


def name_of(path):
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).lstrip(".")


def replaced(value, path, new):
    value = copy.deepcopy(value)
    inner = value
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return value


class RealOutputs(PythonTest):
    def assert_complete(self, result, kind):
        """Every key of the JSON that the schema knows is in a field, with the same value."""
        self.assertIs(type(result), kind)
        self.assert_same(plain(result), result.json, "")

    def assert_same(self, read, printed, place):
        if isinstance(printed, dict):
            for key, value in printed.items():
                if key in read:
                    self.assert_same(read[key], value, f"{place}.{key}")
            self.assertEqual([key for key, value in read.items() if value is not None and key not in printed], [], place)
        elif isinstance(printed, list):
            self.assertEqual(len(read), len(printed), place)
            for i, (one, other) in enumerate(zip(read, printed)):
                self.assert_same(one, other, f"{place}[{i}]")
        else:
            self.assertEqual(read, printed, place)

    def test_every_command(self):
        self.assert_complete(mptune.models(), results.ModelsResult)
        self.assert_complete(mptune.doctor(devices="sleep:2"), results.DoctorResult)
        self.assert_complete(mptune.profile("toy", devices="sleep:2"), results.ProfileResult)
        planned = mptune.plan("profile.sqlite", output="made.plan.json")
        self.assert_complete(planned, results.PlanResult)
        self.assert_complete(mptune.run("toy", plan=planned.plan_file, steps=3), results.RunResult)
        self.assert_complete(mptune.check("toy", devices="sleep:2"), results.CheckResult)
        pathlib.Path("order.csv").write_text("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n")
        self.assert_complete(mptune.check_order("order.csv", "megatron"), results.CheckOrderResult)
        self.assert_complete(mptune.simulate("plan.json", "profile.sqlite"), results.SimulateResult)
        shutil.copy("trace.sqlite", "other.sqlite")
        self.assert_complete(mptune.compare("trace.sqlite", "other.sqlite"), results.CompareResult)
        self.assert_complete(mptune.import_trace("trace.sqlite"), results.ImportResult)
        self.assert_complete(mptune.tune("toy", **TUNE), results.TuneResult)

    def test_a_plan_file(self):
        for path in ("plan.json", mptune.plan("profile.sqlite", output="made.plan.json").plan_file):
            self.assert_complete(results.PlanFile.from_json(json.loads(pathlib.Path(path).read_text())), results.PlanFile)

    def test_a_topology_file(self):
        link = {"bandwidth": "25GB/s", "latency": "10us"}
        hosts = [{"name": "node", "count": 2, "devices": 4, "memory": "80GiB", "link": link}]
        value = {"schema": "mptune.topology/1", "hosts": hosts, "between_hosts": {**link, "shared": "device"}}
        self.assert_complete(results.TopologyFile.from_json(value), results.TopologyFile)

    def test_fields_have_the_types_that_they_promise(self):
        result = mptune.tune("toy", **TUNE)
        self.assertIsInstance(result.recommended, results.TunedPlan)
        self.assertIsInstance(result.recommended.step_ci95_s, tuple)
        self.assertEqual(len(result.trials), len(result.json["trials"]))
        self.assertIsInstance(result.recommended.plan.stages[0].layers[1], int)
        self.assertEqual(mptune.load_plan(result.plan_file).devices, list(result.recommended.plan.devices))
        with self.assertRaises(dataclasses.FrozenInstanceError):
            result.elapsed_s = 0.0


class Summaries(PythonTest):
    def test_every_result_has_a_few_lines(self):
        made = [mptune.models(), mptune.doctor(devices="sleep:2"), mptune.plan("profile.sqlite"), mptune.check("toy", devices="sleep:2"),
                mptune.simulate("plan.json", "profile.sqlite"), mptune.import_trace("trace.sqlite")]
        for result in made:
            lines = repr(result).splitlines()
            self.assertLessEqual(len(lines), 6, result)
            self.assertLessEqual(max(map(len, lines)), 120, result)
            self.assertTrue(lines[0].startswith(type(result).__name__ + "("), result)
        self.assertIn("step_s=", repr(made[2].predicted))

    def test_a_tuning_ends_with_its_answer(self):
        result = mptune.tune("toy", **TUNE)
        self.assertTrue(self.said.getvalue().endswith(repr(result) + "\n"), self.said.getvalue())
        self.assertIn(result.plan_file, repr(result))
        self.assertIn(result.recommended.verdict + ": ", repr(result))
        self.assertRegex(repr(result), r" ms a step, [0-9.]+ times as fast as \w+\n")
        self.assertLessEqual(repr(result).count("\n"), 4)
        self.said.truncate(0)
        self.said.seek(0)
        mptune.tune("toy", **TUNE, force=True, progress=False)
        self.assertEqual(self.said.getvalue(), "")


class BadJson(PythonTest):
    made = []  # once for all tests: it is only read

    def setUp(self):
        super().setUp()
        if not self.made:
            self.made += [(results.PlanResult, mptune.plan("profile.sqlite").json), (results.TuneResult, mptune.tune("toy", **TUNE).json),
                          (results.CheckResult, mptune.check("toy", devices="sleep:2").json)]
        self.good = self.made

    def test_every_wrong_type_is_refused_at_its_place(self):
        refused = 0
        for kind, value in self.good:
            known = {path for path in leaves(plain(kind.from_json(value)))}
            for path in leaves(value):
                if path in known:
                    error = self.refused([name_of(path)], kind.from_json, replaced(value, path, [object()]))
                    self.assertIn("JSON at", error.where)
                    refused += 1
        self.assertGreater(refused, 100)

    def test_numbers_and_texts_are_not_taken_for_each_other(self):
        value = mptune.models().json
        for path, new in ((("models", 0, "parameters"), "600"), (("models", 0, "parameters"), True), (("models", 0, "parameters"), 600.0),
                          (("models", 0, "name"), 600), (("models", 0, "name"), None), (("models", 0, "layers"), {}), (("models",), None)):
            self.refused([name_of(path)], results.ModelsResult.from_json, replaced(value, path, new))

    def test_a_whole_number_is_a_number(self):
        kind, value = self.good[1]
        read = kind.from_json({**value, "elapsed_s": 3})
        self.assertIsInstance(read.elapsed_s, float)
        self.refused(["elapsed_s"], kind.from_json, {**value, "elapsed_s": 10 ** 400})
        self.assertTrue(math.isnan(kind.from_json({**value, "elapsed_s": math.nan}).elapsed_s))

    def test_another_object_is_refused(self):
        for value in (None, [], "text", 3, True, {}, {"schema": "mptune.tune/2"}, {"schema": "mptune.plan/1"}):
            self.refused(["JSON at"], results.TuneResult.from_json, value)
        kind, value = self.good[1]
        self.refused(["schema", "mptune.tune/2"], kind.from_json, {**value, "schema": "mptune.tune/2"})

    def test_a_missing_key_is_refused_and_a_new_one_ignored(self):
        kind, value = self.good[1]
        self.refused(["elapsed_s", "missing"], kind.from_json, {key: part for key, part in value.items() if key != "elapsed_s"})
        newer = {**value, "new": [1], "json": 3, "recommended": {**value["recommended"], "new": {}}}
        read = kind.from_json(newer)
        self.assertEqual(read, kind.from_json(value), "only the JSON differs")
        self.assertEqual(read.json["new"], [1])
        self.assertEqual(read.recommended.json["new"], {})

    def test_pairs_have_two_parts(self):
        kind, value = self.good[1]
        for interval in ([1.0], [1.0, 2.0, 3.0], [], 1.0):
            self.refused(["recommended.step_ci95_s"], kind.from_json, replaced(value, ("recommended", "step_ci95_s"), interval))


class Generator(unittest.TestCase):
    def test_a_new_field_of_a_schema_becomes_one_of_the_class(self):
        test = PythonTest("setUp")
        self.addCleanup(test.doCleanups)
        test.setUp()
        schemas = shutil.copytree(SCHEMAS, os.path.join(test.folder, "schemas"))
        path = pathlib.Path(schemas, "mptune.doctor.1.json")
        schema = json.loads(path.read_text())
        schema["properties"]["elapsed_s"] = {"type": "number", "description": "of the whole look"}
        path.write_text(json.dumps(schema))
        written = os.path.join(test.folder, "results.py")
        subprocess.run([*GENERATE, schemas, written], check=True)
        self.assertIn('    elapsed_s: float | None = None\n    """Of the whole look."""', pathlib.Path(written).read_text())


if __name__ == "__main__":
    unittest.main()
