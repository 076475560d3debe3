"""leave_out.py [--tree FOLDER] [--list] [--only WORD...] [-j N]: tests of the tests. Leaves out each wait, event, record of a reader, guard and switch
of stream in mptune's GPU code, one at a time, and runs the tests that reach it, on the emulated machine.

Works on a git worktree of its own (FOLDER, else build/left_out), in which each such place asks the environment whether it is left out: so one build
serves all. What was added to git or changed counts, committed or not.

A place is noticed if a test fails, races, dies, or does not end. One that survives is run again with tasks delayed at random. Fails if a place
survives without a reason in leave_out_reasons.py, or a reason there is not true any more."""
import argparse
import collections
import concurrent.futures
import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import gpu_tests
from leave_out_places import places_of, rewritten
from leave_out_reasons import REASONS

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGETS = ["mptune_cuda", "emulated_machine", "test_profiler_device", "test_tuner_runtime", "test_profiler_models", "test_profiler_cupti", "test_tuner_worker",
           "test_profiler_device_list"]
# On devices of the host that run behind their threads.
HOST_TESTS = {"test_profiler_device": "CommunicationBuffers.*:CopyLane.*", "test_tuner_runtime": "BehindDevices.*:Channel.*:DirectLinks.*"}
RACE, SEEDS, HANG_S = 66, 2, 60


@dataclasses.dataclass
class Test:
    name: str
    command: list
    variables: dict
    seconds: float = 0
    reaches: frozenset = frozenset()


def git(*arguments, folder=ROOT):
    return subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True, text=True).stdout.strip()


def check_out(tree):
    """The tree becomes what is here, and what is built in it stays."""
    commit = git("stash", "create") or git("rev-parse", "HEAD")
    if not tree.exists():
        git("worktree", "add", "--detach", str(tree), commit)
    git("checkout", "--force", "--detach", commit, folder=tree)


def instrument(tree):
    files = collections.defaultdict(list)
    for place in places_of(tree):
        files[place.file].append(place)
    for file, places in files.items():
        (tree / file).write_text(rewritten((tree / file).read_text(), places))


def build(tree, jobs):
    (tree / "build").mkdir(exist_ok=True)
    python = tree / "build" / "python"
    if not python.exists() and (ROOT / "build" / "python").exists():
        python.symlink_to((ROOT / "build" / "python").resolve())
    subprocess.run(["cmake", "--preset", "release", "-S", tree], check=True, cwd=tree, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", tree / "build" / "release", f"-j{jobs}", *TARGETS], check=True, stdout=sys.stderr)


def tests_of(tree):
    folder = tree / "build" / "release"
    for name, command, _, variables in gpu_tests.tests_of(folder, []):
        if not name.startswith("commands."):  # they need all of mptune, and other tests reach the same places
            yield Test(name, command, variables)
    for program, words in HOST_TESTS.items():
        yield Test(f"{program} {words}", [folder / "bin" / program, f"--gtest_filter={words}"], {})


def run(tree, test, settings, limit):
    """"" if the test passes, else how it failed."""
    variables = {"MPTUNE_BUILD": str(tree / "build" / "release"), "EMULATED_STRICT": "1", "EMULATED_RACES": "1", **settings}
    process = subprocess.Popen([tree / "tests" / "emulated.sh", *test.command], env={**os.environ, **test.variables, **variables}, start_new_session=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        code = process.wait(limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return "does not end"
    if code == 0:
        return ""
    return "race" if code == RACE else "failure" if code == 1 else f"crash ({signal.Signals(-code).name if code < 0 else code})"


def measure(tree, test):
    """How long the test takes, and what it reaches, with nothing left out."""
    with tempfile.NamedTemporaryFile("r") as reached:
        began = time.monotonic()
        fault = run(tree, test, {"LEAVE_OUT_REACHED": reached.name}, 600)
        if fault:
            sys.exit(f"{test.name}: {fault}, with nothing left out")
        return dataclasses.replace(test, seconds=time.monotonic() - began, reaches=frozenset(int(line) for line in reached))


def leave_out(tree, place, tests):
    """Which test notices that the place is left out, and how; none: how many reach it."""
    reaching = sorted((test for test in tests if place.number in test.reaches), key=lambda test: test.seconds)
    for seed in range(SEEDS + 1):
        jitter = {"EMULATED_JITTER_US": "500", "EMULATED_SEED": str(seed)} if seed else {}
        for test in reaching:
            fault = run(tree, test, {"LEAVE_OUT": str(place.number), **jitter}, HANG_S + 5 * test.seconds)
            if fault:
                return test.name, fault + (" (delayed)" if seed else "")
    return None, f"{len(reaching)} tests reach it"


def reason_of(place):
    return REASONS.get((place.file, place.code))


def verdict(place, test, how):
    """The row of the table, and whether it is a fault."""
    reason = reason_of(place)
    if test:
        return f"noticed   {place.name}: {test}: {how}{'; its reason is not true' if reason else ''}", bool(reason)
    return f"{'explained' if reason else 'SURVIVED '} {place.name}: {how}{'; ' + reason if reason else ''}", not reason


def leave_out_all(tree, places, tests, jobs):
    """The table's rows in order of places, and how many are faults."""
    rows = {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        runs = {pool.submit(leave_out, tree, place, tests): place for place in places}
        for done in concurrent.futures.as_completed(runs):
            rows[runs[done].number] = verdict(runs[done], *done.result())
            print(rows[runs[done].number][0], file=sys.stderr, flush=True)
    return [rows[place.number] for place in places]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=pathlib.Path, default=ROOT / "build" / "left_out")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("-j", type=int, default=len(os.sched_getaffinity(0)), dest="jobs")
    return parser.parse_args()


def forgotten_reasons():
    known = {(place.file, place.code) for place in places_of(ROOT)}
    return [f"{file}: {code}" for file, code in REASONS if (file, code) not in known]


def main():
    asked, began = arguments(), time.monotonic()
    places = [place for place in places_of(ROOT) if not asked.only or any(word in f"{place.name} ({place.pattern.what})" for word in asked.only)]
    if asked.list:
        return print("\n".join(f"{place.name} ({place.pattern.what})" for place in places))
    if forgotten_reasons():
        sys.exit("a reason for what is not there: " + ", ".join(forgotten_reasons()))
    tree = asked.tree.resolve()
    check_out(tree)
    instrument(tree)
    build(tree, asked.jobs)
    built = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        tests = list(pool.map(lambda test: measure(tree, test), tests_of(tree)))
    rows = leave_out_all(tree, places, tests, asked.jobs)
    print("\n".join(row for row, _ in rows))
    counts = collections.Counter(row.split()[0].lower() for row, _ in rows)
    print(f"{len(rows)} places: {', '.join(f'{count} {what}' for what, count in counts.items())}; "
          f"{built - began:.0f} s to build, {time.monotonic() - built:.0f} s to run")
    sys.exit(1 if any(fault for _, fault in rows) else 0)


if __name__ == "__main__":
    main()
