"""What a trace file of mptune says of GPUs."""
import contextlib
import re
import sqlite3
import typing

KERNELS = """SELECT k.start, k.end, k.deviceId, k.contextId, k.streamId, k.correlationId, s.value, e.detail
             FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.demangledName JOIN MPTUNE_EVENT e ON e.event = k.rowid - 1"""
COPIES = """SELECT m.start, m.end, m.deviceId, m.contextId, m.streamId, m.correlationId, m.bytes, m.copyKind, m.srcDeviceId, m.dstDeviceId,
            c.bytes, c.source, c.destination FROM CUPTI_ACTIVITY_KIND_MEMCPY m JOIN MPTUNE_EVENT e ON e.event = m.rowid - 1
            JOIN MPTUNE_COPY c ON c.copy = e.detail"""
FILLS = "SELECT start, end, deviceId, contextId, streamId, correlationId FROM CUPTI_ACTIVITY_KIND_MEMSET"


class Row(typing.NamedTuple):
    kind: str  # kernel, copy, fill
    name: str  # of kernels
    device: int
    stream: int
    context: int
    begin: int
    end: int
    bytes: int
    copy_kind: int
    source: int  # device, or -1: host
    destination: int
    correlation: int


class Recording:
    def __init__(self, path):
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as self.base:
            self.devices = [name for name, in self.base.execute("SELECT name FROM MPTUNE_DEVICE ORDER BY device")]
            self.steps = self.base.execute("SELECT start, end FROM MPTUNE_STEP ORDER BY position").fetchall()
            self.faults = []
            self.rows = [row for row in self._rows() if self.gpu_of(row.device) is not None]

    def gpu_of(self, device):
        """The number of the GPU that a device is, or is a part of; None: a CPU."""
        if device is None or device < 0:
            return None
        found = re.search(r"cuda:(\d+)", self.devices[device])
        return int(found[1]) if found else None

    def devices_on(self, gpu):
        return [device for device in range(len(self.devices)) if self.gpu_of(device) == gpu]

    def _rows(self):
        for begin, end, device, context, stream, correlation, name, detail in self.base.execute(KERNELS):
            if detail < 0 and self.gpu_of(device) is not None:
                self.faults.append(f"{name} on {self.devices[device]} is the host's record")
            yield Row("kernel", name, device, stream, context, begin, end, 0, 0, -1, -1, correlation)
        for begin, end, device, context, stream, correlation, bytes_, kind, *ends, bytes_here, source, destination in self.base.execute(COPIES):
            if bytes_ != bytes_here or any(there is not None and there != here for there, here in zip(ends, (source, destination), strict=True)):
                self.faults.append(f"copy {correlation}: the tables differ: {bytes_} {ends}, {bytes_here} {source} {destination}")
            yield Row("copy", "", device, stream, context, begin, end, bytes_, kind, source, destination, correlation)
        for begin, end, device, context, stream, correlation in self.base.execute(FILLS):
            yield Row("fill", "", device, stream, context, begin, end, 0, 0, -1, -1, correlation)
