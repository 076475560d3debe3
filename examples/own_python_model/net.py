"""A user's own network in ordinary PyTorch. It classifies points by the arm of a spiral that they are on."""
import math

import torch
from torch import nn

CLASSES = 3


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        return x + self.drop(self.down(nn.functional.gelu(self.up(self.norm(x)))))


class Net(nn.Module):
    def __init__(self, blocks=6, width=192):
        super().__init__()
        self.enter = nn.Linear(2, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.leave = nn.Linear(width, CLASSES)

    def forward(self, x):
        x = self.enter(x)
        for block in self.blocks:
            x = block(x)
        return self.leave(x)


def spiral(samples):
    """Points, and for each the number of its arm."""
    arm, along = torch.randint(CLASSES, (samples,)), torch.rand(samples)
    angle = arm * (2 * math.pi / CLASSES) + along * 5 + 0.1 * torch.randn(samples)
    return torch.stack([along * angle.cos(), along * angle.sin()], 1), arm
