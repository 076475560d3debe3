"""Parts of the comparison that need no PyTorch."""
import contextlib
import io
import itertools
import os
import sys
import time
import types
import unittest
from unittest import mock

import cuts
import load
import rivals
import rows


class FakeRow:
    """Takes the next of some step times; RowFailed where there is None."""

    def __init__(self, seconds, visited=None, name=""):
        self.seconds, self.visited, self.name, self.ended = iter(seconds), visited, name, False

    def step_seconds(self, steps):
        if self.visited is not None:
            self.visited.append(self.name)
        seconds = next(self.seconds)
        if seconds is None:
            raise rows.RowFailed("broken")
        return seconds

    def process_ids(self):
        return []

    def end(self):
        self.ended = True


def parsed(*words):
    with contextlib.redirect_stderr(io.StringIO()):
        return rivals.parse(words)


def program(source):
    return rows.Process([sys.executable, "-c", source], {"MARK": "here"}, 20)


class Cuts(unittest.TestCase):
    def test_stages_are_placed_in_loops_and_in_a_v(self):
        self.assertEqual([cuts.process_of(stage, 4, 2, cuts.LOOP) for stage in range(4)], [0, 1, 0, 1])
        self.assertEqual([cuts.process_of(stage, 4, 2, cuts.V) for stage in range(4)], [0, 1, 1, 0])

    def test_cost_counts_the_busiest_process_and_the_dearest_stage(self):
        times = [1, 2, 3, 4]
        self.assertEqual(cuts.cost(times, [1, 2, 3], 2, cuts.LOOP, 8), 8 * (2 + 4) + 4)
        self.assertEqual(cuts.cost(times, [1, 2, 3], 2, cuts.V, 8), 8 * 5 + 4)

    def test_best_cuts_balance_two_stages(self):
        for times in itertools.product((1, 2, 5), repeat=5):
            best = cuts.best_cuts(times, 2, 2, cuts.LOOP, 4, 1)[0][0]
            least = min(max(sum(times[:cut]), sum(times[cut:])) for cut in range(1, 5))
            self.assertEqual(max(sum(times[:best]), sum(times[best:])), least)

    def test_more_cuts_are_asked_for_than_there_are(self):
        self.assertEqual(len(cuts.best_cuts([1, 1, 1], 2, 2, cuts.LOOP, 2, 9)), 2)
        self.assertEqual(cuts.best_cuts([1, 1, 1], 4, 2, cuts.V, 2, 9), [])


class Options(unittest.TestCase):
    def test_rows_that_are_compared_unless_named(self):
        transformer, resnet = parsed(), parsed("--model", "resnet50", "--same-malloc")
        self.assertEqual([rival.text for rival in transformer.rivals], list(rivals.GROUPS))
        self.assertIn("two_threads+channels_last+same_malloc", [rival.text for rival in resnet.rivals])
        self.assertTrue(all(rival.same_malloc for rival in resnet.rivals))

    def test_rows_by_name(self):
        named = parsed("--rows", "one_thread,ddp+channels_last,one_thread+same_malloc,one_thread").rivals
        self.assertEqual([rival.text for rival in named], ["one_thread", "ddp+channels_last", "one_thread+same_malloc"])
        self.assertEqual([(rival.channels_last, rival.same_malloc) for rival in named], [(False, False), (True, False), (False, True)])

    def test_mistakes(self):
        for words in (["--rows", "one_thread,two"], ["--rows", "ddp"], ["--rows", "one_thread,zbv+channels_last"], ["--cores", "0"],
                      ["--cores", "1,1"], ["--rows", "one_thread+fast"], ["--rounds", "0"], ["--microbatches", "2,x"]):
            with self.subTest(words), self.assertRaises(SystemExit) as ended:
                parsed(*words)
            self.assertEqual(ended.exception.code, 2)

    def test_candidates_of_a_schedule(self):
        tried = rivals.candidates("zbv", {2: [1] * 5, 4: [1] * 5}, 2)
        self.assertEqual([each["microbatches"] for each in tried], [2, 2, 4, 4])
        self.assertTrue(all(len(each["cuts"]) == 3 for each in tried))


class Gradients(unittest.TestCase):
    BASE = {"a": 1.0, "b": 2.0}

    def test_the_same_within_rounding(self):
        rivals.check_gradients("row", {"a": 1.001, "b": 2.0}, self.BASE, True)

    def test_a_row_without_a_parameter_is_refused(self):
        with self.assertRaisesRegex(rows.RowFailed, "1 parameters"):
            rivals.check_gradients("row", {"a": 1.0}, self.BASE, False)

    def test_another_gradient_is_refused_where_the_function_is_the_same(self):
        rivals.check_gradients("row", {"a": 1.0, "b": 4.0}, self.BASE, False)
        with self.assertRaisesRegex(rows.RowFailed, "differ.*: b"):
            rivals.check_gradients("row", {"a": 1.0, "b": 4.0}, self.BASE, True)


class Visits(unittest.TestCase):
    def visit(self, shares, seconds, repeats):
        """`shares`: the foreign load of each try."""
        meters = iter(shares)
        with mock.patch.object(load, "ForeignLoad", lambda *_: types.SimpleNamespace(seconds=lambda: next(meters))), \
                mock.patch.object(time, "monotonic", itertools.count().__next__):
            return rivals.visit(FakeRow(seconds), [], parsed("--repeats", str(repeats)), 3)

    def test_a_quiet_visit_is_not_repeated(self):
        self.assertEqual(self.visit([0.01], [1.0], 5), (1.0, 0.01))

    def test_a_loaded_visit_is_repeated_until_it_is_quiet(self):
        self.assertEqual(self.visit([0.5, 0.3, 0.02], [3.0, 2.0, 1.0], 5), (1.0, 0.02))

    def test_of_loaded_visits_the_quietest_counts(self):
        self.assertEqual(self.visit([0.5, 0.3, 0.4], [3.0, 2.0, 1.0], 2), (2.0, 0.3))


class Rounds(unittest.TestCase):
    def compare(self, seconds, *words):
        visited = []
        comparison = rivals.Comparison(parsed("--rows", "one_thread", "--foreign", "1000", "--rounds", "3", *words))
        comparison.rows = {name: FakeRow(values, visited, name) for name, values in seconds.items()}
        comparison.notes = dict.fromkeys(seconds, "")
        with contextlib.redirect_stderr(io.StringIO()):
            comparison.run()
        return comparison, visited

    def test_every_round_visits_every_row_once_in_a_rotated_order(self):
        _, visited = self.compare({"one_thread": [1.0] * 3, "ddp": [0.5] * 3, "zbv": [0.7] * 3})
        self.assertEqual(visited, ["one_thread", "ddp", "zbv", "ddp", "zbv", "one_thread", "zbv", "one_thread", "ddp"])

    def test_a_row_that_fails_is_missing_from_then_on(self):
        comparison, visited = self.compare({"one_thread": [1.0] * 3, "ddp": [0.5, None]})
        self.assertEqual(comparison.missing, {"ddp": "broken"})
        self.assertEqual(visited.count("ddp"), 2)
        self.assertEqual(rivals.ratios(comparison.rounds, "ddp", "one_thread"), [0.5])

    def test_nothing_is_compared_without_the_base(self):
        with self.assertRaises(rows.RowFailed):
            self.compare({"one_thread": [1.0, None]})

    def test_ratios_are_those_of_the_same_round(self):
        comparison, _ = self.compare({"one_thread": [1.0, 2.0, 4.0], "ddp": [0.5, 1.0, 3.0], "best.plan.json": [0.4, 0.9, 1.5]},
                                     "best.plan.json")
        self.assertEqual(rivals.ratios(comparison.rounds, "ddp", "one_thread"), [0.5, 0.5, 0.75])
        self.assertEqual(rivals.quartiles([1.0, 2.0, 3.0]), [1.5, 2.0, 2.5])
        with contextlib.redirect_stdout(io.StringIO()) as out:
            rivals.report(comparison)
        self.assertIn("fastest rival: ddp\n  best.plan.json: 0.800 of it", out.getvalue())

    def test_load_that_stayed_is_reported(self):
        comparison, _ = self.compare({"one_thread": [1.0] * 3})
        comparison.options.foreign = 0.08
        comparison.rounds = [{"one_thread": (1.0, 0.0)}, {"one_thread": (1.0, 0.5)}]
        with contextlib.redirect_stdout(io.StringIO()) as out:
            rivals.report(comparison)
        self.assertIn("in round 2 in every repetition, cores: one_thread 0.50", out.getvalue())
        self.assertNotIn("round 1", out.getvalue())

    def test_a_plan_is_described_by_what_its_file_says(self):
        plan = {"schedule": {"name": "zb"}, "num_microbatches": 4, "data_parallel_size": 2, "stages": [{"layers": [0, 3]}, {"layers": [3, 9]}],
                "options": {"idle_devices_help": True}}
        self.assertEqual(rivals.described_plan(plan), "zb m=4 cuts=3 replicas=2 idle_devices_help=True")


class Processes(unittest.TestCase):
    def setUp(self):
        self.running = []

    def tearDown(self):
        for process in self.running:
            process.end()

    def start(self, source):
        self.running.append(program(source))
        return self.running[-1]

    def test_a_program_answers_line_by_line(self):
        process = self.start("import os, sys\nfor line in sys.stdin: print(line.strip(), os.environ['MARK'], flush=True)")
        for word in ("one", "two"):
            process.say(word)
            self.assertEqual(process.line(), word + " here")

    def test_variables_that_place_threads_are_not_inherited(self):
        with mock.patch.dict(os.environ, {"OMP_PROC_BIND": "true"}):
            self.assertEqual(self.start("import os; print('OMP_PROC_BIND' in os.environ, flush=True); input()").line(), "False")

    def test_the_last_words_of_a_program_that_ended_are_the_reason(self):
        with self.assertRaisesRegex(rows.RowFailed, "ended with 3: no luck"):
            self.start("import sys; print('no luck', file=sys.stderr); sys.exit(3)").line()

    def test_a_program_that_says_nothing_is_given_up(self):
        process = self.start("input()")
        process.timeout = 0.1
        with self.assertRaisesRegex(rows.RowFailed, "no answer"):
            process.line()


class Load(unittest.TestCase):
    def test_our_own_work_is_no_foreign_load(self):
        used = load.used_seconds([os.getpid()])
        started = time.process_time()
        while time.process_time() - started < 0.2:
            pass
        self.assertGreater(load.used_seconds([os.getpid()]) - used, 0.1)

    def test_the_cores_were_busy_at_least_once(self):
        first = min(os.sched_getaffinity(0))
        self.assertGreater(load.busy_seconds([first]), 0)
        self.assertEqual(load.busy_seconds([]), 0)


if __name__ == "__main__":
    unittest.main()
