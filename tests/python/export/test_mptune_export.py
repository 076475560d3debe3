"""mptune_export.py: what it writes agrees with the model, and what export would get wrong or can't do is refused with a remedy.

Run in a Python that has torch; exit 77 where there is none. With numpy its random numbers are tried too."""
import collections
import dataclasses
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import types
import unittest
import zipfile

try:
    import torch
except ImportError as missing:
    print(f"no PyTorch here: {missing}")
    sys.exit(77)

EXPORT = str(pathlib.Path(__file__).resolve().parents[3] / "python/export")
sys.path.insert(0, EXPORT)
import mptune_export
from mptune_export import ExportError
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

Pair = collections.namedtuple("Pair", "logits features")


@dataclasses.dataclass
class Answer:
    logits: torch.Tensor
    features: torch.Tensor


class DynamicCache:
    """As Hugging Face's: nothing that export knows."""


class Doubled(torch.autograd.Function):
    """A backward that is not that of the forward."""

    @staticmethod
    def forward(context, x):
        return x * 2

    @staticmethod
    def backward(context, gradient):
        return gradient * 3


class Net(nn.Module):
    """Two layers with a batch norm and dropout; `end` makes the output of the input and the prediction."""

    def __init__(self, end=lambda self, x, y: y):
        super().__init__()
        self.first, self.norm, self.drop, self.last = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.3), nn.Linear(6, 4)
        self.end = end

    def forward(self, x):
        return self.end(self, x, self.last(self.drop(self.norm(self.first(x)).relu())))


class Inputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, y=None, *, scale=None, offset=0.0):
        x = self.a(x) if y is None else self.a(x) + self.b(y)
        return (x if scale is None else x * scale) + offset


class Variadic(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, *inputs):
        return self.a(sum(inputs))


class ExportTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.x, self.y = torch.randn(5, 4), torch.randn(5, 4)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path = os.path.join(self.folder, "net.pt2")

    def exported(self, model, *arguments, **options):
        """The program and the reference in its file."""
        program = mptune_export.export(model, arguments, self.path, **options)
        self.assertEqual(os.listdir(self.folder), ["net.pt2"])
        with zipfile.ZipFile(self.path) as archive:
            reference = json.loads(archive.read("net/extra/mptune.json"))
            self.assertIn("net/models/model.json", archive.namelist())
        self.assertEqual(reference["schema"], "mptune.export/1")
        return program, reference

    def refused(self, words, model, *arguments, path=None, inputs=None, **options):
        with self.assertRaises(ExportError) as caught:
            mptune_export.export(model, (arguments or (self.x,)) if inputs is None else inputs, path or self.path, **options)
        line = str(caught.exception)
        self.assertRegex(line, r"^[^\n]+: [^\n]+; [^\n]+$")
        for word in words:
            self.assertIn(word, line)
        self.assertEqual(os.listdir(self.folder), [])


class GoodExports(ExportTest):
    def test_the_reference_is_a_step_of_the_model(self):
        model = Net()
        _, reference = self.exported(model, self.x)
        threads = torch.get_num_threads()
        torch.set_num_threads(reference["threads"])
        torch.manual_seed(reference["seed"])
        loss = model(self.x).square().mean()
        loss.backward()
        torch.set_num_threads(threads)
        self.assertEqual((reference["loss"], reference["loss_in_program"]), (loss.item(), False))
        self.assertEqual((reference["samples"], reference["device"], reference["torch"]), (5, "cpu", torch.__version__))
        gradients = {name: parameter.grad.double().norm().item() for name, parameter in model.named_parameters()}
        buffers = {name: buffer.double().norm().item() for name, buffer in model.named_buffers()}
        self.assertEqual(reference["gradient_norms"], gradients)
        self.assertEqual(reference["buffer_norms"], buffers)
        self.assertEqual(reference["buffer_norms"]["norm.num_batches_tracked"], 1)

    def test_any_number_of_samples(self):
        program, _ = self.exported(Net(), self.x)
        self.assertEqual(program.module()(torch.randn(2, 4)).shape, (2, 4))
        self.assertEqual(program.module()(torch.randn(9, 4)).shape, (9, 4))

    def test_the_model_stays_as_it_was(self):
        model = Net().eval()
        model.norm.train()
        before = {name: value.clone() for name, value in model.state_dict().items()}
        generator, numbers = torch.get_rng_state(), random.getstate()
        self.exported(model, self.x)
        self.assertEqual([module.training for module in model.modules()], [False, False, True, False, False])
        for name, value in model.state_dict().items():
            self.assertTrue(torch.equal(value, before[name]), name)
        self.assertTrue(all(parameter.grad is None for parameter in model.parameters()))
        self.assertIs(type(model), Net)
        self.assertTrue(torch.equal(generator, torch.get_rng_state()))
        self.assertEqual(numbers, random.getstate())

    def test_training_form(self):
        program, _ = self.exported(Net().eval(), self.x)
        self.assertRegex(program.graph_module.code, r"torch.ops.aten.dropout.default\(\w+, 0.3, True\)")
        model = Net()
        model.norm.eval()  # frozen by its user
        _, reference = self.exported(model, self.x)
        self.assertEqual(reference["buffer_norms"]["norm.num_batches_tracked"], 0)

    def test_a_line_that_limits_the_batch_is_named(self):
        class Limited(nn.Module):
            def __init__(self, samples):
                super().__init__()
                self.first, self.samples = nn.Linear(4, 4), samples

            def forward(self, x):
                x = self.first(x)
                if x.shape[0] >= self.samples:  # as diffusers' Upsample2D
                    x = 2 * x
                return x

        for samples, takes, few in ((64, "1 to 63", 1), (3, "at least 3", 3), (2, "at least 2", 2)):
            line = "" if samples == 2 else ": test_mptune_export.py:[0-9]+, if x.shape"  # torch takes any size for two at least, and names no line
            with self.assertWarnsRegex(UserWarning, f"net.pt2 takes {takes} samples at once{line}"):
                program, reference = self.exported(Limited(samples), self.x)
            if line:
                self.assertRegex(reference["batch_limit"], r"^test_mptune_export.py:\d+, if x.shape\[0\] >= self.samples:")
            self.assertEqual(program.module()(torch.randn(few, 4)).shape, (few, 4))

    def test_lengths(self):
        class Words(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed, self.head = nn.Embedding(9, 4), nn.Linear(4, 9)

            def forward(self, words):
                return self.head(self.embed(words))

        def loss(output, target):
            return functional.cross_entropy(output.flatten(0, 1), target.flatten())

        words, model = torch.randint(9, (5, 7)), Words()
        program, _ = self.exported(model, words, lengths={"words": 1})
        self.assertEqual(program.module()(torch.randint(9, (2, 3))).shape, (2, 3, 9))
        program, _ = self.exported(model, words, words, loss=loss, lengths={"words": [1], "target": [1]})
        others = torch.randint(9, (3, 11))
        self.assertAlmostEqual(program.module()(others, others)[0].item(), loss(model(others), others).item(), places=6)

    def test_probabilities_as_targets(self):
        model, target = Net(), torch.rand(5, 4)
        model.drop.p = 0.0
        weight = torch.tensor([1.0, 2.0, 0.5, 1.0])
        losses = (functional.cross_entropy, nn.CrossEntropyLoss(label_smoothing=0.1, weight=weight), nn.CrossEntropyLoss(weight=weight))
        for loss in losses:
            program, reference = self.exported(model, self.x, target, loss=loss)
            expected = loss(model(self.x), target).item()
            self.assertAlmostEqual(reference["loss"], expected, delta=1e-6 * abs(expected))
            x, y = torch.randn(3, 4), torch.rand(3, 4)
            ours, theirs = program.module()(x, y)[0].item(), loss(model(x), y).item()
            self.assertAlmostEqual(ours, theirs, delta=1e-5 * abs(theirs))

    def test_batch_norms_that_take_the_mean_of_all_batches(self):
        model = Net()
        model.norm.momentum = None
        model(self.x)
        tracked = model.norm.running_mean.clone()
        _, reference = self.exported(model, self.x)
        self.assertEqual(reference["cumulative_norms"], ["norm"])
        self.assertIsNone(model.norm.momentum)
        self.assertTrue(torch.equal(model.norm.running_mean, tracked))
        model(self.x)
        self.assertAlmostEqual(reference["buffer_norms"]["norm.running_mean"], model.norm.running_mean.double().norm().item(), places=6)

    def test_inputs(self):
        program, _ = self.exported(Inputs(), self.x, self.y)
        self.assertEqual(program.graph_signature.user_inputs, ("x", "y"))
        program, _ = self.exported(Inputs(), self.x, example_kwargs={"scale": self.y})
        self.assertEqual(program.graph_signature.user_inputs, ("x", "scale"))
        program, _ = self.exported(Inputs(), example_kwargs={"x": self.x, "offset": 0.5})
        self.assertEqual(program.graph_signature.user_inputs[0], "x")
        self.exported(Inputs(), self.x, example_kwargs={"scale": torch.tensor(2.0)})
        self.exported(Variadic(), self.x, self.y)

    def test_inputs_are_not_written_to(self):
        before = self.x.clone()
        self.exported(nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 4)), self.x)
        self.assertTrue(torch.equal(self.x, before))
        inputs = self.x.clone().requires_grad_()
        self.exported(Net(), inputs)
        self.assertIsNone(inputs.grad)

    def test_loss(self):
        classes = torch.randint(0, 4, (5,))
        program, reference = self.exported(Net(), self.x, classes, loss=functional.cross_entropy)
        self.assertEqual(program.graph_signature.user_inputs, ("x", "target"))
        self.assertTrue(reference["loss_in_program"])
        self.assertIn("first.weight", reference["gradient_norms"])
        self.exported(Net(), self.x, classes, loss=nn.CrossEntropyLoss(label_smoothing=0.1))
        program, _ = self.exported(Inputs(), self.x, self.y, loss=functional.mse_loss, example_kwargs={"scale": self.y})
        self.assertEqual(program.graph_signature.user_inputs, ("x", "target", "scale"))
        self.exported(Variadic(), self.x, self.y, self.y, loss=functional.mse_loss)
        self.exported(nn.Sequential(nn.Linear(4, 4)), self.x, self.y, loss=lambda output, target: (output - target).abs().mean())

    def test_loss_in_the_model(self):
        _, reference = self.exported(Net(lambda self, x, y: (functional.mse_loss(y, x), y)), self.x)
        self.assertTrue(reference["loss_in_program"])

    def test_outputs(self):
        for end in (
            lambda self, x, y: {"logits": y, "number": 3},
            lambda self, x, y: (y, None, [x]),
            lambda self, x, y: Pair(y, x),
            lambda self, x, y: {"pair": Pair(y, x)},
            lambda self, x, y: Answer(y, x),
            lambda self, x, y: y.half(),
            lambda self, x, y: y.double(),
        ):
            self.exported(Net(end), self.x)
            self.exported(Net(end), self.x)  # what is registered is registered once

    def test_tied_weights(self):
        model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
        model[2].weight = model[0].weight
        program, reference = self.exported(model, self.x)
        self.assertEqual(reference["gradient_norms"]["0.weight"], reference["gradient_norms"]["2.weight"])
        self.assertIn("2.weight", program.state_dict)

    def test_frozen_and_unused_parameters(self):
        model = Net()
        model.first.requires_grad_(False)
        model.unused = nn.Linear(2, 2)
        _, reference = self.exported(model, self.x)
        self.assertEqual(sorted(reference["gradient_norms"]), ["last.bias", "last.weight", "norm.bias", "norm.weight"])

    def test_buffers_of_every_kind(self):
        model = Net(lambda self, x, y: (y * self.turn.real * self.mask, self.steps.add_(1))[0])
        model.register_buffer("turn", torch.polar(torch.ones(4), torch.arange(4.0)), persistent=False)
        model.register_buffer("mask", torch.tensor([True, False, True, True]))
        model.register_buffer("steps", torch.zeros((), dtype=torch.long))
        _, reference = self.exported(model, self.x)
        self.assertAlmostEqual(reference["buffer_norms"]["turn"], 2.0, places=6)
        self.assertEqual(reference["buffer_norms"]["steps"], 1.0)

    def test_constants(self):
        class Scaled(Net):
            def __init__(self):
                super().__init__()
                self.mean = torch.tensor([0.5, 0.1, 0.2, 0.3])
                self.register_buffer("hidden", torch.ones(4), persistent=False)

            def forward(self, x):
                return super().forward((x - self.mean) / torch.tensor([1.0, 2.0, 3.0, 4.0]) * self.hidden)

        x, y = torch.randn(6, 4), torch.randint(0, 4, (6,))
        program, _ = self.exported(Scaled(), x)
        self.assertEqual(sorted(program.graph_signature.buffers), ["hidden", "norm.num_batches_tracked", "norm.running_mean", "norm.running_var"])
        self.exported(Scaled(), x, y, loss=nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0, 1.0])))
        self.exported(Scaled(), x, torch.rand(6, 4), loss=nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 2.0, 3.0, 1.0])))

    def test_what_looks_like_a_custom_function(self):
        def recomputed(self, x, y):
            return checkpoint(torch.tanh, y, use_reentrant=False)

        self.exported(Net(recomputed), self.x)

        def frozen(self, x, y):
            with torch.no_grad():
                scale = Doubled.apply(y)
            return y * scale + Doubled.apply(x)  # no gradient goes through either

        self.exported(Net(frozen), self.x)


MODELING = """
import torch
from torch import nn
from transformers import masking_utils

class Config:
    def __init__(self):
        self.layerdrop, self.apply_spec_augment, self.mask_time_prob, self.mask_feature_prob = 0.0, False, 0.05, 0.0

class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.config, self.layers = Config(), nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def _mask_hidden_states(self, x):
        return x

    def forward(self, x):
        for layer in self.layers:
            if self.training and torch.rand([]) < self.config.layerdrop:
                continue
            x = layer(x)
        places = torch.arange(4)
        seen = masking_utils._vmap_for_bhqkv(lambda b, h, q, k: k <= q)(torch.arange(x.shape[0]), torch.arange(1), places, places)
        return torch.where(seen, x[:, None, None, :], 0.0).sum(2)
"""

MASKS = """
import contextlib
import torch

TransformGetItemToIndex = contextlib.nullcontext

def _vmap_for_bhqkv(function, bh_indices=True):
    dimensions = [(None, None, None, 0), (None, None, 0, None)]
    dimensions += [(None, 0, None, None), (0, None, None, None)] if bh_indices else []
    for in_dims in dimensions:
        function = torch.vmap(function, in_dims=in_dims, out_dims=0)
    return function
"""


class Recipes(ExportTest):
    """What transformers does, in modules of the same names: the real models are in public_models.py."""

    def setUp(self):
        super().setUp()
        names = ("transformers", "transformers.masking_utils", "transformers.models.tiny.modeling_tiny")
        self.package, self.masks, self.modeling = (types.ModuleType(name) for name in names)
        self.package.masking_utils = self.masks
        sys.modules.update(zip(names, (self.package, self.masks, self.modeling)))
        self.addCleanup(lambda: [sys.modules.pop(name) for name in names])
        exec(MASKS, vars(self.masks))
        exec(MODELING, vars(self.modeling))
        self.own = self.masks._vmap_for_bhqkv

    def test_lines_are_replaced_while_the_model_is_exported(self):
        model = self.modeling.Tiny()
        program, _ = self.exported(model, self.x)
        self.assertIs(self.modeling.torch, torch)
        self.assertIs(self.masks._vmap_for_bhqkv, self.own)
        self.assertTrue(torch.equal(program.module()(self.y), model(self.y)))

    def test_layers_and_inputs_chosen_at_random_are_refused(self):
        model = self.modeling.Tiny()
        model.config.layerdrop = 0.1
        self.refused(["layerdrop = 0.1 of Tiny", "set config.layerdrop = 0"], model)
        model.config.layerdrop, model.config.apply_spec_augment = 0.0, True
        self.refused(["SpecAugment of Tiny", "apply_spec_augment = False"], model)
        self.assertIs(self.modeling.torch, torch)

    def test_masks_are_those_of_vmap(self):
        padding = torch.rand(3, 5) > 0.3
        indices = [torch.arange(size) for size in (3, 2, 4, 5)]
        ours = mptune_export._over_indices(lambda b, h, q, k: (k <= q + h) & padding[b, k])(*indices)
        theirs = torch.stack([torch.stack([self.own(lambda b, h, q, k, head=head, row=row: (k <= q + head) & row[k], bh_indices=False)(None, None, *indices[2:])
                                           for head in range(2)]) for row in padding])
        self.assertTrue(torch.equal(ours, theirs))
        plain = (lambda b, h, q, k: k <= q), (None, None, *indices[2:])
        self.assertTrue(torch.equal(mptune_export._over_indices(plain[0], bh_indices=False)(*plain[1]), self.own(plain[0], False)(*plain[1])))


class Refusals(ExportTest):
    def test_custom_functions(self):
        self.refused(["autograd.Function", "Doubled", "own operators"], Net(lambda self, x, y: Doubled.apply(y)))
        inner = nn.Sequential(nn.Linear(4, 4), Net(lambda self, x, y: Doubled.apply(y)))
        self.refused(["autograd.Function", "Doubled"], inner)
        self.refused(["autograd.Function", "Doubled"], Net(lambda self, x, y: checkpoint(Doubled.apply, y, use_reentrant=True)))

    def test_operators_of_other_libraries(self):
        name = "mptune_test::twice"
        if not hasattr(torch.ops.mptune_test, "twice"):
            torch.library.custom_op(name, lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor").register_fake(torch.empty_like)
            torch.library.register_autograd(name, lambda context, gradient: gradient * 2)
        self.refused(["mptune_test.twice", "test_mptune_export.py", "own operators"], Net(lambda self, x, y: torch.ops.mptune_test.twice(y)))

    def test_spies_leave(self):
        before = torch.autograd.Function.__dict__["apply"]
        self.refused(["autograd.Function"], Net(lambda self, x, y: Doubled.apply(y)))
        self.assertIs(torch.autograd.Function.__dict__["apply"], before)

    def test_reentrant_checkpoints(self):
        self.refused(["reentrant", "use_reentrant=False"], Net(lambda self, x, y: checkpoint(self.last, y[:, :1].expand(-1, 6), use_reentrant=True)))

    def test_random_numbers(self):
        self.refused(["Python's random", "torch.rand"], Net(lambda self, x, y: y * random.random()))
        try:
            import numpy
        except ImportError:
            return
        self.refused(["numpy.random", "torch.rand"], Net(lambda self, x, y: y * numpy.random.rand()))
        own = numpy.random.default_rng()
        self.refused(["loss differs", "random numbers"], Net(lambda self, x, y: y * own.random()))

    def test_state_of_python(self):
        calls = []

        def counted(self, x, y):
            calls.append(1)
            return y * len(calls)

        self.refused(["the program's loss differs", "Python state"], Net(counted))

    def test_constants_that_are_written(self):
        class Writes(Net):
            def __init__(self):
                super().__init__()
                self.mean = torch.zeros(4)

            def forward(self, x):
                self.mean.mul_(0.9).add_(x.detach().mean(0))
                return super().forward(x - self.mean)

        self.refused(["writes a tensor that is not a buffer: mean", "register_buffer"], Writes())

    def test_gradients_that_differ(self):
        seen = []

        def differs(self, x, y):  # the same value; its gradient is there the first time only
            seen.append(1)
            return torch.cat([y[:, :2], y[:, 2:] if len(seen) == 1 else y[:, 2:].detach()], 1)

        self.refused(["gradients differ", "weight"], Net(differs))

    def test_a_number_of_samples_that_no_range_allows(self):
        class Even(Net):
            def forward(self, x):
                return super().forward(x) * (2 if x.shape[0] % 5 == 0 else 1)

        self.refused(["Constraints violated", "test_mptune_export.py:", "x.shape[0] % 5 == 0", "let nothing in the model depend on their number"], Even())

    def test_names_that_programs_of_torch_can_not_have(self):
        model = Net()
        model.register_buffer("code", torch.zeros(4))
        model.end = lambda self, x, y: y + self.code
        self.refused(["'code' already exists", "give that parameter or buffer another name"], model)

    def test_lengths_that_the_model_does_not_have(self):
        for lengths, words in (({"y": 1}, ["'y'", "use one of x"]), ({"x": 0}, ["dimension 0 of 'x', which is 5x4", "use 1 to 1"]),
                               ({"x": [1, 2]}, ["dimension 2"]), ({"x": 1}, ["Constraints violated", "leave that dimension out of `lengths`"])):
            self.refused(words, Net(), lengths=lengths)
        self.refused(["an example of length 1"], nn.Linear(1, 4), self.x[:, :1], lengths={"input": 1})

    def test_samples(self):
        self.refused(["one sample", "two samples"], Net(), self.x[:1])
        self.refused(["no example input", "samples first"], Inputs(), 3.0)
        self.refused(["Constraints violated", "samples first"], Net(lambda self, x, y: y.view(5, 2, 2)))

    def test_branches(self):
        self.refused(["torch.cond", "test_mptune_export.py"], Net(lambda self, x, y: y if x.sum() > 0 else y + 1))
        self.refused(["torch.cond"], Net(lambda self, x, y: y[: int(x.abs().sum().item())]))

    def test_outputs(self):
        self.refused(["not a floating-point tensor"], Net(lambda self, x, y: y.argmax(1)))
        self.refused(["not a floating-point tensor"], Net(lambda self, x, y: None))
        self.refused(["no parameter has a part"], Net(lambda self, x, y: y.detach()))
        self.refused(["DynamicCache", "use_cache=False"], Net(lambda self, x, y: (y, DynamicCache())))
        self.refused(["can't be saved", "object"], Net(lambda self, x, y: {"a": [y, object()]}))
        self.refused(["not finite"], Net(lambda self, x, y: y / 0))

    def test_paths(self):
        self.refused(["does not end in .pt2", "net.pt2"], Net(), path=os.path.join(self.folder, "net.pt"))
        self.refused(["no folder", "missing"], Net(), path=os.path.join(self.folder, "missing", "net.pt2"))

    def test_models(self):
        self.refused(["TorchScript"], torch.jit.script(nn.Linear(4, 4)))
        self.refused(["without weights", "to_empty"], nn.Linear(4, 4, device="meta"))
        compiled = torch.compile(nn.Linear(4, 4))
        self.refused(["compiled", "_orig_mod"], compiled)
        self.refused(["sparse gradients", "0.weight", "sparse=False"], nn.Sequential(nn.Embedding(3, 4, sparse=True)), torch.tensor([0, 2]))
        held = nn.Linear(4, 4)
        held.last = held(self.x)
        self.refused(["can't be copied", "deepcopy"], held)

    def test_arguments(self):
        linear = nn.Linear(4, 4)
        self.refused(["example inputs are a Tensor", "(x,)"], linear, inputs=torch.randn(5, 4))
        self.refused(["not a torch.nn.Module: Linear", "make one of the class"], nn.Linear)
        self.refused(["not a torch.nn.Module: relu", "forward of a torch.nn.Module"], torch.relu)
        self.refused(["fails on the example inputs", "same dtype"], linear, torch.ones(5, 4, dtype=torch.long))
        self.refused(["fails on the example inputs", "shapes cannot be multiplied"], linear, torch.ones(5, 3))

    def test_losses_that_are_no_means(self):
        classes = torch.randint(0, 4, (5,))
        for reduction, words in (("sum", "a sum over the samples"), ("none", "the loss is (5,) and not a number")):
            self.refused([words, "reduction='mean'"], Net(), self.x, classes, loss=nn.CrossEntropyLoss(reduction=reduction))
        self.exported(Net(), self.x, classes, loss=nn.CrossEntropyLoss())

    def test_errors_of_the_model_itself(self):
        class Broken(nn.Module):
            def forward(self, x):
                return x @ torch.ones(3, 3)

        with self.assertRaises(RuntimeError):
            mptune_export.export(Broken(), (self.x,), self.path)

    def test_an_old_file_survives(self):
        self.exported(Net(), self.x)
        with self.assertRaises(ExportError):
            mptune_export.export(Net(lambda self, x, y: y.detach()), (self.x,), self.path)
        self.assertGreater(os.path.getsize(self.path), 1000)


class Manners(unittest.TestCase):
    def test_nothing_is_printed(self):
        with tempfile.TemporaryDirectory() as folder:
            program = (
                "import torch, mptune_export\n"
                f"mptune_export.export(torch.nn.Linear(4, 4), (torch.randn(2, 4),), {folder + '/a.pt2'!r})\n"
                "class Branch(torch.nn.Linear):\n"
                "    def forward(self, x):\n"
                "        return super().forward(x if x.sum() > 0 else -x)\n"
                "try:\n"
                f"    mptune_export.export(Branch(4, 4), (torch.randn(2, 4),), {folder + '/a.pt2'!r})\n"
                "except mptune_export.ExportError as error:\n"
                "    print(error.what)\n"
            )
            path = os.pathsep.join(filter(None, [EXPORT, os.environ.get("PYTHONPATH")]))
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "the model can't be exported\n")
        self.assertNotIn("def forward", done.stderr)


if __name__ == "__main__":
    unittest.main()
