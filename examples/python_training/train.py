"""Trains a small network in an ordinary loop and in a pipeline on two devices, with equal losses.

    python train.py [BUDGET]     BUDGET: time for the tuning, 20s without
"""
import copy
import sys

import mptune
import torch
from torch import nn
from torch.nn.functional import cross_entropy

BATCH, STEPS = 64, 20


def network():
    layers = [layer for _ in range(6) for layer in (nn.Linear(256, 256), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(256, 10))


def batches():
    generator = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        yield torch.randn(BATCH, 256, generator=generator), torch.randint(10, (BATCH,), generator=generator)


def train(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for data, target in batches():
        optimizer.zero_grad()
        loss = cross_entropy(model(data), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_in_pipeline(pipeline):
    optimizer = torch.optim.SGD(pipeline.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for data, target in batches():
        losses.append(pipeline.step(data, target))  # in place of zero_grad(), forward and backward()
        optimizer.step()
    return losses


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, example = network(), next(batches())
    budget = sys.argv[1] if len(sys.argv) > 1 else "20s"

    tuned = mptune.tune(model, inputs=example, loss=cross_entropy, batch=BATCH, budget=budget, output="network.study", force=True)
    best = tuned.recommended
    print(f"recommended: {best.plan.num_stages} stages, {best.plan.num_microbatches} micro-batches: {1e3 * best.step_s:.3g} ms a step, {best.verdict}")

    expected = train(copy.deepcopy(model))
    with mptune.Pipeline(model, tuned.plan_file, inputs=example, loss=cross_entropy) as pipeline:
        losses = train_in_pipeline(pipeline)
        model.load_state_dict(pipeline.state_dict())
    print(f"loss after {STEPS} steps: {losses[-1]:.6f}, in an ordinary loop {expected[-1]:.6f}")
    if abs(losses[-1] - expected[-1]) > 1e-3:  # micro-batches round otherwise than one batch
        sys.exit("the losses differ")


if __name__ == "__main__":
    main()
