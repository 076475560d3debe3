"""Step times of mptune's plans and of what PyTorch offers, from one interleaved run. README.md says what the rows are and what it needs."""
import argparse
import json
import pathlib
import statistics
import sys
import time

import cuts
import load
import rows

BUILD = pathlib.Path(__file__).resolve().parents[2] / "build/release"
# Stages in a process, and where they are; the names are those of worker.py.
SCHEDULES = {"gpipe": (1, cuts.LOOP), "1f1b": (1, cuts.LOOP), "interleaved_1f1b": (2, cuts.LOOP),
             "interleaved_zero_bubble": (2, cuts.LOOP), "zbv": (2, cuts.V)}
# Processes and threads of each of them.
GROUPS = {"one_thread": (1, 1), "two_threads": (1, 2), "ddp": (2, 1)} | {schedule: (2, 1) for schedule in SCHEDULES}
MARKS = ("channels_last", "same_malloc")


class RivalName:
    """"two_threads+channels_last": a kind of step, and how it differs from the plain one."""

    def __init__(self, text):
        self.text = text
        self.kind, *marks = text.split("+")
        if self.kind not in GROUPS or not set(marks) <= set(MARKS):
            raise argparse.ArgumentTypeError(f"no row '{text}': rows are {', '.join(GROUPS)}, with +{' or +'.join(MARKS)} behind")
        if self.kind in SCHEDULES and "channels_last" in marks:
            raise argparse.ArgumentTypeError(f"no row '{text}': Gloo sends contiguous tensors only")
        self.channels_last, self.same_malloc = ("channels_last" in marks), ("same_malloc" in marks)

    def is_base(self):
        return self.kind == "one_thread" and not self.channels_last

    def start(self, settings, options):
        processes, threads = GROUPS[self.kind]
        return rows.Rival(settings, options.cores, processes, threads, self.same_malloc, options.timeout)

    def config(self):
        return {"kind": self.kind, "channels_last": self.channels_last}


def has_convolutions(model):
    return model.startswith("resnet")


def default_rows(model):
    return [kind + mark for kind in GROUPS for mark in ("", "+channels_last") if not mark or (kind == "two_threads" and has_convolutions(model))]


def numbers(text):
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is no list of numbers such as 2,4,8") from None


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plans", nargs="*", metavar="PLAN", help="plan files of mptune's, each a row")
    parser.add_argument("--model", default="transformer:d=256,layers=8,seq=64", help="as mptune names it; models.py has resnet50 and transformer")
    parser.add_argument("--input", default="", help="shape of a sample, as for mptune: 3x64x64")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rows", metavar="ROW,...", help="rivals, such as one_thread,two_threads+channels_last,ddp+same_malloc; default: all kinds")
    parser.add_argument("--same-malloc", action="store_true", help="every rival gets the malloc settings of mptune's programs")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=3, help="of a row in a round, behind one of warm-up; the median counts")
    parser.add_argument("--cores", type=numbers, default=[0, 1], help="two cores to run on (the plans name their own)")
    parser.add_argument("--microbatches", type=numbers, default=[2, 4, 8], help="numbers that the scan of each schedule tries")
    parser.add_argument("--cuts", type=int, default=3, help="cuts that it tries with each number")
    parser.add_argument("--foreign", type=float, default=0.08, help="CPU use of other programs, in cores, over which a visit is repeated")
    parser.add_argument("--repeats", type=int, default=5, help="of a visit, at most")
    parser.add_argument("--timeout", type=float, default=120, help="seconds until a row that does not answer is given up")
    parser.add_argument("--program", default=str(BUILD / "bin/benchmark_plan_rounds"), help="benchmark_plan_rounds, which runs the plans")
    parser.add_argument("--json", metavar="FILE", help="writes every visit")
    options = parser.parse_args(arguments)
    names = options.rows.split(",") if options.rows else default_rows(options.model)
    if options.same_malloc:
        names = [name if "+same_malloc" in name else name + "+same_malloc" for name in names]
    try:
        options.rivals = [RivalName(name) for name in dict.fromkeys(names)]
    except argparse.ArgumentTypeError as wrong:
        parser.error(str(wrong))
    if not any(rival.is_base() for rival in options.rivals):
        parser.error("one row is to be one_thread: the others' times are compared with it")
    if len(set(options.cores)) != 2:
        parser.error("--cores takes two cores")
    if min(options.rounds, options.steps, options.batch, options.cuts, *options.microbatches) < 1:
        parser.error("numbers of rounds, steps, samples, cuts and micro-batches are at least 1")
    return options


def say(text):
    print(text, file=sys.stderr, flush=True)


def visit(row, ours, options, steps):
    """Step time [s] and the foreign load [cores] meanwhile; the quietest of some tries if there is load in each."""
    best = None
    for _ in range(1 + options.repeats):
        started, others = time.monotonic(), load.ForeignLoad(options.cores, ours)
        seconds = row.step_seconds(steps)
        share = others.seconds() / (time.monotonic() - started)
        if best is None or share < best[1]:
            best = (seconds, share)
        if share <= options.foreign:
            break
    return best


def measure_layers(settings, options):
    """Seconds of the layers for each number of micro-batches, on one thread."""
    row = rows.Rival(settings, options.cores, 1, 1, options.same_malloc, options.timeout)
    try:
        return {m: row.ask("layer_times", -(-options.batch // m))[0] for m in options.microbatches if m <= options.batch}
    finally:
        row.end()


def candidates(kind, times, count):
    """What the scan of a schedule tries: numbers of micro-batches with the cuts that suit them best."""
    per_process, placement = SCHEDULES[kind]
    return [{"microbatches": m, "cuts": list(chosen)} for m in times
            for chosen in cuts.best_cuts(times[m], 2 * per_process, 2, placement, m, count)]


def scan(name, times, settings, options):
    """The fastest candidate of a schedule. Those that fail are passed over; RowFailed if all do."""
    row, best, failure = None, None, rows.RowFailed("the model has too few layers for its stages")
    for candidate in candidates(name.kind, times, options.cuts):
        try:
            row = row or name.start(settings, options)
            row.set(name.config() | candidate)
            seconds, _ = visit(row, row.process_ids(), options, 2)
            say(f"  {name.text} {described(candidate)}: {1e3 * seconds:.1f} ms")
            if best is None or seconds < best[0]:
                best = (seconds, candidate)
        except rows.RowFailed as failed:
            say(f"  {name.text} {described(candidate)}: {failed}")
            failure = failed
            if row:
                row.end()
                row = None
    if row:
        row.end()
    if best is None:
        raise failure
    return best[1]


def described(candidate):
    return f"m={candidate['microbatches']} cuts={','.join(map(str, candidate['cuts']))}"


def described_plan(plan):
    """As described(), with what else the object of a plan file says."""
    starts = [stage["layers"][0] for stage in plan["stages"][1:]]
    options = "".join(f" {name}={value}" for name, value in plan.get("options", {}).items())
    replicas = f" replicas={plan['data_parallel_size']}" if plan["data_parallel_size"] != 1 else ""
    return f"{plan['schedule']['name']} {described({'microbatches': plan['num_microbatches'], 'cuts': starts})}{replicas}{options}"


def check_gradients(name, norms, base, same_function):
    """A row that skips a parameter, or computes something else, is no rival. Batch norms over micro-batches are something else by nature."""
    if norms.keys() != base.keys():
        raise rows.RowFailed(f"{len(base.keys() ^ norms.keys())} parameters have gradients in this row or in one_thread only")
    floor = 1e-4 * max(base.values())
    wrong = [key for key in base if abs(norms[key] - base[key]) > 0.01 * base[key] + floor]
    if same_function and wrong:
        raise rows.RowFailed(f"gradients differ from those of one_thread: {', '.join(wrong[:3])}")


class Comparison:
    """All rows that run, by name, how they are set, and why others are missing."""

    def __init__(self, options):
        self.options, self.rows, self.notes, self.missing, self.rounds = options, {}, {}, {}, []
        self.settings = {"model": options.model, "input": options.input, "batch": options.batch}
        self.base = next(rival.text for rival in options.rivals if rival.is_base())

    def drop(self, name, failure):
        say(f"{name} is missing: {failure}")
        self.missing[name] = str(failure)
        row = self.rows.pop(name, None)
        if row:
            row.end()

    def start(self):
        ordered = sorted(self.options.rivals, key=lambda rival: rival.text != self.base)
        schedules = [rival for rival in ordered if rival.kind in SCHEDULES]
        times = measure_layers(self.settings, self.options) if schedules else {}
        found = {}
        for rival in schedules:
            say(f"scanning {rival.text}")
            try:
                found[rival.text] = scan(rival, times, self.settings, self.options)
            except rows.RowFailed as failed:
                self.drop(rival.text, failed)
        gradients = None
        for rival in ordered:
            if rival.text not in self.missing:
                gradients = self.start_rival(rival, found.get(rival.text), gradients)
        for plan in self.options.plans:
            self.start_plan(plan)

    def start_rival(self, rival, candidate, base_gradients):
        try:
            self.rows[rival.text] = rival.start(self.settings, self.options)
            self.rows[rival.text].set(rival.config() | (candidate or {}))
            norms = self.rows[rival.text].gradients()
            same_function = rival.kind in ("one_thread", "two_threads") or not has_convolutions(self.options.model)
            check_gradients(rival.text, norms, base_gradients or norms, same_function)
            self.notes[rival.text] = described(candidate) if candidate else ""
            return base_gradients or norms
        except rows.RowFailed as failed:
            self.drop(rival.text, failed)
            if rival.text == self.base:
                raise
            return base_gradients

    def start_plan(self, plan):
        try:
            self.rows[plan] = rows.PlanRow(self.options.program, self.settings, self.options.steps, plan, self.options.timeout)
            with open(plan) as file:
                self.notes[plan] = described_plan(json.load(file)["plan"])
        except (rows.RowFailed, OSError) as failed:
            self.drop(plan, failed)

    def run(self):
        for number in range(self.options.rounds):
            names = list(self.rows)
            first = number % len(names)
            ours = [process for row in self.rows.values() for process in row.process_ids()]
            values = {}
            for name in names[first:] + names[:first]:
                try:
                    values[name] = visit(self.rows[name], ours, self.options, self.options.steps)
                except rows.RowFailed as failed:
                    self.drop(name, failed)
                    if name == self.base:
                        raise
                    ours = [process for row in self.rows.values() for process in row.process_ids()]
            self.rounds.append(values)
            say(f"round {number + 1} of {self.options.rounds}: one thread {1e3 * values[self.base][0]:.1f} ms")

    def end(self):
        for row in self.rows.values():
            row.end()


def ratios(rounds, name, over):
    """Of each round that has both."""
    return [values[name][0] / values[over][0] for values in rounds if name in values and over in values]


def quartiles(values):
    """First quartile, median, third."""
    return statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3


def report(comparison):
    options, rounds, base = comparison.options, comparison.rounds, comparison.base
    print(f"{options.model} {options.input} batch {options.batch}, cores {options.cores[0]} and {options.cores[1]}, "
          f"{len(rounds)} rounds of {options.steps} steps; ratios to {base} of the same round")
    width = max(map(len, comparison.rows))
    print(f"{'row':{width}}      ms   ratio  quartiles       malloc       plan")
    medians = {}
    for name in comparison.rows:
        low, medians[name], high = quartiles(ratios(rounds, name, base))
        milliseconds = 1e3 * statistics.median(values[name][0] for values in rounds if name in values)
        malloc = "as mptune's" if name in options.plans or "+same_malloc" in name else "default"
        print(f"{name:{width}} {milliseconds:7.1f}   {medians[name]:.3f}  [{low:.3f} {high:.3f}]   {malloc:11}  {comparison.notes[name]}")
    for name, reason in comparison.missing.items():
        print(f"{name} is missing: {reason}")
    best = min((name for name in medians if name not in options.plans), key=medians.get)
    print(f"fastest rival: {best}")
    for plan in options.plans:
        if plan in medians:
            low, middle, high = quartiles(ratios(rounds, plan, best))
            print(f"  {plan}: {middle:.3f} of it [{low:.3f} {high:.3f}]")
    for number, values in enumerate(rounds, 1):
        loaded = [f"{name} {share:.2f}" for name, (_, share) in values.items() if share > options.foreign]
        if loaded:
            print(f"other programs used the CPU in round {number} in every repetition, cores: {', '.join(loaded)}")


def write_json(comparison, path):
    visits = [{name: {"step_s": seconds, "foreign_cores": share} for name, (seconds, share) in values.items()} for values in comparison.rounds]
    options = {name: value for name, value in vars(comparison.options).items() if name != "rivals"}
    with open(path, "w") as file:
        json.dump({"options": options, "base": comparison.base, "plans": comparison.notes, "missing": comparison.missing, "rounds": visits},
                  file, indent=1)


def main(arguments):
    comparison = Comparison(parse(arguments))
    try:
        comparison.start()
        comparison.run()
    except rows.RowFailed as failed:
        say(f"{comparison.base} does not run: {failed}")
        return 1
    finally:
        comparison.end()
    report(comparison)
    if comparison.options.json:
        write_json(comparison, comparison.options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
