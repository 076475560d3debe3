"""torchtitan_config.py FOLDER: torchtitan's own configuration takes what to_torchtitan() writes, and torch knows the schedules by their names and
makes those that mptune_plan says it makes.
torchtitan is installed into FOLDER by pip; it trains on GPUs only. Exit 77 where that can't be done."""
import os
import pathlib
import subprocess
import sys
import tempfile
import tomllib

FOLDER = pathlib.Path(sys.argv[1])
if not (FOLDER / "torchtitan").is_dir():
    got = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--timeout", "20", "--no-deps",
                          "--target", str(FOLDER), "torchtitan==0.3.0", "tyro", "docstring-parser", "typeguard"])
    if got.returncode != 0:
        print("pip could not install torchtitan")
        sys.exit(77)
sys.path.append(str(FOLDER))
try:
    from torchtitan.config.configs import ParallelismConfig, TrainingConfig
except ImportError as missing:
    print(f"torchtitan can't be imported: {missing}")
    sys.exit(77)
import mptune
import torch
from mptune import mptune_plan
from torch.distributed.pipelining.schedules import PipelineScheduleMulti, get_schedule_class

MODEL = "transformer:d=32,layers=6,heads=4,seq=16,vocab=100"
SCHEDULES = {"gpipe": 1, "1f1b": 1, "interleaved": 2, "zbv": 2, "zb1p": 1}  # stages per device


class StubStage:
    """What the classes of schedules read of a stage when they are made."""

    def __init__(self, ranks, stages, index):
        self.group_size, self.group_rank, self.num_stages, self.stage_index = ranks, 0, stages, index
        self.is_first, self.is_last, self.submod = index == 0, index == stages - 1, torch.nn.Identity()


def torch_makes(name, ranks, each, microbatches):
    schedule = get_schedule_class(name)
    stages = [StubStage(ranks, ranks * each, i * ranks) for i in range(each)]
    try:
        schedule(stages if issubclass(schedule, PipelineScheduleMulti) else stages[0], microbatches)
    except ValueError:
        return False
    return True


def schedules_that_torch_makes():
    """Number of micro-batches by name and ranks about which mptune_plan and torch disagree."""
    wrong = []
    for schedule, name in mptune_plan._TORCH_SCHEDULES.items():
        each = 1 if name in ("GPipe", "1F1B") else 2
        for ranks in range(2, 9):
            for m in range(1, 25):
                stages = [mptune_plan.Stage(i, [f"cuda:{i % ranks}"], i, i + 1, [f"blocks.{i}"], "none") for i in range(ranks * each)]
                plan = mptune_plan.Plan("made", [f"cuda:{i}" for i in range(ranks)], [1] * m, stages, schedule, [])
                if torch_makes(name, ranks, each, m) != (not plan._torch_schedule(ranks)[1]):
                    wrong.append((name, ranks, m))
    return wrong


def main():
    if wrong := schedules_that_torch_makes():
        print("torch makes other schedules than mptune_plan says:", wrong[:10])
        return 1
    with tempfile.TemporaryDirectory() as folder:
        profile = os.path.join(folder, "model.sqlite")
        mptune.profile(MODEL, batch=16, devices="sleep:2", steps=1, output=profile, progress=False)
        for schedule, virtual in SCHEDULES.items():
            found = mptune.plan(profile, stages=2 * virtual, schedule=schedule, microbatches=4, replicas=[1, 1] if virtual == 1 else None,
                                output=os.path.join(folder, f"{schedule}.plan.json"), progress=False)
            plan = mptune.load_plan(found.plan_file)
            settings = tomllib.loads(plan.to_torchtitan().settings)
            parallelism, training = ParallelismConfig(**settings["parallelism"]), TrainingConfig(**settings["training"])
            chosen = get_schedule_class(parallelism.pipeline_parallel_schedule).__name__  # torchtitan asks for it beside rows of actions, too
            chosen += " with rows of actions" if parallelism.pipeline_parallel_schedule_csv else ""
            batches = training.local_batch_size // parallelism.pipeline_parallel_microbatch_size
            print(f"{schedule}: {chosen}, {batches} micro-batches, {parallelism.pipeline_parallel_degree} ranks")
            if batches != 4 or parallelism.pipeline_parallel_degree != 2 or len(parallelism.module_fqns_per_model_part) != 2 * virtual:
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
