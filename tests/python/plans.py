"""Plan files for tests, written without a measurement."""
import json
import pathlib

ONE_F_ONE_B = {2: ["0F0 0F1 0B0 0F2 0B1 0F3 0B2 0B3", "1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3"]}
MICROBATCHES = 4


def write_plan(path, layers, samples, cut=None, devices=("cpu:0", "cpu:1"), fingerprint="sha256:" + "0" * 64):
    """Two stages under 1F1B, four micro-batches of so many samples, with gradients that are exact."""
    cut = cut or layers // 2
    stages = [{"index": index, "devices": [devices[index]], "layers": [first, last], "recompute": "none"}
              for index, (first, last) in enumerate([(0, cut), (cut, layers)])]
    plan = {"global_batch_size": samples * MICROBATCHES, "micro_batch_size": samples, "num_microbatches": MICROBATCHES,
            "microbatch_sizes": None, "data_parallel_size": 1, "num_stages": 2, "devices": list(devices),
            "schedule": {"name": "1f1b", "actions": ONE_F_ONE_B[2]}, "stages": stages, "options": {"exact": True}}
    about = {"schema": "mptune.plan/1", "created": "2026-01-01T00:00:00Z", "tool": {"name": "mptune", "version": "0.1.0"}, "study": "",
             "trial": -1, "fingerprint": {"model": fingerprint, "input": "", "devices": list(devices), "libtorch": "", "cuda": ""}}
    pathlib.Path(path).write_text(json.dumps({**about, "plan": plan}))


def eager_step(module, loss_of, batch, optimizer):
    """The step of an ordinary loop over the same micro-batches; returns its loss."""
    optimizer.zero_grad()
    losses = []
    for part in zip(*(tensor.chunk(MICROBATCHES) for tensor in batch)):
        loss = loss_of(module, *part) / MICROBATCHES
        loss.backward()
        losses.append(loss.item())
    optimizer.step()
    return sum(losses)
