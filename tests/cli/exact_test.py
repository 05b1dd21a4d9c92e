"""Runs are exact: whatever the workers, the cut of the batch, a kill or a signal."""

import os
import random
import signal
import unittest

from support import TrainerTest, checkpoints, curve, kill, losses, wait_until, weights

# CI kills at a few moments; TRAINER_KILLS=20 is the full measure.
KILLS = int(os.environ.get("TRAINER_KILLS", "6"))


class Exact(TrainerTest):
    def test_workers_and_prefetch_do_not_change_the_run(self):
        config = self.config()
        self.train(config, self.folder / "w0", "--set", "data.loader.workers=0")
        for workers, prefetch in ((1, 4), (3, 1), (8, 7)):
            run = self.folder / f"w{workers}"
            self.train(config, run, "--set", f"data.loader.workers={workers}", "--set",
                       f"data.loader.prefetch={prefetch}")
            self.assert_same_run(run, self.folder / "w0")

    def test_logging_does_not_change_the_run(self):
        config = self.config()
        self.train(config, self.folder / "every")
        self.train(config, self.folder / "rare", "--set", "log.every=1000 steps", "--set",
                   "log.tensorboard=false", "--set", "log.csv=false")
        self.assertEqual(weights(self.folder / "rare"), weights(self.folder / "every"))

    def test_micro_batches_give_the_loss_of_the_whole(self):
        # No dropout: its draws depend on the cut. 1e-5 relative: 64 float32 terms summed in another
        # order, over 50 updates.
        config = self.config()
        fixed = ["--set", "model.dropout=0", "--set", "train.length=50 steps", "--set",
                 "checkpoint.every=null"]
        self.train(config, self.folder / "m64", *fixed, "--set", "batch.micro=64")
        whole = losses(self.folder / "m64")
        self.assertEqual(len(whole), 50)
        for micro in (16, 8, 24):
            run = self.folder / f"m{micro}"
            self.train(config, run, *fixed, "--set", f"batch.micro={micro}")
            for step, (cut, uncut) in enumerate(zip(losses(run), whole, strict=True)):
                self.assertLessEqual(abs(cut - uncut), 1e-5 * abs(uncut), f"micro {micro}, {step}")

    def test_killed_at_any_moment_and_resumed(self):
        config = self.config()
        reference = self.folder / "reference"
        self.train(config, reference)
        random.seed(1)
        run = self.folder / "killed"
        inside_a_write = 0
        for kill_number in range(KILLS):
            process = self.start(config, run, "--resume", "auto", "--set", "checkpoint.every=1 steps")
            target = random.randrange(1, 4)
            seen = len(curve_lines(run))
            if kill_number % 2:
                # Inside a checkpoint's write: its temporary folder is there.
                wait_until(lambda: list(run.glob("checkpoints/.tmp-*")) or process.poll() is not None)
            else:
                wait_until(lambda: len(curve_lines(run)) >= seen + target
                           or process.poll() is not None)
            kill(process)
            inside_a_write += bool(list(run.glob("checkpoints/.tmp-*")))
        self.train(config, run, "--resume", "auto", "--set", "checkpoint.every=1 steps")
        self.assert_same_run(run, reference)
        print(f"killed {KILLS} times, {inside_a_write} of them inside a checkpoint's write",
              flush=True)

    def test_sigterm_saves_and_resumes(self):
        config = self.config()
        self.train(config, self.folder / "reference")
        run = self.folder / "stopped"
        process = self.start(config, run, "--set", "checkpoint.every=null")
        self.assertTrue(wait_until(lambda: len(curve_lines(run)) >= 3))
        self.assertEqual(kill(process, signal.SIGTERM), 143)
        self.assertTrue(checkpoints(run), "it saved before it stopped")
        self.assertIn('"stopped"', (run / "summary.json").read_text())
        self.train(config, run, "--resume", "auto")
        self.assert_same_run(run, self.folder / "reference")

    def test_sigint_ends_with_130(self):
        run = self.folder / "stopped"
        process = self.start(self.config(), run, "--set", "train.length=100000 steps")
        self.assertTrue(wait_until(lambda: len(curve_lines(run)) >= 1))
        self.assertEqual(kill(process, signal.SIGINT), 130)
        self.assertTrue(checkpoints(run))

    def test_resume_auto_starts_where_there_is_nothing_and_ends_where_all_is_done(self):
        config = self.config()
        run = self.folder / "run"
        self.train(config, run, "--resume", "auto")
        before = curve(run)
        self.train(config, run, "--resume", "auto")
        self.assertEqual(curve(run), before)

    def test_another_batch_cut_and_worker_count_resume(self):
        config = self.config()
        run = self.folder / "run"
        self.train(config, run, "--set", "train.length=10 steps", "--set", "schedule.length=40 steps")
        self.train(config, run, "--resume", "auto", "--set", "batch.micro=16", "--set",
                   "data.loader.workers=3")
        self.assertEqual([record["step"] for record in curve(run) if "loss" in record],
                         list(range(1, 41)))


def curve_lines(run):
    try:
        return (run / "metrics.jsonl").read_bytes().splitlines()
    except FileNotFoundError:
        return []


if __name__ == "__main__":
    unittest.main(verbosity=2)
