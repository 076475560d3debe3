"""`tune` on four GPUs of two speeds and a slow link, within the plans of one schedule with a stage on each: every cut, order of the GPUs and number of
micro-batches. Then all these plans are measured in turn with the one that tune recommends."""
import os
import subprocess

from truth.machine import ROOT
from truth.predictions import DEVICES, MACHINES

MODEL, BATCH, SCHEDULE = "transformer:d=32,layers=3,heads=2,seq=16,vocab=50", 8, "1f1b"
ALL_PLANS = 100_000


def run(machine, asked):
    tuned = machine.mptune("tune", MODEL, "--batch", BATCH, "--devices", ",".join(DEVICES), "--stages", len(DEVICES), "--schedule", SCHEDULE, "--budget",
                           "240s", settings=MACHINES[0], timeout=900)
    if tuned.code not in (0, 5):
        return [f"tune: exit code {tuned.code}: {tuned.said}"]
    variables = {f"EMULATED_{name}": str(value) for name, value in MACHINES[0].items()}
    sweep = [machine.build / "bin" / "benchmark_sweep", MODEL, "", str(BATCH), ",".join(DEVICES), "4", SCHEDULE, str(ALL_PLANS), "",
             machine.folder / tuned.result["plan_file"]]
    swept = subprocess.run([ROOT / "tests" / "emulated.sh", *sweep], env={**os.environ, "MPTUNE_BUILD": str(machine.build), **variables},
                           capture_output=True, text=True)
    print(swept.stdout)
    return [] if swept.returncode == 0 else [f"benchmark_sweep: exit code {swept.returncode}: {swept.stderr[-300:]}"]
