"""An nn.Module as a file for the program: where it is kept, and what its inputs say."""
from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from typing import IO, Any

from mptune import _files
from mptune._database import Database
from mptune._error import Error
from mptune._program import write_text

_PERIOD_S = 10  # between two lines of progress, as in the program
_LOCK = "study.lock"
_DATABASE = "study.sqlite"

Given = Mapping[str, Any]


@contextlib.contextmanager
def for_program(command: str, given: Given) -> Iterator[Given]:
    """The parameters of a function as the program takes them: `model` is a name or file, `loss` a text, `batch` that of the inputs.

    The program of a tuned module is kept in its study, which goes on with it; that of a profiled one in a folder beside the trace. Others
    are there until the end."""
    if not _files.is_module(given["model"]):
        _files.refuse_parts_of_a_module(given["model"], given["inputs"], given["loss"])
        yield given
        return
    changed: dict[str, Any] = {**given, "loss": given["loss"] if isinstance(given["loss"], str) else None}
    if "batch" in given:
        changed["batch"] = _batch(command, given)
    place = {"tune": _in_study, "profile": _beside_trace}.get(command, _for_now)
    with place(given) as model:
        # A study has its options; those that are given again are compared.
        yield {**changed, "model": model, "batch": given["batch"]} if os.path.isdir(model) else {**changed, "model": model}


def _batch(command: str, given: Given) -> int | None:
    """As many samples as the inputs have. A plan file that is run says its own."""
    runs_a_plan = command != "tune" and (given["plan"] is not None or (command == "run" and os.environ.get("MPTUNE_PLAN")))
    return given["batch"] if given["batch"] is not None or runs_a_plan else samples_of(given["inputs"])


def samples_of(inputs: Any) -> int | None:
    """Dimension 0 of the first input that has one."""
    if isinstance(inputs, (list, tuple, Mapping)):
        parts = inputs.values() if isinstance(inputs, Mapping) else inputs
        return next((found for found in map(samples_of, parts) if found is not None), None)
    shape: Any = getattr(inputs, "shape", ())
    return int(shape[0]) if len(shape) else None


def _export_into(folder: str, given: Given) -> str:
    """The path of the program."""
    path, loss = os.path.join(folder, _file_name(given)), given["loss"]
    with _announced(f"exporting {type(given['model']).__name__}", sys.stderr if given["progress"] else None):
        _files.export_module(given["model"], given["inputs"], path, loss if callable(loss) else None)
    return path


@contextlib.contextmanager
def _for_now(given: Given) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="mptune-") as folder:
        yield _export_into(folder, given)


@contextlib.contextmanager
def _beside_trace(given: Given) -> Iterator[str]:
    """Commands about the trace name the program."""
    trace = os.fspath(given["output"] or f"{type(given['model']).__name__}.sqlite")
    with _new_folder(os.path.splitext(trace)[0] + ".profile", keeps="") as folder:
        yield _export_into(folder, given)


@contextlib.contextmanager
def _in_study(given: Given) -> Iterator[str]:
    """The program in the study's folder, or the folder of a study that goes on."""
    study = os.fspath(given["output"] or f"{type(given['model']).__name__}.study")
    path = os.path.join(study, _file_name(given))
    database = os.path.join(study, _DATABASE)
    if given["resume"] and os.path.exists(path) and os.path.exists(database):
        _check_same_module(given["model"], path, study)
        yield study
        return
    _check_free(study, given["resume"] or given["force"])
    with _new_folder(study, keeps=_DATABASE):
        with _locked(study):
            path = _export_into(study, given)
        yield path


def _file_name(given: Given) -> str:
    return f"{type(given['model']).__name__}.pt2"


def _check_free(study: str, may_exist: bool) -> None:
    """Refuses a folder before a module is exported into it, as the program would."""
    if os.path.lexists(study) and not os.path.isdir(study):
        raise Error("the study's path is a file", study, "give another output=")
    names = os.listdir(study) if os.path.isdir(study) else []
    database = os.path.join(study, _DATABASE)
    if _DATABASE in names and os.path.getsize(database) and not may_exist and not _nothing_to_lose(study, database):
        raise Error("the study exists", study, "go on with resume=True, replace it with force=True, or give another output=")
    if names and _DATABASE not in names and _LOCK not in names:
        raise Error("the folder exists and is not a study of mptune", study, "give another output=")


def _nothing_to_lose(study: str, path: str) -> bool:
    """Whether the program would replace the study: no plan was measured, and no layer was, either, or the last run failed."""
    try:
        with contextlib.closing(Database(path, "study")) as database:
            if database.rows("SELECT 1 FROM trial WHERE outcome = 'measured' LIMIT 1"):
                return False
            failed = bool(database.rows("SELECT 1 FROM value WHERE name = 'failed' AND value <> ''"))
    except Error:
        return False
    return failed or not os.path.exists(os.path.join(study, "traces", "profile.sqlite"))


@contextlib.contextmanager
def _new_folder(folder: str, keeps: str) -> Iterator[str]:
    """A folder that is made. After an error a new one is gone, unless it has the file `keeps` ("": unless it was there)."""
    new = not os.path.isdir(folder)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise Error(f"the folder can't be made: {error.strerror}", folder, "give another output=") from error
    try:
        yield folder
    except BaseException:
        if new and not (keeps and os.path.exists(os.path.join(folder, keeps))):
            shutil.rmtree(folder, ignore_errors=True)
        raise


@contextlib.contextmanager
def _locked(study: str) -> Iterator[None]:
    """Nobody else tunes in the study while its program is written."""
    try:
        with open(os.path.join(study, _LOCK), "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
    except BlockingIOError:
        raise Error("another mptune is using this study", study, "wait for it to end, or give another output=") from None
    except PermissionError as error:
        raise Error(f"the folder can't be written to: {error.strerror}", study, "give another output=") from error


def _check_same_module(model: Any, path: str, study: str) -> None:
    """Refuses a module whose parameters and buffers are not those of the program that the study keeps."""
    kept = _kept_sizes(path)
    if not kept:
        return
    given = {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
    other = next((name for name in {**kept, **given} if kept.get(name) != given.get(name)), None)
    if other is not None:
        raise Error("the study was made with another model", f"{study}, '{other}'", "give the same model, or start a study with another output=")


def _kept_sizes(path: str) -> dict[str, list[int]] | None:
    """Names and sizes of what an exported program's state dict holds; None where the file does not say so."""
    try:
        with zipfile.ZipFile(path) as archive:
            name = next(one for one in archive.namelist() if one.endswith("data/weights/model_weights_config.json"))
            config = json.loads(archive.read(name))["config"]
        return {name: [int(size["as_int"]) for size in about["tensor_meta"]["sizes"]] for name, about in config.items()}
    except (OSError, ValueError, KeyError, TypeError, StopIteration, zipfile.BadZipFile):
        return None


@contextlib.contextmanager
def _announced(what: str, stream: IO[str] | None) -> Iterator[None]:
    """Lines of progress like those of the program: one now, more where it takes long."""
    if stream is None:
        yield
        return
    lines, begun, ended = stream, time.monotonic(), threading.Event()

    def tell() -> None:
        while not ended.wait(_PERIOD_S):
            _say(f"{what}, {time.monotonic() - begun:.0f} s", lines)

    _say(what, stream)
    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _say(what: str, stream: IO[str]) -> None:
    write_text(stream, f"mptune: {what}\n")
