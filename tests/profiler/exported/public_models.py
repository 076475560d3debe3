"""public_models.py COMPARE PACKAGES [NAME...]: exports public models with mptune_export.py, steps each once in eager PyTorch, and lets
COMPARE (compare_exported) repeat the step in one piece and in three stages. Prints a row of a table for each. Without names the small
ones, with `all` every one. Exit 77 without PyTorch or the models' packages (packages.py)."""
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings

COMPARE, PACKAGES, *NAMES = sys.argv[1:]
sys.path.append(PACKAGES)
sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "reports/export"))
os.environ["HF_HUB_OFFLINE"] = "1"  # every model is made here, at random
logging.disable(logging.WARNING)
warnings.simplefilter("ignore")
try:
    import torch
    import torchvision
    import transformers
except ImportError as missing:
    print(f"no public models here: {missing}")
    sys.exit(77)
import mptune_export
from torch import nn

SEED = 7  # compare_exported draws with it
SAMPLES = 8  # two for each of four micro-batches: batch norms over single values need more than one


class Vision:
    """A model of torchvision on random images; `large` ones are left out unless asked for."""

    def __init__(self, size=64, large=False, **options):
        self.size, self.large, self.options = size, large, options

    def make(self, name):
        return getattr(torchvision.models, name)(weights=None, **self.options)

    def inputs(self, samples):
        return (torch.randn(samples, 3, self.size, self.size),)


class Words:
    """A tiny model of Hugging Face of random words; `call` says what of it is trained."""

    def __init__(self, kind, config, call, lengths=(12,), mask=False):
        self.kind, self.config, self.call, self.lengths, self.mask, self.large = kind, config, call, lengths, mask, False

    def make(self, name):
        config = getattr(transformers, self.kind + "Config")(**self.config)
        head = {"GPT2": "GPT2LMHeadModel", "Bert": "BertForMaskedLM", "Llama": "LlamaForCausalLM", "T5": "T5ForConditionalGeneration"}
        return Called(getattr(transformers, head.get(self.kind, self.kind + "ForImageClassification"))(config), self.call)

    def inputs(self, samples):
        if self.kind == "ViT":
            return (torch.randn(samples, 3, 32, 32),)
        words = [torch.randint(0, 99, (samples, length)) for length in self.lengths]
        return (*words, (torch.rand(samples, 12) > 0.2).long()) if self.mask else tuple(words)


class Called(nn.Module):
    """What of a Hugging Face model is trained: its logits or its loss, of positional inputs."""

    def __init__(self, model, call):
        super().__init__()
        self.model, self.call = model, call

    def forward(self, *inputs):
        return self.call(self.model, *inputs)


TINY = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64}
GPT2 = {"n_embd": 32, "n_layer": 3, "n_head": 4, "vocab_size": 99, "n_positions": 32}
MODELS = {
    "alexnet": Vision(large=True),
    "vgg11_bn": Vision(large=True),
    "resnet18": Vision(),
    "resnet50": Vision(),
    "densenet121": Vision(),
    "googlenet": Vision(init_weights=False),
    "inception_v3": Vision(299, large=True, init_weights=False),
    "mobilenet_v2": Vision(),
    "mobilenet_v3_small": Vision(),
    "efficientnet_b0": Vision(),
    "squeezenet1_1": Vision(),
    "shufflenet_v2_x0_5": Vision(),
    "mnasnet0_5": Vision(),
    "regnet_y_400mf": Vision(),
    "vit_b_16": Vision(32, large=True, image_size=32),
    "swin_t": Vision(64, large=True),
    "convnext_tiny": Vision(large=True),
    "maxvit_t": Vision(224, large=True),
    "GPT-2": Words("GPT2", GPT2, lambda model, x: model(x, use_cache=False).logits),
    "GPT-2 with labels": Words("GPT2", GPT2, lambda model, x, y: model(x, labels=y, use_cache=False).loss, (12, 12)),
    "BERT": Words("Bert", {**TINY, "vocab_size": 99}, lambda model, x, mask: model(x, attention_mask=mask).logits, mask=True),
    "LLaMA": Words("Llama", {**TINY, "num_key_value_heads": 2, "vocab_size": 99, "attn_implementation": "eager"},
                   lambda model, x: model(x, use_cache=False).logits),
    "T5": Words("T5", {"d_model": 32, "d_ff": 64, "num_layers": 2, "num_heads": 4, "d_kv": 8, "vocab_size": 99, "decoder_start_token_id": 0},
                lambda model, x, y: model(input_ids=x, decoder_input_ids=y, use_cache=False).logits, (12, 7)),
    "ViT": Words("ViT", {**TINY, "image_size": 32, "patch_size": 8}, lambda model, x: model(x).logits),
}


def eager_step(model, inputs, path):
    """Leaves loss, gradients and buffers of one step, as compare_exported reads them."""
    torch.manual_seed(SEED)
    output = mptune_export._tensors(model(*inputs))[0]
    loss = output if output.dim() == 0 else output.square().mean()
    loss.backward()
    record = {f"input.{i}": tensor for i, tensor in enumerate(inputs)}
    record["loss"] = loss.detach()
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if parameter.grad is not None:
            record[f"gradient.{name}"] = parameter.grad
    for name, buffer in model.named_buffers(remove_duplicate=False):
        record[f"buffer.{name}"] = buffer.detach().clone()
    torch.save(record, path)


def compare(name, about):
    """True if the model's steps agree."""
    began = time.monotonic()
    torch.manual_seed(0)
    model = about.make(name).train()
    for parameter in model.parameters():
        if parameter.dim() > 1 and not parameter.any():
            nn.init.normal_(parameter, std=0.02)  # with a head of zeros, as of vit_b_16, every gradient is zero
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        program, reference = os.path.join(folder, "model.pt2"), os.path.join(folder, "eager.pt")
        try:
            mptune_export.export(model, about.inputs(3), program)
        except mptune_export.ExportError as error:
            print(f"{name}: {error}")
            return False
        eager_step(model, about.inputs(SAMPLES), reference)
        done = subprocess.run([COMPARE, program, reference, "stages"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(f"{'ok ' if done.returncode == 0 else 'BAD'} | {name} | {done.stdout.strip()} | {time.monotonic() - began:.0f} s", flush=True)
    return done.returncode == 0


def main():
    torch.set_num_threads(1)
    wanted = MODELS if NAMES == ["all"] else NAMES or [name for name, about in MODELS.items() if not about.large]
    print(f"torch {torch.__version__}, torchvision {torchvision.__version__}, transformers {transformers.__version__}")
    disagree = [name for name in wanted if not compare(name, MODELS[name])]
    print(f"{len(wanted) - len(disagree)} of {len(wanted)} agree" + (f"; not: {', '.join(disagree)}" if disagree else ""))
    return 1 if disagree else 0


if __name__ == "__main__":
    sys.exit(main())
