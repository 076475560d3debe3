"""A plan that is said to fit must run: on GPUs that have no more memory than its largest predicted peak and what LibTorch's allocator leaves unused."""
import itertools
import random
import shlex

from truth import predictions

# Layers of 4 MiB, activations of some hundred KiB: both kinds of pieces of LibTorch's allocator.
MODEL, LAYERS, BATCH = "mlp:layers=8,width=1024", 8, 64
SETTINGS = {"WORKSPACE": 8 << 20}
UNUSED = 66 << 20  # cuda_device.cc


def run(machine, asked):
    profile = predictions.profile_of(machine, "of fits", SETTINGS, MODEL, BATCH)
    faults, runs = [], 0
    for _, options, path, predicted in itertools.islice(predictions.random_plans(machine, random.Random(asked.seed), [profile], LAYERS), asked.plans):
        done = predictions.trained(machine, path, {**SETTINGS, "MEMORY": max(predicted["peak_bytes"]) + UNUSED}, steps=2, model=MODEL, batch=BATCH)
        runs += 1
        if done.code != 0:
            faults.append(f"{shlex.join(options)}: predicted {predicted['peak_bytes']} bytes, exit code {done.code}: {done.said.strip()[-300:]}")
    print(f"{runs} plans on GPUs of their predicted peaks: {runs - len(faults)} run")
    return faults
