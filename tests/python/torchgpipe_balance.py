"""torchgpipe_balance.py FOLDER: a network trains in torchgpipe, split by a plan's balance, with the losses of eager PyTorch. torchgpipe is
installed into FOLDER by pip. Exit 77 where that can't be done."""
import copy
import os
import pathlib
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(sys.argv[1])
if not (FOLDER / "torchgpipe").is_dir():
    got = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--timeout", "20", "--no-deps",
                          "--target", str(FOLDER), "torchgpipe==0.0.7"])
    if got.returncode != 0:
        print("pip could not install torchgpipe")
        sys.exit(77)
sys.path.append(str(FOLDER))
import mptune
import torch
from torch import nn
from torchgpipe import GPipe

BATCH, STEPS = 32, 5


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = nn.Sequential(nn.Flatten(), *[layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.ReLU())], nn.Linear(64, 5))
    data, target = torch.randn(BATCH, 8, 8), torch.randint(5, (BATCH,))
    with tempfile.TemporaryDirectory() as folder:
        file, profile = os.path.join(folder, "net.pt2"), os.path.join(folder, "net.sqlite")
        mptune.export(net, (data,), file)
        mptune.profile(file, batch=BATCH, loss="cross_entropy", devices="sleep:2", steps=1, output=profile, progress=False)
        plan = mptune.load_plan(mptune.plan(profile, stages=2, schedule="gpipe", microbatches=4, cuts=[2], replicas=[1, 1],
                                            output=os.path.join(folder, "net.plan.json"), progress=False).plan_file)
        balance = plan.balance(net)
        losses = {}
        for name, model in (("eager", copy.deepcopy(net)), ("torchgpipe", GPipe(copy.deepcopy(net), balance, devices=["cpu", "cpu"],
                                                                                chunks=plan.n_microbatches))):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            losses[name] = []
            for _ in range(STEPS):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(data), target)
                loss.backward()
                optimizer.step()
                losses[name].append(loss.item())
    furthest = max(abs(a - b) for a, b in zip(*losses.values()))
    print(f"balance {balance} of {len(net)} children, losses furthest apart {furthest:.1e}")
    return 0 if sum(balance) == len(net) and min(balance) > 0 and furthest < 1e-6 and losses["eager"][-1] < losses["eager"][0] else 1


if __name__ == "__main__":
    sys.exit(main())
