"""check_rivals.py MPTUNE PLAN_ROUNDS FOLDER: the models here are mptune's networks, and rows of each kind run a round of a small one. Exits
with 77 if torch or its torch.distributed is missing."""
import contextlib
import io
import json
import pathlib
import subprocess
import sys

try:
    import torch
    import torch.distributed.pipelining
except ImportError as absent:
    print(f"PyTorch can't be imported: {absent}")
    sys.exit(77)
if not torch.distributed.is_gloo_available():
    print("this PyTorch is built without Gloo")
    sys.exit(77)
import models
import rivals

MPTUNE, PLAN_ROUNDS, FOLDER = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
SMALL = "transformer:d=32,layers=4,heads=4,seq=16,vocab=100"
BATCH = 8


def mptune(*words):
    return subprocess.run([MPTUNE, "-q", "--json", *map(str, words)], stdout=subprocess.PIPE, check=True).stdout


def check_network(name, shape):
    """The loss of mptune's model with the weights and the batch of ours is our loss, so every layer and its name is the same."""
    model = models.make(name, shape)
    inputs, target = model.batch(BATCH)
    if shape:  # images in float64: rounding grows through 50 layers of batch norm over few values
        inputs = inputs.double()
        for layer in model.layers:
            layer.module.double()
    torch.save(models.state_of(model), FOLDER / "weights.pt")
    torch.save({"input": inputs, "target": target}, FOLDER / "batch.pt")
    output = torch.nn.Sequential(*(layer.module for layer in model.layers))(inputs)
    ours = models.loss(output, target).item()
    words = ["--input", shape + ":float64"] if shape else []
    files = ["--load", FOLDER / "weights.pt", "--data", FOLDER / "batch.pt"]
    run = mptune("run", name, *words, "--devices", "cpu:0", "--batch", BATCH, "--microbatches", 1, *files, "--steps", 1)
    theirs = json.loads(run)["loss"][0]
    print(f"{name}: loss {ours:.6f} here, {theirs:.6f} in mptune")
    assert abs(ours - theirs) < 1e-5 * abs(ours), "the models differ"


def check_rows():
    """No row is missing: rivals have the same gradients as one thread, or the script refuses them."""
    plan = FOLDER / "two.plan.json"
    mptune("profile", SMALL, "--devices", "cpu:0,cpu:1", "--batch", BATCH, "--steps", 2, "--force", "-o", FOLDER / "profile.sqlite")
    mptune("plan", FOLDER / "profile.sqlite", "--stages", 2, "--force", "-o", plan)
    words = ["--model", SMALL, "--batch", str(BATCH), "--rounds", "1", "--steps", "1", "--repeats", "0", "--cuts", "1", "--microbatches", "2",
             "--rows", "one_thread,ddp,zbv", "--program", PLAN_ROUNDS, "--json", str(FOLDER / "rounds.json"), "--same-malloc", str(plan)]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = rivals.main(words)
    print(out.getvalue())
    written = json.loads((FOLDER / "rounds.json").read_text())
    expected = {kind + "+same_malloc" for kind in ("one_thread", "ddp", "zbv")} | {str(plan)}
    assert code == 0 and not written["missing"] and set(written["rounds"][0]) == expected, "rows are missing"


torch.manual_seed(0)
FOLDER.mkdir(parents=True, exist_ok=True)
check_network(SMALL, "")
check_network("resnet50", "3x64x64")
check_rows()
