"""Finds and runs the program mptune."""
from __future__ import annotations

import codecs
import contextlib
import importlib.util
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from mptune._error import Error

_FOLDER = Path(__file__).absolute().parent  # not behind links: a build folder holds links to the sources

_MAYBE_AN_ERROR = re.compile(r"mptune: (?!warning: )(.*; .*|[^\n]*\Z)", re.DOTALL)  # whole, or not yet


def program() -> str:
    """Path of the program: MPTUNE_PROGRAM, else bin/mptune of this package, else mptune on PATH."""
    given = os.environ.get("MPTUNE_PROGRAM")
    if given:
        if not _is_executable(Path(given)):
            raise Error("this is not a program", f"{given} (MPTUNE_PROGRAM)", "name the program mptune, or unset MPTUNE_PROGRAM", 7)
        return os.path.abspath(given)
    for candidate in (_FOLDER / "bin" / "mptune", *_on_path()):
        if _is_executable(candidate) and not _is_script(candidate):
            return str(candidate)
    remedy = "install the package mptune again, or name the program in the environment variable MPTUNE_PROGRAM"
    raise Error("the program mptune is not there", f"{_FOLDER / 'bin'} and PATH", remedy, 7)


def _on_path() -> Iterator[Path]:
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        if folder:
            yield Path(folder).absolute() / "mptune"


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _is_script(path: Path) -> bool:
    """True for the command `mptune` of this package, or of one in another environment: it would start us again, for ever."""
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return True


def environment() -> dict[str, str]:
    """The environment of the program: its worker finds the libraries of an installed torch, which may not lie where they were when the
    worker was built. What LD_LIBRARY_PATH has already comes first."""
    folders = _torch_libraries()
    if not folders:
        return dict(os.environ)
    before = os.environ.get("LD_LIBRARY_PATH", "")
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(([before] if before else []) + folders)}


def _torch_libraries() -> list[str]:
    """Folders of libraries of the torch that `import torch` would take, without importing it."""
    try:
        found = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return []
    if found is None or not found.origin:
        return []
    torch = Path(found.origin).parent
    return [str(folder) for folder in (torch / "lib", *sorted(torch.parent.glob("nvidia/*/lib"))) if folder.is_dir()]


def run(command: str, arguments: Sequence[str], *, progress: bool = True, variables: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Runs `mptune --json COMMAND ARGUMENTS`, with more environment variables, and returns its JSON object. What it says meanwhile goes to
    sys.stderr; without `progress`, warnings only.

    Raises Error if the object is one of an error. Any other object is a result, whatever the exit code: a verdict such as SLOW is none.
    """
    words = [program(), "--json", *([] if progress else ["--quiet"]), command, *arguments]
    stream = sys.stderr
    output, code, last_line = _finish(words, stream, variables or {})
    value = _object(output)
    if value is None or value["schema"] != "mptune.error/1":
        write_text(stream, last_line)
    if value is None:
        how = f"was ended by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
        raise Error(f"mptune {how} and printed no result", words[0], f"see what it says: `{shlex.join(words)}`", code if code > 0 else 1)
    if value["schema"] == "mptune.error/1":
        from mptune.results import ErrorResult

        failed = ErrorResult.from_json(value)
        raise Error(failed.error.what, failed.error.where, failed.error.remedy, failed.exit_code)
    return value


def _finish(words: Sequence[str], stream: IO[str] | None, variables: Mapping[str, str]) -> tuple[bytes, int, str]:
    """Output, exit code, and a last line of stderr that may be the error. An exception that comes meanwhile, such as KeyboardInterrupt,
    interrupts the program and is raised when that has ended; a second one kills it."""
    launcher = [sys.executable, "-I", "-S", str(_FOLDER / "_launch.py"), str(os.getpid())] if sys.executable else []
    # A session of its own: Ctrl-C on a terminal, and in Jupyter, reaches a whole group of processes. In ours, the program would get it from
    # there and from us, and take the second one for the wish to end at once.
    process = subprocess.Popen([*launcher, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={**environment(), **variables}, start_new_session=True)
    output: list[bytes] = []
    held = _Held(stream)
    collecting = _in_thread(_collect, process.stdout, output)
    passing_on = _in_thread(_pass_on, process.stderr, held)
    try:
        collecting.join()
        process.wait()
    except BaseException:
        _interrupt(process)
        passing_on.join(1)
        write_text(stream, held.text)
        raise
    passing_on.join(1)  # longer only where a process that it left behind holds the pipe
    return b"".join(output), process.returncode, held.text


def _in_thread(function: Callable[[Any, Any], None], source: IO[bytes] | None, target: Any) -> threading.Thread:
    thread = threading.Thread(target=function, args=(source, target), daemon=True)
    thread.start()
    return thread


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    try:
        process.send_signal(signal.SIGINT)
        process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise


def _collect(source: IO[bytes], output: list[bytes]) -> None:
    with source:
        output.append(source.read())


class _Held:
    """Writes to a stream, but for a last line that may be the error: that is raised, and would be read twice."""

    def __init__(self, stream: IO[str] | None) -> None:
        self._stream = stream
        self.text = ""

    def add(self, text: str) -> None:
        text = self.text + text
        start = text.rfind("\n", 0, -1) + 1
        self.text = text[start:] if _MAYBE_AN_ERROR.match(text[start:]) else ""
        write_text(self._stream, text[:len(text) - len(self.text)])


def _pass_on(source: IO[bytes], held: _Held) -> None:
    """Writes as it comes. Not by the file number: in a notebook sys.stderr is no file."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    with source:
        while data := os.read(source.fileno(), 1 << 16):
            held.add(decoder.decode(data))


def write_text(stream: IO[str] | None, text: str) -> None:
    """Writes and flushes; None and a closed stream take nothing."""
    with contextlib.suppress(OSError, ValueError):  # a closed stderr; the program must go on
        if stream is not None and text:
            stream.write(text)
            stream.flush()


def _object(output: bytes) -> dict[str, Any] | None:
    """The JSON object that the program printed, if it is one of ours."""
    try:
        value = json.loads(output)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and "schema" in value else None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
