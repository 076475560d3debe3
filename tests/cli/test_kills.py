"""kill -9 at random points of a replayed study: resumed each time with its folder alone, it loses no finished trial, repeats at most the
running one, and ends with the answer of a run that nothing disturbed."""
import contextlib
import json
import os
import random
import shutil
import sqlite3
import subprocess
import tempfile
import time

from harness import PROGRAM, CommandTest, left_processes

KILLS = int(os.environ.get("MPTUNE_KILLS", "100"))
TUNE = ["tune", "toy", "--devices", "sleep:2", "--batch", "8", "--budget", "300s", "--trials", "30", "--target", "0.01"]
TABLES = {"trial": "series, name, plan_key, outcome, loss", "sample": "number, value_s, round, position, started_s", "peak": "device, bytes",
          "prediction": "step_s, lower_bound_s, limiting_stage"}


@contextlib.contextmanager
def copy_of(study):
    """The database of a study as it is now: opening it in its place would change its files."""
    with tempfile.TemporaryDirectory() as copy:
        for name in ("study.sqlite", "study.sqlite-wal"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copy(os.path.join(study, name), copy)
        with contextlib.closing(sqlite3.connect(os.path.join(copy, "study.sqlite"))) as database:
            yield database


def rows(study, query, *values):
    """Nothing where a kill came before the tables."""
    with contextlib.suppress(sqlite3.OperationalError), copy_of(study) as database:
        return database.execute(query, values).fetchall()
    return []


def finished_trials(study):
    """{id: all its rows}."""
    with copy_of(study) as database:
        if not database.execute("SELECT 1 FROM sqlite_schema WHERE name = 'trial'").fetchone():
            return {}
        return {number: [database.execute(f"SELECT {columns} FROM {table} WHERE {'id' if table == 'trial' else 'trial'} = ? ORDER BY 1, 2",
                                          (number,)).fetchall() for table, columns in TABLES.items()]
                for number, in database.execute("SELECT id FROM trial").fetchall()}


def tried_plans(study):
    return [json.loads(plan) for plan, in rows(study, "SELECT plan FROM plan WHERE plan_key IN (SELECT plan_key FROM trial)")]


def keeps_command(study):
    """Whether --resume needs nothing else; a kill just after the start may come before."""
    return bool(rows(study, "SELECT 1 FROM value WHERE name = 'command'"))


class Kills(CommandTest):
    def setUp(self):
        super().setUp()
        self.log = os.path.join(self.folder, "requests")
        self.draw = random.Random(2026)
        self.kills = 0

    def requests(self):
        if not os.path.exists(self.log):
            return []
        with open(self.log) as file:
            return [json.loads(line) for line in file.read().splitlines()]

    def count_requests(self):
        with open(self.log, "ab+") as file:
            file.seek(0)
            return file.read().count(b"\n")

    def environment(self, **more):
        return super().environment(MPTUNE_FAKE_LOG=self.log, MPTUNE_TEST_MARKER=self.folder, **more)

    def run_and_kill(self, arguments, table):
        """Kills mptune a moment after a random number of workers began. True if it ended before that."""
        before, workers = self.count_requests(), self.draw.randrange(5)
        process = subprocess.Popen([PROGRAM, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=self.folder,
                                   env=self.environment(MPTUNE_FAKE_TABLE=table))
        while process.poll() is None and self.count_requests() < before + workers:
            time.sleep(0.002)
        time.sleep(self.draw.uniform(0, 0.05))
        process.kill()
        errors = process.communicate()[1]
        self.assertIn(process.returncode, (0, 5, -9), errors)
        self.assertEqual(left_processes(self.folder), [], "a process is left")
        return process.returncode != -9

    def expect_no_repeat(self, requests, finished):
        """No plan that had a finished trial of its own before these requests is asked for again."""
        tried = {json.dumps(plan, sort_keys=True) for plan in finished}
        for request in requests:
            if len(request["plans"]) == 1:
                plan = json.dumps(request["plans"][0], sort_keys=True)
                self.assertNotIn(plan, tried, "a finished trial is repeated")

    def disturbed(self, table, study):
        arguments = [*TUNE, "-o", study]
        ended, known = False, {}
        while not ended and self.kills < KILLS:
            before = len(self.requests())
            plans = tried_plans(study)
            ended = self.run_and_kill(arguments, table)
            self.kills += not ended
            self.expect_no_repeat(self.requests()[before:], plans)
            now = finished_trials(study)
            self.assertEqual({number: now.get(number) for number in known}, known, "a finished trial is lost or changed")
            known = now
            self.assertTrue(keeps_command(study) or not known)
            begun = ["--resume"] if os.path.exists(study) else []
            arguments = ["tune", "--resume", study] if keeps_command(study) else [*TUNE, "-o", study, *begun]
        return known

    def test_random_kills(self):
        table = 0
        while self.kills < KILLS:
            table += 1
            study = os.path.join(self.folder, f"{table}.study")
            undisturbed = self.result("tune", *TUNE, "-o", "undisturbed.study", "--force", MPTUNE_FAKE_TABLE=str(table))
            known = self.disturbed(str(table), study)
            self.assertTrue(keeps_command(study), "most kills come later")
            final = self.result("tune", "tune", "--resume", study, MPTUNE_FAKE_TABLE=str(table))
            now = finished_trials(study)
            self.assertEqual({number: now.get(number) for number in known}, known)
            for key in ("plan_key", "step_s", "step_ci95_s", "verdict"):
                self.assertEqual(final["recommended"][key], undisturbed["recommended"][key], f"table {table}, {key}")
            self.assertEqual([(trial["plan_key"], trial["outcome"], trial["step_s"]) for trial in final["trials"]],
                             [(trial["plan_key"], trial["outcome"], trial["step_s"]) for trial in undisturbed["trials"]])
            self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("mptune-")], [], "a temporary folder is left")
        print(f"{self.kills} kills, {table} studies")
