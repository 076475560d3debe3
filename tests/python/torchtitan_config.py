"""torchtitan_config.py FOLDER: torchtitan's own configuration takes what to_torchtitan() writes, and torch knows the schedules by their names.
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
from torch.distributed.pipelining.schedules import get_schedule_class

MODEL = "transformer:d=32,layers=6,heads=4,seq=16,vocab=100"
SCHEDULES = {"gpipe": 1, "1f1b": 1, "interleaved": 2, "zbv": 2, "zb1p": 1}  # stages per device


def main():
    with tempfile.TemporaryDirectory() as folder:
        profile = os.path.join(folder, "model.sqlite")
        mptune.profile(MODEL, batch=16, devices="sleep:2", steps=1, output=profile, progress=False)
        for schedule, virtual in SCHEDULES.items():
            found = mptune.plan(profile, stages=2 * virtual, schedule=schedule, microbatches=4, replicas=[1, 1] if virtual == 1 else None,
                                output=os.path.join(folder, f"{schedule}.plan.json"), progress=False)
            plan = mptune.load_plan(found.plan_file)
            settings = tomllib.loads(plan.to_torchtitan().settings)
            parallelism, training = ParallelismConfig(**settings["parallelism"]), TrainingConfig(**settings["training"])
            from_rows = bool(parallelism.pipeline_parallel_schedule_csv)  # torchtitan then asks for no name
            chosen = "rows of actions" if from_rows else get_schedule_class(parallelism.pipeline_parallel_schedule).__name__
            batches = training.local_batch_size // parallelism.pipeline_parallel_microbatch_size
            print(f"{schedule}: {chosen}, {batches} micro-batches, {parallelism.pipeline_parallel_degree} ranks")
            if batches != 4 or parallelism.pipeline_parallel_degree != 2 or len(parallelism.module_fqns_per_model_part) != 2 * virtual:
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
