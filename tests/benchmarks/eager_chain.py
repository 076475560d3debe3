"""eager_chain.py THREADS PAIRS WIDTH: prints microseconds per operator of eager PyTorch on the chain of benchmark_exported: forward with
gradients off, then forward and backward; medians of 200 rounds each, on one line. Needs torch."""
import statistics
import sys
import time

import torch
from torch import nn

threads, pairs, width = map(int, sys.argv[1:])
torch.set_num_threads(threads)
net = nn.Sequential(*[layer for _ in range(pairs) for layer in (nn.Linear(width, width), nn.ReLU())])
x = torch.randn(width, width)


def median_of(step):
    seconds = []
    for round_number in range(210):
        start = time.perf_counter()
        step()
        if round_number >= 10:
            seconds.append(time.perf_counter() - start)
    return statistics.median(seconds) / (2 * pairs) * 1e6


def forward():
    with torch.no_grad():
        net(x)


print(median_of(forward), median_of(lambda: net(x).sum().backward()))
