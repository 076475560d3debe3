"""A study is a file that anyone can damage or edit: what is in it is refused or harmless, never shown as a number that can't be."""
import json
import os
import random
import re
import shutil
import sqlite3
import unittest

from harness import CommandTest

TUNE = ["tune", "toy", "--devices", "sleep:2", "--budget", "20s", "--trials", "6", "-o", "toy.study"]
CODES = {0, 2, 3, 4, 5, 6, 7}
VALUES = 2 if os.environ.get("MPTUNE_SANITIZED") == "ON" else 5  # of each column: sanitizers slow every start down
WHOLE = [None, -1, 0, 7, 2**31 - 1, 2**31, -(2**31) - 1, 2**62, -(2**63), 1.5, 9e999, "", "seven", "7; DROP TABLE trial", b"\x00\xff"]
REAL = [None, -1.0, 0.0, -0.0, 5e-324, 1e8, 1e300, -1e300, 9e999, -9e999, "", "nan", "inf", b"\x07"]
TEXT = [None, "", "x", "nonsense\x1b[2J", "a\nb", "\x00", "\u202e", "x" * 100000, 3, b"\xff\xfe", "measured", "crashed", "candidate"]
SUMMARY = {"batch": [0, -1, 2**40, 1.5, "8"], "lower_bound_s": [-1, 1e300, "1", None], "gap": [1e300, -2, [], None], "elapsed_s": [-1, 1e300, {}],
           "devices": [[], ["\x1b[2J"], [3], ["sleep:0", "sleep:0"], ["sleep:" + "0" * 9999]], "stop_reason": [3, "a\x1b[2Jb"], "training": [[], 3, {"model": 3}],
           "whole_machine": [[None], ["x"]], "kinds": [[], 3, {"on_paper": []}, {"on_paper": {"pipeline": {"description": "\x1b", "step_s": -1, "peak_bytes": [-1]}}},
                                                       {"on_paper": {"pipeline": {"description": "p", "step_s": 1e300, "peak_bytes": [2**63]}}},
                                                       {"no_plan": {"hybrid": 3}}, {"no_plan": {"what": "x"}}, {"other_devices": [{"devices": -1, "kind": "pipeline", "step_s": 1}]},
                                                       {"other_devices": [{"devices": 2**40, "kind": "pipeline", "step_s": 1}]}],
           "stages_per_device": [3, {"searched": 2**40}, {"end": 99}, {"end": "x"}]}


def number_in(text):
    """A number that no study has."""
    return re.search(r"(?<![\w.])-?(nan|inf|infinity)(?![\w])", text, re.IGNORECASE)


class DamagedStudies(CommandTest):
    def setUp(self):
        super().setUp()
        self.random = random.Random(19)
        self.succeed(*TUNE)
        self.file = os.path.join(self.folder, "toy.study", "study.sqlite")
        with sqlite3.connect(self.file) as database:
            database.execute("PRAGMA journal_mode = DELETE")
            # A file of others has the tables that it likes.
            database.execute("PRAGMA writable_schema = ON")
            database.execute("UPDATE sqlite_schema SET sql = replace(replace(replace(sql, ') STRICT, ', ') '), ') STRICT', ')'), ' NOT NULL', '')")
        shutil.copytree(os.path.join(self.folder, "toy.study"), os.path.join(self.folder, "whole.study"))

    def restore(self):
        shutil.copy(os.path.join(self.folder, "whole.study", "study.sqlite"), self.file)
        for name in os.listdir(os.path.dirname(self.file)):
            if name.startswith("study.sqlite-"):
                os.remove(os.path.join(os.path.dirname(self.file), name))

    def change(self, *statement):
        self.restore()
        database = sqlite3.connect(self.file)
        try:
            database.execute(*statement)
            database.commit()
        except sqlite3.Error:
            return False
        finally:
            database.close()
        return True

    def run_one(self, arguments, what):
        done = self.mptune(*arguments)
        self.assertIn(done.returncode, CODES, f"{what}\n{done.stdout[-2000:]}\n{done.stderr}")
        self.assertNotIn("report this", done.stderr, what)
        for text in (done.stdout, done.stderr):
            self.assertFalse(re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text), f"{what}\n{text[-2000:]!r}")
        if done.returncode in (2, 3, 6, 7):
            self.assertRegex(done.stderr, r"(?m)^mptune: .+: .+; .+", what)
            self.assertLess(len(done.stderr), 4000, what)
        if done.returncode == 0:
            without_names = re.sub(r"\b[0-9a-f]{12}\b|mptune-test-\w+", "", done.stdout)  # of plans, and of this test's folder
            self.assertFalse(number_in(without_names), f"{what}\n{number_in(without_names)}\n{done.stdout}")
            self.assertFalse(re.search(r"\de[+]?\d", without_names), f"{what}\n{done.stdout[:3000]}")
        return done

    def read(self, what):
        code = self.run_one(["report", "toy.study", "--text"], what).returncode
        done = self.run_one(["--json", "report", "toy.study", "--markdown"], what)
        self.assertEqual(done.returncode, code, what)
        json.loads(done.stdout, parse_constant=lambda word: self.fail(f"{what}: {word} is no JSON"))
        return code

    def resume(self, what):
        self.run_one([*TUNE, "--resume", "-q"], what)

    def test_a_hostile_value_anywhere(self):
        database = sqlite3.connect(self.file)
        columns = [(table, name, kind) for (table,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
                   for _, name, kind, *_ in database.execute(f"PRAGMA table_info({table})").fetchall()]
        database.close()
        self.assertGreater(len(columns), 35)
        cases = 0
        for table, name, kind in columns:
            values = {"INTEGER": WHOLE, "REAL": REAL, "TEXT": TEXT}[kind]
            for value in self.random.sample(values, VALUES):
                everywhere = "" if self.random.random() < 0.3 else "WHERE rowid = (SELECT max(rowid) FROM {0})".format(table)
                if table in ("sample", "peak", "predicted_peak", "predicted_busy") and everywhere:
                    everywhere = f"WHERE trial = (SELECT max(trial) FROM {table})"
                what = f"{table}.{name} = {value!r:.60} {everywhere}"
                if not self.change(f"UPDATE {table} SET {name} = ? {everywhere}", (value,)):
                    continue
                cases += 1
                self.read(what)
                if self.random.random() < 0.06:
                    self.resume(what)
        self.assertGreater(cases, 24 * VALUES)

    def test_views_and_triggers_are_refused(self):
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT 'a', i FROM n"
        for change in ("CREATE TRIGGER t AFTER INSERT ON value BEGIN DELETE FROM trial; END", f"CREATE VIEW more AS {endless}"):
            self.assertTrue(self.change(change))
            for arguments in (["report", "toy.study", "--text"], [*TUNE, "--resume"], ["compare", "toy.study", "whole.study"]):
                done = self.mptune(*arguments)
                self.assertEqual(done.returncode, 2, change)
                self.assertIn("is a view or a trigger", done.stderr)
        for table in ("value", "trial", "sample"):
            self.assertTrue(self.change(f"ALTER TABLE {table} RENAME TO kept"))
            with sqlite3.connect(self.file) as database:
                database.execute(f"CREATE VIEW {table} AS {endless}")
            self.assertIn(self.read(f"{table} is a view"), (2, 6))

    def test_what_can_not_be_is_refused(self):
        last = "WHERE trial = (SELECT max(id) FROM trial)"
        refused = {
            "sample.value_s": [-0.1, 0.0, 9e999, 1e8, None, "x"], "sample.round": [-1, 2**31, 1.5, "x"], "sample.position": [-1, 2**40],
            "sample.started_s": [9e999, 1e300, None, "x"], "prediction.step_s": [9e999, -1.0, 0.0, None], "prediction.lower_bound_s": [9e999, -1.0],
            "prediction.limiting_stage": [-2, 99, 2**40], "peak.bytes": [-1, 2**62, 1.5], "predicted_peak.bytes": [-1], "predicted_busy.busy_s": [-1.0, 9e999],
        }
        for column, values in refused.items():
            table, name = column.split(".")
            for value in values:
                self.assertTrue(self.change(f"UPDATE {table} SET {name} = ? {last}", (value,)))
                self.fails(2, ["the study is damaged", name, f"table {table}", "trial 11", "start a new one"], "report", "toy.study", "--text")
                self.fails(2, ["the study is damaged", name, f"table {table}"], *TUNE, "--resume")
        trial = {"series": [-1, 2**31, 9e999], "name": ["", "a\x1b[2J", None], "plan_key": ["", "b976548892c3", "x", None], "outcome": ["", "won", None],
                 "cap_bytes": [-1], "limit_s": [9e999, -1.0], "loss": [9e999], "id": [2**40, -1]}
        for name, values in trial.items():
            for value in values:
                self.assertTrue(self.change(f"UPDATE trial SET {name} = ? WHERE id = 11", (value,)))
                self.fails(2, ["the study is damaged", "table "], "report", "toy.study", "--text")
        for statement, words in {
            "DELETE FROM sample WHERE trial = 11": ["measured", "no samples", "id 11"],
            "DELETE FROM plan": ["plan_key", "table trial"],
            "UPDATE plan SET plan = (SELECT plan FROM plan ORDER BY plan_key LIMIT 1)": ["plan_key", "table plan"],
            "INSERT INTO peak VALUES (11, 2, 100)": ["device", "table peak", "trial 11"],
            "UPDATE peak SET device = 7 WHERE device = 1 AND trial = 11": ["device", "table peak"],
            "INSERT INTO sample VALUES (99, 0, 0.1, 0, 0, 0)": ["trial", "table sample"],
            "DELETE FROM trial WHERE id = 11": ["table"],
            "UPDATE value SET value = 3000000000 WHERE name = 'final_series'": ["final_series"],
            "UPDATE value SET value = '99' WHERE name = 'final_series'": ["final_series", "99"],
            "UPDATE value SET value = '-1' WHERE name = 'final_series'": ["final_series"],
            "DROP TABLE peak": ["peak"],
        }.items():
            self.assertTrue(self.change(statement))
            self.fails(2, words, "report", "toy.study", "--text")
        self.assertTrue(self.change("DELETE FROM value WHERE name = 'final_series'"))
        self.fails(6, ["no result yet", "--resume"], "report", "toy.study", "--text")
        self.succeed(*TUNE, "--resume", "-q")
        self.succeed("report", "toy.study", "--text")

    def test_a_summary_that_can_not_be_is_refused(self):
        database = sqlite3.connect(self.file)
        summary = json.loads(database.execute("SELECT value FROM value WHERE name = 'summary'").fetchone()[0])
        database.close()
        for key, values in SUMMARY.items():
            for value in values:
                self.change("UPDATE value SET value = ? WHERE name = 'summary'", (json.dumps({**summary, key: value}),))
                self.read(f"{key} = {value!r:.80}")
        for text in ("", "{", "[]", "3", '{"batch": 1e999}', json.dumps(summary).replace('"gap": ', '"gap": 1e999, "gup": '), "[" * 100000):
            self.change("UPDATE value SET value = ? WHERE name = 'summary'", (text,))
            self.assertNotEqual(self.read(text[:60]), 0)
        self.resume("a summary that is no JSON")
        self.succeed("report", "toy.study", "--text")


if __name__ == "__main__":
    unittest.main()
