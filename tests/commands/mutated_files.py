"""Files of every kind that commands read, valid as JSON or SQLite and odd in what they hold, and messages of a worker of this kind.

    mutated_files.py [--reader NAME] [--count N] [--seed N] [--only NUMBER]

Each run changes a good file and gives it to one command: it answers, with JSON that its schema allows, or refuses the file in one line with a
remedy. N mutations of each reader; --only repeats one. Needs MPTUNE_PROGRAM, MPTUNE_FIXTURES and MPTUNE_SCHEMAS as the tests of commands do.
"""
import argparse
import concurrent.futures
import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile

import jsonschema

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from harness import PROGRAM, WORKER, schema
from mutation import change_database, change_json, fault_of
from patience import patience

LONGEST_S = 30
MOST_BYTES = 4 << 30  # of address space: what a small file makes mptune take
CODES = (0, 2, 3, 4, 5, 6)
WORKER_CODES = (*CODES, 1, 7)  # 1: mptune and its worker are not of one build
FILE = "FILE"  # in commands: the changed one
MODEL = ["toy", "--devices", "sleep:2"]
TOPOLOGY = {"schema": "mptune.topology/1",
            "hosts": [{"name": "node", "count": 4, "devices": 2, "memory": "4GiB", "link": {"bandwidth": "20GB/s", "latency": "5us"}}],
            "between_hosts": {"bandwidth": "2GB/s", "latency": "20us", "shared": "host"}}
PLACEMENT = {"maxSizePerFPGA": 1e9, "maxFPGAs": 2, "maxCPUs": 1,
             "nodes": [{"name": f"node{i}", "id": i, "supportedOnFpga": 1, "cpuLatency": 2.5, "fpgaLatency": 0.5, "isBackwardNode": int(i > 3), "colorClass": i % 4,
                        "size": 8.0} for i in range(8)],
             "edges": [{"sourceId": i, "destId": i + 1, "cost": 0.1, "size": 4.0} for i in range(7)]}
# By reader: the good file, how it is changed, and the commands that read it.
READERS = {
    "plan": ("plan.json", change_json, [["simulate", "--plan", FILE, "--profile", "profile.sqlite"], ["compare", FILE, "plan.json"],
                                        ["run", "toy", "--plan", FILE, "--steps", "2"], ["check", "toy", "--plan", FILE]]),
    "profile": ("profile.sqlite", change_database, [["plan", FILE], ["simulate", "--plan", "plan.json", "--profile", FILE], ["report", FILE, "--text"]]),
    "trace": ("trace.sqlite", change_database, [["report", FILE, "--text"], ["import", FILE], ["compare", FILE, "trace.sqlite"], ["plan", FILE],
                                                ["export", FILE, "--to", "kineto", "-o", "out.json"], ["export", FILE, "--to", "perfetto", "-o", "out.json"]]),
    "nsight": ("nsight.sqlite", change_database, [["import", FILE], ["report", FILE, "--text"], ["compare", FILE, "nsight.sqlite"]]),
    "kineto": ("kineto.rank0.json", change_json, [["import", FILE]]),
    "study": ("s.study", change_database, [["report", FILE, "--text"], ["report", FILE, "--markdown"],
                                           ["tune", "--resume", FILE, "--budget", "1s"]]),
    "topology": ("topology.json", change_json, [["plan", "profile.sqlite", "--topology", FILE, "--batch", "16"]]),
    "placement": ("placement.json", change_json, [["plan", FILE, "--batch", "8"], ["import", FILE]]),
    "worker": (None, None, [["models"], ["doctor"], ["check", *MODEL, "--stages", "2"], ["run", *MODEL, "--steps", "2"], ["profile", *MODEL, "-o", "out.sqlite"],
                            ["tune", *MODEL, "--budget", "1s", "-o", "out.study"]]),
}


def environment(folder, **more):
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH", "ASAN_OPTIONS") if name in os.environ}
    return {**kept, "LC_ALL": "C", "MPTUNE_WORKER": WORKER, "MPTUNE_FAKE_FILES": folder, "TMPDIR": folder, "MPTUNE_FAKE_PID": os.path.join(folder, "pid"), **more}


def prepare(folder):
    """The good files."""
    subprocess.run([os.environ["MPTUNE_FIXTURES"], folder], check=True)
    for name, content in (("topology.json", TOPOLOGY), ("placement.json", PLACEMENT)):
        with open(os.path.join(folder, name), "w") as file:
            json.dump(content, file)
    for arguments in (["export", "trace.sqlite", "--to", "kineto", "-o", "kineto.json"], ["tune", *MODEL, "--budget", "3s", "-o", "s.study"]):
        done = subprocess.run([PROGRAM, *arguments], cwd=folder, env=environment(folder), capture_output=True, text=True)
        if done.returncode not in (0, 5):
            sys.exit(f"{arguments}: {done.returncode}\n{done.stderr}")
    # As another program wrote it: without our own tables.
    shutil.copy(os.path.join(folder, "trace.sqlite"), os.path.join(folder, "nsight.sqlite"))
    with sqlite3.connect(os.path.join(folder, "nsight.sqlite")) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'MPTUNE%'").fetchall():
            database.execute(f"DROP TABLE {name}")


def change(reader, chance, folder):
    """The changed file of this run."""
    source, how, _ = READERS[reader]
    changed = "changed." + source.split(".", 1)[1]
    if reader == "study":
        shutil.copytree(os.path.join(folder, source), os.path.join(folder, changed))
        change_database(chance, os.path.join(folder, changed, "study.sqlite"))
    elif how is change_database:
        shutil.copy(os.path.join(folder, source), os.path.join(folder, changed))
        change_database(chance, os.path.join(folder, changed))
    else:
        with open(os.path.join(folder, source), "rb") as good, open(os.path.join(folder, changed), "wb") as file:
            file.write(how(chance, good.read()))
    return changed


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))


def run(command, folder, **more):
    """The exit code, the output and the errors; None for a command that does not end."""
    process = subprocess.Popen([PROGRAM, *command], cwd=folder, env=environment(folder, **more), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, start_new_session=True, preexec_fn=limit_memory)
    try:
        out, errors = process.communicate(timeout=patience(LONGEST_S))
        return process.returncode, out.decode(errors="replace"), errors.decode(errors="replace")
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None


def fault_of_json(command, code, out):
    try:
        value = json.loads(out, parse_constant=lambda word: (_ for _ in ()).throw(ValueError(f"{word} is no JSON")))
        names = {"plan": "plan-result"}
        jsonschema.validate(value, schema("error" if "error" in value else names.get(command[0], command[0])))
    except (ValueError, jsonschema.ValidationError) as error:
        return f"code {code}, output: {str(error).splitlines()[0]}"
    return ""


def one(reader, number, seed, prepared):
    """What one run complains about; "" for nothing."""
    chance = random.Random(f"{seed}.{reader}.{number}")
    command = chance.choice(READERS[reader][2])
    with tempfile.TemporaryDirectory(prefix="mptune-mutated-") as place:
        folder = os.path.join(place, "files")
        shutil.copytree(prepared, folder)
        more, codes = {}, CODES
        if reader == "worker":
            more, codes = {"MPTUNE_FAKE_ODD": f"{seed}.{number}"}, WORKER_CODES
        else:
            changed = change(reader, chance, folder)
            command = [changed if word == FILE else word for word in command]
        with_json = chance.random() < 0.5
        done = run((["--json"] if with_json else []) + command, folder, **more)
        if done is None:
            return f"{' '.join(command)}: no end"
        fault = fault_of(*done, codes) or (fault_of_json(command, done[0], done[1]) if with_json else "")
        return f"{' '.join(command)}: {fault[:500]}" if fault else ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--reader", choices=READERS)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int)
    options = parser.parse_args()
    readers = [options.reader] if options.reader else list(READERS)
    numbers = [options.only] if options.only is not None else range(options.count)
    faults = 0
    with tempfile.TemporaryDirectory(prefix="mptune-prepared-") as prepared, concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        prepare(prepared)
        runs = [(reader, number, pool.submit(one, reader, number, options.seed, prepared)) for reader in readers for number in numbers]
        for reader, number, future in runs:
            if complaint := future.result():
                faults += 1
                print(f"--reader {reader} --seed {options.seed} --only {number}: {complaint}", flush=True)
    print(f"{len(runs)} files and messages, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
