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
sys.path.append(str(pathlib.Path(__file__).resolve().parents[4] / "python/export"))
os.environ["HF_HUB_OFFLINE"] = "1"  # every model is made here, at random
os.environ.setdefault("MKL_CBWR", "COMPATIBLE")  # else the bits of MKL depend on where in memory a tensor lies, on some CPUs
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
    """A tiny model of Hugging Face on random words, images or sounds; `call` says what of it is trained. `large` as above. `tolerant`: a
    recipe of mptune_export.py changes the last bits of its gradients."""

    def __init__(self, kind, config, call, inputs, large=False, tolerant=False):
        self.kind, self.config, self.call, self.inputs, self.large, self.tolerant = kind, config, call, inputs, large, tolerant

    def make(self, name):
        kind = getattr(transformers, self.kind)
        return Called(kind(kind.config_class(**self.config)), self.call)


class Called(nn.Module):
    """What of a Hugging Face model is trained: its logits or its loss, of positional inputs."""

    def __init__(self, model, call):
        super().__init__()
        self.model, self.call = model, call

    def forward(self, *inputs):
        return self.call(self.model, *inputs)


def words(*lengths, mask=False):
    def inputs(samples):
        sentences = [torch.randint(0, 99, (samples, length)) for length in lengths]
        return (*sentences, (torch.rand(samples, 12) > 0.2).long()) if mask else tuple(sentences)

    return inputs


def images(samples):
    return (torch.randn(samples, 3, 32, 32),)


def logits(model, x):
    return model(x, use_cache=False).logits


def masked(model, x, mask):
    return model(x, attention_mask=mask).logits


def classes(model, x):
    return model(x).logits


def translated(model, x, y):
    return model(input_ids=x, decoder_input_ids=y, use_cache=False).logits


def sizes(layers):
    return {"hidden_size": 32, "num_hidden_layers": layers, "num_attention_heads": 4, "intermediate_size": 64}


TINY = sizes(3)
VOCABULARY = {"vocab_size": 99}
GPT2 = {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 32, **VOCABULARY}
DECODER = {**TINY, "num_key_value_heads": 2, **VOCABULARY}
# What these models draw to leave out layers, with probability 0, moves their other random numbers: no dropout.
STILL = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
BOTH = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
        "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, **STILL, **VOCABULARY}
SPEECH = {**sizes(2), "vocab_size": 32, "conv_dim": (16, 16), "conv_stride": (4, 2), "conv_kernel": (8, 4), "num_feat_extract_layers": 2,
          "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2, "layerdrop": 0.0, "apply_spec_augment": False,
          "hidden_dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, "feat_proj_dropout": 0.0, "final_dropout": 0.0}
TOWER = {**sizes(2), "image_size": 32, "patch_size": 8}
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
    "mnasnet0_5": Vision(large=True),
    "regnet_y_400mf": Vision(large=True),
    "vit_b_16": Vision(32, large=True, image_size=32),
    "swin_t": Vision(64, large=True),
    "convnext_tiny": Vision(large=True),
    "maxvit_t": Vision(224, large=True),
    "GPT-2": Words("GPT2LMHeadModel", GPT2, logits, words(12)),
    "GPT-2 with labels": Words("GPT2LMHeadModel", GPT2, lambda model, x, y: model(x, labels=y, use_cache=False).loss, words(12, 12)),
    "GPT-Neo": Words("GPTNeoForCausalLM", {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]],
                                           "max_position_embeddings": 32, "window_size": 8, **VOCABULARY}, logits, words(12), large=True),
    "GPT-NeoX": Words("GPTNeoXForCausalLM", {**TINY, **VOCABULARY}, logits, words(12), large=True),
    "GPT-J": Words("GPTJForCausalLM", {**GPT2, "rotary_dim": 4}, logits, words(12), large=True),
    "OPT": Words("OPTForCausalLM", {**sizes(2), "ffn_dim": 64, "word_embed_proj_dim": 32, "max_position_embeddings": 32, **STILL,
                                    **VOCABULARY}, logits, words(12)),
    "BLOOM": Words("BloomForCausalLM", {"hidden_size": 32, "n_layer": 2, "n_head": 4, **VOCABULARY}, logits, words(12), tolerant=True),
    "Falcon": Words("FalconForCausalLM", {**sizes(2), **VOCABULARY}, logits, words(12), large=True),
    "LLaMA": Words("LlamaForCausalLM", DECODER, logits, words(12)),
    "Mistral": Words("MistralForCausalLM", {**DECODER, "sliding_window": 8}, logits, words(12), large=True),
    "Mixtral": Words("MixtralForCausalLM", {**DECODER, "num_local_experts": 4, "experts_implementation": "batched_mm"}, logits, words(12)),
    "Qwen2": Words("Qwen2ForCausalLM", DECODER, logits, words(12), large=True),
    "Qwen3": Words("Qwen3ForCausalLM", {**DECODER, "head_dim": 8}, logits, words(12), large=True),
    "Gemma 2": Words("Gemma2ForCausalLM", {**DECODER, "head_dim": 8, "sliding_window": 8}, logits, words(12), large=True),
    "Phi": Words("PhiForCausalLM", {**TINY, **VOCABULARY}, logits, words(12), large=True),
    "Mamba": Words("MambaForCausalLM", {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, **VOCABULARY}, logits, words(12), large=True),
    "BERT": Words("BertForMaskedLM", {**TINY, **VOCABULARY}, masked, words(12, mask=True)),
    "RoBERTa": Words("RobertaForMaskedLM", {**TINY, "max_position_embeddings": 40, **VOCABULARY}, masked, words(12, mask=True), large=True),
    "DistilBERT": Words("DistilBertForMaskedLM", {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, **VOCABULARY}, masked,
                        words(12, mask=True), large=True),
    "ALBERT": Words("AlbertForMaskedLM", {**TINY, "embedding_size": 16, **VOCABULARY}, masked, words(12, mask=True), large=True),
    "ELECTRA": Words("ElectraForMaskedLM", {**TINY, "embedding_size": 16, **VOCABULARY}, masked, words(12, mask=True), large=True),
    "DeBERTa-v2": Words("DebertaV2ForMaskedLM", {**TINY, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], **VOCABULARY}, masked,
                        words(12, mask=True), large=True),
    "T5": Words("T5ForConditionalGeneration", {"d_model": 32, "d_ff": 64, "num_layers": 2, "num_heads": 4, "d_kv": 8,
                                               "decoder_start_token_id": 0, **VOCABULARY}, translated, words(12, 7)),
    "BART": Words("BartForConditionalGeneration", {**BOTH, "max_position_embeddings": 32}, translated, words(12, 7), large=True),
    "Whisper": Words("WhisperForConditionalGeneration", {**BOTH, "num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 16,
                                                         "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1},
                     lambda model, x, y: model(input_features=x, decoder_input_ids=y, use_cache=False).logits,
                     lambda samples: (torch.randn(samples, 8, 32), *words(7)(samples))),
    "wav2vec2": Words("Wav2Vec2ForCTC", SPEECH, classes, lambda samples: (torch.randn(samples, 800),)),
    "HuBERT": Words("HubertForCTC", SPEECH, classes, lambda samples: (torch.randn(samples, 800),), large=True),
    "ViT": Words("ViTForImageClassification", {**TINY, "image_size": 32, "patch_size": 8}, classes, images),
    "DeiT": Words("DeiTForImageClassification", TOWER, classes, images, large=True),
    "BEiT": Words("BeitForImageClassification", TOWER, classes, images, large=True),
    "Swin": Words("SwinForImageClassification", {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4],
                                                 "window_size": 4}, classes, images, large=True),
    "ConvNeXt": Words("ConvNextForImageClassification", {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2}, classes, images,
                      large=True),
    "CLIP": Words("CLIPModel", {"text_config": {**sizes(2), "max_position_embeddings": 16, "eos_token_id": 98, **VOCABULARY},
                                "vision_config": TOWER, "projection_dim": 16},
                  lambda model, x, image: (lambda out: torch.cat([out.text_embeds, out.image_embeds], 1))(model(input_ids=x, pixel_values=image)),
                  lambda samples: (*words(12)(samples), *images(samples)), large=True),
}


def eager_step(model, inputs, path):
    """Leaves loss, gradients and buffers of one step, as compare_exported reads them."""
    model.zero_grad()
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
        inputs = about.inputs(SAMPLES)
        eager_step(model, inputs, reference)
        if getattr(about, "tolerant", False):
            exact = torch.load(reference)
            with mptune_export._recipes(model):
                eager_step(model, inputs, reference)
            near = torch.load(reference)
            if any(mptune_export._differs(exact[key], near[key]) for key in exact):
                print(f"BAD | {name} | a recipe of mptune_export.py changes its gradients")
                return False
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
