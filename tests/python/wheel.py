"""wheel.py SOURCE BUILD: makes a wheel of the source and uses it in a fresh virtual environment where no compiler is found: the README's
example, the program, and no path of the machine that built it. Exit 77 where pip has nothing, or torch can't be imported."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from patience import patience

SOURCE, BUILD = (pathlib.Path(word).resolve() for word in sys.argv[1:])
WORK = BUILD / "wheel_test"
PIP = ["-m", "pip", "--disable-pip-version-check", "--no-python-version-warning"]


def say(text):
    print(text, flush=True)


def environment(name):
    """Python of a new virtual environment."""
    folder = WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    try:
        venv.create(folder, with_pip=True, symlinks=True)
    except subprocess.CalledProcessError:
        say("this Python makes no virtual environments (python3-venv), so no wheel is tried")
        sys.exit(77)
    return folder / "bin" / "python"


def build_wheel():
    """With the name of the compiler of the build beside it, and in a folder of the same depth, so that ccache knows the results."""
    python = environment("builder")
    got = subprocess.run([python, *PIP, "install", "--quiet", "--timeout", "20", "scikit-build-core>=0.11"])
    if got.returncode != 0:
        say("pip could not install scikit-build-core, so no wheel is made")
        sys.exit(77)
    began = time.monotonic()
    subprocess.run([python, *PIP, "wheel", str(SOURCE), "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(WORK),
                    f"--config-settings=build-dir={BUILD.parent / 'wheel'}"],
                   check=True, env={**os.environ, "CXX": "c++", "CC": "cc"})
    wheel, = WORK.glob("mptune-*.whl")
    say(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB in {time.monotonic() - began:.0f} s")
    return wheel


def install(wheel):
    """Python of a fresh environment with the wheel, and with the torch of the other tests."""
    python = environment("user")
    script = "import json, os, sys; print(json.dumps([sys.path, os.environ.get('LD_LIBRARY_PATH', '')]))"
    paths, libraries = json.loads(subprocess.run([BUILD / "python_consumer" / "python", "-c", script], check=True, capture_output=True).stdout)
    site, = (WORK / "user" / "lib").glob("python3*/site-packages")
    others = [path for path in paths if path and (path.endswith("site-packages") or (pathlib.Path(path) / "torch").is_dir())]
    (site / "torch_of_tests.pth").write_text("\n".join(others))
    subprocess.run([python, *PIP, "install", "--quiet", "--no-deps", "--no-index", wheel], check=True)
    return python, site, {"PATH": str(python.parent), "LD_LIBRARY_PATH": libraries, "HOME": str(WORK), "LANG": "C.UTF-8"}


def check_no_path_of_this_machine(site):
    """Of the programs' run-time paths, and of the folder they were built in: elsewhere they lead nowhere, or to something else."""
    for file in [*(site / "mptune").glob("libexec/mptune/*"), *(site / "mptune").glob("*.so"), *(site / "mptune").glob("bin/*")]:
        read = subprocess.run(["readelf", "-d", file], check=True, capture_output=True, text=True).stdout
        for path in ":".join(re.findall(r"R(?:UN)?PATH.*\[(.*)\]", read)).split(":"):
            if path and not path.startswith("$ORIGIN"):
                sys.exit(f"{file}: looks for libraries in {path}")
        if b"/wheel/platlib" in file.read_bytes():
            sys.exit(f"{file}: names the folder in which pip built it")


def main():
    if not (BUILD / "python_consumer" / "python").exists():
        say("torch can't be imported, so no wheel is tried")
        sys.exit(77)
    WORK.mkdir(exist_ok=True)
    for old in WORK.glob("*.whl"):
        old.unlink()
    python, site, variables = install(build_wheel())
    check_no_path_of_this_machine(site)
    with tempfile.TemporaryDirectory() as folder:
        for words in ([python, "-m", "mptune", "--version"], [python.parent / "mptune", "doctor", "--devices", "cpu:0"],
                      [python, "-c", "import mptune; help(mptune)"], [python, SOURCE / "examples/python_training/train.py", f"{patience(10):.0f}s"]):
            say(f"$ {' '.join(map(str, words))}")
            subprocess.run(words, check=True, cwd=folder, env=variables)


if __name__ == "__main__":
    main()
