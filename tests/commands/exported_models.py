"""exported_models.py MPTUNE FOLDER PACKAGES: models exported by mptune_export.py have the same losses in mptune and in Python. Saved weights
load into the Python model by load_state_dict(strict=True), also as safetensors if PACKAGES has it, and back into mptune."""
import json
import os
import pathlib
import subprocess
import sys

try:
    import torch
    from torch import nn
except ImportError as absent:
    print(f"torch can't be imported: {absent}")
    sys.exit(77)
MPTUNE, FOLDER, PACKAGES = sys.argv[1:]
sys.path.append(PACKAGES)
sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "python/export"))
import mptune_export
from torch.nn import functional

try:
    from safetensors.torch import load_model, save_model
except ImportError:
    load_model = save_model = None

STEPS, RATE, BATCH = 3, 0.05, 8


class Images(nn.Module):
    """Batch norms, a skip, in-place operators, a frozen stem and a part that is never used."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3).requires_grad_(False)
        self.conv1, self.bn1 = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.spare, self.head = nn.Linear(2, 2), nn.Linear(8, 5)
        self.register_buffer("scale", torch.full((1,), 0.5), persistent=False)
        self.register_buffer("never", torch.arange(3))

    def forward(self, images):
        x = self.stem(images).relu_()
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu_()))
        y += x
        return self.head(y.relu_().mean((2, 3)) * self.scale)


class Words(nn.Module):
    """A head tied to the embedding over all layers, and a second name for one block."""

    def __init__(self):
        super().__init__()
        self.word, self.position = nn.Embedding(11, 16), nn.Parameter(torch.randn(7, 16) / 4)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True) for _ in range(3))
        self.first = self.blocks[0]
        self.head = nn.Linear(16, 11, bias=False)
        self.head.weight = self.word.weight

    def forward(self, words):
        x = self.word(words) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Pair(nn.Module):
    """Two inputs."""

    def __init__(self):
        super().__init__()
        self.left, self.right, self.head = nn.Linear(6, 16), nn.Linear(4, 16), nn.Linear(16, 5)

    def forward(self, left, right):
        return self.head((self.left(left) * self.right(right)).tanh())


class Padded(nn.Module):
    """A language model whose attention leaves padding out."""

    def __init__(self):
        super().__init__()
        self.word, self.scale = nn.Embedding(11, 16), torch.full((16,), 4.0)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True) for _ in range(2))
        self.head = nn.Linear(16, 11)

    def forward(self, words):
        x = self.word(words) * self.scale
        for block in self.blocks:
            x = block(x, src_key_padding_mask=words == 0)
        return self.head(x)


def flat_cross_entropy(output, target):
    return functional.cross_entropy(output.flatten(0, -2), target.flatten())


def models():
    """Name, model, inputs by name, target, whether the loss is in the program."""
    words, classes = torch.randint(11, (BATCH, 7)), torch.randint(5, (BATCH,))
    yield "images", Images(), {"images": torch.randn(BATCH, 3, 9, 9)}, classes, False
    yield "words", Words(), {"words": words}, words.roll(1, 1), True
    yield "pair", Pair(), {"left": torch.randn(BATCH, 6), "right": torch.randn(BATCH, 4)}, classes, False


def train(model, inputs, target, steps):
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = flat_cross_entropy(model(**inputs), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def run(*arguments):
    environment = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "PYTHONPATH")}
    done = subprocess.run([MPTUNE, "--json", *arguments], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode in (0, 5), f"{arguments}: {done.stderr}"
    return json.loads(done.stdout)


def check_losses(name, ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        assert abs(a - b) < 1e-5 * abs(b), f"{name}: {ours} instead of {theirs}"


def check_state(name, model, wanted):
    for key, tensor in wanted.items():
        assert torch.allclose(model.state_dict()[key], tensor, rtol=1e-4, atol=1e-5), f"{name}: {key} differs"


def check(name, model, inputs, target, loss_inside):
    example = tuple(tensor[:3] for tensor in (*inputs.values(), target))
    if loss_inside:
        mptune_export.export(model, example, f"{name}.pt2", loss=flat_cross_entropy)
    else:
        mptune_export.export(model, example[:-1], f"{name}.pt2")
    torch.save({**inputs, "target": target}, f"{name}.data.pt")
    text = [f"{name}.pt2", "--data", f"{name}.data.pt"]
    cores = [f"cpu:{core}" for core in sorted(os.sched_getaffinity(0))[:2]]
    run("profile", *text, "--batch", str(BATCH), "--devices", ",".join(cores), "--microbatches", "1", "--steps", "1", "--force", "-o", f"{name}.sqlite")
    run("plan", f"{name}.sqlite", "--stages", str(len(cores)), "--microbatches", "1", "--force", "-o", f"{name}.plan.json")
    step = [*text, "--plan", f"{name}.plan.json", "--strict", "--lr", str(RATE)]
    trained = run("run", *step, "--steps", str(STEPS), "--save", f"{name}.state.pt")
    check_losses(name, trained["loss"], train(model, inputs, target, STEPS))
    wanted = {key: tensor.clone() for key, tensor in model.state_dict().items()}

    state = torch.load(f"{name}.state.pt", weights_only=True)
    assert state.keys() == wanted.keys(), f"{name}: {sorted(state)} instead of {sorted(wanted)}"
    model.load_state_dict({key: torch.zeros_like(tensor) for key, tensor in wanted.items()})
    model.load_state_dict(state, strict=True)
    check_state(name, model, wanted)

    # Continues from the saved weights, in either format.
    next_loss = train(model, inputs, target, 1)
    run("run", *step, "--steps", "1", "--load", f"{name}.state.pt", "--save", f"{name}.safetensors")
    formats = ["state.pt"]
    if load_model is not None:
        after = {key: tensor.clone() for key, tensor in model.state_dict().items()}
        model.load_state_dict({key: torch.zeros_like(tensor) for key, tensor in wanted.items()})
        load_model(model, f"{name}.safetensors", strict=True)
        check_state(name, model, after)
        model.load_state_dict(wanted)
        save_model(model, f"{name}.python.safetensors")
        formats.append("python.safetensors")
    for file in formats:
        check_losses(name, run("run", *step, "--steps", "1", "--load", f"{name}.{file}")["loss"], next_loss)
    print(f"{name}: losses as in Python, {len(state)} tensors out and back by {', '.join(formats)}")


def check_padded():
    """Micro-batches of one sample, recomputed, with other numbers of tokens in each: the mean is over the tokens that count."""
    words = torch.randint(1, 11, (BATCH, 7))
    for sample in range(BATCH):
        words[sample, 2 + sample % 5 :] = 0
    target = words.roll(-1, 1).where(words.roll(-1, 1) != 0, -100)
    model = Padded()
    mptune_export.export(model, (words[:3],), "padded.pt2")
    torch.save({"words": words, "target": target}, "padded.data.pt")
    cores = [f"cpu:{core}" for core in sorted(os.sched_getaffinity(0))[:2]]
    step = ["padded.pt2", "--data", "padded.data.pt", "--loss", "cross_entropy", "--lr", str(RATE), "--batch", str(BATCH), "--steps", str(STEPS)]
    wanted = train(model, {"words": words}, target, STEPS)
    for more in ([], ["--recompute", "all"], ["--schedule", "zb1p"]):
        check_losses("padded", run("run", *step, "--devices", ",".join(cores), "--microbatches", str(BATCH), *more)["loss"], wanted)
    print("padded: losses as in Python, of micro-batches of one sample")


def net():
    """What evaluation mode changes: batch norms with and without running statistics, dropout of several kinds, fused attention's."""
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Dropout2d(0.3), nn.ReLU(), nn.Conv2d(8, 8, 3),
                         nn.BatchNorm2d(8, track_running_stats=False), nn.AlphaDropout(0.2), nn.Flatten(2),
                         nn.TransformerEncoderLayer(25, 5, 32, dropout=0.2, batch_first=True), nn.Flatten(), nn.Linear(200, 5), nn.Dropout(0.5))


def check_validation():
    """Loss and accuracy of samples that are not trained with are those of the trained model in PyTorch's evaluation mode."""
    data = {"input": torch.randn(45, 3, 9, 9), "target": torch.randint(5, (45,))}
    held = {"input": torch.randn(21, 3, 9, 9), "target": torch.randint(5, (21,))}
    torch.save(data, "train.data.pt")
    torch.save(held, "held.data.pt")
    model = net()
    mptune_export.export(model, (data["input"][:3],), "net.pt2")
    torch.jit.save(torch.jit.script(model), "scripted.pt")
    # Traced, a module has the mode of training as a constant.
    torch.jit.save(torch.jit.script(nn.Sequential(*(torch.jit.trace(part, example, check_trace=False) for part, example in parts_with_inputs(model)))),
                   "traced.pt")
    cores = [f"cpu:{core}" for core in sorted(os.sched_getaffinity(0))[:2]]
    for file in ("net.pt2", "scripted.pt", "traced.pt"):
        step = [file, "--data", "train.data.pt", "--batch", "8", "--loss", "cross_entropy", "--lr", str(RATE), "--devices", ",".join(cores),
                "--microbatches", "2"]
        trained = run("run", *step, "--epochs", "2", "--validation", "held.data.pt", "--save", "net.state.pt")
        assert [len(trained["loss"]), trained["epochs"][0]["last_step"]] == [12, 5], trained["epochs"]
        after = net()
        after.load_state_dict(torch.load("net.state.pt", weights_only=True), strict=True)
        after.eval()
        with torch.no_grad():
            # Without running statistics, a norm normalises by the micro-batch: those of three batches of 8, 8 and 5 samples.
            output = torch.cat([after(part) for part in held["input"].split((4, 4, 4, 4, 3, 2))])
        loss = functional.cross_entropy(output, held["target"]).item()
        right = (output.argmax(1) == held["target"]).float().mean().item()
        epoch = trained["epochs"][1]
        assert abs(epoch["validation_loss"] - loss) < 1e-5 * loss, f"{file}: {epoch} instead of {loss}"
        assert abs(epoch["accuracy"] - right) < 1e-6, f"{file}: {epoch} instead of {right}"
    print("net: loss and accuracy of validation as in Python's evaluation mode, exported, scripted and traced")


def parts_with_inputs(model):
    values = torch.randn(4, 3, 9, 9)
    for part in model:
        yield part, values
        values = part(values).detach()


def main():
    torch.manual_seed(0)
    os.makedirs(FOLDER, exist_ok=True)
    os.chdir(FOLDER)
    for subject in models():
        check(*subject)
    check_padded()
    check_validation()


if __name__ == "__main__":
    main()
