"""mptune.Pipeline against eager PyTorch. Needs the package as it is built, and torch."""
import copy
import json
import pathlib
import sys
import threading
import unittest

import mptune
import torch
from pipelines import BATCH, DEVICES, SAMPLES, PipelineTest, batch, loss_of, net
from plans import MICROBATCHES, eager_step, write_plan
from torch import nn


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(11, 8)
        self.middle = nn.Linear(8, 8)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.words.weight

    def forward(self, words):
        return self.head(torch.tanh(self.middle(self.words(words)))).flatten(0, 1)


class Training(PipelineTest):
    def assert_equal_training(self, module, file, plan, data, loss_of, make_optimizer, steps=20, exact=True):
        """Losses and parameters in every bit, or else within rounding."""
        agree = torch.equal if exact else torch.allclose
        eager = copy.deepcopy(module)
        eager_optimizer = make_optimizer(eager.parameters())
        with mptune.Pipeline(file, plan) as pipeline:
            optimizer = make_optimizer(pipeline.parameters())
            for step in range(steps):
                loss = pipeline.step(*data)
                optimizer.step()
                expected = eager_step(eager, loss_of, data, eager_optimizer)
                self.assertTrue(agree(torch.tensor(loss), torch.tensor(expected)), f"step {step}: {loss}, {expected}")
            trained = pipeline.state_dict()
            for name, parameter in eager.named_parameters(remove_duplicate=False):
                self.assertTrue(agree(trained[name], parameter), name)
        self.assertFalse(torch.equal(next(eager.parameters()), next(module.parameters())), "it trained")

    def test_equals_eager_torch(self):
        for make in (lambda own: torch.optim.SGD(own, lr=0.1, momentum=0.9), lambda own: torch.optim.AdamW(own, lr=0.01)):
            self.assert_equal_training(self.net, self.file, self.plan, batch(), loss_of, make)

    def test_tied_weights(self):
        """Eager PyTorch adds the gradients of both uses for each micro-batch, the pipeline those of each stage first."""
        torch.manual_seed(0)
        module, file, plan = Tied(), str(self.folder / "tied.pt2"), str(self.folder / "tied.plan.json")
        words, target = torch.randint(11, (BATCH, 5)), torch.randint(11, (BATCH, 5))

        def loss(output, target):
            return nn.functional.cross_entropy(output, target.flatten())

        mptune.export(module, (words, target), file, loss=loss)
        layers = self.layers_of(file)
        write_plan(plan, layers, SAMPLES, cut=layers - 1, devices=DEVICES)
        self.assert_equal_training(module, file, plan, (words, target), lambda own, x, y: loss(own(x), y),
                                   lambda own: torch.optim.SGD(own, lr=0.1), exact=False)
        with mptune.Pipeline(file, plan) as pipeline:
            state = pipeline.state_dict()
            self.assertEqual(set(state), set(module.state_dict()))
            self.assertEqual(state["head.weight"].data_ptr(), state["words.weight"].data_ptr())
            changed = {**state, "head.weight": state["head.weight"] + 1}
            self.refused(["head.weight", "words.weight", "one tensor"], pipeline.load_state_dict, changed)
            changed.pop("words.weight")
            pipeline.load_state_dict(changed)
            self.assertTrue(torch.equal(pipeline.state_dict()["words.weight"], changed["head.weight"]))

    def test_of_a_module_and_back(self):
        module = copy.deepcopy(self.net)
        data = batch()
        with mptune.Pipeline(module, mptune.load_plan(self.plan), inputs=data, loss=nn.functional.cross_entropy) as pipeline:
            optimizers = [torch.optim.Adam(pipeline.parameters(stage), lr=0.05) for stage in range(pipeline.num_stages)]
            losses = []
            for _ in range(10):
                losses.append(pipeline.step(*data))
                for optimizer in optimizers:
                    optimizer.step()
            self.assertLess(losses[-1], losses[0])
            self.assertTrue(all(torch.equal(a, b) for a, b in zip(module.parameters(), self.net.parameters())), "the module is left as it was")
            self.assertEqual(module.load_state_dict(pipeline.state_dict()).missing_keys, [])
            loss, _ = pipeline.evaluate(data[0], data[1])
            after = pipeline.step(*data)
        self.assertLess(after, losses[-1])
        self.assertGreater(loss, 0)

    def test_gradients_replace_the_earlier_ones_or_add_to_them(self):
        pipeline, data = self.pipeline(), batch()
        pipeline.step(*data)
        once = [parameter.grad.clone() for parameter in pipeline.parameters()]
        pipeline.step(*data)
        self.assertTrue(all(torch.equal(a, b.grad) for a, b in zip(once, pipeline.parameters())))
        pipeline.step(*data, accumulate=True)
        self.assertTrue(all(torch.allclose(2 * a, b.grad) for a, b in zip(once, pipeline.parameters())))

    def test_clips_gradients_as_torch_does(self):
        pipeline, data = self.pipeline(), batch()
        pipeline.step(*data)
        copies = [nn.Parameter(parameter.detach().clone()) for parameter in pipeline.parameters()]
        for own, parameter in zip(copies, pipeline.parameters()):
            own.grad = parameter.grad.clone()
        norm = nn.utils.clip_grad_norm_(copies, 0.01).item()
        self.assertAlmostEqual(pipeline.clip_gradients(0.01), norm, places=5)
        for own, parameter in zip(copies, pipeline.parameters()):
            torch.testing.assert_close(own.grad, parameter.grad)

    def test_scaled_gradients(self):
        pipeline, data = self.pipeline(), batch()
        loss = pipeline.step(*data)
        plain = [parameter.grad.clone() for parameter in pipeline.parameters()]
        self.assertEqual(pipeline.loss_scale, 1)
        pipeline.loss_scale = 1024
        self.assertEqual(pipeline.step(*data), loss, "the loss is not scaled")
        self.assertTrue(all(torch.equal(1024 * a, b.grad) for a, b in zip(plain, pipeline.parameters())), "a power of two is exact")
        self.assertTrue(pipeline.unscale_gradients())
        self.assertTrue(all(torch.equal(a, b.grad) for a, b in zip(plain, pipeline.parameters())))
        pipeline.parameters()[0].grad[0, 0] = float("inf")
        self.assertFalse(pipeline.unscale_gradients())

    def test_a_plan_in_bf16(self):
        plan = str(self.folder / "bf16.plan.json")
        about = json.loads(pathlib.Path(self.plan).read_text())
        about["plan"]["options"] = {"precision": "bf16"}
        pathlib.Path(plan).write_text(json.dumps(about))
        data = batch()
        with mptune.Pipeline(self.file, plan) as pipeline:
            loss = pipeline.step(*data)
            self.assertEqual({parameter.dtype for parameter in pipeline.parameters()}, {torch.float32})
        expected = self.pipeline().step(*data)
        self.assertNotEqual(loss, expected)
        self.assertAlmostEqual(loss, expected, places=1)

    def test_a_smaller_last_batch(self):
        data = tuple(tensor[:6] for tensor in batch())
        self.assertGreater(self.pipeline().step(*data), 0)

    def test_callbacks(self):
        pipeline, reports = self.pipeline(), []
        pipeline.on_step(reports.append)
        losses = [pipeline.step(*batch()) for _ in range(3)]
        self.assertEqual([report.loss for report in reports], losses)
        self.assertEqual([report.step for report in reports], [1, 2, 3])
        self.assertTrue(all(report.seconds > 0 for report in reports))
        pipeline.steps = 7
        pipeline.step(*batch())
        self.assertEqual(reports[-1].step, 8)

    def test_other_threads_run_meanwhile(self):
        """With the GIL held, a thread could not count while a step runs."""
        counted, ended = [0], threading.Event()

        def count():
            while not ended.wait(0.001):
                counted[0] += 1

        pipeline = mptune.Pipeline("mlp:layers=6,width=1024", self.large_plan(), seed=1)
        self.addCleanup(pipeline.close)
        data = torch.randn(512, 10), torch.randn(512, 5)
        pipeline.step(*data)
        interval = sys.getswitchinterval()
        self.addCleanup(sys.setswitchinterval, interval)
        thread = threading.Thread(target=count)
        thread.start()
        sys.setswitchinterval(100)  # Python itself takes the GIL from nobody
        for _ in range(5):
            pipeline.step(*data)
        seen = counted[0]
        sys.setswitchinterval(interval)
        ended.set()
        thread.join()
        self.assertGreater(seen, 5)


class States(PipelineTest):
    def test_names_and_order_are_the_modules(self):
        pipeline = self.pipeline()
        self.assertEqual(list(pipeline.state_dict()), list(self.net.state_dict()))
        self.assertEqual([name for name, _ in pipeline.named_parameters()], [name for name, _ in self.net.named_parameters()])
        self.assertEqual([name for name, _ in pipeline.named_buffers()], [name for name, _ in self.net.named_buffers()])
        self.assertEqual(sum(len(pipeline.parameters(stage)) for stage in range(pipeline.num_stages)), len(pipeline.parameters()))

    def test_loads_what_torch_saved(self):
        torch.manual_seed(5)
        other = net()
        path = self.folder / "other.pt"
        torch.save(other.state_dict(), path)
        pipeline = self.pipeline()
        self.assertEqual(pipeline.load_state_dict(torch.load(path)), ([], []))
        parts = zip(*(tensor.chunk(MICROBATCHES) for tensor in batch()))
        expected = sum(loss_of(other, *part).item() / MICROBATCHES for part in parts)
        self.assertAlmostEqual(pipeline.step(*batch()), expected, places=6)

    def test_bad_states_change_nothing(self):
        pipeline, state = self.pipeline(), self.net.state_dict()
        before = {name: value.clone() for name, value in pipeline.state_dict().items()}
        lacking = {name: value + 1 for name, value in state.items() if name != "5.bias"}
        self.refused(["'5.bias' is missing"], pipeline.load_state_dict, lacking)
        self.refused(["'6.bias' is not in the model"], pipeline.load_state_dict, {**state, "6.bias": torch.ones(1)})
        self.refused(["'5.bias' has the shape [3], the model's has [4]"], pipeline.load_state_dict,
                     {**{name: value + 1 for name, value in state.items()}, "5.bias": torch.ones(3)})
        self.assertTrue(all(torch.equal(value, before[name]) for name, value in pipeline.state_dict().items()))
        keys = pipeline.load_state_dict({**lacking, "6.bias": torch.ones(1)}, strict=False)
        self.assertEqual((keys.missing_keys, keys.unexpected_keys), (["5.bias"], ["6.bias"]))
        self.assertTrue(torch.equal(pipeline.state_dict()["0.bias"], state["0.bias"] + 1))

    def test_outputs_have_no_gradients(self):
        file = str(self.folder / "outputs.pt2")
        mptune.export(self.net, (batch()[0],), file)
        plan = str(self.folder / "outputs.plan.json")
        write_plan(plan, self.layers_of(file), SAMPLES, devices=DEVICES)
        with mptune.Pipeline(file, plan, loss="cross_entropy") as pipeline:
            data = torch.randn(3 * BATCH + 1 * SAMPLES, 16)
            output = pipeline.forward(data)
            self.assertEqual((output.shape, output.requires_grad), ((len(data), 4), False))
            loss, same = pipeline.evaluate(*batch())
        self.assertEqual(same.shape, (BATCH, 4))
        self.assertAlmostEqual(loss, nn.functional.cross_entropy(same, batch()[1]).item(), places=5)


    def test_predictions_of_a_program_with_its_loss(self):
        pipeline, (data, target) = self.pipeline(), batch()
        loss, outputs = pipeline.evaluate(data, target)
        self.assertEqual(outputs.shape, (BATCH, 4))
        self.assertAlmostEqual(loss, nn.functional.cross_entropy(outputs, target).item(), places=5)
        self.assertTrue(torch.equal(pipeline.forward(data), outputs))
        self.assertTrue(torch.equal(pipeline.forward((data, target)), outputs))
        self.assertEqual(pipeline.forward(torch.cat([data, data])).shape, (2 * BATCH, 4))

    def test_no_predictions_without_samples_in_dimension_0(self):
        class Turned(nn.Linear):
            def forward(self, data):
                return super().forward(data).t()

        file, plan = str(self.folder / "turned.pt2"), str(self.folder / "turned.plan.json")
        data = torch.randn(BATCH, 3), torch.randn(BATCH, 3)
        module = nn.Sequential(nn.Linear(3, 3), Turned(3, 3))
        mptune.export(module, data, file, loss=lambda output, target: (output.t() - target).square().mean())
        write_plan(plan, self.layers_of(file), SAMPLES, devices=DEVICES)
        with mptune.Pipeline(file, plan) as pipeline:
            self.refused(["no predictions"], pipeline.forward, data[0])
            self.assertGreater(pipeline.evaluate(*data)[0], 0)

    def test_a_module_whose_batch_norms_are_frozen(self):
        module, file, plan = net(), str(self.folder / "frozen.pt2"), str(self.folder / "frozen.plan.json")
        module[4].eval()
        data = batch()
        mptune.export(module, data, file, loss=nn.functional.cross_entropy)
        write_plan(plan, self.layers_of(file), SAMPLES, devices=DEVICES)
        with mptune.Pipeline(file, plan) as pipeline:
            expected = loss_of(module, *data).item()
            self.assertAlmostEqual(pipeline.step(*data), expected, places=5)
            self.assertTrue(torch.equal(pipeline.state_dict()["4.running_mean"], torch.zeros(32)), "frozen")


if __name__ == "__main__":
    unittest.main()
