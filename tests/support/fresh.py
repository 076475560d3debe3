"""A fresh clone of the source and a fresh virtual environment, as a newcomer has them."""
import os
import shutil
import subprocess
import sys
import venv

SKIPPED = 77


def skip(why):
    print(why, flush=True)
    sys.exit(SKIPPED)


def clone(source, to):
    """The files that git knows, or would: a change that is not committed yet is tested, too."""
    listed = subprocess.run(["git", "-C", source, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], capture_output=True)
    if listed.returncode != 0:
        skip("the source is no git repository, so there is no clone of it")
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (source / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, to / name)


def commit(folder):
    """Makes a repository of it, as a clone is one."""
    author = ["-c", "user.name=newcomer", "-c", "user.email=newcomer@localhost", "-c", "commit.gpgsign=false"]
    for words in (["init", "--quiet"], ["add", "--all"], [*author, "commit", "--quiet", "--message", "A clone"]):
        subprocess.run(["git", "-C", folder, *words], check=True)


def environment(folder):
    """Makes a new virtual environment."""
    try:
        venv.create(folder, with_pip=True, symlinks=True)
    except subprocess.CalledProcessError:
        skip("this Python makes no virtual environments (python3-venv), so nothing is installed")
    return folder


def require_index(environment, downloads):
    """Ends the test where pip has nothing to fetch from."""
    fetch = ["-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps", "--timeout", "20", "--dest", downloads, "scikit-build-core>=0.11"]
    if subprocess.run([environment / "bin" / "python", *fetch]).returncode != 0:
        skip("pip could not fetch scikit-build-core, so nothing is installed")


def without_python():
    """The variables of this process that do not lead Python elsewhere."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}


def activated(folder, variables):
    """With what `source bin/activate` sets."""
    return {**variables, "VIRTUAL_ENV": str(folder), "PATH": f"{folder / 'bin'}:{variables['PATH']}"}
