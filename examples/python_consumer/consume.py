"""consume.py PLAN [MPTUNE MODEL]: reads a plan, splits the same model in PyTorch by it, and runs the plan's micro-batches through the stages
in the plan's order. Compares loss and gradients with the whole model, and with MPTUNE the loss of `mptune run` on the same weights and data."""
import json
import logging
import pathlib
import subprocess
import sys

for folder in ("python/export", "python"):  # in the repository, in an installation
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / folder))
import mptune_plan

SIZES = {"d": 64, "layers": 6, "heads": 4, "seq": 32, "vocab": 200}


def show(plan):
    print(f"{plan.schedule}: {plan.n_microbatches} micro-batches of {plan.microbatch_sizes}, {plan.balance()} layers on {plan.devices}")
    for device, row in zip(plan.devices, plan.actions):
        print(f"  {device}  {' '.join(map(str, row))}")
    print(f"split_spec {plan.split_spec()}")
    megatron = plan.to_megatron_args()
    print(f"megatron   {' '.join(megatron.settings)}\n           does not say {'; '.join(megatron.lossy)}")


def stages_of(model, plan, tokens):
    """The model, split by torch.distributed.pipelining: it traces the model and begins a stage at every split point."""
    from torch.distributed.pipelining import SplitPoint, pipeline

    pipe = pipeline(model, mb_args=(tokens,), split_spec=plan.split_spec(SplitPoint.BEGINNING))
    return [pipe.get_stage_module(i) for i in range(len(plan.stages))]


def step(stages, plan, tokens, targets):
    """Runs one step in the order of plan.actions, on one device instead of several, each row with its device's threads. Returns the loss.
    Of a split backward, I computes the weight gradients, too, and W has nothing left: backward() makes both at once."""
    import torch
    from torch.nn import functional

    inputs, targets = tokens.split(plan.microbatch_sizes), targets.split(plan.microbatch_sizes)
    entered, left, loss = {}, {}, 0.0
    rows = [list(row) for row in plan.actions]
    while any(rows):
        for row, threads in zip(rows, plan.threads):
            torch.set_num_threads(threads)
            while row:
                stage, kind, i, _ = row[0]  # the last one tells of fused weight gradients
                last = stage + 1 == len(stages)
                if kind == "F":
                    if stage > 0 and (stage - 1, i) not in left:
                        break  # waits for the output of the stage before
                    x = inputs[i] if stage == 0 else left[stage - 1, i].detach().requires_grad_()
                    entered[stage, i], left[stage, i] = x, stages[stage](x)
                elif kind == "W":
                    pass
                elif last:
                    part = functional.cross_entropy(left[stage, i].flatten(0, 1), targets[i].flatten()) * (len(inputs[i]) / len(tokens))
                    part.backward()
                    loss += part.item()
                else:
                    if (stage + 1, i) not in entered or entered[stage + 1, i].grad is None:
                        break  # waits for the gradient of the stage after
                    left[stage, i].backward(entered[stage + 1, i].grad)
                row.pop(0)
    return loss


def loss_in_mptune(mptune, model_name, model, batch, plan):
    import torch

    folder = pathlib.Path(plan.where).resolve().parent
    torch.save(model.state_dict(), folder / "weights.pt")
    torch.save(batch, folder / "batch.pt")
    files = ["--plan", plan.where, "--load", folder / "weights.pt", "--data", folder / "batch.pt"]
    done = subprocess.run([mptune, "--json", "-q", "run", model_name, *files, "--steps", "1"], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)["loss"][0]


def main(path, mptune=None, model_name=None):
    plan = mptune_plan.load_plan(path)
    show(plan)
    logging.disable(logging.WARNING)  # silences torch's warnings about optional packages
    try:
        import torch
        from transformer import Transformer
    except ImportError as missing:
        print(f"no PyTorch here, so the split is not tried: {missing}")
        return 77
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Transformer(**SIZES)
    tokens, targets = torch.randint(SIZES["vocab"], (2, plan.global_batch_size, SIZES["seq"])).unbind(0)
    whole = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
    whole.backward()
    expected = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}

    stages = stages_of(model, plan, tokens[: plan.micro_batch_size])
    parameters = {name: parameter for stage in stages for name, parameter in stage.named_parameters()}
    for parameter in parameters.values():
        parameter.grad = None
    loss = step(stages, plan, tokens, targets)
    furthest = max((parameters[name].grad - gradient).abs().max().item() for name, gradient in expected.items())
    print(f"loss       whole {whole.item():.6f}  stages {loss:.6f}", end="")
    there = loss_in_mptune(mptune, model_name, model, {"input": tokens, "target": targets}, plan) if mptune else loss
    print(f"  mptune run {there:.6f}" if mptune else "")
    print(f"gradients  {len(expected)} tensors, furthest {furthest:.1e} apart")
    same_loss = abs(loss - whole.item()) < 1e-5 and abs(there - whole.item()) < 1e-5
    agree = same_loss and furthest < 1e-6 and parameters.keys() == expected.keys()
    print("the split model is the same model" if agree else "the split model DIFFERS")
    return 0 if agree else 1


if __name__ == "__main__":
    if len(sys.argv) not in (2, 4):
        sys.exit(__doc__)
    try:
        sys.exit(main(*sys.argv[1:]))
    except mptune_plan.PlanError as error:
        sys.exit(str(error))
