"""make_files.py FOLDER: makes the small exported programs of the tests, each with a reference from eager PyTorch beside it (NAME.pt: inputs,
loss, gradients, buffers of one step). Needs torch. The files under tests/golden/exported were made by it."""
import copy
import json
import pathlib
import re
import sys
import zipfile

import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).parents[4] / "python/export"))
import mptune_export  # noqa: E402

folder = pathlib.Path(sys.argv[1])
torch.set_num_threads(1)
SEED = 7  # compare_exported and the unit tests draw with it


class Residual(nn.Module):
    """Convolutions with batch norms, in-place operators on what crosses cuts, a skip, a shared loop over a module without norms."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.norm1, self.norm2 = nn.BatchNorm2d(4), nn.BatchNorm2d(4)
        self.conv1, self.conv2 = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.scale = nn.Linear(4, 4)
        self.head = nn.Linear(4, 5)

    def forward(self, image):
        x = self.stem(image).relu_()
        y = self.norm2(self.conv2(self.norm1(self.conv1(x)).relu_()))
        y += x
        x = functional.adaptive_avg_pool2d(y.relu_(), 1).flatten(1)
        for _ in range(2):
            x = self.scale(x).tanh()
        return self.head(x)


class Language(nn.Module):
    """A block with attention, dropout and a mask made from nothing, and a head tied to the embedding."""

    def __init__(self, words=11, width=8, heads=2, positions=6):
        super().__init__()
        self.heads = heads
        self.word, self.position = nn.Embedding(words, width), nn.Embedding(positions, width)
        self.norm = nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.word.weight

    def forward(self, words):
        batch, length = words.shape
        x = self.word(words) + self.position(torch.arange(length, device=words.device))
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        mask = torch.ones(length, length, device=words.device).tril().bool()
        scores = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).masked_fill(~mask, float("-inf")).softmax(-1)
        x = x + self.drop(self.out((self.drop(scores) @ v).transpose(1, 2).reshape(batch, length, -1)))
        return self.head(x)


class Regions(nn.Module):
    """Gradients off, autocast, a branch, buffers of several kinds, a constant, two inputs, the loss in the program."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 3)
        self.register_buffer("average", torch.zeros(4))
        self.register_buffer("offset", torch.ones(4), persistent=False)
        self.weights = torch.tensor([1.0, 2.0])

    def forward(self, x, target):
        with torch.no_grad():
            largest = (x * 3).sum()
            self.average.mul_(0.9).add_(x.mean(0), alpha=0.1)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            hidden = self.first(x)
        hidden = hidden.float() + self.offset
        hidden = torch.cond(largest > 0, lambda a: a.sin(), lambda a: a.cos(), (hidden,))
        hidden[:, :2] = self.weights
        return functional.cross_entropy(self.last(hidden), target)


class Sequence(nn.Module):
    """Samples in the second dimension, and in dimensions that hold heads or times besides; random numbers of every kind."""

    def __init__(self, width=8, heads=2):
        super().__init__()
        self.heads = heads
        self.enter, self.out, self.head = nn.Linear(4, width), nn.Linear(width, width), nn.Linear(width, 3)

    def forward(self, x):
        x = functional.dropout(self.enter(x).transpose(0, 1), 0.2)  # times, samples, width
        length, batch, width = x.shape
        v = x.reshape(length, batch * self.heads, -1).transpose(0, 1)
        scores = functional.dropout((v @ v.transpose(1, 2)).softmax(-1), 0.2)  # samples x heads, times, times
        y = self.out((scores @ v).transpose(0, 1).reshape(length * batch, width))
        y = functional.dropout(y, 0.2).view(length, batch, width)  # times x samples, width
        x = x + y * (torch.rand(batch, 1) < 0.8) + 0.1 * torch.randn_like(x)
        x = x * torch.cond(x.square().sum() >= 0, lambda a: functional.dropout(a, 0.2), lambda a: functional.dropout(a, 0.1), (torch.ones_like(x),))
        z = x.permute(1, 0, 2).unsqueeze(1)
        z = functional.scaled_dot_product_attention(z, z, z, dropout_p=0.2).squeeze(1)
        return self.head(z + torch.empty(width).uniform_(-0.1, 0.1))  # the last noise is the same for all samples


class Tied(nn.Module):
    """Two inputs; one table for both and for the head, which three stages may use; the loss in the program."""

    def __init__(self, words=11, width=6):
        super().__init__()
        self.word = nn.Embedding(words, width)
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)
        self.head = nn.Linear(width, words)
        self.head.weight = self.word.weight

    def forward(self, words, labels):
        x = self.first(self.word(words)).tanh()
        x = self.second(x + self.word(labels.roll(1, 1))).tanh()
        return functional.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


def forget_folders(path):
    """Stack traces name files of this machine: their names are enough, and the user's own line."""
    with zipfile.ZipFile(path) as archive:
        records = [(record, archive.read(record)) for record in archive.infolist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for record, content in records:
            if record.filename.endswith("model.json"):
                content = re.sub(rb'File \\"[^"\\]*/', rb'File \\"', content)
                content = re.sub(rb'("stack_trace": "(?:[^"\\]|\\"|\\[^"n])*\\n(?:[^"\\]|\\"|\\[^"n])*\\n)(?:[^"\\]|\\.)*', rb'\1', content)
                content = json.dumps(json.loads(content), separators=(",", ":"))
            archive.writestr(record, content)


def make(name, model, example, step, with_reference=False):
    model.train()
    reference = copy.deepcopy(model)
    path = folder / f"{name}.pt2"
    if with_reference:
        mptune_export.export(model, example, path)
    else:
        shapes = tuple({0: Dim("batch", min=1)} for _ in example)
        torch.export.save(torch.export.export(model, example, dynamic_shapes=shapes, strict=False), path)
    forget_folders(path)
    torch.manual_seed(SEED)
    output = reference(*step)
    loss = output if output.dim() == 0 else output.square().mean()
    loss.backward()
    record = {f"input.{i}": tensor for i, tensor in enumerate(step)}
    record["loss"] = loss.detach()
    record.update({f"gradient.{key}": value.grad for key, value in reference.named_parameters() if value.grad is not None})
    record.update({f"buffer.{key}": value.detach().clone() for key, value in reference.named_buffers()})
    torch.save(record, folder / f"{name}.pt")


def words(samples):
    return torch.randint(0, 11, (samples, 6))


torch.manual_seed(0)
make("residual", Residual(), (torch.randn(3, 3, 6, 6),), (torch.randn(4, 3, 6, 6),), with_reference=True)
make("language", Language(), (words(3),), (words(4),), with_reference=True)
make("sequence", Sequence(), (torch.randn(3, 5, 4),), (torch.randn(4, 5, 4),))
make("regions", Regions(), (torch.randn(3, 4), torch.randint(0, 3, (3,))), (torch.randn(4, 4), torch.randint(0, 3, (4,))))
make("tied", Tied(), (words(3), words(3)), (words(4), words(4)))
