"""script_models.py MPTUNE FOLDER: scripted and traced models have the same losses in mptune and in Python, and after some steps the same
state dict, running statistics included."""
import json
import os
import subprocess
import sys

try:
    import torch
    from torch import nn
except ImportError as absent:
    print(f"torch can't be imported: {absent}")
    sys.exit(77)

STEPS, RATE, BATCH = 3, 0.05, 8


class Block(nn.Module):
    """A residual block with a batch norm that averages over all batches."""

    def __init__(self, channels):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels)
        self.conv2, self.bn2 = nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels, momentum=None)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))) + x)


class Whole(nn.Module):
    """The container is a part of it."""

    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 5))

    def forward(self, x):
        return self.backbone(x) * 1.0


def models():
    images = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), Block(8), nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()), nn.Linear(8, 5))
    features = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 5))
    words = nn.Sequential(nn.Embedding(5, 16), nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), nn.Linear(16, 5))
    classes = torch.randint(5, (BATCH,))
    tokens = torch.randint(5, (BATCH, 7))
    yield "images", images, torch.jit.script(images), torch.randn(BATCH, 3, 9, 9), classes, ""
    yield "traced", features, torch.jit.trace(features, torch.randn(2, 6), check_trace=False), torch.randn(BATCH, 6), classes, ""
    yield "words", words, torch.jit.script(words), tokens, tokens.roll(1, 1), ""
    whole = Whole()
    yield "part", whole, torch.jit.script(whole), torch.randn(BATCH, 6), classes, ":container=backbone"


def train(model, inputs, target):
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        output = model(inputs)
        loss = nn.functional.cross_entropy(output.flatten(0, -2), target.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main(mptune, folder):
    torch.manual_seed(0)
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    environment = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "PYTHONPATH")}

    def run(*arguments):
        done = subprocess.run([mptune, "--json", *arguments], capture_output=True, text=True, env=environment, check=False)
        assert done.returncode in (0, 5), f"{arguments}: {done.stderr}"
        return json.loads(done.stdout)

    for name, model, script, inputs, target, option in models():
        script.save(f"{name}.pt")
        torch.save({"input": inputs, "target": target}, f"{name}.data.pt")
        text = [f"{name}.pt{option}", "--data", f"{name}.data.pt"]
        cores = [f"cpu:{core}" for core in sorted(os.sched_getaffinity(0))[:2]]
        run("profile", *text, "--batch", str(BATCH), "--devices", ",".join(cores), "--microbatches", "1", "--steps", "1", "--force", "-o", f"{name}.sqlite")
        run("plan", f"{name}.sqlite", "--stages", str(len(cores)), "--microbatches", "1", "--force", "-o", f"{name}.plan.json")
        trained = run("run", *text, "--plan", f"{name}.plan.json", "--strict", "--steps", str(STEPS), "--lr", str(RATE), "--save", f"{name}.state.pt")
        expected = train(model, inputs, target)
        for ours, theirs in zip(trained["loss"], expected, strict=True):
            assert abs(ours - theirs) < 1e-5 * abs(theirs), f"{name}: {trained['loss']} instead of {expected}"
        state, wanted = torch.load(f"{name}.state.pt", weights_only=True), model.state_dict()
        assert list(state) == list(wanted), f"{name}: {list(state)} instead of {list(wanted)}"
        for key, tensor in wanted.items():
            assert torch.allclose(state[key], tensor, rtol=1e-4, atol=1e-5), f"{name}: {key} differs"
        print(f"{name}: losses and {len(state)} tensors as in Python")


if __name__ == "__main__":
    main(*sys.argv[1:])
