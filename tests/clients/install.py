"""install.py VENV: makes a virtual environment with the clients, once. If that fails, it prints why and the tests are skipped."""
import pathlib
import subprocess
import sys

PACKAGES = ["traceinsight==0.6.1", "nsys-ai==0.3.0"]

venv = pathlib.Path(sys.argv[1])
done = venv / "installed.txt"
if done.exists() and done.read_text().split() == PACKAGES:
    print("already there")
    sys.exit(0)
subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=False)
pip = [venv / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--timeout", "20", *PACKAGES]
try:
    subprocess.run(pip, check=True, timeout=500)
    done.write_text("\n".join(PACKAGES))
except (OSError, subprocess.SubprocessError) as failure:
    print(f"{', '.join(PACKAGES)} can't be installed, their tests will be skipped: {failure}")
