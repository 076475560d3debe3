"""What the recorder loses is counted and said, and above 1 % there is no verdict."""
from truth.compare import Comparison
from truth.ledger import read_ledger
from truth.recording import Recording

NO_VERDICT = 5
MODEL = ["mlp:layers=2,width=16", "--batch", "8", "--devices", "cuda:0,cuda:1", "--steps", "3", "--microbatches", "8"]


class Case:
    def __init__(self, machine, name, profile, settings):
        self.name, self.faults = name, []
        self.trace, ledger = machine.folder / f"{name}.sqlite", machine.folder / f"{name}.csv"
        self.done = machine.mptune("profile", *MODEL, "--measured", profile, "-o", self.trace, settings={**settings, "LEDGER": ledger})
        self.imported = machine.mptune("import", self.trace) if self.trace.exists() else None
        self.comparison = Comparison(read_ledger(ledger), Recording(self.trace)) if self.trace.exists() else None

    def expect(self, true, text):
        if not true:
            self.faults.append(f"{self.name}: {text}")

    @property
    def missing(self):
        return len(self.comparison.missing)

    def expect_counted(self, what):
        """Each work that the trace lacks, under this name, and nothing invented."""
        for done in (self.done, self.imported):
            self.expect(done.result["quality"][what] == self.missing, f"{done.result['quality']} for {self.missing} missing")
        self.expect(not self.comparison.invented, f"invented: {self.comparison.invented[:2]}")

    def expect_verdict(self, withheld, *words):
        for done in (self.done, self.imported):
            self.expect(done.code == (NO_VERDICT if withheld else 0), f"exit code {done.code} of {self.missing} lost: {done.said[-300:]}")
            self.expect(all(word in done.said for word in words), f"said {done.said[-300:]!r}, expected {words}")

    def report(self):
        quality = self.done.result.get("quality", {})
        said = [line for line in self.done.said.splitlines() if "recording" not in line and "profiling" not in line]
        print(f"  {self.name}: exit code {self.done.code}, {({name: count for name, count in quality.items() if count})}, {' | '.join(said)[:200]}", flush=True)
        return self.faults


def lost(machine, profile, name, spacing, what):
    setting = {"dropped": "DROP_RECORDS", "zero_stamped": "ZERO_RECORDS"}[what]
    case = Case(machine, name, profile, {setting: spacing})
    case.expect(case.missing > 0, "nothing was lost")
    case.expect_counted(what)
    case.expect_verdict(spacing < 100, *(["too incomplete for a verdict"] if spacing < 100 else []))
    return case.report()


def other_tool(machine, profile):
    case = Case(machine, "another tool", profile, {"OTHER_SUBSCRIBER": "Nsight"})
    case.expect("Nsight" in case.done.said, f"the other tool is not named: {case.done.said[-300:]}")
    case.expect(case.done.code == NO_VERDICT, f"exit code {case.done.code}")
    case.expect(case.done.result.get("quality", {}).get("dropped", 0) > 0, "nothing is counted as lost")
    return case.report()


def refused_kind(machine, profile, kind):
    case = Case(machine, f"refused kind {kind}", profile, {"REFUSED_KINDS": kind})
    case.expect(str(kind) in case.done.said and "refused" in case.done.said, f"the kind is not named: {case.done.said[-300:]}")
    case.expect(case.done.code == NO_VERDICT, f"exit code {case.done.code}")
    return case.report()


def drifting_clock(machine, profile):
    case = Case(machine, "clock that drifts", profile, {"CLOCK_PPM": 20000})
    case.expect_verdict(True, "too incomplete for a verdict")
    return case.report()


def run(machine, asked):
    profile = machine.folder / "losses.sqlite"
    if not profile.exists():
        done = machine.mptune("profile", *MODEL, "-o", profile)
        if done.code != 0:
            return [f"measuring failed: {done.said}"]
    faults = lost(machine, profile, "every 7th record lost", 7, "dropped") + lost(machine, profile, "every 50th without times", 50, "zero_stamped")
    faults += lost(machine, profile, "every 300th lost", 300, "dropped") + other_tool(machine, profile)
    for kind in (10, 1) if asked.short else (1, 2, 4, 5, 10, 22, 38, 39):
        faults += refused_kind(machine, profile, kind)
    faults += drifting_clock(machine, profile)
    for fault in faults:
        print(f"  {fault}", flush=True)
    return faults
