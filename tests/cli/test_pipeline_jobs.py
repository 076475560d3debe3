import csv
import json
import os

import jsonschema
import pipeline_job
from harness import CommandTest, schema


class PipelineJobs(CommandTest):
    """Recordings of pipelines that never heard of mptune: ranges or functions of the program give stage and micro-batch."""

    def imported(self, naming, **shape):
        files = []
        for rank, text in enumerate(pipeline_job.traces(naming, **shape)):
            files.append(f"rank{rank}.json")
            with open(os.path.join(self.folder, files[-1]), "w") as file:
                file.write(text)
        done = self.mptune("--json", "import", *files, "-o", "job.sqlite", "--force")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        value = json.loads(done.stdout)
        jsonschema.validate(value, schema("import"))
        return value

    def check_tags(self):
        """Kind, stage and micro-batch of every computation are those in its name."""
        self.succeed("export", "job.sqlite", "--to", "csv", "-o", "job.csv", "--force")
        with open(os.path.join(self.folder, "job.csv"), newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["name"].startswith("gemm")]
        self.assertTrue(rows)
        for row in rows:
            kind = {"forward": "F", "backward": "B"}.get(row["what"], row["what"])
            self.assertEqual(f"gemm {kind} {row['stage']} {row['microbatch']}", row["name"])

    def test_every_naming_tells_bubble_and_exposed_communication(self):
        ranks, microbatches = 4, 8
        for naming in pipeline_job.NAMES:
            with self.subTest(naming=naming):
                value = self.imported(naming, ranks=ranks, microbatches=microbatches)
                self.check_tags()
                self.assertEqual(sum(rank["without_counterpart"] for rank in value["ranks"]), 0)
                busy_s = microbatches * (pipeline_job.FORWARD_US + pipeline_job.BACKWARD_US) * 1e-6
                for device in value["devices"]:
                    self.assertAlmostEqual(device["idle"]["structural"], busy_s * (ranks - 1) / microbatches, delta=0.02 * busy_s)
                    self.assertAlmostEqual(device["compute_s"] + device["overlap_s"], busy_s, delta=1e-3 * busy_s)
                self.assertGreater(sum(device["idle"]["copy_wait"] + device["copy_s"] for device in value["devices"]), 0)

    def test_a_long_stage_is_an_imbalance(self):
        for naming in pipeline_job.NAMES:
            with self.subTest(naming=naming):
                value = self.imported(naming, slow=1.5)
                self.assertEqual((value["advice"][0]["cause"], value["advice"][0]["stage"]), ("imbalance", 3))
                self.assertGreater(value["devices"][0]["idle"]["imbalance"], 0.2 * value["step_s"])

    def test_interleaved_schedules_have_their_virtual_stages(self):
        for naming in ("titan", "megatron", "schedules.py"):
            for ranks, chunks, microbatches in ((4, 2, 8), (2, 3, 6)):
                with self.subTest(naming=naming, chunks=chunks):
                    self.imported(naming, ranks=ranks, chunks=chunks, microbatches=microbatches)
                    self.check_tags()
