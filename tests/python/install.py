"""install.py SOURCE BUILD [--ways]: what README says installs the package, run as it stands there, in a copy of the source as a clone has it
and a fresh virtual environment. Then without a compiler: the README's example, the program, and no path of the machine that built it.
--ways: also by an old pip, by uv, and beside an installed torch with and without isolation. Exit 77 where pip has nothing."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import fresh
from patience import patience

SOURCE, BUILD = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
WORK = BUILD / "install_test"
CLONE = WORK / "mptune"


def say(text):
    print(text, flush=True)


def compiler():
    """Its name is that of the build beside it, so that ccache knows the results."""
    return {**fresh.without_python(), "CXX": "c++", "CC": "cc"}


def shell(command, folder):
    say(f"$ {command}")
    began = time.monotonic()
    subprocess.run(["bash", "-e", "-c", command], check=True, cwd=CLONE, env=fresh.activated(folder, compiler()))
    say(f"{time.monotonic() - began:.0f} s")


def documented_commands():
    """README's commands up to the one of pip, and that one."""
    block, = re.findall(r"^((?:    .*\n)*)    (pip install .*)$", (SOURCE / "README.md").read_text(), re.MULTILINE)
    return block[0].replace("    ", ""), block[1].split("#")[0].strip()


def check_no_path_of_this_machine(site):
    """Of the programs' run-time paths, and of the folder they were built in: elsewhere they lead nowhere, or to something else."""
    for file in [*(site / "mptune").glob("libexec/mptune/*"), *(site / "mptune").glob("*.so"), *(site / "mptune").glob("bin/*")]:
        read = subprocess.run(["readelf", "-d", file], check=True, capture_output=True, text=True).stdout
        for path in ":".join(re.findall(r"R(?:UN)?PATH.*\[(.*)\]", read)).split(":"):
            if path and not path.startswith("$ORIGIN"):
                sys.exit(f"{file}: looks for libraries in {path}")
        if b"/wheel/platlib" in file.read_bytes():
            sys.exit(f"{file}: names the folder in which pip built it")


def try_package(folder):
    """Without a compiler, in another folder."""
    site, = (folder / "lib").glob("python3*/site-packages")
    check_no_path_of_this_machine(site)
    python = folder / "bin" / "python"
    variables = {"PATH": str(python.parent), "HOME": str(WORK), "LANG": "C.UTF-8"}
    with tempfile.TemporaryDirectory() as elsewhere:
        for words in ([python, "-m", "mptune", "--version"], [python.parent / "mptune", "doctor", "--devices", "cpu:0"],
                      [python, "-c", "import mptune; help(mptune)"], [python, CLONE / "examples/python_training/train.py", f"{patience(10):.0f}s"]):
            say(f"$ {' '.join(map(str, words))}")
            subprocess.run(words, check=True, cwd=elsewhere, env=variables)


def expect_torch_of(folder):
    """That the package was compiled against the torch of the environment."""
    if f"{folder}/lib" not in (CLONE / "build/wheel/build.ninja").read_text():
        sys.exit(f"the torch of {folder} was not used")


def other_ways(folder):
    """folder: the environment that README's command made, with torch."""
    _, command = documented_commands()
    for way in (command, f"{command} --no-build-isolation"):
        shutil.rmtree(CLONE / "build")
        shell("pip uninstall --quiet --yes mptune && pip install --quiet 'scikit-build-core>=0.11'", folder)
        shell(way, folder)
        expect_torch_of(folder)
        try_package(folder)
    shutil.rmtree(folder)
    for name, tool, way in (("old_pip", "pip==23.0", command), ("uv", "uv", f"uv {command}")):
        shutil.rmtree(CLONE / "build")
        other = fresh.environment(WORK / name)
        shell(f"pip install --quiet '{tool}'", other)
        shell(way, other)
        try_package(other)
        shutil.rmtree(other)


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    fresh.clone(SOURCE, CLONE)
    folder = fresh.environment(WORK / "user")
    fresh.require_index(folder, WORK)
    before, command = documented_commands()
    shell(f"{before}{command}", folder)
    try_package(folder)
    if "--ways" in sys.argv[3:]:
        other_ways(folder)
    shutil.rmtree(WORK)


if __name__ == "__main__":
    main()
