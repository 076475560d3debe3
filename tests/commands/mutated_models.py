"""mutated_models.py MPTUNE FOLDER: model files that are whole as archives and odd in what they hold.

Each is a file of torch.export or torch.jit in which one record was changed: bits and bytes, or, in JSON, a value by another of its or of another
type. `models` and `check` read it: they answer, or refuse it in one line that names no source line of LibTorch. MPTUNE_TEST_MUTATIONS says how many
(40), MPTUNE_TEST_SEED which.
"""
import os
import random
import subprocess
import sys
import zipfile

from mutation import change_bytes, change_json, fault_of

try:
    import torch
    from torch import nn
except ImportError as absent:
    print(f"torch can't be imported: {absent}")
    sys.exit(77)

COUNT = int(os.environ.get("MPTUNE_TEST_MUTATIONS", "40"))
SEED = int(os.environ.get("MPTUNE_TEST_SEED", "1"))
CODES = (0, 2, 3, 4)
STEP = ["--microbatches", "2", "--cuts", "1", "--batch", "8"]


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 4)

    def forward(self, x):
        with torch.no_grad():
            scale = x.abs().amax(1, keepdim=True) + 1
        return self.last(torch.relu(self.norm(self.first(x / scale))))


def write_models(folder):
    samples = torch.randn(4, 4)
    chain = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Sequential(nn.Dropout(0.1), nn.Linear(8, 4)))
    torch.jit.script(chain).save(os.path.join(folder, "script.pt"))
    torch.jit.trace(chain, samples, check_trace=False).save(os.path.join(folder, "traced.pt"))
    batch = torch.export.Dim("batch", min=2, max=64)
    for name, model in (("chain", chain), ("normed", Normed())):
        program = torch.export.export(model.train(), (samples,), dynamic_shapes=({0: batch},), strict=False)
        torch.export.save(program, os.path.join(folder, name + ".pt2"))
    return ["script.pt", "traced.pt", "chain.pt2", "normed.pt2"]


def mutate(chance, source, target):
    with zipfile.ZipFile(source) as archive:
        records = [[entry.filename, archive.read(entry)] for entry in archive.infolist() if not entry.filename.endswith("debug_pkl")]
    record = chance.choice([record for record in records if record[1]])
    try:
        as_json = record[0].endswith(".json") and chance.random() < 0.9
        record[1] = change_json(chance, record[1]) if as_json else change_bytes(chance, record[1])
    except ValueError:
        record[1] = change_bytes(chance, record[1])
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in records:
            archive.writestr(name, content)
    return record[0]


def fault_of_command(program, arguments, folder):
    try:
        done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, errors="replace", timeout=180)
    except subprocess.TimeoutExpired:
        return "no end"
    return fault_of(done.returncode, done.stdout, done.stderr, CODES)


def main():
    program, folder = os.path.abspath(sys.argv[1]), sys.argv[2]
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(0)
    chance = random.Random(SEED)
    sources, faults = write_models(folder), 0
    for number in range(COUNT):
        source = chance.choice(sources)
        name = "mutated" + os.path.splitext(source)[1]
        record = mutate(chance, os.path.join(folder, source), os.path.join(folder, name))
        of_script = ["--input", "4", "--loss", "mse"] if name.endswith(".pt") else ["--loss", "mse"]
        arguments = chance.choice([["models", name], ["check", name, *of_script, *STEP]])
        if fault := fault_of_command(program, arguments, folder):
            faults += 1
            kept = f"fault{SEED}-{number}{os.path.splitext(name)[1]}"
            os.replace(os.path.join(folder, name), os.path.join(folder, kept))
            print(f"{kept}: {source}, record {record}, {' '.join(arguments)}: {fault[:400]}")
    print(f"{COUNT} mutations, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
