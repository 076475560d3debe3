#!/usr/bin/env python3
"""A fake worker. MPTUNE_FAKE selects its behaviour; names of series entries select theirs: ok, oom, segv@R, exit@R, hang@R, close@R (R: round, w: warm-up),
disturbed@R (other programs take a third of the cores in that round)."""
import json
import os
import signal
import sys
import time

request_fd = int(sys.argv[sys.argv.index("--request-fd") + 1])
reply_fd = int(sys.argv[sys.argv.index("--reply-fd") + 1])
mode = os.environ.get("MPTUNE_FAKE", "ok")


def say(kind, **fields):
    os.write(reply_fd, (json.dumps({"type": kind, **fields}) + "\n").encode())


def die(how):
    if how == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "exit":
        os._exit(3)
    if how == "close":
        os.close(reply_fd)
        time.sleep(600)
    if how == "hang":
        time.sleep(600)


if mode == "loader":
    sys.stderr.write("mptune-worker: error while loading shared libraries: libtorch.so: cannot open shared object file\n")
    sys.exit(127)
if mode == "crash-at-once":
    die("segv")
say("hello", protocol=99 if mode == "protocol" else 21, version="0.1.0", libtorch="fake", cuda="")
if mode == "deaf":
    say("done")
    sys.exit(0)
with os.fdopen(request_fd) as stream:
    request = json.loads(stream.read())
if mode == "environment":
    names = ["OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "OMP_NUM_THREADS"]
    open_fds = sorted(int(fd) for fd in os.listdir("/proc/self/fd"))
    say("progress", what=",".join(n for n in names if n in os.environ), fraction=0.0)
    say("progress", what=" ".join(os.readlink(f"/proc/self/fd/{fd}") for fd in open_fds if os.path.exists(f"/proc/self/fd/{fd}")), fraction=0.0)
    say("progress", what=os.environ.get("MPTUNE_KEEP", ""), fraction=0.0)
elif mode == "garbage":
    os.write(reply_fd, b"this is not a message\n")
elif mode == "words":
    for i in range(20000):
        sys.stderr.write("a long line of words on stderr, number %d\n" % i)
    sys.stderr.write("the last words\n")
    print("and some on stdout")
    die("exit")
elif mode in ("segv", "exit", "hang", "close"):
    say("progress", what="pid %d" % os.getpid(), fraction=0.5)
    die(mode)
elif mode == "unfinished":
    with open("%s.tmp-%d-0" % (request["path"], os.getpid()), "w") as output:
        output.write("not whole")
    say("progress", what="pid %d" % os.getpid(), fraction=0.5)
    die("hang")
elif mode == "child":
    child = os.fork()
    if child == 0:
        time.sleep(600)
    say("progress", what="pid %d" % child, fraction=0.5)
    die("hang")
elif mode == "failed":
    say("failed", what="no such model", where="nonsense", remedy="see mptune models", exit_code=2, outcome=None)
    sys.exit(2)
elif mode == "progress":
    for i in range(5):
        say("progress", what="layer costs", fraction=i / 4)
elif request["type"] == "series":
    series = request["series"]
    entries = [e["name"] for e in series["entries"]]
    active = []
    for i, name in enumerate(entries):
        say("step_started", entry=i, round=-1)
        if name == "oom":
            say("entry_finished", entry=i, outcome={"type": "out_of_memory", "device": "cpu:1", "requested_bytes": 5, "cap_bytes": 4})
            continue
        for _ in range(series["warm_up"]):
            say("step_started", entry=i, round=-1)
            if name.endswith("@w"):
                die(name.split("@")[0])
        active.append(i)
    samples = {i: [] for i in active}
    for r in range(series["rounds"]):
        order = active if r % 2 == 0 else active[::-1]
        for position, i in enumerate(order):
            say("step_started", entry=i, round=r)
            if entries[i].endswith("@%d" % r):
                die(entries[i].split("@")[0])
            now = time.monotonic() - request["started_s"]
            sample = {"value": 1.0 + i, "round": r, "position": position, "started": now}
            samples[i].append(sample)
            say("step_timed", entry=i, round=r, position=position, started_s=now, step_s=sample["value"])
        if any(entries[i] == "disturbed@%d" % r for i in active):
            say("rounds_disturbed", rounds={"first": r, "last": r, "disturbance": {"by": "other_programs", "share": 0.33}})
    for i in active:
        say("entry_finished", entry=i, outcome={"type": "measured", "step_s": {"values": samples[i]}, "peak_bytes": [7, 8], "loss": 0.5})
say("done")
