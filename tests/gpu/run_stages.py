"""Runs the stages of the kit and writes a line of each into OUT/summary.txt: PASS, FAIL or SKIP, its time, its figure or its reason.

  run.sh [--minutes 8] [--only NAME,...] OUT
  run.sh --list               names of the stages
  run.sh --check              starts every program and looks for its libraries; needs no GPU
  run.sh -- COMMAND ...       a command with LibTorch's libraries found: run.sh -- mptune doctor --devices cuda:0

It needs a python3 with torch 2.11 and an NVIDIA driver of CUDA 13. Without a driver every stage is skipped. Exit code: 0 where no stage
failed, 1 where one did, 2 for a usage that is none, 7 where torch does not fit.
"""
import argparse
import os
import shutil
import sys
import tempfile
import time

import check_programs
import machine
import stages
from commands import Commands, Failed, OutOfTime, Skipped


class Usage(Exception):
    """The call can't be carried out as it is."""


KIT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MOST_LOG = 400_000  # bytes of one stage's log


class Log:
    """A file that stops growing. What is written is there at once."""

    def __init__(self, path):
        self.path, self.left = path, MOST_LOG
        open(path, "w").close()

    def write(self, text):
        data = text.encode("utf-8", "replace")
        with open(self.path, "ab") as file:
            file.write(data[:self.left])
            if len(data) >= self.left > 0:
                file.write(b"\n... the log ends here: it is full\n")
        self.left = max(0, self.left - len(data))


class Summary:
    """Lines for the user and for OUT/summary.txt, written at once: the next stage may be the last."""

    def __init__(self, path):
        self.log = Log(path)
        self.counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}

    def add(self, status, name, seconds, text):
        self.counts[status] += 1
        self.say(f"{status}  {name:<32} {seconds:6.1f} s  {' '.join(str(text).split())[:1500]}")

    def say(self, line):
        print(line, flush=True)
        self.log.write(line + "\n")


def arguments():
    parser = argparse.ArgumentParser(prog="run.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS)
    parser.add_argument("--minutes", type=float, default=8, help="time for all stages; what does not fit is skipped; default: 8")
    parser.add_argument("--only", metavar="NAME,...", help="stages whose names begin so")
    parser.add_argument("--list", action="store_true", help="names of the stages")
    parser.add_argument("--check", action="store_true", help="whether every program starts and finds its libraries")
    parser.add_argument("--cpu", action="store_true", help="a rehearsal on CPU devices with small models: shows that the stages work, not the GPU")
    parser.add_argument("--small", action="store_true", help="small models on the GPU, for an emulated one (tests/emulated.sh): its speed says nothing")
    parser.add_argument("out", metavar="OUT", nargs="?", help="folder for the summary, the logs and the traces; new or empty")
    options = parser.parse_args()
    if not (options.out or options.list or options.check):
        parser.error("name a folder for what comes out: run.sh OUT")
    if options.minutes <= 0:
        parser.error("--minutes takes a number above 0")
    return options


def chosen(every, only):
    if only is None:
        return every
    wanted = [name.strip() for name in only.split(",")]
    unknown = [name for name in wanted if not any(stage.name.startswith(name) for stage in every)]
    if unknown:
        raise Usage(f"no stage begins with {unknown[0]!r}; run.sh --list names them")
    return [stage for stage in every if any(stage.name.startswith(name) for name in wanted)]


def run_stage(stage, number, options, found, until, summary, here):
    started = time.monotonic()
    if started >= until:
        summary.add("SKIP", stage.name, 0, f"no time left of {options.minutes:g} minutes")
        return
    log = Log(os.path.join(options.out, f"{number:02}-{stage.name.replace(' ', '-')}.log"))
    with tempfile.TemporaryDirectory(prefix="mptune-kit-") as scratch:
        commands = Commands(log, dict(machine.environment(), TMPDIR=scratch), found["work"], min(until, started + stage.limit_s))
        context = stages.Context(KIT, options.out, found["work"], here, found["tune_s"], sys.executable, commands, found)
        try:
            status, text = "PASS", stage.body(context)
        except Skipped as reason:
            status, text = "SKIP", reason
        except OutOfTime as reason:
            cut_off = until < started + stage.limit_s
            status, text = ("SKIP", f"no time left of {options.minutes:g} minutes: {reason}") if cut_off else ("FAIL", reason)
        except Failed as reason:
            status, text = "FAIL", reason
        except Exception as error:  # what a program printed was not what the stage reads: the next stage is worth running all the same
            status, text = "FAIL", f"the stage could not read its results ({type(error).__name__}: {error})"
    log.write(f"{status}: {text}\n")
    summary.add(status, stage.name, time.monotonic() - started, text)


def run_all(every, options, here, skip):
    summary = Summary(os.path.join(options.out, "summary.txt"))
    work = tempfile.mkdtemp(prefix="mptune-kit-work-")
    until = time.monotonic() + 60 * options.minutes
    found = {"work": work, "tune_s": 60 if here.has_gpu and not options.small else 10}
    try:
        for number, stage in enumerate(every, 1):
            if skip:
                summary.add("SKIP", stage.name, 0, skip)
            else:
                run_stage(stage, number, options, found, until, summary, here)
    finally:
        shutil.rmtree(work, ignore_errors=True)
        counts = summary.counts
        summary.say(f"{counts['PASS']} passed, {counts['FAIL']} failed, {counts['SKIP']} skipped")
    return 1 if summary.counts["FAIL"] else 0


def test_programs():
    """The recorder's first: without it little else of a GPU can be seen."""
    names = [name for name in os.listdir(os.path.join(KIT, "bin")) if name.startswith("test_")]
    return sorted(names, key=lambda name: (name != "test_profiler_cupti", name))


def main():
    if sys.argv[1:2] == ["--"] and len(sys.argv) > 2:
        environment = machine.environment()
        environment["PATH"] = os.path.join(KIT, "bin") + ":" + environment.get("PATH", "")
        os.execvpe(sys.argv[2], sys.argv[2:], environment)
    options = arguments()
    cores = sorted(os.sched_getaffinity(0))
    here = stages.cpu_machine(cores) if options.cpu else stages.gpu_machine(cores, options.small)
    every = chosen(stages.all_stages(here, test_programs()), options.only)
    if options.list:
        print("\n".join(stage.name for stage in every))
        return 0
    problem = machine.torch_problem()
    if options.check:
        return check_programs.check(KIT, problem)
    options.out = os.path.abspath(options.out)
    os.makedirs(options.out, exist_ok=True)
    if os.listdir(options.out):
        raise Usage(f"{options.out} is not empty; name a new folder")
    skip = "" if options.cpu else machine.driver_problem()
    code = run_all(every, options, here, skip or problem)
    return 7 if problem and not skip else code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Usage as error:
        print(f"run.sh: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        print(f"run.sh: {error.strerror}: {error.filename or ''}; name a folder that can be written to", file=sys.stderr)
        sys.exit(7)
