"""What a hostile day needs: the files that commands read, the processes that they start, and what they leave behind."""
import collections
import contextlib
import io
import os
import pickle
import shutil
import sqlite3
import struct
import sys
import tempfile
import time
import types
import zipfile

MARKER = "MPTUNE_HOSTILE_DAY"


def stand_in(module, name):
    """A function that a pickle names, without its module."""
    def function(*_):
        raise NotImplementedError
    function.__module__, function.__qualname__ = module, name
    sys.modules.setdefault(module, types.ModuleType(module))
    setattr(sys.modules[module], name, function)
    return function


class TensorPickler(pickle.Pickler):
    """Writes (shape, numbers) as torch.save writes tensors, without torch."""
    REBUILD = staticmethod(stand_in("torch._utils", "_rebuild_tensor_v2"))
    STORAGE = staticmethod(stand_in("torch", "FloatStorage"))

    class Storage:
        def __init__(self, key, numbers):
            self.key, self.numbers = key, numbers

    class Tensor:
        def __init__(self, storage, shape):
            self.storage, self.shape = storage, shape

        def __reduce__(self):
            strides = tuple(len(self.storage.numbers) // self.shape[0] if i == 0 else 1 for i in range(len(self.shape)))
            return TensorPickler.REBUILD, (self.storage, 0, self.shape, strides, False, collections.OrderedDict())

    def persistent_id(self, obj):
        return ("storage", self.STORAGE, obj.key, "cpu", len(obj.numbers)) if isinstance(obj, self.Storage) else None


def save_tensors(path, **tensors):
    """A file like torch.save({name: tensor}, path) of two-dimensional float tensors, given as lists of rows."""
    buffer, storages, state = io.BytesIO(), [], {}
    for name, rows in tensors.items():
        storages.append(TensorPickler.Storage(str(len(storages)), [number for row in rows for number in row]))
        state[name] = TensorPickler.Tensor(storages[-1], (len(rows), len(rows[0])))
    TensorPickler(buffer, protocol=2).dump(state)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", buffer.getvalue())
        for storage in storages:
            file.writestr(f"archive/data/{storage.key}", struct.pack(f"<{len(storage.numbers)}f", *storage.numbers))
        file.writestr("archive/version", "3\n")


def is_zombie(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0] in "ZX"


def processes(marker):
    """Numbers of the living processes that were started with the marker in their environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if f"{MARKER}={marker}".encode() in file.read().split(b"\0") and not is_zombie(pid):
                    found.append(int(pid))
        except OSError:
            pass  # it has just ended
    return found


def workers(marker):
    found = []
    for pid in processes(marker):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if b"--request-fd" in file.read():
                    found.append(pid)
        except OSError:
            pass
    return found


def left_processes(marker, seconds=2):
    """Those that are still there after a moment."""
    deadline = time.monotonic() + seconds
    while (left := processes(marker)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def trials_of(address):
    """{number: (key of the plan, outcome, times)}; empty where there is no readable study."""
    try:
        with contextlib.closing(sqlite3.connect(address, uri=True)) as database:
            database.execute("BEGIN")
            return {number: (key, outcome, tuple(value for (value,) in database.execute(
                "SELECT value_s FROM sample WHERE trial = ? ORDER BY number", (number,))))
                for number, key, outcome in database.execute("SELECT id, plan_key, outcome FROM trial").fetchall()}
    except sqlite3.Error:
        return {}


def trials_so_far(study):
    """Finished trials of a study that a tuner writes to."""
    return trials_of(f"file:{study}/study.sqlite?mode=ro")


def finished_trials(study):
    """Finished trials of a study that no tuner writes to, which is left as it is."""
    with tempfile.TemporaryDirectory(prefix="hostile-copy-") as copy:
        for ending in ("", "-wal"):
            if os.path.exists(f"{study}/study.sqlite{ending}"):
                shutil.copy(f"{study}/study.sqlite{ending}", copy)
        return trials_of(f"file:{copy}/study.sqlite?mode=rw")


def temporary_files(folder):
    """What commands make for a moment: files in TMPDIR, and files beside outputs that are not whole yet."""
    found = []
    for place, folders, files in os.walk(folder):
        for name in folders + files:
            if ".tmp-" in name or ".probe-" in name or name.startswith("mptune-") or place == os.path.join(folder, "tmp"):
                found.append(os.path.relpath(os.path.join(place, name), folder))
    return found
