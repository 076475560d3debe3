"""What mptune.Pipeline says to bad input and to a wrong use. Needs the package as it is built, and torch."""
import copy
import json
import os
import pathlib
import pickle
import subprocess
import sys
import threading
import unittest

import mptune
import torch
from pipelines import BATCH, DEVICES, SAMPLES, PipelineTest, batch, loss_of
from plans import write_plan
from torch import nn


class BadInput(PipelineTest):
    def test_batches(self):
        pipeline, (data, target) = self.pipeline(), batch()
        self.refused(["Double", "Float", "input 0", ".to()"], pipeline.step, data.double(), target)
        self.refused(["16"], pipeline.step, data[:, :3], target)
        self.refused(["3 samples"], pipeline.step, data[:3], target)
        self.refused(["3 inputs", "takes 2"], pipeline.step, (data, data, data), target)
        self.refused([f"{2 * BATCH} samples"], pipeline.step, torch.cat([data, data]), torch.cat([target, target]))
        self.refused(["0 samples"], pipeline.step, data[:0], target[:0])
        error = self.refused(["out of bounds", "stage 1", "layer"], pipeline.step, data, target + 100)
        self.assertIn("micro-batch", error.where)
        self.assertIn(f"batch={2 * BATCH}", self.refused([], pipeline.step, torch.cat([data, data]), torch.cat([target, target])).remedy)
        for values in ([[1.0, 2.0]], 5, "text", None):
            self.refused(["no tensor", "input 0"], pipeline.step, values, target)
        for call in (lambda: pipeline.step(data.numpy(), target), lambda: pipeline.step((data.numpy(),), target),
                     lambda: pipeline.step(data, target.numpy()), lambda: pipeline.evaluate(data, target.numpy()),
                     lambda: pipeline.forward(data.numpy())):
            self.refused(["NumPy", "torch.from_numpy"], call)
        self.assertGreater(pipeline.step(data, target), 0, "it goes on")

    def test_models_and_plans(self):
        self.refused(["net.missing.pt2"], mptune.Pipeline, "net.missing.pt2", self.plan)
        self.refused(["missing.plan.json"], mptune.Pipeline, self.file, "missing.plan.json")
        self.refused(["inputs="], mptune.Pipeline, self.net, self.plan)
        self.refused(["nn.Module"], mptune.Pipeline, self.file, self.plan, loss=nn.functional.cross_entropy)
        self.refused(["another model"], self.pipeline, strict=True)
        wrong = str(self.folder / "wrong.plan.json")
        write_plan(wrong, self.layers + 5, SAMPLES, devices=DEVICES)
        self.refused(["layers"], mptune.Pipeline, self.file, wrong)
        for text in ("", "{", '{"schema": "mptune.plan/99"}', json.dumps([1])):
            pathlib.Path(wrong).write_text(text)
            self.refused(["wrong.plan.json"], mptune.Pipeline, self.file, wrong)

    def test_a_module_that_cannot_be_exported(self):
        class Branch(nn.Linear):
            def forward(self, data):
                return super().forward(data * 2 if data.sum() > 0 else data)

        self.refused(["torch.cond"], mptune.Pipeline, Branch(3, 3), self.plan, inputs=(torch.randn(4, 3),))

    def test_a_copy(self):
        pipeline = self.pipeline()
        for call in (copy.copy, copy.deepcopy, pickle.dumps):
            self.refused(["copied or pickled", "state_dict()"], call, pipeline)

    def test_inputs_of_numpy(self):
        arrays = tuple(tensor.numpy() for tensor in batch())
        self.refused(["NumPy", "torch.from_numpy"], mptune.Pipeline, self.net, self.plan, inputs=arrays, loss=nn.functional.cross_entropy)

    def test_stages(self):
        for stage in (-1, 2):
            self.refused([f"no stage {stage}", "0 to 1"], self.pipeline().parameters, stage)

    def test_an_optimizer_of_the_module_itself(self):
        module = copy.deepcopy(self.net)
        with mptune.Pipeline(module, self.plan, inputs=batch(), loss=nn.functional.cross_entropy) as pipeline:
            optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
            pipeline.step(*batch())
            self.refused(["SGD", "pipeline.parameters()"], optimizer.step)
            loss_of(module, *batch()).backward()
            optimizer.step()  # trained by itself, which is the caller's business

    def test_after_close(self):
        pipeline = self.pipeline()
        pipeline.close()
        pipeline.close()
        for call in (lambda: pipeline.step(*batch()), pipeline.parameters, pipeline.state_dict, lambda: pipeline.num_stages):
            self.refused(["closed", "make another"], call)

    def test_two_threads_at_once(self):
        pipeline = mptune.Pipeline("mlp:layers=6,width=1024", self.large_plan(), seed=1)
        data = torch.randn(512, 10), torch.randn(512, 5)
        thread = threading.Thread(target=lambda: [pipeline.step(*data) for _ in range(5)])
        thread.start()
        refused = None
        while thread.is_alive() and refused is None:
            try:
                _ = pipeline.num_stages
            except mptune.Error as error:
                refused = error
        thread.join()
        pipeline.close()
        self.assertIn("another thread", str(refused))

    def test_after_fork(self):
        pipeline = self.pipeline()
        pipeline.step(*batch())
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                pipeline.step(*batch())
            except mptune.Error as error:
                os.write(write, str(error).encode())
            del pipeline
            os._exit(0)
        os.close(write)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        said = os.read(read, 1000).decode()
        os.close(read)
        self.assertIn("forked", said)
        self.assertIn("spawn", said)
        self.assertGreater(pipeline.step(*batch()), 0)

    def test_another_torch(self):
        """In a process of its own: the runtime is loaded once."""
        script = "import mptune, torch; torch.__version__ = '2.9.1+cpu'; mptune.Pipeline('mlp', 'none')"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        self.assertIn(f"mptune was built for torch {torch.__version__.split('+')[0]}", done.stderr)
        self.assertIn("pip install torch==", done.stderr)

    def test_errors_are_pickled(self):
        error = self.refused([], self.pipeline().parameters, 9)
        self.assertEqual(str(pickle.loads(pickle.dumps(error))), str(error))


if __name__ == "__main__":
    unittest.main()
