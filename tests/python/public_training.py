"""public_training.py PACKAGES [NAME...]: trains five models of torchvision and transformers, or those named, for 20 steps through mptune.Pipeline, and in eager
PyTorch with the same micro-batches: losses and weights agree in every bit. Exit 77 without the models' packages."""
import copy
import os
import pathlib
import sys
import tempfile

sys.path.append(sys.argv[1])
sys.path.append(str(pathlib.Path(__file__).resolve().parent))
os.environ["HF_HUB_OFFLINE"] = "1"  # every model is made here, at random
os.environ.setdefault("MKL_CBWR", "COMPATIBLE")  # else the bits of MKL depend on where in memory a tensor lies, on some CPUs
try:
    import torch
    import torchvision
    import transformers
except ImportError as missing:
    print(f"no public models here: {missing}")
    sys.exit(77)
import mptune
from plans import MICROBATCHES, eager_step, write_plan
from torch import nn
from torch.nn.functional import cross_entropy

STEPS, SAMPLES = 20, 2  # two for each micro-batch: batch norms over single values need more than one
TINY = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64}


class Logits(nn.Module):
    """A Hugging Face model of which only the logits are trained."""

    def __init__(self, model, **options):
        super().__init__()
        self.model, self.options = model, options

    def forward(self, data):
        return self.model(data, **self.options).logits


def of_words(output, target):
    return cross_entropy(output.flatten(0, 1), target.flatten())


def images(size):
    return lambda: (torch.randn(SAMPLES * MICROBATCHES, 3, size, size), torch.randint(10, (SAMPLES * MICROBATCHES,)))


def words():
    return torch.randint(99, (SAMPLES * MICROBATCHES, 12)), torch.randint(99, (SAMPLES * MICROBATCHES, 12))


def llama():
    config = transformers.LlamaConfig(**TINY, num_key_value_heads=2, vocab_size=99)
    return Logits(transformers.LlamaForCausalLM(config), use_cache=False)


def bert():
    config = transformers.BertConfig(**TINY, vocab_size=99, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, tie_word_embeddings=False)
    return Logits(transformers.BertForMaskedLM(config))


def vit():
    config = transformers.ViTConfig(**TINY, image_size=32, patch_size=8, num_labels=10)
    return Logits(transformers.ViTForImageClassification(config))


MODELS = {  # none draws random numbers
    "resnet18": (lambda: torchvision.models.resnet18(num_classes=10), images(64), cross_entropy),
    "shufflenet_v2_x0_5": (lambda: torchvision.models.shufflenet_v2_x0_5(num_classes=10), images(64), cross_entropy),
    "LLaMA": (llama, words, of_words),
    "BERT": (bert, words, of_words),
    "ViT": (vit, images(32), cross_entropy),
}


def difference(make, make_batch, loss, folder):
    """What differs first, "" if nothing does."""
    torch.manual_seed(7)
    module, batch = make().train(), make_batch()
    file, plan = os.path.join(folder, "model.pt2"), os.path.join(folder, "model.plan.json")
    mptune.export(module, batch, file, loss=loss)
    write_plan(plan, len(mptune.models(file, progress=False).models[0].layers), SAMPLES)
    eager = copy.deepcopy(module)
    eager_optimizer = torch.optim.SGD(eager.parameters(), lr=0.01, momentum=0.9)
    with mptune.Pipeline(file, plan) as pipeline:
        optimizer = torch.optim.SGD(pipeline.parameters(), lr=0.01, momentum=0.9)
        for step in range(STEPS):
            losses = pipeline.step(*batch), eager_step(eager, lambda own, data, target: loss(own(data), target), batch, eager_optimizer)
            optimizer.step()
            if losses[0] != losses[1]:
                return f"step {step}: loss {losses[0]!r}, eager {losses[1]!r}"
        trained = pipeline.state_dict()
        wrong = [name for name, parameter in eager.named_parameters() if not torch.equal(parameter, trained[name])]
        moved = any(not torch.equal(a, b) for a, b in zip(eager.parameters(), module.parameters()))
    return f"weights differ: {wrong[0]}" if wrong else "" if moved else "nothing was trained"


def main():
    torch.set_num_threads(1)
    wrong = 0
    for name in sys.argv[2:] or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            found = difference(*MODELS[name], folder)
        print(f"{name}: {found or f'{STEPS} steps equal in every bit'}", flush=True)
        wrong += bool(found)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
