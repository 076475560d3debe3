"""Fine-tunes a language model of Hugging Face on two devices: export, tune, train, save, and reload in transformers.

    python fine_tune.py [MODEL [BUDGET]]     MODEL: a folder or name for from_pretrained(); without, or "tiny", a small GPT-2 made here
                                             BUDGET: time for the tuning, 20s without

The text is this file, its tokens are bytes: any causal language model with a vocabulary of 256 or more can learn it.
"""
import pathlib
import sys
import tempfile

import mptune
import torch
import transformers
from torch.nn.functional import cross_entropy

BATCH, LENGTH, STEPS = 16, 64, 30


def make_model(name):
    if name != "tiny":
        return transformers.AutoModelForCausalLM.from_pretrained(name)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=256, n_positions=LENGTH, n_embd=64, n_layer=4, n_head=4,
                                                                resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))


class Logits(torch.nn.Module):
    """Of positional inputs, as a pipeline takes them."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, words):
        return self.model(words, use_cache=False).logits


def next_word_loss(logits, following):
    return cross_entropy(logits.flatten(0, 1), following.flatten())


def batches():
    """Words, and the word that follows each."""
    text = torch.tensor(list(pathlib.Path(__file__).read_bytes()))
    generator = torch.Generator().manual_seed(1)
    while True:
        starts = torch.randint(len(text) - LENGTH, (BATCH,), generator=generator)
        lines = torch.stack([text[start : start + LENGTH + 1] for start in starts.tolist()])
        yield lines[:, :-1].contiguous(), lines[:, 1:].contiguous()


def train(pipeline):
    optimizer = torch.optim.AdamW(pipeline.parameters(), lr=3e-3)
    pipeline.on_step(lambda report: print(f"step {report.step:2}  loss {report.loss:.4f}  {1e3 * report.seconds:.1f} ms"))
    for _, (words, following) in zip(range(STEPS), batches()):
        pipeline.step(words, following)
        pipeline.clip_gradients(1.0)
        optimizer.step()


def main():
    name, budget = (sys.argv[1:] + ["tiny", "20s"][len(sys.argv) - 1 :])[:2]
    torch.manual_seed(0)
    network, example = Logits(make_model(name)), next(batches())
    tuned = mptune.tune(network, inputs=example, loss=next_word_loss, batch=BATCH, budget=budget, output="language.study", force=True)
    with mptune.Pipeline(network, tuned.plan_file, inputs=example, loss=next_word_loss) as pipeline:
        train(pipeline)
        network.load_state_dict(pipeline.state_dict())
        loss, _ = pipeline.evaluate(*example)

    with tempfile.TemporaryDirectory() as folder:
        network.model.save_pretrained(folder)
        reloaded = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.no_grad():
        logits, trained = reloaded(example[0], use_cache=False).logits, network.eval()(example[0])
    same = torch.equal(logits, trained)
    print(f"loss of the pipeline {loss:.5f}, of the reloaded model {next_word_loss(logits, example[1]):.5f}; logits {'equal' if same else 'differ'}")
    if not same or abs(loss - next_word_loss(logits, example[1]).item()) > 1e-4:
        sys.exit("the saved model is not the trained one")


if __name__ == "__main__":
    main()
