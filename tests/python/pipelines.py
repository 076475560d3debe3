"""A small network, its exported program and a plan for it on two cores: what the tests of mptune.Pipeline begin with."""
import os
import pathlib
import tempfile
import unittest

import mptune
import torch
from plans import MICROBATCHES, write_plan
from torch import nn

CORES = sorted(os.sched_getaffinity(0))[:2]
DEVICES = tuple(f"cpu:{core}" for core in CORES)
SAMPLES = 4
BATCH = SAMPLES * MICROBATCHES


def net():
    return nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 32), nn.ReLU(), nn.BatchNorm1d(32), nn.Linear(32, 4))


def batch(seed=1):
    torch.manual_seed(seed)
    return torch.randn(BATCH, 16), torch.randint(4, (BATCH,))


def loss_of(module, data, target):
    return nn.functional.cross_entropy(module(data), target)


@unittest.skipIf(len(CORES) < 2, "needs two cores")
class PipelineTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        folder = tempfile.TemporaryDirectory(prefix="mptune-pipeline-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        torch.manual_seed(0)
        cls.net = net()
        cls.file, cls.plan = str(cls.folder / "net.pt2"), str(cls.folder / "net.plan.json")
        mptune.export(cls.net, batch(), cls.file, loss=nn.functional.cross_entropy)
        cls.layers = cls.layers_of(cls.file)
        write_plan(cls.plan, cls.layers, SAMPLES, devices=DEVICES)

    @staticmethod
    def layers_of(file):
        return len(mptune.models(file, progress=False).models[0].layers)

    def large_plan(self):
        path = str(self.folder / "large.plan.json")
        write_plan(path, self.layers_of("mlp:layers=6,width=1024"), 512 // MICROBATCHES, devices=DEVICES)
        return path

    def pipeline(self, **options):
        made = mptune.Pipeline(self.file, self.plan, **options)
        self.addCleanup(made.close)
        return made

    def refused(self, words, call, *arguments, **options):
        with self.assertRaises(mptune.Error) as caught:
            call(*arguments, **options)
        for word in words:
            self.assertIn(word, str(caught.exception))
        self.assertTrue(caught.exception.what and caught.exception.where and caught.exception.remedy)
        return caught.exception
