"""torch_pipelining.py [SCHEDULE...]: a transformer trains under torch.distributed.pipelining over Gloo, a process for each device, with stages and rows of
actions of plans of mptune, of three schedules or of those named; losses and weights equal eager PyTorch's within rounding. Exit 77 without Gloo."""
import os
import pathlib
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "examples/python_consumer"))
import mptune
import torch
from torch import distributed, multiprocessing
from torch.nn.functional import cross_entropy
from transformer import Transformer

SIZES = {"d": 64, "layers": 6, "heads": 4, "seq": 32, "vocab": 200}
MODEL = "transformer:" + ",".join(f"{name}={size}" for name, size in SIZES.items())
BATCH, MICROBATCHES, STEPS = 16, 4, 3
SCHEDULES = {"1f1b": 1, "interleaved": 2, "zbv": 2}  # stages per device


def loss_of(output, target):
    return cross_entropy(output.flatten(0, 1), target.flatten())


def make_model():
    torch.manual_seed(0)
    return Transformer(**SIZES)


def make_batch():
    torch.manual_seed(1)
    return torch.randint(SIZES["vocab"], (2, BATCH, SIZES["seq"])).unbind(0)


def train(rank, plan_path, folder):
    """A rank's part; it leaves its weights, and the losses where it has the last stage."""
    torch.set_num_threads(1)
    plan = mptune.load_plan(plan_path)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=len(plan.devices))
    tokens, target = make_batch()
    part = plan.to_torch_pipelining(make_model(), (tokens[: plan.micro_batch_size],), loss_of)
    distributed.barrier()  # connects the ranks
    stages = {stage.stage_index: stage for stage in part.stages}
    parameters = [parameter for stage in part.stages for parameter in stage.submod.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        of_parts = []
        arguments = {"target": target, "losses": of_parts} if len(plan.stages) - 1 in stages else {}
        part.schedule.step(*([tokens] if 0 in stages else []), **arguments)
        optimizer.step()
        if of_parts:
            losses.append(torch.stack(of_parts).mean().item())
    weights = {name: value for stage in part.stages for name, value in stage.submod.named_parameters()}
    torch.save((weights, losses), os.path.join(folder, f"rank{rank}.pt"))
    distributed.destroy_process_group()


def eager():
    """Losses and weights of the whole model."""
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        for part in zip(*(tensor.chunk(MICROBATCHES) for tensor in make_batch())):
            loss = loss_of(model(part[0]), part[1]) / MICROBATCHES
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
    return dict(model.named_parameters()), [sum(losses[i : i + MICROBATCHES]) for i in range(0, len(losses), MICROBATCHES)]


def differences(plan_path, expected_weights, expected_losses):
    """The largest of losses and of weights."""
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(train, args=(plan_path, folder), nprocs=2)
        ranks = [torch.load(os.path.join(folder, f"rank{rank}.pt")) for rank in (0, 1)]
    weights = {name: value for part, _ in ranks for name, value in part.items()}
    losses = next(own for _, own in ranks if own)
    if weights.keys() != expected_weights.keys():
        sys.exit(f"other parameters: {sorted(weights.keys() ^ expected_weights.keys())[:3]}")
    return (max(abs(a - b) for a, b in zip(losses, expected_losses, strict=True)),
            max((weights[name] - value).abs().max().item() for name, value in expected_weights.items()))


def main():
    if not distributed.is_gloo_available():
        print("this torch has no Gloo")
        sys.exit(77)
    torch.set_num_threads(1)
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        print("needs two cores")
        sys.exit(77)
    expected, wrong = eager(), 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        mptune.profile(MODEL, batch=BATCH, devices=[f"cpu:{core}" for core in cores], steps=1, output="model.sqlite", progress=False)
        for schedule in sys.argv[1:] or SCHEDULES:
            virtual = SCHEDULES[schedule]
            found = mptune.plan("model.sqlite", stages=2 * virtual, schedule=schedule, microbatches=MICROBATCHES, recompute="none",
                                replicas=[1, 1] if virtual == 1 else None, output=f"{schedule}.plan.json", progress=False)
            loss, weight = differences(os.path.abspath(found.plan_file), *expected)
            agrees = loss < 1e-5 and weight < 1e-5
            print(f"{schedule}: furthest apart: losses {loss:.1e}, weights {weight:.1e}{'' if agrees else '  DIFFERS'}", flush=True)
            wrong += not agrees
        os.chdir("/")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
