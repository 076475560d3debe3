"""Records torchvision's ResNets for the tests of profiler/model/builtin: python3 tests/golden/model_resnet.py

model_<name>_state.txt: names, types and shapes of state_dict(), in order.
model_<name>_golden.txt: outputs, loss, gradient sums and running statistics of one training step with formula-filled weights.
The formula (fill) is repeated in tests/support/model_formula.h.
"""
import pathlib

import torch
import torchvision

FOLDER = pathlib.Path(__file__).parent


def fill(shape, index, scale, offset=0.0):
    """Values computed from integers, the same in every language: nothing is rounded before the division."""
    count = 1
    for size in shape:
        count *= size
    i = torch.arange(count, dtype=torch.int64)
    value = ((i * 7919 + (index + 1) * 104729) % 2003).to(torch.float64) / 1001.0 - 1.0
    return (value * scale + offset).to(torch.float32).reshape(shape)


def fill_state(model):
    with torch.no_grad():
        for index, (name, tensor) in enumerate(model.state_dict().items()):
            if name.endswith("num_batches_tracked"):
                tensor.fill_(3)
            elif name.endswith("running_var"):
                tensor.copy_(fill(tensor.shape, index, 0.25, 1.0))
            elif name.endswith("running_mean") or name.endswith("bias"):
                tensor.copy_(fill(tensor.shape, index, 0.1))
            elif tensor.dim() == 1:
                tensor.copy_(fill(tensor.shape, index, 0.25, 1.0))
            else:
                fan_in = tensor[0].numel()
                tensor.copy_(fill(tensor.shape, index, (3.0 / fan_in) ** 0.5))


def numbers(values):
    return " ".join(f"{float(v):.9g}" for v in values)


def record(name):
    torch.set_num_threads(1)
    model = getattr(torchvision.models, name)(weights=None)
    model.train()
    with open(FOLDER / f"model_{name}_state.txt", "w") as out:
        for key, tensor in model.state_dict().items():
            out.write(f"{key} {str(tensor.dtype).split('.')[1]} {'x'.join(map(str, tensor.shape))}\n")
    # In float64: rounding grows through 50 layers of batch norm over few values.
    model.double()
    fill_state(model)
    images = fill((4, 3, 64, 64), 1000, 1.0).double()
    labels = torch.tensor([1, 77, 500, 999])
    output = model(images)
    loss = torch.nn.functional.cross_entropy(output, labels)
    loss.backward()
    state = model.state_dict()
    with open(FOLDER / f"model_{name}_golden.txt", "w") as out:
        out.write(f"loss {float(loss.detach()):.9g}\n")
        for row in range(4):
            out.write(f"output.{row} {numbers(output[row, ::50].detach())}\n")
        for key in state:
            if key.endswith("running_mean") or key.endswith("running_var"):
                out.write(f"{key} {numbers(state[key][::max(1, state[key].numel() // 4)])}\n")
        for key, parameter in model.named_parameters():
            out.write(f"gradient.{key} {float(parameter.grad.double().norm()):.9g}\n")


for each in ("resnet18", "resnet50"):
    record(each)
