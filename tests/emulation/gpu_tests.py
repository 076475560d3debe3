"""gpu_tests.py BUILD [-j N] [--only WORDS] [--machine NAME] [--seeds N]: runs every test with the label gpu on emulated machines of its own (tests/emulated.sh), with
the race check, memory that is filled with NaN, and strict kernels. Fails if one fails, races, or is skipped on every machine without being named below.

--seeds N: runs them N times more, with tasks delayed at random (EMULATED_JITTER_US), each time another way."""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Tests that only a real GPU can pass, and why.
ONLY_HARDWARE = {}
# Machines by name: settings, and words in the names of the tests that run there. The first one runs all.
SEVERAL_GPUS = ["GpusTogether", "GpusOfRanks"]
MACHINES = {
    "four GPUs": ({"EMULATED_WORKSPACE": str(8 << 20), "EMULATED_NCCL_BUFFERS": str(3 << 20)}, [""]),
    "two GPUs": ({"EMULATED_GPUS": "2"}, SEVERAL_GPUS),
    "eight GPUs": ({"EMULATED_GPUS": "8"}, SEVERAL_GPUS),
    "no peers": ({"EMULATED_PEERS": "0"}, ["GpusTogether", "GpusOfRanks.SeveralGpusEach", "GpuCopies"]),
}
SKIPPED, RACE = "SKIP", 66


def tests_of(build, words):
    """Of ctest's label gpu: name, command, folder and environment."""
    listed = subprocess.run(["ctest", "--test-dir", build, "-L", "^gpu$", "--show-only=json-v1"], check=True, capture_output=True, text=True).stdout
    for test in json.loads(listed)["tests"]:
        if words and not any(word in test["name"] for word in words):
            continue
        properties = {entry["name"]: entry["value"] for entry in test.get("properties", [])}
        variables = dict(entry.split("=", 1) for entry in properties.get("ENVIRONMENT", []))
        yield test["name"], test["command"], properties.get("WORKING_DIRECTORY"), variables


def skips_all(output):
    return bool(re.search(r"^\[  SKIPPED \]|^OK \(skipped=", output, re.MULTILINE))


def run(build, machine, name, command, folder, variables, seed):
    """The verdict, the seconds, and what it printed, of this process; races of those that it starts, too."""
    settings = {"MPTUNE_BUILD": str(build), "EMULATED_STRICT": "1", "EMULATED_RACES": "1", **MACHINES[machine][0]}
    if seed > 0:
        settings.update(EMULATED_JITTER_US="200", EMULATED_SEED=str(seed))
    with tempfile.NamedTemporaryFile("r") as races:
        began = time.monotonic()
        done = subprocess.run([ROOT / "tests" / "emulated.sh", *command], env={**os.environ, **variables, **settings, "EMULATED_RACE_FILE": races.name},
                              cwd=folder, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        raced = races.read()
    seconds = time.monotonic() - began
    verdict = "RACE" if raced or done.returncode == RACE else "FAIL" if done.returncode != 0 else SKIPPED if skips_all(done.stdout) else "PASS"
    return machine, name, verdict, seconds, done.stdout + raced


def runs_on(machine, name):
    return any(word in name for word in MACHINES[machine][1])


def skipped_everywhere(verdicts):
    """`verdicts`: (name, verdict) of all runs."""
    ran = {name for name, verdict in verdicts if verdict != SKIPPED}
    return {name for name, _ in verdicts} - ran - set(ONLY_HARDWARE)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("-j", type=int, default=len(os.sched_getaffinity(0)), dest="jobs")
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--machine", choices=MACHINES, action="append", dest="machines", help="one of the machines; default: all")
    parser.add_argument("--seeds", type=int, default=0)
    asked = parser.parse_args()
    build = asked.build.resolve()
    tests = sorted(tests_of(build, asked.only), key=lambda test: not test[0].startswith("commands"))  # the longest first
    if not tests:
        sys.exit("no test has the label gpu: build the tests first")
    verdicts, faults = [], set()
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        runs = [pool.submit(run, build, machine, *test, seed)
                for seed in range(asked.seeds + 1) for machine in asked.machines or MACHINES for test in tests if runs_on(machine, test[0])]
        for done in concurrent.futures.as_completed(runs):
            machine, name, verdict, seconds, output = done.result()
            verdicts.append((name, verdict))
            print(f"{verdict}  {seconds:6.1f} s  {name}, {machine}", flush=True)
            if verdict not in ("PASS", SKIPPED):
                faults.add(f"{name} on {machine}")
                print(output, flush=True)
    counts = collections.Counter(verdict for _, verdict in verdicts)
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    faults |= {f"{name} is skipped everywhere" for name in skipped_everywhere(verdicts)}
    if faults:
        sys.exit(f"{len(faults)} of {len(runs)} runs: {', '.join(sorted(faults))}")


if __name__ == "__main__":
    main()
