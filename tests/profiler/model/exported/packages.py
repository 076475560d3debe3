"""packages.py FOLDER: installs torchvision and transformers there by pip, once, beside the torch of the Python that runs this. Where that
can't be done it says so, and the tests that need them skip."""
import pathlib
import subprocess
import sys

folder = pathlib.Path(sys.argv[1])
try:
    import torch
except ImportError as missing:
    print(f"no PyTorch here, so nothing is installed: {missing}")
    sys.exit(0)
major, minor = map(int, torch.__version__.split(".")[:2])
VISION = f"torchvision==0.{minor + 15}.*"  # made for torch 2.minor, by the pairs that PyTorch lists
OTHERS = ["transformers==5.23.*", "safetensors", "numpy", "pillow"]
done = folder / "installed.txt"
if done.exists() and done.read_text().split() == [VISION, *OTHERS]:
    print("already there")
    sys.exit(0)
pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check", "--timeout", "20", "--upgrade", "--target", str(folder)]
try:
    subprocess.run([*pip, "--no-deps", VISION], check=True, timeout=200)  # its dependency is the torch that is there
    subprocess.run([*pip, *OTHERS], check=True, timeout=300)
    done.write_text("\n".join([VISION, *OTHERS]))
except (OSError, subprocess.SubprocessError) as failure:
    print(f"torchvision and transformers can't be installed, their tests will be skipped: {failure}")
