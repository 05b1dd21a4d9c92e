"""What goes wrong says so: one clear message, its exit code, and nothing lost."""

import os
import shutil
import subprocess
import time
import unittest

from support import ROOT, TRAINER, TrainerTest, checkpoints, curve, losses, records, weights

TWELVE_MISTAKES = """\
name: [1]
seed: -4
devise: cpu
model: {kind: resnet19}
data:
  train: {kind: digits, transforms: [{normalise: digits}]}
  loader: {workers: many}
batch: {global: 0}
precision: {mode: fp61}
optim: {kind: adamw, lrr: 1e-3, weight_decay: yes}
train: {length: 30}
log: {every: 1 stpes}
"""
# line:column of each, in the order of the file: of the value, or of the key where the value is a
# list or a map
PLACES = ["1:1", "2:7", "3:1", "4:15", "6:39", "7:21", "8:17", "9:19", "10:22", "10:47", "11:17",
          "12:14"]


class Configuration(TrainerTest):
    def test_twelve_mistakes_give_twelve_errors_at_their_places(self):
        config = self.config(TWELVE_MISTAKES)
        begin = time.monotonic()
        result = self.trainer("--config", config)
        elapsed = time.monotonic() - begin
        self.assertEqual(result.returncode, 3, result.stderr)
        lines = [line for line in result.stderr.splitlines() if ".yaml:" in line
                 and "errors" not in line]
        places = [line.split(".yaml:")[1].split(": ")[0] for line in lines]
        self.assertEqual(places, PLACES, result.stderr)
        self.assertIn("12 errors", result.stderr)
        print(f"12 mistakes reported in {1000 * elapsed:.0f} ms", flush=True)

    def test_torch_is_not_loaded_for_a_bad_file(self):
        config = self.config(TWELVE_MISTAKES)
        result = subprocess.run([TRAINER, "--config", str(config)], capture_output=True, text=True,
                                env={**os.environ, "LD_DEBUG": "files"})
        self.assertEqual(result.returncode, 3)
        self.assertNotIn("libtorch", result.stderr)
        self.assertNotIn("libcuda", result.stderr)

    def test_overrides_are_named_as_typed(self):
        result = self.trainer("--config", self.config(), "--set", "optim.lrr=1")
        self.assertEqual(result.returncode, 3)
        self.assertIn("--set optim.lrr=1", result.stderr)
        self.assertIn('did you mean "lr"', result.stderr)

    def test_every_config_of_the_project_is_good(self):
        files = sorted((ROOT / "configs").glob("*.yaml"))
        self.assertGreaterEqual(len(files), 4)
        for file in files:
            result = self.trainer("config", "check", file)
            self.assertEqual(result.returncode, 0, result.stderr)
            printed = self.trainer("config", "print", file).stdout
            again = self.config(printed, "again.yaml")
            self.assertEqual(self.trainer("config", "print", again).stdout, printed)


class CommandLine(TrainerTest):
    def test_unknown_options_and_commands_end_with_2(self):
        for arguments, message in (
                (["--confg", "x.yaml"], "unknown option --confg; did you mean --config?"),
                (["trian"], "unknown command trian; did you mean train?"),
                (["config", "chek", "x.yaml"], "unknown command chek; did you mean check?"),
                (["config", "check"], "See `trainer config check --help`"),
                (["train", "--config", "x.yaml", "--set"], "--set"),
                ([], "Exit codes")):
            result = self.trainer(*arguments)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(message, result.stderr)

    def test_help_has_exit_codes_and_examples(self):
        result = self.trainer("--help")
        self.assertEqual(result.returncode, 0)
        for word in ("Exit codes", "143", "Example"):
            self.assertIn(word, result.stdout)
        for command in (["train"], ["config"], ["config", "check"], ["config", "print"],
                        ["config", "schema"], ["config", "reference"]):
            self.assertIn("Example", self.trainer(*command, "--help").stdout)

    def test_an_output_that_holds_a_run_is_refused(self):
        config = self.config()
        run = self.folder / "run"
        self.train(config, run, "--set", "train.length=3 steps")
        before = curve(run)
        result = self.train(config, run, expect=2)
        self.assertIn("--resume", result.stderr)
        self.assertEqual(curve(run), before)

    def test_dry_run_writes_nothing(self):
        result = self.trainer("--config", self.config(), "--dry-run")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("step time", result.stdout)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["exp.yaml"])


@unittest.skipIf(shutil.which("nvidia-smi"), "this machine has a GPU: these are about having none")
class WithoutGpu(TrainerTest):
    def config_auto(self):
        return self.config(self.config().read_text().replace("device: cpu", "device: auto"))

    def test_the_first_line_says_cpu_and_why(self):
        result = self.train(self.config_auto(), self.folder / "run", "--set", "train.length=3 steps")
        first = result.stderr.splitlines()[0]
        self.assertIn("training on the CPU", first)
        self.assertIn("no NVIDIA driver", first)

    def test_require_gpu_ends_with_5_and_the_cure(self):
        result = self.train(self.config_auto(), self.folder / "run", "--set", "require_gpu=true",
                            expect=5)
        self.assertIn("Install NVIDIA's driver", result.stderr)
        result = self.train(self.config_auto(), self.folder / "run", "--set", "device=cuda", expect=5)
        self.assertIn("device: cuda", result.stderr)


class Data(TrainerTest):
    def test_a_missing_folder_ends_with_4_and_names_it(self):
        config = self.config(self.config().read_text().replace(
            "train: {kind: digits,", "train: {kind: image_folder, channels: 1, path: nowhere/at/all,"))
        result = self.train(config, self.folder / "run", expect=4)
        self.assertIn("nowhere/at/all", result.stderr)

    def image_folders(self):
        """Folders train and val of two classes, and an experiment on them."""
        try:
            from PIL import Image
        except ImportError:
            self.skipTest("needs Pillow to write JPEG files")
        for split, count in (("train", 40), ("val", 4)):
            for label in ("a", "b"):
                folder = self.folder / split / label
                folder.mkdir(parents=True)
                for i in range(count):
                    Image.new("RGB", (16, 16), (6 * i, 80, 200)).save(folder / f"{i:03}.jpg")
        return self.config(f"""
name: broken
device: cpu
model: {{kind: mlp, hidden: [8]}}
data:
  train: {{kind: image_folder, path: {self.folder}/train}}
  val: {{kind: image_folder, path: {self.folder}/val}}
batch: {{global: 4}}
optim: {{kind: sgd, lr: 0.01, ema: 0.9}}
train: {{length: 1 epochs, evaluate_every: 5 steps}}
checkpoint: {{every: null}}
""")

    def test_validation_images_of_another_size_are_refused_before_training(self):
        config = self.image_folders()
        text = config.read_text().replace(f"path: {self.folder}/val",
                                          f"path: {self.folder}/val, transforms: [center_crop: 8]")
        result = self.train(self.config(text), self.folder / "run", expect=3)
        self.assertIn("data.val gives images of 8x8 with 3 channels", result.stderr)
        self.assertIn("data.train's 16x16", result.stderr)
        self.assertFalse((self.folder / "run").exists())

    def test_a_truncated_image_in_the_middle_saves_what_is_done(self):
        config = self.image_folders()
        run = self.folder / "run"
        bad = self.folder / "train/b/020.jpg"
        whole = bad.read_bytes()
        bad.write_bytes(whole[:-200])
        result = self.train(config, run, expect=4)
        self.assertIn("020.jpg", result.stderr)
        done = len(losses(run))
        self.assertEqual(checkpoints(run)[-1].name, f"step-{done:06}")
        bad.write_bytes(whole)
        self.train(config, run, "--resume", "auto")
        self.assertEqual(len(losses(run)), 20)

    def test_a_bad_image_of_an_evaluation_saves_what_is_done(self):
        config = self.image_folders()
        run = self.folder / "run"
        bad = self.folder / "val/b/003.jpg"
        whole = bad.read_bytes()
        bad.write_bytes(b"")
        result = self.train(config, run, expect=4)
        self.assertIn("003.jpg", result.stderr)
        self.assertEqual(checkpoints(run)[-1].name, "step-000005")
        # Repaired, the resumed run evaluates that step first, and equals one that never failed.
        bad.write_bytes(whole)
        self.train(config, run, "--resume", "auto")
        self.train(config, self.folder / "reference")
        self.assertEqual(curve(run), curve(self.folder / "reference"))
        self.assertEqual(weights(run), weights(self.folder / "reference"))


class Numbers(TrainerTest):
    def test_a_loss_that_is_not_finite_ends_with_7_and_a_usable_checkpoint(self):
        config = self.config()
        run = self.folder / "run"
        explode = ["--set", "optim={kind: sgd, lr: 1000, momentum: 0.99}", "--set", "schedule={kind: constant}"]
        result = self.train(config, run, *explode, expect=7)
        self.assertIn("not finite in step", result.stderr)
        last = records(run)[-1]
        self.assertIn(last["loss"], ("nan", "inf"))
        self.assertEqual(checkpoints(run)[-1].name, f"step-{last['step'] - 1:06}")
        # Usable: the same step fails again from it, and another setting goes on.
        self.train(config, run, *explode, "--resume", "auto", expect=7)
        self.train(config, run, "--resume", "auto", "--set", "optim={kind: sgd, lr: 1e-30, momentum: 0.99}", "--set",
                   "train.on_nonfinite=skip", "--set", "train.length=5 steps", expect=0)


class Checkpoints(TrainerTest):
    def spoil_and_resume(self, spoil):
        config = self.config()
        reference = self.folder / "reference"
        self.train(config, reference)
        run = self.folder / "run"
        self.train(config, run, "--set", "train.length=20 steps", "--set", "schedule.length=40 steps")
        newest = checkpoints(run)[-1]
        spoil(newest)
        result = self.train(config, run, "--resume", "auto")
        self.assertIn("warning", result.stderr)
        self.assertIn(newest.name, result.stderr)
        self.assert_same_run(run, reference)

    def test_a_truncated_newest_checkpoint_falls_back(self):
        def truncate(folder):
            file = folder / "optim.safetensors"
            file.write_bytes(file.read_bytes()[:-100])
        self.spoil_and_resume(truncate)

    def test_a_flipped_bit_falls_back(self):
        def flip(folder):
            file = folder / "model.safetensors"
            content = bytearray(file.read_bytes())
            content[len(content) // 2] ^= 1
            file.write_bytes(content)
        self.spoil_and_resume(flip)

    def test_a_full_disk_ends_with_9_and_keeps_the_previous_checkpoint(self):
        disk = self.folder / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=760k", "tmpfs", disk],
                          capture_output=True).returncode != 0:
            self.skipTest("needs the right to mount a small tmpfs")
        self.addCleanup(subprocess.run, ["umount", "-l", str(disk)])
        config = self.config()
        run = disk / "run"
        result = self.train(config, run, "--set", "checkpoint.keep=100", "--set",
                            "log.tensorboard=false", "--set", "model.hidden=[128]", expect=9)
        self.assertIn(str(run / "checkpoints"), result.stderr)
        self.assertRegex(result.stderr, "[0-9.]+ [KM]iB")
        kept = checkpoints(run)
        self.assertTrue(kept)
        # The previous checkpoint loads, once there is room again.
        subprocess.run(["mount", "-o", "remount,size=20m", disk], check=True)
        self.train(config, run, "--resume", "auto", "--set", "checkpoint.keep=100", "--set",
                   "log.tensorboard=false", "--set", "model.hidden=[128]")
        self.assertEqual(len(losses(run)), 40)

    def test_no_permission_ends_with_9(self):
        if os.geteuid() == 0:
            blocked = "/proc/run"  # root may write nearly anywhere else
        else:
            blocked = "/nowhere"
        result = self.train(self.config(), blocked, expect=9)
        self.assertIn(blocked, result.stderr)

    def test_a_changed_batch_is_refused_unless_allowed(self):
        config = self.config()
        run = self.folder / "run"
        self.train(config, run, "--set", "train.length=5 steps")
        result = self.train(config, run, "--resume", "auto", "--set", "batch.global=32", expect=3)
        self.assertIn("batch.global: 64 in the checkpoint, 32 now", result.stderr)
        self.train(config, run, "--resume", "auto", "--set", "batch.global=32", "--allow-changes")

    def test_another_architecture_names_the_keys(self):
        config = self.config()
        run = self.folder / "run"
        self.train(config, run, "--set", "train.length=5 steps")
        result = self.train(config, run, "--resume", "auto", "--set", "model.hidden=[16]", expect=9)
        self.assertIn("layers.0.weight", result.stderr)
        self.assertIn("32", result.stderr)
        self.assertIn("16", result.stderr)

    def test_resuming_from_what_is_no_run_changes_nothing(self):
        other = self.folder / "other"
        other.mkdir()
        result = self.trainer("--config", self.config(), "--resume", other)
        self.assertEqual(result.returncode, 9)
        self.assertIn("no run and no checkpoint", result.stderr)
        self.assertEqual(list(other.iterdir()), [])

    def test_a_single_checkpoint_starts_a_run_of_its_own(self):
        config = self.config()
        run = self.folder / "run"
        self.train(config, run)
        self.train(config, self.folder / "other", "--resume", checkpoints(run)[0])
        self.assertEqual(weights(self.folder / "other"), weights(run))


if __name__ == "__main__":
    unittest.main(verbosity=2)
