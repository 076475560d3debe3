"""The emulated machine's own list of work (EMULATED_LEDGER), and sums over times. Shares no code with mptune."""
import bisect
import csv
import typing

HOST = -1


class Work(typing.NamedTuple):
    process: int
    kind: str  # kernel, copy, peer copy, fill, communication
    name: str
    gpu: int
    stream: int
    context: int
    begin: int  # ns of the GPUs' clock
    end: int
    bytes: int
    source: int  # GPU, or HOST
    destination: int
    correlation: int

    @property
    def is_copy(self):
        return self.kind in ("copy", "peer copy")


def read_ledger(path):
    with open(path, newline="") as file:
        return [Work(int(row[0]), row[1], row[2], *map(int, row[3:])) for row in csv.reader(file)]


def union(intervals):
    """Disjoint, in order."""
    joined = []
    for begin, end in sorted(intervals):
        if begin == end:
            continue
        if joined and begin <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([begin, end])
    return joined


def clipped(intervals, window):
    return [(max(begin, window[0]), min(end, window[1])) for begin, end in intervals if begin < window[1] and end > window[0]]


def length(disjoint):
    return sum(end - begin for begin, end in disjoint)


def common(a, b):
    """How long both of two disjoint ordered lists cover."""
    starts = [begin for begin, _ in b]
    total = 0
    for begin, end in a:
        for other in b[max(0, bisect.bisect_right(starts, begin) - 1):]:
            if other[0] >= end:
                break
            total += max(0, min(end, other[1]) - max(begin, other[0]))
    return total
