"""Compares a trace, and what mptune says of it, with the ledger of the machine that it was recorded on. All times to the nanosecond.

- A trace's times are the GPUs' clock less one number, which the first record gives.
- Recorded must be: all work of the calls from the first to the last that the trace has work of, and all work that reaches into a step.
- Compared of a kernel: call, name, GPU, context, stream, begin, end; of a copy: call, GPU, begin, end, bytes, source, destination; of a memset:
  call, GPU, begin, end. A trace does not keep streams of copies.
- The host says when steps begin and end (MPTUNE_STEP). Sums are over the ledger's work within them.
- Parts of one GPU are told apart by contexts; as ends of copies, by the trace."""
import collections

from truth.ledger import HOST, clipped, common, length, union

HOST_TO_DEVICE, DEVICE_TO_HOST, WITHIN_DEVICE, HOST_TO_HOST, PEER_TO_PEER = 1, 2, 8, 9, 10
MOST_CLOCK_ERROR_S = 50e-6  # by which the recorder lets work begin before what it waits for has ended: errors of GPUs' clocks
PARTS = ("window", "compute", "copy", "overlap", "idle")


def key_of_work(work):
    """What a record must say, without the direction's name."""
    kind = "copy" if work.is_copy else "fill" if work.kind == "fill" else "kernel"
    name = work.name if kind == "kernel" and not work.name.startswith("_Z") else ""
    ends = (work.source, work.destination) if work.is_copy else (HOST, HOST)
    queue = (work.context, work.stream) if kind == "kernel" else (0, 0)
    return work.correlation, kind, name, work.gpu, *queue, work.begin, work.end, work.bytes if work.is_copy else 0, *ends


def process_of(ledger, recording):
    """The one whose work the trace holds: every process numbers its calls anew."""
    calls = {(row.correlation, row.end - row.begin) for row in recording.rows}
    matches = collections.Counter(work.process for work in ledger if (work.correlation, work.end - work.begin) in calls)
    return matches.most_common(1)[0][0] if matches else None


def copy_kind(source, destination):
    """By the devices of a trace, of which some may be parts of one GPU."""
    if source < 0:
        return HOST_TO_DEVICE if destination >= 0 else HOST_TO_HOST
    return DEVICE_TO_HOST if destination < 0 else WITHIN_DEVICE if source == destination else PEER_TO_PEER


class Comparison:
    def __init__(self, ledger, recording):
        self.recording = recording
        self.faults = list(recording.faults)
        process = process_of(ledger, recording)
        ledger = [work for work in ledger if work.process == process]
        self.shift = self.find_shift(ledger)
        self.expected = self.must_be_recorded(ledger)
        self.row_of = {}
        if self.shift is not None:
            self.compare_records()

    def find_shift(self, ledger):
        calls = collections.Counter(work.correlation for work in ledger)
        single = {work.correlation: work for work in ledger if calls[work.correlation] == 1}
        for row in self.recording.rows:
            if row.correlation in single:
                return single[row.correlation].begin - row.begin
        self.faults.append("no record of the trace is of one call with one work")
        return None

    def windows(self):
        """Of the steps, on the GPUs' clock; without steps one of all work."""
        if self.recording.steps:
            return [(begin + self.shift, end + self.shift) for begin, end in self.recording.steps]
        return [(min(work.begin for work in self.expected), max(work.end for work in self.expected))]

    def must_be_recorded(self, ledger):
        if self.shift is None:
            return []
        numbers = [row.correlation for row in self.recording.rows]
        steps = [(begin + self.shift, end + self.shift) for begin, end in self.recording.steps]
        return [work for work in ledger if min(numbers) <= work.correlation <= max(numbers)
                or any(clipped([(work.begin, work.end)], step) for step in steps)]

    def key_of_row(self, row):
        gpu = self.recording.gpu_of
        queue = (row.context, row.stream) if row.kind == "kernel" else (0, 0)
        start, end = row.begin + self.shift, row.end + self.shift
        ends = tuple(HOST if gpu(end) is None else gpu(end) for end in (row.source, row.destination))
        return row.correlation, row.kind, row.name, gpu(row.device), *queue, start, end, row.bytes, *ends

    def compare_records(self):
        truth = collections.Counter(key_of_work(work) for work in self.expected)
        mangled = {work.correlation for work in self.expected if work.name.startswith("_Z")}
        for row in self.recording.rows:
            if row.correlation in mangled:
                row = row._replace(name="")
            self.row_of[self.key_of_row(row)] = row
            cuda_ends = [end if self.recording.gpu_of(end) is not None else -1 for end in (row.source, row.destination)]
            if row.kind == "copy" and row.copy_kind != copy_kind(*cuda_ends):
                self.faults.append(f"copy {row.correlation} from {row.source} to {row.destination} has direction {row.copy_kind}")
        said = collections.Counter(self.key_of_row(row._replace(name="") if row.correlation in mangled else row) for row in self.recording.rows)
        self.missing = list((truth - said).elements())
        self.invented = list((said - truth).elements())

    def records_differ(self):
        faults = [f"not in the trace: {key}" for key in self.missing[:3]] + [f"not in the ledger: {key}" for key in self.invented[:3]]
        if len(self.missing) + len(self.invented) > len(faults):
            faults.append(f"{len(self.missing)} of {len(self.expected)} missing, {len(self.invented)} invented")
        return faults

    def device_of_context(self):
        """Of the parts of a GPU. Each has contexts of its own."""
        devices = collections.defaultdict(set)
        for row in self.recording.rows:
            if row.kind == "kernel":
                devices[row.context].add(row.device)
        self.faults += [f"context {context} is several devices: {named}" for context, named in devices.items() if len(named) > 1]
        return {context: min(named) for context, named in devices.items()}

    def busy(self):
        """(computing, copying) of each device of the trace, as disjoint intervals of the GPUs' clock."""
        of_context = self.device_of_context()
        times = collections.defaultdict(lambda: ([], []))
        for work in self.expected:
            for device in self.devices_of(work, of_context):
                times[device][work.is_copy].append((work.begin, work.end))
        return {device: (union(computing), union(copying)) for device, (computing, copying) in times.items()}

    def devices_of(self, work, of_context):
        row = self.row_of.get(key_of_work(work))
        one = lambda gpu, otherwise: self.recording.devices_on(gpu)[0] if len(self.recording.devices_on(gpu)) == 1 else otherwise()  # noqa: E731
        here = one(work.gpu, lambda: of_context.get(work.context, row.device if row else None))
        ends = {one(work.source, lambda: row and row.source), one(work.destination, lambda: row and row.destination)} if work.is_copy else set()
        return {device for device in {here, *ends} if device is not None and device >= 0}

    def sums(self):
        """[step][device]: window, compute, copy, overlap and idle [ns], of the ledger alone."""
        busy = self.busy()
        return [[self.sums_within(busy.get(device, ([], [])), window) for device in range(len(self.recording.devices))] for window in self.windows()]

    @staticmethod
    def sums_within(busy, window):
        computing, copying = (clipped(times, window) for times in busy)
        overlap = common(computing, copying)
        idle = window[1] - window[0] - length(union(computing + copying))
        return {"window": window[1] - window[0], "compute": length(computing) - overlap, "copy": length(copying) - overlap, "overlap": overlap, "idle": idle}

    def out_of_window(self):
        """Work that lies in no step as a whole."""
        steps = self.windows() if self.recording.steps else []
        outside = [work for work in self.expected if not any(begin <= work.begin and work.end <= end for begin, end in steps)]
        return len(outside) if steps else 0

    def link_use(self):
        """Of each direction between devices, by name: copies, bytes, and nanoseconds with a copy running."""
        names = lambda device: "host" if device < 0 else self.recording.devices[device]  # noqa: E731
        links = collections.defaultdict(list)
        for work in self.expected:
            row = self.row_of.get(key_of_work(work))
            if work.is_copy and row:
                links[names(row.source), names(row.destination)].append(work)
        return {ends: (len(copies), sum(work.bytes for work in copies), length(union((work.begin, work.end) for work in copies)))
                for ends, copies in links.items()}


def check_causes(where, said):
    return [] if sum(said["idle"].values()) == said["idle_ns"] else [f"{where}: causes of idle time add up to {sum(said['idle'].values())}"]


def check_steps(comparison, result):
    """`result`: what mptune says as JSON."""
    sums = comparison.sums()
    if len(sums) != len(result["steps"]):
        return [f"{len(result['steps'])} steps, truth {len(sums)}"]
    faults = []
    for step, (truth, said) in enumerate(zip(sums, result["steps"], strict=True)):
        for device, name in enumerate(comparison.recording.devices):
            if comparison.recording.gpu_of(device) is None:
                continue
            here = said["devices"][device]
            faults += [f"step {step} of {name}: {part} {here[part + '_ns']}, truth {truth[device][part]}" for part in PARTS
                       if here[part + "_ns"] != truth[device][part]]
            faults += check_causes(f"step {step} of {name}", here)
    return faults


def check_means(comparison, result):
    sums = comparison.sums()
    faults = []
    for device, name in enumerate(comparison.recording.devices):
        if comparison.recording.gpu_of(device) is None:
            continue
        for part in PARTS[:-1]:
            mean = sum(step[device][part] for step in sums) // len(sums)
            said = round(result["devices"][device][part + "_s"] * 1e9)
            if said != mean:
                faults.append(f"mean of {name}: {part} {said}, truth {mean}")
    return faults


def check_links(comparison, result):
    said = {(link["source"], link["destination"]): (link["copies"], link["bytes"], round(link["time_s"] * 1e9)) for link in result["link_use"]}
    truth = comparison.link_use()
    is_of_gpus = lambda ends: any("cuda" in end for end in ends)  # noqa: E731
    return [f"link {ends}: {said.get(ends)}, truth {truth.get(ends)}" for ends in sorted({*said, *truth}) if is_of_gpus(ends) and said.get(ends) != truth.get(ends)]


def check_quality(comparison, result):
    expected = {"dropped": 0, "zero_stamped": 0, "unmatched": 0, "cut_off": 0, "out_of_window": comparison.out_of_window()}
    faults = [f"quality: {name} {result['quality'][name]}, truth {count}" for name, count in expected.items() if result["quality"][name] != count]
    late = result.get("clock_error_s", 0) > MOST_CLOCK_ERROR_S
    return faults + ([f"work began {result['clock_error_s']} s before what it waited for had ended"] if late else [])


def compare(ledger, recording, results):
    """All that differs. `results`: what commands say of this recording."""
    comparison = Comparison(ledger, recording)
    if comparison.shift is None:
        return comparison, comparison.faults
    faults = comparison.records_differ()
    for name, result in results.items():
        for check in (check_steps, check_means, check_links, check_quality):
            faults += [f"{name}: {fault}" for fault in check(comparison, result)]
    return comparison, comparison.faults + faults
