"""How much of some cores other programs use."""
import os

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def busy_seconds(cores):
    """CPU time that these cores have not been idle since the machine started; a hypervisor's theft counts."""
    names, total = {f"cpu{core}" for core in cores}, 0
    with open("/proc/stat") as stat:
        for line in stat:
            name, *ticks = line.split()
            if name in names:
                user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, ticks[:8])
                total += user + nice + system + irq + softirq + steal
    return total / TICKS_PER_SECOND


def used_seconds(processes):
    """CPU time of these processes, all threads, so far."""
    total = 0
    for process in processes:
        with open(f"/proc/{process}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])  # utime and stime, fields 14 and 15 of proc(5)
    return total / TICKS_PER_SECOND


class ForeignLoad:
    """CPU seconds that others use on `cores` from here on. `processes` are ours."""

    def __init__(self, cores, processes):
        self.cores, self.processes = cores, [os.getpid(), *processes]
        self.busy, self.used = busy_seconds(cores), used_seconds(self.processes)

    def seconds(self):
        return max(0.0, busy_seconds(self.cores) - self.busy - (used_seconds(self.processes) - self.used))
