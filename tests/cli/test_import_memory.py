"""What `import` needs of memory grows with the events that it keeps."""
import gzip
import os
import sqlite3
import subprocess
import sys
import unittest

from harness import PROGRAM, CommandTest

FEW, MANY = 4_000, 404_000
EVENT_BYTES = 40  # of an event in memory
PROCESS = 5 << 24


def kineto_event(category, name, thread, start, duration, **args):
    args = ",".join(f'"{key}":{value}' for key, value in args.items())
    return f'{{"ph":"X","cat":"{category}","name":"{name}","pid":0,"tid":{thread},"ts":{start},"dur":{duration},"args":{{{args}}}}}'


def write_kineto(path, kernels):
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write('{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"GPU","totalGlobalMem":1}],"traceEvents":[')
        file.write(",\n".join(kineto_event("kernel", f"kernel{i % 300}", 7, 1000 + 3 * i, 2, device=0, stream=7, correlation=i + 1, grid=f"[{i % 97 + 1},1,1]",
                                           block="[128,1,1]") for i in range(kernels)))
        file.write("]}")


def write_nsight(path, kernels):
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL)")
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", ((i, f"kernel{i}") for i in range(300)))
        columns = "start, end, deviceId, contextId, streamId, correlationId, globalPid, shortName, gridX, gridY, gridZ, blockX, blockY, blockZ"
        database.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({columns})")
        database.executemany(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({','.join('?' * 14)})",
                             ((1000 + 1200 * i, 2000 + 1200 * i, i % 2, 1, 7, i + 1, PROCESS, i % 300, i % 97 + 1, 1, 1, 128, 1, 1) for i in range(kernels)))


# A child's peak is at least what its parent holds, so that the command is started by a process of its own.
MEASURE = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); " \
          "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"


class ImportMemory(CommandTest):
    def peak_bytes(self, path):
        """Of a command that imports the file."""
        done = subprocess.run([sys.executable, "-S", "-c", MEASURE, PROGRAM, "import", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              cwd=self.folder, env=self.environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        return 1024 * int(done.stdout)

    def bytes_per_event(self, write, name):
        peaks = []
        for kernels in (FEW, MANY):
            write(os.path.join(self.folder, f"{kernels}{name}"), kernels)
            peaks.append(self.peak_bytes(f"{kernels}{name}"))
        return (peaks[1] - peaks[0]) / (MANY - FEW)

    def test_kineto(self):
        self.assertLess(self.bytes_per_event(write_kineto, ".json.gz"), 4 * EVENT_BYTES)

    def test_nsight(self):
        self.assertLess(self.bytes_per_event(write_nsight, ".sqlite"), 3 * EVENT_BYTES)


if __name__ == "__main__":
    unittest.main()
