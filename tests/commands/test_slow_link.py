"""Ranks in two network namespaces, with 100 MB/s and 1 ms between them: the link is measured, planned with, and avoided."""
import json
import os
import subprocess
import unittest

from harness import PROGRAM, CommandTest, left_processes
from slow_link import ADDRESSES, INTERFACES, SlowLink, Unavailable

CORES = sorted(os.sched_getaffinity(0))[:2]
BYTES_PER_SECOND, DELAY_S = 100e6, 0.001
# Activations of 4 MiB a batch: 40 ms over the link, hardly 1 ms without it.
MODEL = ["transformer:d=128,layers=4,heads=4,seq=64,vocab=100", "--batch", "128"]


@unittest.skipIf(len(CORES) < 2, "needs two cores")
class TwoHosts(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.link = SlowLink(BYTES_PER_SECOND, DELAY_S)
        try:
            cls.link.__enter__()
        except Unavailable as absent:
            raise unittest.SkipTest(str(absent)) from None
        cls.addClassCleanup(cls.link.__exit__)

    def of_rank(self, rank, *command):
        environment = self.environment(MPTUNE_WORKER=os.environ["MPTUNE_REAL_WORKER"], MPTUNE_TEST_MARKER=self.folder, RANK=str(rank), WORLD_SIZE="2",
                                       MASTER_ADDR=ADDRESSES[0], MASTER_PORT="29517", GLOO_SOCKET_IFNAME=INTERFACES[rank])
        return subprocess.Popen([PROGRAM, "--json", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder, env=environment,
                                preexec_fn=self.link.enter(rank))

    def over_link(self, *command, codes=(0,)):
        """Rank 0's result."""
        devices = ["--devices", ",".join(f"{rank}@cpu:{core}" for rank, core in enumerate(CORES))]
        ranks = [self.of_rank(rank, *command, *devices) for rank in (0, 1)]
        ended = [rank.communicate(timeout=200) for rank in ranks]
        for rank, (_, errors) in zip(ranks, ended):
            self.assertIn(rank.returncode, codes, errors)
        self.assertEqual(left_processes(self.folder), [])
        return json.loads(ended[0][0])

    def test_profile(self):
        result = self.over_link("profile", *MODEL, "--microbatches", "4", "--steps", "5", "-o", "link.sqlite")
        print(json.dumps(result["links"]), result["clock_error_s"], result.get("predicted"), result.keys())


if __name__ == "__main__":
    unittest.main()
