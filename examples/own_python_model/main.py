"""main.py export: writes the network of net.py as net.pt2, and a batch for mptune.
main.py load: loads the weights that mptune trained back into the network, and prints its accuracy."""
import pathlib
import sys

for folder in ("python/export", "python"):  # in the repository, in an installation
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / folder))
try:
    import mptune_export
    import torch
except ImportError as missing:
    print(f"no PyTorch here, so there is no model to export: {missing}")
    sys.exit(77)
from net import Net, spiral
from torch.nn import functional

BATCH = 256


def export():
    torch.manual_seed(1)
    points, arms = spiral(BATCH)
    mptune_export.export(Net(), (points[:4],), "net.pt2")
    torch.save({"input": points, "target": arms}, "batch.pt")
    print("net.pt2 agrees with the network in loss, gradients and buffers")
    return 0


def right(model):
    torch.manual_seed(2)  # for points that are not in the training batch
    points, arms = spiral(2000)
    with torch.no_grad():
        return (model.eval()(points).argmax(1) == arms).float().mean().item()


def load():
    torch.manual_seed(1)
    spiral(BATCH)  # export() drew these points before it made the network, so the weights are the same
    model = Net()
    before = right(model)
    model.load_state_dict(torch.load("trained.pt", weights_only=True))  # strict: every name, every shape
    after = right(model)
    points, arms = torch.load("batch.pt", weights_only=True).values()
    print(f"loss {functional.cross_entropy(model(points), arms).item():.4f} without dropout")
    print(f"points on the right arm: {before:.0%} before, {after:.0%} after")
    print(f"the network has {'' if after > 0.8 else 'NOT '}learned")
    return 0 if after > 0.8 else 1


if __name__ == "__main__":
    if sys.argv[1:] not in (["export"], ["load"]):
        sys.exit(__doc__)
    sys.exit(export() if sys.argv[1] == "export" else load())
