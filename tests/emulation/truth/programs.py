"""`mptune profile -- python3 ...`: programs of torch that know nothing of mptune."""
import os

from truth.compare import compare
from truth.ledger import read_ledger
from truth.recording import Recording

TRAINING = """
import sys, torch
devices = [torch.device("cuda", i) for i in range(int(sys.argv[1]))]
torch.manual_seed(0)
layers = [torch.nn.Linear(32, 32).to(device) for device in devices]
for step in range(int(sys.argv[2])):
    value = torch.randn(16, 32).pin_memory().to(devices[0], non_blocking=True)
    for layer, device in zip(layers, devices):
        value = layer(value.to(device, non_blocking=True)).relu()
    loss = value.square().mean()
    loss.backward()
    with torch.no_grad():
        for layer in layers:
            for parameter in layer.parameters():
                parameter -= 0.01 * parameter.grad
                parameter.grad.zero_()
    loss.item()
"""
CHILDREN = """
import subprocess, sys
for child in [subprocess.Popen([sys.executable, "training.py", gpus, steps]) for gpus, steps in (("1", "2"), ("2", "3"))]:
    child.wait()
"""


def record(machine, python, name, arguments, settings):
    trace, ledger = machine.folder / f"{name}.program.sqlite", machine.folder / f"{name}.program.csv"
    done = machine.mptune("profile", "-o", trace, "--", python, *arguments, settings={**settings, "LEDGER": ledger})
    if done.code != 0:
        return [f"{name}: exit code {done.code}: {done.said[-500:]}"]
    faults, records = [], 0
    for process in done.result["processes"]:
        recorded = machine.folder / process["trace"]
        results = {"import": machine.mptune("import", recorded).result}
        if len(done.result["processes"]) == 1:
            results["profile"] = done.result
        own = [work for work in read_ledger(ledger) if work.process == process["process"]]
        comparison, found = compare(own, Recording(recorded), results)
        records += len(comparison.expected)
        faults += [f"{name}: {fault}" for fault in found]
        if len(comparison.expected) != len(own):
            faults.append(f"{name}: {len(own)} works, of which {len(comparison.expected)} lie between the first and the last that was recorded")
    processes = {work.process for work in read_ledger(ledger)}
    if processes != {process["process"] for process in done.result["processes"]}:
        faults.append(f"{name}: {len(processes)} processes used GPUs, recorded {done.result['processes']}")
    print(f"  {name}: {records} records of {len(processes)} processes", flush=True)
    return faults


def run(machine, asked):
    if not os.access(asked.python, os.X_OK):
        print(f"  not run: no {asked.python} (--python names one that has torch)")
        return []
    (machine.folder / "training.py").write_text(TRAINING)
    (machine.folder / "children.py").write_text(CHILDREN)
    clock = {"CLOCK_NS": 10**13, "CLOCK_PPM": 15}
    faults = record(machine, asked.python, "two GPUs", ["training.py", "2", "5"], clock)
    if not asked.short:
        faults += record(machine, asked.python, "four GPUs", ["training.py", "4", "5"], {"PEERS": 0, "HOST_LINK": "1e8,20000", "LAZY_FLUSH": 1})
        faults += record(machine, asked.python, "two processes", ["children.py"], clock)
    for fault in faults:
        print(f"  {fault}", flush=True)
    return faults
