"""Predicted steps and peaks of random plans, measured on the emulated machine. Every kernel takes a modelled time far above what its host needs."""
import itertools
import random
import shlex
import statistics

from truth.plans import random_options

MODEL, LAYERS, BATCH = "transformer:d=32,layers=6,heads=2,seq=16,vocab=50", 8, 8
DEVICES = [f"cuda:{gpu}" for gpu in range(4)]
# Products take most of the time, as on real GPUs.
KERNELS = {"LAUNCH_NS": 20_000, "FLOPS": 5e7, "BANDWIDTH": 1e9, "WORKSPACE": 8 << 20}
# Two speeds and a slow link; one speed and links of much latency.
MACHINES = [{**KERNELS, "SPEEDS": "1,1,0.5,0.5", "PEER_LINK": "10e9,20000", "HOST_LINK": "10e9,20000", "LINKS": "1:2:1e9:1000000,2:1:1e9:1000000"},
            {**KERNELS, "PEER_LINK": "10e9,200000", "HOST_LINK": "10e9,20000"}]
MOST_MEAN, MOST = 0.02, 0.05


def profile_of(machine, number, settings, model=MODEL, batch=BATCH):
    path = machine.folder / f"machine {number}.sqlite"
    done = machine.mptune("profile", model, "--batch", batch, "--devices", ",".join(DEVICES), "--steps", 1, "-o", path, settings=settings, timeout=600)
    if done.code != 0:
        raise SystemExit(f"{model} cannot be measured: {done.said}")
    return path


def planned(machine, options, profile):
    """A plan file, and what is predicted of it; nothing if no plan is what the options say."""
    path = machine.folder / "random.plan.json"
    done = machine.mptune("plan", profile, *options, "-o", path, "--force")
    if done.code in (2, 3):
        return None
    if done.code != 0:
        raise SystemExit(f"plan {shlex.join(options)}: exit code {done.code}: {done.said}")
    return path, done.result["predicted"]


def trained(machine, path, settings, steps, model=MODEL, batch=BATCH):
    return machine.mptune("run", model, "--batch", batch, "--plan", path, "--steps", steps, settings=settings)


def random_plans(machine, chance, profiles, layers=LAYERS):
    """Endless: number of the machine, options, plan file and prediction."""
    number = 0
    while True:
        devices = chance.sample(DEVICES, chance.randint(2, 4))
        options = plan_options(random_options(chance, devices, layers))
        made = planned(machine, options, profiles[number % len(profiles)])
        if made:
            yield number % len(profiles), options, *made
            number += 1


def plan_options(options):
    """Those of them that `mptune plan` has."""
    kept = list(options)
    for name in ("--steps", "--optimizer", "--offload"):
        if name in kept:
            del kept[kept.index(name):kept.index(name) + 2]
    return kept


def faults_of(where, predicted, result):
    faults = []
    if abs(predicted["step_s"] / result["step_s"] - 1) > MOST:
        faults.append(f"{where}: predicted {1e3 * predicted['step_s']:.2f} ms, measured {1e3 * result['step_s']:.2f}")
    if any(peak < measured for peak, measured in zip(predicted["peak_bytes"], result["peak_bytes"], strict=True)):
        faults.append(f"{where}: peaks {result['peak_bytes']} bytes, predicted {predicted['peak_bytes']}")
    return faults


def run(machine, asked):
    profiles = [profile_of(machine, number, settings) for number, settings in enumerate(MACHINES)]
    errors, faults, peaks = [], [], 0
    for number, options, path, predicted in itertools.islice(random_plans(machine, random.Random(asked.seed), profiles), asked.plans):
        done = trained(machine, path, MACHINES[number], steps=5)
        if done.code != 0:
            raise SystemExit(f"run {shlex.join(options)}: exit code {done.code}: {done.said}")
        errors.append(abs(predicted["step_s"] / done.result["step_s"] - 1))
        peaks += len(done.result["peak_bytes"])
        faults += faults_of(f"machine {number}: {shlex.join(options)}", predicted, done.result)
    mean = statistics.mean(errors)
    print(f"{len(errors)} plans: steps off by {100 * mean:.2f} % (mean), {100 * max(errors):.2f} % (most); {peaks} peaks")
    return faults + ([f"the mean error is above {100 * MOST_MEAN:.0f} %"] if mean > MOST_MEAN else [])
