"""in_venv.py VENV SCRIPT ARGUMENT...: runs a script with the clients' Python; exits with 77 (skipped) if they are not installed."""
import os
import pathlib
import sys

venv = pathlib.Path(sys.argv[1])
if not (venv / "installed.txt").exists():
    print("the clients could not be installed with pip")
    sys.exit(77)
python = str(venv / "bin/python")
os.execv(python, [python, *sys.argv[2:]])
