"""mptune's built-in models in PyTorch, as chains of layers with the same names, so that rivals train the same network."""
import collections
import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "examples/python_consumer"))
import transformer

# `prefix` of the layer's names in the whole model's state dict; `module` has one input and one output.
Layer = collections.namedtuple("Layer", "name prefix module")
# `batch(samples)` gives (inputs, target).
Model = collections.namedtuple("Model", "layers batch")


def loss(output, target):
    """Mean cross entropy; classes are the output's last dimension."""
    return functional.cross_entropy(output.flatten(0, -2), target.flatten())


def convolution(inputs, outputs, window, stride):
    return nn.Conv2d(inputs, outputs, window, stride, padding=window // 2, bias=False)


class Bottleneck(nn.Module):
    """torchvision's."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.conv1, self.bn1 = convolution(inputs, width, 1, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = convolution(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = convolution(width, outputs, 1, 1), nn.BatchNorm2d(outputs)
        same = stride == 1 and inputs == outputs
        self.downsample = None if same else nn.Sequential(convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn1(self.conv1(x)).relu_()
        y = self.bn2(self.conv2(y)).relu_()
        y = self.bn3(self.conv3(y))
        y += x if self.downsample is None else self.downsample(x)
        return y.relu_()


class Stem(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = convolution(3, 64, 7, 2), nn.BatchNorm2d(64)

    def forward(self, x):
        return functional.max_pool2d(self.bn1(self.conv1(x)).relu_(), 3, 2, 1)


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2048, 1000)

    def forward(self, x):
        return self.fc(functional.adaptive_avg_pool2d(x, 1).flatten(1))


def resnet50(shape):
    layers, inputs = [Layer("stem", "", Stem())], 64
    for group, blocks in enumerate((3, 4, 6, 3)):
        for i in range(blocks):
            name = f"layer{group + 1}.{i}"
            layers.append(Layer(name, name + ".", Bottleneck(inputs, 64 << group, 2 if group > 0 and i == 0 else 1)))
            inputs = 256 << group
    layers.append(Layer("head", "", Head()))
    return Model(layers, lambda samples: (torch.randn(samples, *shape), torch.randint(1000, (samples,))))


def transformer_chain(d, layers, heads, seq, vocab):
    chain = [Layer("embedding", "embedding.", transformer.Embedding(d, seq, vocab))]
    chain += [Layer(f"blocks.{i}", f"blocks.{i}.", transformer.Block(d, heads)) for i in range(layers)]
    chain.append(Layer("head", "head.", transformer.Head(d, vocab)))
    return Model(chain, lambda samples: torch.randint(vocab, (2, samples, seq)).unbind(0))


def make(text, shape=""):
    """The model that mptune calls `text` ("resnet50", "transformer:d=256,layers=8") with inputs of `shape` ("3x64x64", "": its own)."""
    name, _, options = text.partition(":")
    given = {key: int(value) for key, _, value in (option.partition("=") for option in options.split(",") if option)}
    if name == "resnet50" and not given:
        return resnet50([int(size) for size in (shape or "3x224x224").split("x")])
    if name == "transformer" and not shape:
        return transformer_chain(**({"d": 256, "layers": 8, "heads": 8, "seq": 64, "vocab": 1000} | given))
    raise ValueError(f"there is no {text} with inputs '{shape}' in models.py: it has resnet50 and transformer[:KEY=VALUE,...] without shape")


def state_of(model):
    """Tensors of the whole model by the names that mptune gives them."""
    return {layer.prefix + name: tensor for layer in model.layers for name, tensor in layer.module.state_dict().items()}
