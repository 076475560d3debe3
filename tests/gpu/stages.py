"""The stages, in the order in which they tell most. Each is a function of a Context that returns its figure, or raises Failed or Skipped."""
import functools
import os
import re
import shutil
import statistics
from typing import Callable, NamedTuple

import recordings
from commands import Failed, OutOfTime, Skipped, error_of, error_parts

MOST_OUT_BYTES = 8_000_000  # of the output folder when a trace is added: the logs of the stages to come need as much
LEAST_HIDDEN = 0.9  # of copies of saved activations
MOST_UNTAGGED = 0.001  # of all events; of those without a launch, too


class Workload(NamedTuple):
    name: str
    model: str
    shape: str  # of one sample, "" where the model says it
    batch: int

    def arguments(self):
        return [self.model, *(["--input", self.shape] if self.shape else []), "--batch", self.batch]


class Machine(NamedTuple):
    """What the stages run on: a GPU, or in a rehearsal the CPU."""
    devices: dict  # by name: whole, halves, quarters, mixed
    workloads: list
    small: Workload
    has_gpu: bool
    emulated: bool = False


class Context(NamedTuple):
    """What a stage may use. `found` carries what one stage leaves for a later one."""
    kit: str
    out: str
    work: str
    machine: Machine
    tune_s: int
    python: str
    commands: object
    found: dict

    def program(self, name):
        return os.path.join(self.kit, "bin", name)

    def mptune(self, *arguments, good=(0,), limit=None):
        return self.commands.json([self.program("mptune"), "--json", "-q", *arguments], limit=limit, good=good)

    def devices(self, name):
        if name not in self.machine.devices:
            raise Skipped(f"no {name} on this machine")
        return self.machine.devices[name]

    def require_gpu(self):
        if not self.machine.has_gpu:
            raise Skipped("needs a GPU")

    def require_speed(self):
        if self.machine.emulated:
            raise Skipped("its limits are of speed, which an emulated GPU does not have")


class Stage(NamedTuple):
    name: str
    limit_s: int
    body: Callable


SMALL_MODELS = [Workload("mlp", "mlp:layers=4,width=64", "", 32)]
SMALLEST = Workload("small", "mlp:layers=4,width=32", "", 8)


def gpu_machine(cores, small=False):
    """small: with small models, on an emulated GPU, whose computing is the host's."""
    halves = "cuda:0/1of2,cuda:0/2of2"
    quarters = ",".join(f"cuda:0/{part}of4" for part in range(1, 5))
    return Machine({"whole": "cuda:0", "halves": halves, "quarters": quarters, "mixed": f"{core_set(cores[:8])},cuda:0"},
                   SMALL_MODELS if small else
                   [Workload("transformer", "transformer:d=1024,layers=16,seq=512", "", 16), Workload("resnet50", "resnet50", "3x224x224", 64)],
                   SMALLEST if small else Workload("small", "transformer:d=256,layers=4,seq=64", "", 16), True, small)


def cpu_machine(cores):
    """The same stages on CPU devices with small models: shows that the stages themselves work."""
    devices = {"whole": f"cpu:{cores[0]}"}
    for name, count in (("halves", 2), ("quarters", 4)):
        if len(cores) >= count:
            devices[name] = ",".join(f"cpu:{core}" for core in cores[:count])
    return Machine(devices, SMALL_MODELS, SMALLEST, False)


def core_set(cores):
    """These cores as one device, as far as they are neighbours."""
    count = next((i for i, core in enumerate(cores) if core != cores[0] + i), len(cores))
    return f"cpu:{cores[0]}" if count == 1 else f"cpu:{cores[0]}-{cores[count - 1]}"


def milliseconds(seconds):
    return f"{1e3 * seconds:.2f} ms"


def doctor(context):
    """Every division of the GPU in a process of its own: a process divides a GPU once."""
    figures, faults = [], []
    for name in ("whole", "halves", "quarters"):
        if name not in context.machine.devices:
            continue
        findings = context.mptune("doctor", "--devices", context.devices(name), good=(0, 7))["findings"]
        faults += [f"{finding['name']}: {finding['value']}; {finding['remedy']}" for finding in findings if finding["status"] == "error"]
        found = [finding["value"] for finding in findings if finding["name"].startswith("device ")]
        figures.append(f"{name}: {found[0] if len(set(found)) == 1 else ', '.join(found)}")
    if faults:
        raise Failed("; ".join(faults))
    return "; ".join(figures)


def gpu_tests(program, context):
    """Each in a process of its own: CUPTI stays with a process, and a process divides a GPU once."""
    path = context.program(program)
    names, suite = [], ""
    for line in context.commands.run([path, "--gtest_list_tests", "--gtest_filter=Gpu*"]).out.splitlines():
        if re.match(r"Gpu\w*\.$", line):
            suite = line
        elif suite and line.startswith("  "):
            names.append(suite + line.split("#")[0].strip())
    if not names:
        raise Failed(f"{program} has no tests of GPUs")
    bad, skipped = [], []
    for name in names:
        try:
            done = context.commands.run([path, f"--gtest_filter={name}"], limit=60)
        except OutOfTime as failure:
            if bad:
                raise Failed(f"{'; '.join(bad)}; then {failure}") from failure
            raise
        except Failed as failure:
            bad.append(f"{name}: {failure}")
            continue
        if done.code != 0:
            bad.append(f"{name} ({first_failure(done)})")
        elif "[  SKIPPED ]" in done.out:
            skipped.append(name)
    if len(skipped) == len(names):
        raise Skipped(f"all {len(names)} tests skipped themselves")
    figure = f"{len(names) - len(bad) - len(skipped)} of {len(names)} passed" + (f", {len(skipped)} skipped" if skipped else "")
    if bad:
        raise Failed(f"{figure}; {'; '.join(bad)}")
    return figure


def first_failure(done):
    """The first line that GoogleTest says of a failure, or how the program ended."""
    if done.code < 0:
        return done.how_it_ended()
    lines = done.out.splitlines()
    at = next((i for i, line in enumerate(lines) if ": Failure" in line), None)
    return done.how_it_ended() if at is None else " ".join(line.strip() for line in lines[at:at + 4])[-240:]


def recording(workload, context):
    """benchmark_recording has the limits, and says in its last line which are kept; on the CPU it has none. It runs 320 steps: a quarter of
    the batch will do."""
    context.require_speed()
    done = context.commands.run([context.program("benchmark_recording"), workload.model, workload.shape, max(1, workload.batch // 4),
                                 context.devices("whole"), 20 if context.machine.has_gpu else 2])
    if done.code != 0:
        raise Failed(done.last_words() if done.code == 1 and "limit" in done.out else done.how_it_ended())
    return done.last_words()


def profile(workload, division, context):
    trace = os.path.join(context.work, f"{workload.name}-{division}.sqlite")
    arguments = [*workload.arguments(), "--devices", context.devices(division)]
    found = context.mptune("profile", *arguments, "--steps", 10, "-o", trace, good=(0, 5))
    devices, quality = found["devices"], found["quality"]
    copied = sum(device["copy_s"] + device["overlap_s"] for device in devices)
    hidden = sum(device["overlap_s"] for device in devices)
    events = recordings.event_count(trace)
    figure = (f"step {milliseconds(found['step_s'])}; bubble {found['bubble']:.1%}, in theory {found['bubble_theory']:.1%}; "
              f"{hidden / copied if copied else 0:.0%} of copying overlaps computing; recording {found['overhead']['percent']:+.1f} %; "
              f"neighbours slow a device {found.get('co_running_slowdown', 1):.2f}x; untagged {quality['untagged']}, without launch "
              f"{quality['unmatched']} of {events}; dropped {quality['dropped']}; clock error {1e6 * found['clock_error_s']:.1f} us; "
              f"{calls_of_the_host(trace)}; {keep_one_step(workload, division, trace, context)}")
    faults = faults_of(quality, events)
    if context.machine.has_gpu and not hidden > 0:
        faults.append("no copy overlaps computing")
    if any(device["compute_s"] <= 0 for device in devices):
        faults.append("a device computes nothing")
    if faults:
        raise Failed(f"{', '.join(faults)}: {figure}")
    return figure


def calls_of_the_host(trace):
    """What should be rare: events are pooled, the host waits once a step and device, pinned memory is cached."""
    made, waits, pinned = recordings.host_calls(trace, "cudaEventCreate", "Synchronize", "cudaHostAlloc")
    return f"in all steps {made} events made, {waits} waits of the host, {pinned} pinned blocks made"


def offload(context):
    """Saved activations go to pinned host memory and come back while the GPU computes; a step without them says what that costs."""
    context.require_speed()
    workload, words = context.machine.workloads[0], ["--schedule", "gpipe", "--microbatches", 8, "--devices", context.devices("whole")]
    arguments, trace = [*workload.arguments(), *words], os.path.join(context.work, "offload.sqlite")
    found = context.mptune("profile", *arguments, "--offload", "all", "--steps", 10, "-o", trace, good=(0, 5))
    plain = context.mptune("profile", *arguments, "--measured", trace, "--steps", 10, "-o", os.path.join(context.work, "kept.sqlite"), good=(0, 5))
    copied = sum(device["copy_s"] + device["overlap_s"] for device in found["devices"])
    hidden = sum(device["overlap_s"] for device in found["devices"]) / copied if copied else 0
    figure = f"step {milliseconds(found['step_s'])}, with all kept on the device {milliseconds(plain['step_s'])}; {hidden:.0%} of copying is hidden"
    if context.machine.has_gpu and hidden < LEAST_HIDDEN:
        raise Failed(f"less than {LEAST_HIDDEN:.0%} of copying is hidden: {figure}")
    return figure


def faults_of(quality, events):
    """What of a recording's quality forbids a verdict."""
    faults = []
    if quality["dropped"] or quality["zero_stamped"]:
        faults.append("records are missing")
    if quality["out_of_window"]:
        faults.append("events lie outside of all steps: times are not on the host's clock")
    if quality["untagged"] > MOST_UNTAGGED * events:
        faults.append(f"more than {MOST_UNTAGGED:.1%} untagged")
    if quality["unmatched"] > MOST_UNTAGGED * events:
        faults.append(f"more than {MOST_UNTAGGED:.1%} without their launch")
    return faults


def keep_one_step(workload, division, trace, context):
    """One step recorded again with the costs of the first recording, compressed into the output; says what was done."""
    single = os.path.join(context.work, f"{workload.name}-{division}-step.sqlite")
    context.mptune("profile", *workload.arguments(), "--devices", context.devices(division), "--steps", 1, "--measured", trace, "-o", single,
                   good=(0, 5))
    folder = os.path.join(context.out, "traces")
    os.makedirs(folder, exist_ok=True)
    kept = os.path.join(folder, os.path.basename(single) + ".gz")
    size = recordings.compress(single, kept)
    if folder_bytes(context.out) > MOST_OUT_BYTES:
        os.remove(kept)
        return f"trace of one step left out ({size / 1e6:.1f} MB)"
    return f"trace of one step {size / 1e6:.1f} MB"


def folder_bytes(folder):
    return sum(os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(folder) for name in names)


def tune(workload, division, context):
    study = os.path.join(context.work, f"{workload.name}-{division}.study")
    found = context.mptune("tune", *workload.arguments(), "--devices", context.devices(division), "--budget", f"{context.tune_s}s", "-o", study,
                           good=(0, 5))
    best = found["recommended"]
    context.found[f"plan of {workload.name} on {division}"] = os.path.join(context.work, found["plan_file"])
    errors = [abs(trial["predicted_step_s"] / trial["step_s"] - 1) for trial in found["trials"] if trial["step_s"] and trial["predicted_step_s"]]
    outcomes = sorted({trial["outcome"] for trial in found["trials"]} - {"measured"})
    return (f"{best['description']}: {milliseconds(best['step_s'])}, predicted {milliseconds(best['predicted_step_s'])} "
            f"({best['predicted_step_s'] / best['step_s'] - 1:+.1%}); {len(errors)} plans measured, predictions off by {statistics.mean(errors):.1%} "
            f"on average, {max(errors):.1%} at most" + (f"; also {', '.join(outcomes)}" if outcomes else ""))


def compare_plans(workload, division, context):
    """The recommendation against naive model parallelism and one whole GPU, in turn, as long as the stage's time allows."""
    plan = context.found.get(f"plan of {workload.name} on {division}")
    if plan is None:
        raise Skipped("tune left no plan")
    plans = {"recommended": ["--plan", plan], "naive": ["--devices", context.devices(division), "--schedule", "naive"],
             "whole": ["--devices", context.devices("whole"), "--stages", 1, "--microbatches", 1, "--schedule", "gpipe"]}
    steps, longest = {name: [] for name in plans}, 0.0
    while len(steps["whole"]) < 5 and (not steps["whole"] or context.commands.left() > 1.5 * longest):
        before = context.commands.left()
        for name, words in plans.items():
            steps[name].append(context.mptune("run", *workload.arguments(), *words, "--steps", 20)["step_s"])
        longest = max(longest, before - context.commands.left())
    return (f"recommended {milliseconds(statistics.median(steps['recommended']))}, {ratio(steps, 'naive')} naive model parallel, "
            f"{ratio(steps, 'whole')} one whole device; {len(steps['whole'])} rounds")


def ratio(steps, name):
    """How many times as fast as this plan the recommendation is, over the rounds: median [least, largest]."""
    ratios = sorted(other / own for own, other in zip(steps["recommended"], steps[name]))
    return f"{statistics.median(ratios):.2f}x [{ratios[0]:.2f}, {ratios[-1]:.2f}]"


def mixed(context):
    context.require_gpu()
    trace = os.path.join(context.work, "mixed.sqlite")
    found = context.mptune("profile", *context.machine.small.arguments(), "--devices", context.devices("mixed"), "--steps", 5, "-o", trace,
                           good=(0, 5))
    parts = [f"{device['device']} computes {milliseconds(device['compute_s'])}" for device in found["devices"]]
    figure = f"step {milliseconds(found['step_s'])}; {', '.join(parts)}"
    faults = faults_of(found["quality"], recordings.event_count(trace))
    faults += [f"{device['device']} computes nothing" for device in found["devices"] if device["compute_s"] <= 0]
    if faults:
        raise Failed(f"{', '.join(faults)}: {figure}")
    return figure


def throttled_link(context):
    """A link that is asked to be slow is measured to be so."""
    trace = os.path.join(context.work, "throttled.sqlite")
    found = context.mptune("profile", *context.machine.small.arguments(), "--devices", context.devices("halves"), "--link", "1GB/s,200us",
                           "--steps", 3, "-o", trace, good=(0, 5))
    figure = "; ".join(f"{link['source']} to {link['destination']}: {link['bytes_per_second'] / 1e9:.2f} GB/s, {1e6 * link['latency_s']:.0f} us"
                       for link in found["links"])
    if not found["links"] or any(link["bytes_per_second"] > 1.05e9 or link["latency_s"] < 190e-6 for link in found["links"]):
        raise Failed(f"faster than the 1 GB/s and 200 us that were asked: {figure}")
    return figure


def two_ranks(context):
    """The same training in one process and in two: halves of one GPU through the host's memory, two GPUs over NCCL."""
    devices = context.devices("halves").split(",")
    losses = {}
    for name, words in {"one process": ["--devices", ",".join(devices)],
                        "two": ["--devices", ",".join(f"{rank}@{device}" for rank, device in enumerate(devices)), "--ranks", 2]}.items():
        losses[name] = context.mptune("run", *context.machine.small.arguments(), *words, "--steps", 5)["loss"]
    differences = [abs(one / two - 1) for one, two in zip(losses["one process"], losses["two"])]
    figure = f"loss {losses['one process'][0]:.4f} to {losses['one process'][-1]:.4f}, relative difference at most {max(differences):.1e}"
    if len(differences) != 5 or max(differences) > 1e-4:
        raise Failed(f"two ranks train otherwise than one process: {figure}")
    return figure


def memory_cap(context):
    """A cap that nothing fits into is an error of its own kind that names the device."""
    words = [context.program("mptune"), "--json", "-q", "run", *context.machine.small.arguments(), "--devices", context.devices("halves"),
             "--memory", "4kB", "--steps", 1]
    done = context.commands.run(words)
    what, where, _ = error_parts(done) or ("", "", "")
    if done.code != 3 or "out of memory" not in what or where not in context.devices("halves").split(","):
        raise Failed(f"exit {done.code}, expected 3 and a device that is out of memory: {error_of(done)}")
    return what


def foreign_program(context):
    """mptune's recording of a plain PyTorch script against torch.profiler's of the same script."""
    context.require_gpu()
    context.require_speed()
    script = [context.python, os.path.join(context.kit, "python", "plain_training.py")]
    trace, kineto = os.path.join(context.work, "plain.sqlite"), os.path.join(context.work, "plain.json")
    ours, theirs, events, dropped = [], [], {"mptune": [], "torch.profiler": []}, 0
    for _ in range(2):
        found = context.mptune("profile", "-o", trace, "--force", "--", *script, good=(0, 5))
        if found["exit_status"] != 0:
            raise Failed(f"the script ended with {found['exit_status']}")
        done = context.commands.run([*script, "--trace", kineto])
        if done.code != 0:
            raise Failed(done.how_it_ended())
        dropped += found["quality"]["dropped"] + found["quality"]["zero_stamped"]
        for name, results, (busy, count) in (("mptune", ours, recordings.busy_in_trace(trace, "measured")),
                                             ("torch.profiler", theirs, recordings.busy_in_kineto(kineto))):
            results.append(busy)
            events[name].append(count)
    difference = statistics.median(ours) / statistics.median(theirs) - 1
    figure = (f"busy {milliseconds(statistics.median(ours))}, torch.profiler {milliseconds(statistics.median(theirs))} ({difference:+.2%}, "
              f"between runs of one {spread(ours):.2%} and {spread(theirs):.2%}); events {events}; dropped {dropped}")
    if dropped or len(set(events["mptune"])) > 1 or min(events["mptune"]) < max(events["torch.profiler"]):
        raise Failed(f"mptune lost events: {figure}")
    # CUPTI 12.6 to 13.0 loses kernels of torch.profiler, which sets the clock; then the times are of different work.
    if max(events["mptune"]) == min(events["torch.profiler"]) and abs(difference) > 0.01:
        raise Failed(f"busy times are more than 1 % apart: {figure}")
    return figure


def spread(values):
    return max(values) / min(values) - 1


def sanitizer(context):
    context.require_gpu()
    tool = shutil.which("compute-sanitizer", path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin")
    if tool is None:
        raise Skipped("compute-sanitizer is not installed")
    done = context.commands.run([tool, "--tool", "memcheck", "--target-processes", "all", "--error-exitcode", "86", context.program("mptune"), "-q",
                                 "run", "mlp:layers=4,width=64", "--batch", 8, "--devices", context.devices("halves"), "--steps", 1])
    errors = [int(count) for count in re.findall(r"ERROR SUMMARY: (\d+) error", done.out + done.errors)]
    if done.code != 0 or not errors or sum(errors):
        raise Failed(f"{sum(errors)} errors; {done.how_it_ended()}")
    return f"no error in {len(errors)} processes"


def all_stages(machine, test_programs):
    """The quick ones that tell whether a part works at all come before those that take minutes."""
    stages = [Stage("doctor", 120, doctor)]
    stages += [Stage(program, 200, functools.partial(gpu_tests, program)) for program in test_programs]
    for workload in machine.workloads:
        stages.append(Stage(f"recording {workload.name}", 180, functools.partial(recording, workload)))
    for workload in machine.workloads:
        stages.append(Stage(f"profile {workload.name} on halves", 180, functools.partial(profile, workload, "halves")))
    stages += [Stage("program of others", 90, foreign_program), Stage("CPU and GPU mixed", 45, mixed), Stage("throttled link", 45, throttled_link),
               Stage("two ranks", 60, two_ranks), Stage("memory cap", 45, memory_cap), Stage("offload", 120, offload), Stage("compute-sanitizer", 90, sanitizer)]
    for division in ("halves", "quarters"):
        for workload in machine.workloads:
            if division == "quarters":
                stages.append(Stage(f"profile {workload.name} on quarters", 180, functools.partial(profile, workload, division)))
            stages.append(Stage(f"tune {workload.name} on {division}", 150, functools.partial(tune, workload, division)))
            stages.append(Stage(f"run {workload.name} on {division}", 150, functools.partial(compare_plans, workload, division)))
    return stages
