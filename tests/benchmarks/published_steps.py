"""published_steps.py MPTUNE DATA: predictions under DeepSpeed's rules of sending, and under mptune's, against published steps of 1F1B.

DATA/sailor has layer profiles of one and of eight samples, a table of links, and measured steps with their all-reduce and update times, which
are added to the predicted pipeline. Rows of one stage have no messages and are left out, as are those of other micro-batch sizes.
"""
import csv
import json
import pathlib
import re
import subprocess
import sys
import tempfile


def copy_seconds(size, sizes, rates):
    """Of a message of `size` bytes, between the two nearest sizes (MB) of the table, which has rates (GB/s)."""
    times = [mb / rate * 1e-3 for mb, rate in zip(sizes, rates)]
    upper = next((i for i, mb in enumerate(sizes) if mb * 1e6 >= size), len(sizes) - 1)
    if upper == 0:
        return times[0] * size / (sizes[0] * 1e6)
    share = (size / 1e6 - sizes[upper - 1]) / (sizes[upper] - sizes[upper - 1])
    return times[upper - 1] + share * (times[upper] - times[upper - 1])


def predicted(program, profile, row, runtime, links, folder):
    """Seconds of the pipeline of one replica."""
    cuts = row["cuts"].split(";")
    size = float(re.findall(r"activation_size=([\d.]+)", profile.read_text())[int(cuts[0]) - 1])
    rate = size / copy_seconds(size, *links)
    # The profile's sample is a micro-batch.
    words = [program, "--json", "plan", profile, "--stages", row["stages"], "--cuts", ",".join(cuts), "--schedule", "1f1b", "--microbatches",
             row["micro_batches"], "--batch", row["micro_batches"], "--link", f"{rate / 1e9:.6f}GB/s", "--recompute", "none", "--runtime", runtime,
             "-o", f"{folder}/published.plan.json", "--force"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["predicted"]["step_s"]


def main(program, data):
    data = pathlib.Path(data) / "sailor"
    if not data.is_dir():
        print(f"no published steps in {data}")
        return 77
    links = [list(map(float, row)) for row in csv.reader((data / "p2p_inter_node_gh200.csv").open())]
    errors = {"deepspeed": [], "mptune": []}
    with tempfile.TemporaryDirectory() as folder:
        for row in csv.DictReader((data / "steps_opt350_gh200.csv").open()):
            profile = data / f"OPT-350_mbs{row['mbs']}.graph.txt"
            if row["stages"] == "1" or not profile.is_file():
                continue
            ends_s, measured_s = float(row["update_s"]) + float(row["grad_allreduce_s_measured"]), float(row["real_step_s"])
            line = f"{row['name']:16} {measured_s:7.4f} s"
            for runtime, found in errors.items():
                found.append((predicted(program, profile, row, runtime, links, folder) + ends_s) / measured_s - 1)
                line += f"   {runtime} {found[-1]:+6.1%}"
            print(line)
    means = {runtime: sum(map(abs, found)) / len(found) for runtime, found in errors.items()}
    print(", ".join(f"{runtime}: mean {means[runtime]:.1%}, at most {max(map(abs, found)):.1%}" for runtime, found in errors.items()))
    return 0 if means["deepspeed"] <= 0.03 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
