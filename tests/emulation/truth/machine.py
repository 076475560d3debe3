"""Runs mptune on an emulated machine."""
import json
import os
import pathlib
import subprocess
import typing

ROOT = pathlib.Path(__file__).resolve().parents[3]


class Done(typing.NamedTuple):
    code: int
    result: dict  # the JSON object
    said: str  # on standard error


class Machine:
    def __init__(self, build, folder):
        self.build, self.folder = build, folder

    def mptune(self, *arguments, settings=None, timeout=300):
        variables = {f"EMULATED_{name}": str(value) for name, value in (settings or {}).items()}
        environment = {**os.environ, "MPTUNE_BUILD": str(self.build), "EMULATED_STRICT": "1", **variables}
        command = [ROOT / "tests" / "emulated.sh", "mptune", "--no-config", "--json", *map(str, arguments)]
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, errors="replace", timeout=timeout)
        try:
            result = json.loads(done.stdout)
        except ValueError:
            result = {}
        return Done(done.returncode, result, done.stderr)
