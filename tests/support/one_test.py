"""Builds what one test needs and runs it: what tests/one.sh calls."""
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build" / "dev")).resolve()
CASE = re.compile(r"^(?:TYPED_)?TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", re.MULTILINE)


def fail(words):
    sys.exit(f"tests/one.sh: {words}")


def run(command, **options):
    done = subprocess.run([str(word) for word in command], cwd=ROOT, **options)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return done.stdout


def configure():
    if not (BUILD / "build.ninja").exists():
        run(["cmake", "--preset", BUILD.name, "-B", BUILD])


def build(*targets):
    run(["cmake", "--build", BUILD, "--target", *targets])


def program_of(folder):
    """The GoogleTest program that the sources of a folder of tests are in."""
    programs = dict(line.split() for line in (BUILD / "test_programs.txt").read_text().splitlines())
    return programs.get(str(folder.relative_to(ROOT)))


def programs_with(pattern):
    """GoogleTest programs that have a case Suite.Name, or Instance/Suite.Name/0, that matches."""
    suite, _, name = pattern.partition(".")
    suite, name = suite.rsplit("/", 1)[-1] if "/" in suite else suite, name.split("/")[0] or "*"
    return sorted({program for path in (ROOT / "tests").rglob("*_test.cc") for of, case in CASE.findall(path.read_text())
                   if fnmatch.fnmatchcase(of, suite) and fnmatch.fnmatchcase(case, name) and (program := program_of(path.parent))})


def tests_of_ctest():
    shown = run(["ctest", "--test-dir", BUILD, "--show-only=json-v1"], stdout=subprocess.PIPE, text=True)
    return {test["name"]: test for test in json.loads(shown)["tests"] if "command" in test}


def run_python_part(test, part):
    """Runs a class or method of a test whose command ends with `-m unittest MODULE`, or runs a share of MODULE."""
    properties = {entry["name"]: entry["value"] for entry in test["properties"]}
    python, *words, module = test["command"]
    if not any("unittest" in word for word in words):
        fail(f"{test['name']} is no test of Python's unittest and runs as a whole: tests/one.sh {test['name']}")
    environment = dict(entry.split("=", 1) for entry in properties.get("ENVIRONMENT", []))
    os.chdir(properties.get("WORKING_DIRECTORY", "."))
    os.execvpe(python, [python, "-m", "unittest", f"{module}.{part}", "-v"], {**os.environ, **environment})


def targets_of(name):
    """Tests of the program with the fake worker need no LibTorch."""
    return ["mptune", "cli_fixtures", "cli_cuda_program"] if name.split(".")[0] == "cli" else ["all"]


def run_of_ctest(name):
    """If it is a test of ctest, one that runs in shares (NAME.1 to NAME.N), or a part of one, this program ends with it."""
    tests = tests_of_ctest()
    wholes = {test: re.sub(r"\.\d+$", "", test) for test in tests}
    test = next((test for test, whole in wholes.items() if name in (test, whole)), None)
    if test:
        build(*targets_of(name))
        os.execvp("ctest", ["ctest", "--test-dir", str(BUILD), "-R", rf"^{re.escape(name)}(\.[0-9]+)?$", "--output-on-failure"])
    test = next((test for test, whole in wholes.items() if name.startswith(whole + ".")), None)
    if test:
        build(*targets_of(name))
        run_python_part(tests[test], name[len(wholes[test]) + 1:])


def main(arguments):
    if len(arguments) != 1 or arguments[0].startswith("-"):
        fail("usage: tests/one.sh NAME, such as Transparency.GradientsAddUpOnRequest, cli.texts or cli.texts.Texts.test_golden")
    name = arguments[0]
    configure()
    programs = programs_with(name)
    if not programs:
        run_of_ctest(name)
        fail(f"no test is named {name}; ctest --test-dir {BUILD} -N lists those of ctest")
    build(*programs)
    for program in programs:
        case = name if "." in name else name + ".*"
        run([BUILD / "bin" / program, f"--gtest_filter={case}:*/{case}:{case}/*:*/{case}/*"])


main(sys.argv[1:])
