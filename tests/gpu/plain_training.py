"""A training script that knows nothing of mptune: plain PyTorch, an NVTX range around the measured steps and one around each of them.

  plain_training.py [--device cuda:0] [--steps 20]
  plain_training.py --trace FILE      also records the measured steps with torch.profiler, as its JSON
"""
import argparse
import contextlib

import torch


def network():
    layers = [torch.nn.Conv2d(3, 64, 3, padding=1), torch.nn.ReLU()]
    for _ in range(12):
        layers += [torch.nn.Conv2d(64, 64, 3, padding=1), torch.nn.BatchNorm2d(64), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(64, 10))


class Training:
    def __init__(self, device):
        torch.manual_seed(0)
        self.device = device
        self.model = network().to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.data = torch.randn(64, 3, 64, 64, device=device)
        self.target = torch.randint(10, (64,), device=device)

    def step(self):
        self.optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(self.model(self.data), self.target)
        loss.backward()
        self.optimizer.step()
        return loss

    def steps(self, count):
        for step in range(count):
            with nvtx_range(self.device, f"step {step}"):
                loss = self.step()
        self.wait()
        return loss

    def wait(self):
        if self.device.startswith("cuda"):
            torch.cuda.synchronize()


def nvtx_range(device, name):
    return torch.cuda.nvtx.range(name) if device.startswith("cuda") else contextlib.nullcontext()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--trace", help="file for torch.profiler's JSON")
    options = parser.parse_args()

    training = Training(options.device)
    training.steps(5)  # warm-up
    recording = torch.profiler.profile() if options.trace else contextlib.nullcontext()
    with recording:
        with nvtx_range(options.device, "measured"):
            loss = training.steps(options.steps)
    if options.trace:
        recording.export_chrome_trace(options.trace)
    print(f"loss after {options.steps} steps: {loss.item():.4f}")


if __name__ == "__main__":
    main()
