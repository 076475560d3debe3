"""The faults of a hostile day. Each is given a round and does its harm before, while or after the round's command runs."""
import os
import resource
import shutil
import signal
import time

from hostile_world import finished_trials, processes, workers
from mutation import change_database, change_json

HOSTILE_TEXT = b"\x1b[2J\x1b]0;title\x07\r\n\xff\xfe\x00 {\"schema\": \"mptune.plan/1\", \xe2\x80\xae"
STUDY_COMMANDS = ("tune", "resume")
RANKS_COMMANDS = ("run over ranks", "tune over ranks")
STOPPED_RANK_S = 40  # until it is noticed, and a few more that the others take to end
WORKER_COMMANDS = ("profile", "tune", "resume", "run", "check", "doctor")


def none(round_):
    round_.run()


# ---- the worker ----

def signal_of_worker(number):
    def fault(round_):
        def meddle(process):
            round_.wait_a_moment(process)
            while process.poll() is None:
                if found := workers(round_.marker):
                    os.kill(found[0], number)
                    return
                time.sleep(0.01)
        round_.run(meddle=meddle, more_s=12 if number == signal.SIGSTOP else 0)
    fault.only = WORKER_COMMANDS
    return fault


def stopped_process_of_ranks(round_):
    """Of any rank: its mptune, its worker, or the one that keeps the store."""
    def meddle(process):
        round_.wait_a_moment(process)
        others = [pid for pid in processes(round_.marker) if pid != process.pid]
        if others and process.poll() is None:
            os.kill(round_.random.choice(others), signal.SIGSTOP)
    round_.run(meddle=meddle, more_s=STOPPED_RANK_S)


stopped_process_of_ranks.only = RANKS_COMMANDS


# ---- mptune itself ----

def killed(round_):
    def meddle(process):
        round_.wait_a_moment(process)
        process.kill()
    round_.may_leave_files = True
    round_.run(meddle=meddle, codes={-signal.SIGKILL})
    if round_.name in STUDY_COMMANDS:
        before = finished_trials(round_.path(round_.study))
        round_.point += f", then --resume of {len(before)} trials"
        round_.may_leave_files = True
        round_.run(again=True)
        round_.expect_kept(before)


def interrupted(number, code):
    def fault(round_):
        def meddle(process):
            round_.wait_a_moment(process)
            if process.poll() is None:
                process.send_signal(number)
                round_.must_end_by = time.monotonic() + round_.day.interrupt_s
        round_.run(meddle=meddle, codes={code, -number})  # the number itself: it came before the program was loaded
        if round_.name in STUDY_COMMANDS:
            before = finished_trials(round_.path(round_.study))
            round_.run(again=True)
            round_.expect_kept(before)
    return fault


def stopped_for_a_while(round_):
    def meddle(process):
        round_.wait_a_moment(process)
        if process.poll() is None:
            process.send_signal(signal.SIGSTOP)
            time.sleep(12)
            process.send_signal(signal.SIGCONT)
    round_.run(meddle=meddle, more_s=14)
    if round_.done.returncode not in round_.good:
        round_.complain("a stop of 12 s ended the command")


# ---- its surroundings ----

def streams(out, err):
    """Each: "closed", a path, or None for the usual file."""
    def fault(round_):
        def before():
            for descriptor, place in ((1, out), (2, err)):
                if place == "closed":
                    os.close(descriptor)
                elif place:
                    os.dup2(os.open(place, os.O_WRONLY), descriptor)
        round_.mute = err is not None
        round_.deaf = out is not None
        round_.run(before=before)
    return fault


def limit(name, values, codes=()):
    def fault(round_):
        value = round_.random.choice(values)
        round_.point = f"{name} {value}"
        kind = getattr(resource, name)
        round_.run(before=lambda: resource.setrlimit(kind, (value, resource.getrlimit(kind)[1])), codes=set(codes))
    return fault


def temporary_folder(place):
    def fault(round_):
        round_.environment["TMPDIR"] = place or round_.path("p.sqlite")
        round_.run()
    return fault


# ---- what it reads ----

def damaged(data, random):
    kind = random.choice(["cut", "bits", "zeros", "empty", "noise", "hostile", "twice"])
    at = random.randrange(len(data))
    if kind == "cut":
        data = data[:at]
    elif kind == "bits":
        changed = bytearray(data)
        for _ in range(random.choice([1, 3, 30])):
            changed[random.randrange(len(data))] ^= 1 << random.randrange(8)
        data = bytes(changed)
    elif kind == "zeros":
        data = data[:at] + bytes(min(4096, len(data) - at)) + data[at + 4096:]
    elif kind == "empty":
        data = b""
    elif kind == "noise":
        data = random.randbytes(1000)
    elif kind == "hostile":
        data = data[:at] + HOSTILE_TEXT + data[at:]
    else:
        data = data + data
    return kind, data


def input_file(round_):
    name = round_.random.choice(round_.inputs)
    with open(round_.path(name), "rb") as file:
        kind, data = damaged(file.read(), round_.random)
    with open(round_.path(name), "wb") as file:
        file.write(data)
    round_.point = f"{kind} in {name}"
    round_.run()


def odd_input(round_):
    """Valid as JSON or SQLite, and odd in what it holds."""
    name = round_.random.choice([name for name in round_.inputs if name.endswith((".json", ".sqlite"))])
    if name.endswith(".sqlite"):
        change_database(round_.random, round_.path(name))
    else:
        with open(round_.path(name), "rb") as file:
            content = change_json(round_.random, file.read())
        with open(round_.path(name), "wb") as file:
            file.write(content)
    round_.point = f"odd values in {name}"
    round_.may_lose_trials = True
    round_.run(codes={4})


def plug_in(round_):
    kind = round_.random.choice(["throw", "abort", "exit", "loop", "segv", "nan"])
    place = round_.random.choice(["factory", "forward", "backward"])
    calls = 1 if place == "factory" else int(2 ** round_.random.uniform(0, 10))
    round_.environment["MPTUNE_HOSTILE_PLUGIN"] = round_.point = f"{kind}@{place}:{calls}"
    round_.arguments = ["./net.so" if word == round_.day.model else word for word in round_.arguments]
    round_.environment["MPTUNE_PATIENCE"] = "10"
    round_.run(more_s=12 if kind == "loop" else 0)


def not_a_number(round_):
    round_.arguments += ["--data", "nan.pt"] + ([] if "--batch" in round_.arguments or "--plan" in round_.arguments else ["--batch", "8"])
    round_.run(codes={3})


input_file.needs_inputs = True
odd_input.only = ("resume", "run", "plan", "simulate", "report", "report a trace", "compare", "compare plans", "import", "export", "export a plan",
                  "export a study")
plug_in.only = ("profile", "tune", "check", "run on a core")
not_a_number.only = ("run", "profile", "check")


# ---- what it writes ----

def deleted_while_running(what):
    def fault(round_):
        def meddle(process):
            round_.wait_a_moment(process)
            path = os.path.join(round_.path(round_.study), what)
            if os.path.isdir(path):
                shutil.rmtree(path, ignore_errors=True)
            elif os.path.exists(path):
                os.remove(path)
        round_.may_lose_trials = True
        round_.run(meddle=meddle)
    fault.only = STUDY_COMMANDS
    return fault


def truncated_while_running(round_):
    def meddle(process):
        round_.wait_a_moment(process)
        path = os.path.join(round_.path(round_.study), "study.sqlite")
        if os.path.exists(path):
            os.truncate(path, round_.random.randrange(1 + os.path.getsize(path)))
    round_.may_lose_trials = True
    round_.run(meddle=meddle)


def two_tuners(round_):
    def meddle(process):
        round_.wait_a_moment(process)
        other = round_.start(round_.again())
        round_.end(other, time.monotonic() + round_.usual_s + round_.day.slack_s)
        round_.look_at(other, codes={2})
    round_.run(meddle=meddle, more_s=round_.usual_s, codes={2})  # the second may begin first


truncated_while_running.only = STUDY_COMMANDS
two_tuners.only = STUDY_COMMANDS

KIB, MIB = 1 << 10, 1 << 20
FAULTS = {
    "nothing": none,
    "SIGKILL of the worker": signal_of_worker(signal.SIGKILL),
    "SIGSTOP of the worker": signal_of_worker(signal.SIGSTOP),
    "SIGSEGV of the worker": signal_of_worker(signal.SIGSEGV),
    "SIGABRT of the worker": signal_of_worker(signal.SIGABRT),
    "SIGKILL": killed,
    "SIGINT": interrupted(signal.SIGINT, 130),
    "SIGTERM": interrupted(signal.SIGTERM, 143),
    "SIGSTOP for 12 s": stopped_for_a_while,
    "stdout closed": streams("closed", None),
    "stderr closed": streams(None, "closed"),
    "both closed": streams("closed", "closed"),
    "stdout full": streams("/dev/full", None),
    "stderr full": streams(None, "/dev/full"),
    "ulimit -f": limit("RLIMIT_FSIZE", [0, KIB, 20 * KIB, 100 * KIB, MIB]),
    "ulimit -v": limit("RLIMIT_AS", [128 * MIB, 256 * MIB, 512 * MIB, 1024 * MIB, 2048 * MIB]),
    "ulimit -t": limit("RLIMIT_CPU", [1, 2, 3]),
    "ulimit -n": limit("RLIMIT_NOFILE", [6, 8, 12, 20, 30]),
    "ulimit -u": limit("RLIMIT_NPROC", [1, 3, 6]),
    "TMPDIR missing": temporary_folder("/nowhere/at/all"),
    "TMPDIR unwritable": temporary_folder("/proc"),
    "TMPDIR a file": temporary_folder(None),
    "damaged input": input_file,
    "damaged input again": input_file,  # so many kinds that one turn is too few
    "odd input": odd_input,
    "odd input again": odd_input,
    "SIGSTOP of a process of ranks": stopped_process_of_ranks,
    "plug-in": plug_in,
    "plug-in again": plug_in,
    "data of NaN": not_a_number,
    "study deleted": deleted_while_running("."),
    "study.sqlite deleted": deleted_while_running("study.sqlite"),
    "study.sqlite cut": truncated_while_running,
    "two tuners": two_tuners,
}
