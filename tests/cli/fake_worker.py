#!/usr/bin/env -S python3 -S
"""A fake worker without LibTorch: answers every request from the fixtures' files. MPTUNE_FAKE selects how it fails.

MPTUNE_FAKE_PLANS says which plans of a series fail, by the names of baselines or "candidate": {"default_pipeline": "crash",
"candidate": {"type": "non_finite"}}, with one of ENDS or an outcome. MPTUNE_FAKE_FINAL says the same of series with several plans.
MPTUNE_FAKE_ODD is a seed: one message is another one that is valid JSON. MPTUNE_FAKE_SERIES_S is how long each series takes to start [s]. MPTUNE_FAKE_TABLE seeds a table of step times: the same plan and round
have the same time in every worker. MPTUNE_FAKE_LOG is a file that gets a line with each request's type and the names of its plans.
"""
import hashlib
import itertools
import json
import os
import random
import resource
import shutil
import signal
import sys
import time

FIXTURES = os.environ["MPTUNE_FAKE_FILES"]
MODE = os.environ.get("MPTUNE_FAKE", "")
request_fd = int(sys.argv[sys.argv.index("--request-fd") + 1])
reply_fd = int(sys.argv[sys.argv.index("--reply-fd") + 1])


SUFFIX = json.loads(os.environ.get("MPTUNE_FAKE_SUFFIX", '""'))  # behind every text that models and messages of others can bring
TEXTS = ["name", "modules", "kind", "description", "warning", "text", "what", "where", "remedy", "value", "layer_name", "operation", "left_out",
         "largest_at", "libtorch", "parameters_text"]


def with_suffix(value, key=""):
    if isinstance(value, dict):
        return {name: with_suffix(part, name) for name, part in value.items()}
    if isinstance(value, list):
        return [with_suffix(part, key) for part in value]
    return value + SUFFIX if isinstance(value, str) and value and key in TEXTS else value


def odd_messages(seed):
    """Changes one of the messages, given one after the other."""
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "commands"))
    from mutation import change_json
    chance = random.Random(seed)
    odd = chance.choice([0, 1, 1, 1, 2, 2, 3, 4, 5, 8, 13, 21])
    line = yield
    for number in itertools.count():
        line = yield change_json(chance, line) if number == odd else line


said = odd_messages(os.environ["MPTUNE_FAKE_ODD"]) if "MPTUNE_FAKE_ODD" in os.environ else None
if said:
    next(said)


def say(kind, **fields):
    line = json.dumps({"type": kind, **with_suffix(fields)}).encode()
    os.write(reply_fd, (said.send(line) if said else line) + b"\n")


def fail(what, where, remedy, exit_code, outcome=None):
    say("failed", what=what, where=where, remedy=remedy, exit_code=exit_code, outcome=outcome)
    sys.exit(exit_code)


def model(setup):
    layers = [
        {"name": f"block{i}", "kind": "Linear", "modules": [f"net.block{i}"], "parameters": 100, "parameters_bytes": 400, "buffers_bytes": 0,
         "batch_statistics": False, "least_samples": 1, "most_samples": 0}
        for i in range(6)
    ]
    shape = setup["input"] or "8:float32"
    if setup["model"] not in ("", "toy", "toy:layers=6", "other"):
        fail(f"unknown model '{setup['model']}'", "MODEL", "built-in models are toy, other", 2)
    if shape.split(":")[0] != "8":
        fail(f"input {shape} does not fit the model", "--input", "use 8:float32", 2)
    return {
        "name": setup["model"] or "toy", "parameters_text": "layers=6", "description": "six equal layers", "parameters": 600, "layers": layers,
        "input": "8:float32", "batch": 8,
        "fingerprint": {"model": "sha256:other" if setup["model"] == "other" else "sha256:toy", "input": "8:float32",
                        "devices": setup["devices"], "libtorch": "fake", "cuda": ""},
        "convolutions": False, "warning": "",
    }


def samples(values, entries=1, position=0):
    return {"values": [{"value": v, "round": i, "position": position, "started": 0.1 * i} for i, v in enumerate(values)]}


def true_step(plan):
    stages, m = plan["num_stages"], plan["num_microbatches"]
    width = max(len(stage["devices"]) for stage in plan["stages"])
    if stages == 1:
        return 0.1 / width * (1 + 0.01 * m) + 0.01 * (width - 1)
    return 0.1 / stages * (1 + (stages - 1) / m) * (1 + 0.02 * m)


def table_step(plan, round_):
    """The time of a round: the plan's own, by the table a little off."""
    step, seed = true_step(plan), os.environ.get("MPTUNE_FAKE_TABLE")
    if seed is None:
        return step * (1 + 0.001 * (round_ % 3))
    def draw(*words):
        return int(hashlib.sha256(json.dumps([seed, *words], sort_keys=True).encode()).hexdigest()[:8], 16) / 2 ** 32
    return step * (0.8 + 0.4 * draw(plan)) * (0.998 + 0.004 * draw(plan, round_))


def hang():
    time.sleep(600)


def close_pipe():
    os.close(reply_fd)
    hang()


ENDS = {"crash": lambda: os.kill(os.getpid(), signal.SIGSEGV), "abort": os.abort, "exit": lambda: os._exit(1), "hang": hang,
        "kill": lambda: os.kill(os.getpid(), signal.SIGKILL), "close": close_pipe}


def end_before_steps(index, entry, entries):
    """"crash" and the like end the plan's first step; "host:hang" and the like come before any step."""
    how = failure_of(entry, entries)
    if not isinstance(how, str):
        return
    if not how.startswith("host:"):
        say("step_started", entry=index, round=0)
    ENDS[how.removeprefix("host:")]()


def failure_of(entry, entries):
    failing = json.loads(os.environ.get("MPTUNE_FAKE_FINAL" if len(entries) > 1 else "MPTUNE_FAKE_PLANS", "{}"))
    return failing.get(entry["name"])


def series(request):
    entries = request["series"]["entries"]
    time.sleep(float(os.environ.get("MPTUNE_FAKE_SERIES_S", "0")))
    for index, entry in enumerate(entries):
        end_before_steps(index, entry, entries)
    for round_ in range(request["series"]["rounds"]):
        for index, entry in enumerate(entries):
            step = table_step(entry["plan"], round_)
            say("step_started", entry=index, round=round_)
            say("step_timed", entry=index, round=round_, position=index, started_s=0.1 * round_, step_s=step)
    for index, entry in enumerate(entries):
        values = [table_step(entry["plan"], r) for r in range(request["series"]["rounds"])]
        if failure_of(entry, entries):
            say("entry_finished", entry=index, outcome=failure_of(entry, entries))
            continue
        peaks = [120000 // entry["plan"]["num_stages"]] * len(entry["plan"]["devices"])
        if MODE == "oom-series":
            say("entry_finished", entry=index, outcome={"type": "out_of_memory", "device": "sleep:0", "requested_bytes": 4096, "cap_bytes": 1024})
            continue
        say("entry_finished", entry=index,
            outcome={"type": "measured", "step_s": samples(values, position=index), "peak_bytes": peaks, "loss": 1.0})


def part(name, **more):
    return {"name": name, "compared": "one with the other", "left_out": "", "no_time": False, "tensors": 12, "bit_equal": 12, "largest": 0.0, "largest_at": "",
            "tolerance": 1e-5, "only_measures": False, "difference": None, "remedy": "", **more}


def checked(request):
    where = {"what": "output", "layer": 3, "layer_name": "block3", "operation": "aten.rand_like in block3 (toy.py:7, x)", "relative": 0.25,
             "is_output": True}
    parts = [part("reference", left_out="no exported program", tensors=0, bit_equal=0), part("again"),
             part("pieces", bit_equal=10, largest=3e-7, largest_at="gradient of block1.weight")]
    if MODE.startswith("check-"):
        relative = "inf" if MODE == "check-shape" else 0.25
        parts[1] = part("again", bit_equal=9, largest=relative, largest_at="output", difference={**where, "relative": relative},
                        remedy="draw with dropout")
    if request["plan"] is not None:
        parts.append(part("plan", tensors=13))
    return {"samples": request["setup"]["batch"] or 4, "microbatch_sizes": [2, 2], "parts": parts}


def copy(name, path):
    """Whole or not at all, as the real worker writes."""
    shutil.copy(os.path.join(FIXTURES, name), path + ".part")
    os.replace(path + ".part", path)


def fixture_of(setup):
    """How the names of the files begin that hold what was measured."""
    sleeping = [device for device in setup["devices"] if device.startswith("sleep:")]
    return "pool" if setup["pools"] else "many_devices" if len(sleeping) > 2 else ""


def out_of_memory():
    fail("out of memory on sleep:1: 4 KiB asked with a cap of 1 KiB", "sleep:1", "use more devices", 3,
         {"type": "out_of_memory", "device": "sleep:1", "requested_bytes": 4096, "cap_bytes": 1024})


if MODE == "no-limits":
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
if MODE == "last-words":
    os.write(2, b"terminate called: net.so \xff" + SUFFIX.replace("\n", " ").encode() + b"\n")
    os.abort()
if MODE == "raw-reply":
    os.write(reply_fd, b'{"type": "failed \xff' + SUFFIX.encode() + b"\n")
if MODE == "cannot-load":
    sys.stderr.write("mptune-worker: error while loading shared libraries: libtorch.so: cannot open shared object file\n")
    sys.exit(127)
say("hello", protocol=21, version="0.1.0", libtorch="fake", cuda="")
with os.fdopen(request_fd) as stream:
    request = json.loads(stream.readline())
kind = request["type"]
if "MPTUNE_FAKE_LOG" in os.environ:
    with open(os.environ["MPTUNE_FAKE_LOG"], "a") as file:
        file.write(json.dumps({"type": kind, "plans": [entry["plan"] for entry in request.get("series", {}).get("entries", [])]}) + "\n")
if MODE == "hang-" + kind:
    with open(os.environ["MPTUNE_FAKE_PID"], "w") as file:
        file.write(str(os.getpid()))
    time.sleep(600)
if MODE == "oom-" + kind and kind != "series":
    out_of_memory()
if kind == "describe":
    say("described", models=[model(request["setup"])])
elif kind == "measure":
    say("progress", what="layer costs", fraction=0.5)
    time.sleep(float(os.environ.get("MPTUNE_FAKE_MEASURE_S", "0.5" if MODE == "slow" else "0")))
    if os.environ.get("MPTUNE_FAKE_MEASURE_WARNING"):
        say("warned", text=os.environ["MPTUNE_FAKE_MEASURE_WARNING"])
    copy((fixture_of(request["setup"]) or "profile") + ".sqlite", request["path"])
elif kind == "record":
    beginning = fixture_of(request["setup"])
    copy(beginning + "_trace.sqlite" if beginning else "trace.sqlite", request["path"])
    peaks = [1000 * (i + 1) for i in range(max(2, len(request["setup"]["devices"])))]
    say("recorded", step_off_s=0.05, step_on_s=0.0505, peak_bytes=peaks, step_s=samples([0.05, 0.051, 0.052, 0.05, 0.051, 0.05]),
        warning=os.environ.get("MPTUNE_FAKE_WARNING", ""), clock_error_s=0)
elif kind == "train":
    losses = [1 / (i + 1) for i in range(request["steps"] or 5)]
    if MODE == "nan":
        losses[-1] = "nan"
    for i, loss in enumerate(losses):
        say("trained", step=i, loss=loss, step_s=0.05, epoch=i // 2, samples=8, steps=len(losses),
            learning_rate=0.1)
    say("training_finished", first_step=0, skipped_steps=0, resumed_from="", checkpoint=request["checkpoint"] and request["checkpoint"] + "/step-4", step_s=samples([0.05] * len(losses)), loss=losses, epochs=[], peak_bytes=[1000, 2000])
elif kind == "series":
    series(request)
elif kind == "check":
    say("progress", what="every layer as a piece", fraction=0.5)
    say("checked", result=checked(request))
elif kind == "store":
    say("store_open")
    signal.pause()
elif kind == "serve":
    say("nothing_to_serve", exit_code=0)
elif kind == "doctor":
    say("findings", findings=[{"name": "LibTorch", "status": "ok", "value": "fake", "remedy": ""}])
say("done")
