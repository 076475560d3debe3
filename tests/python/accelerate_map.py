"""accelerate_map.py PACKAGES FOLDER: accelerate spreads a model as a plan says, and trains it with the losses of eager PyTorch. It is installed
into FOLDER by pip, beside the packages of the public models. Exit 77 where that can't be done."""
import copy
import os
import pathlib
import subprocess
import sys
import tempfile

PACKAGES, FOLDER = sys.argv[1:]
if not (pathlib.Path(FOLDER) / "accelerate").is_dir():
    got = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--timeout", "20", "--no-deps",
                          "--target", FOLDER, "accelerate==1.12.*", "psutil"])
    if got.returncode != 0:
        print("pip could not install accelerate")
        sys.exit(77)
sys.path += [FOLDER, PACKAGES]
os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import accelerate
    import torch
    from accelerate.utils import check_device_map
    from torch import nn
except ImportError as missing:
    print(f"accelerate can't be imported: {missing}")
    sys.exit(77)
import mptune

STEPS = 5


def main():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Embedding(50, 32), nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True), nn.Linear(32, 50))
    words = torch.randint(50, (8, 12))
    with tempfile.TemporaryDirectory() as folder:
        file, profile = os.path.join(folder, "net.pt2"), os.path.join(folder, "net.sqlite")
        mptune.export(net, (words,), file)
        mptune.profile(file, batch=8, loss="mean_square", devices="sleep:2", steps=1, output=profile, progress=False)
        plan = mptune.load_plan(mptune.plan(profile, stages=2, output=os.path.join(folder, "net.plan.json"), progress=False).plan_file)
    settings, lossy = plan.to_accelerate()
    check_device_map(net, settings)
    spread = accelerate.dispatch_model(copy.deepcopy(net), settings)
    target, losses = torch.randint(50, (8, 12)), []
    for model in (net, spread):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses.append([])
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(words).flatten(0, 1), target.flatten())
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    furthest = max(abs(a - b) for a, b in zip(*losses, strict=True))
    print(f"{settings}\nnot in it: {'; '.join(lossy)}\nlosses furthest apart {furthest:.1e}")
    return 0 if furthest < 1e-6 and losses[0][-1] < losses[0][0] and spread.hf_device_map == settings else 1


if __name__ == "__main__":
    sys.exit(main())
