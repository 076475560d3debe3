"""Ranks in two network namespaces, with 100 MB/s and 1 ms between them: the link is measured, planned with, and avoided."""
import json
import os
import subprocess
import unittest

from harness import PROGRAM, CommandTest, left_processes, patience
from slow_link import ADDRESSES, INTERFACES, SlowLink, Unavailable

CORES = sorted(os.sched_getaffinity(0))[:2]
BYTES_PER_SECOND, DELAY_S = 100e6, 0.001
# Cut anywhere or trained twice, it sends 2 MiB a step: 20 ms over the link, as long as a step on one device takes.
MODEL = ["mlp:layers=6,width=256", "--batch", "1024"]
DEVICES = ["--devices", ",".join(f"{rank}@cpu:{core}" for rank, core in enumerate(CORES))]


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

    def environment(self, **more):
        return super().environment(**{"MPTUNE_WORKER": os.environ["MPTUNE_REAL_WORKER"], "MPTUNE_TEST_MARKER": self.folder, **more})

    def of_rank(self, rank, *command):
        environment = self.environment(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR=ADDRESSES[0], MASTER_PORT="29517", GLOO_SOCKET_IFNAME=INTERFACES[rank])
        return subprocess.Popen([PROGRAM, "--json", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder, env=environment,
                                preexec_fn=self.link.enter(rank))

    def over_link(self, *command, codes=(0,)):
        """Rank 0's result."""
        ranks = [self.of_rank(rank, *command, *DEVICES) for rank in (0, 1)]
        ended = [rank.communicate(timeout=patience(200)) for rank in ranks]
        for rank, (_, errors) in zip(ranks, ended):
            self.assertIn(rank.returncode, codes, errors)
        self.assertEqual(left_processes(self.folder), [])
        return json.loads(ended[0][0])

    def test_the_link_is_measured_and_planned_with(self):
        """Nothing is faster than the link's delay; how much slower, by the programs at both ends, is the machine's business."""
        result = self.over_link("profile", *MODEL, "--steps", "2", "-o", "link.sqlite")
        self.assertEqual(len(result["links"]), 2)
        for link in result["links"]:
            self.assertGreater(link["latency_s"], DELAY_S)
            self.assertLess(link["latency_s"], 3 * DELAY_S)
            self.assertGreater(link["bytes_per_second"], 0.6 * BYTES_PER_SECOND)
            self.assertLess(link["bytes_per_second"], 1.4 * BYTES_PER_SECOND)
        self.assertGreater(result["clock_error_s"], DELAY_S, "half of the way there and back")
        self.assertLess(result["clock_error_s"], 3 * DELAY_S)
        slow, fast = (self.result("plan-result", "plan", "link.sqlite", *link, "-o", name)["plan"]["devices"]
                      for name, link in (("slow.plan.json", []), ("fast.plan.json", ["--link", "10GB/s,10us"])))
        self.assertEqual((len(slow), len(fast)), (1, 2), "the same layers, with and without the slow link")

    def test_tune_avoids_the_link(self):
        plan = self.over_link("tune", *MODEL, "--budget", "15s", "-o", "slow.study", codes=(0, 5))["recommended"]["plan"]
        self.assertEqual(len(plan["devices"]), 1, plan)


if __name__ == "__main__":
    unittest.main()
