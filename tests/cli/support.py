"""What the command line tests share: the binary, small experiments, and how runs are compared.

The binary is $TRAINER, or build/release/bin/trainer of this checkout.
"""

import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAINER = os.environ.get("TRAINER", str(ROOT / "build/release/bin/trainer"))

# An MLP with dropout, momentum and EMA on the embedded digits: every kind of state that a resumed
# run must bring back. 40 steps are nearly two epochs.
SMALL = """
name: small
seed: 3
device: {device}
deterministic: true
model: {model}
data:
  train: {{kind: digits, transforms: [{{random_crop: {{size: 8, padding: 1}}}}, horizontal_flip, {{normalize: digits}}]}}
  val: {{kind: digits, split: test, transforms: [{{normalize: digits}}]}}
  loader: {{workers: 1}}
batch: {{global: 64}}
optim: {{kind: adamw, lr: 2e-3, clip_norm: 1.0, ema: 0.9}}
schedule: {{kind: cosine, warmup: 2 steps}}
train: {{length: 40 steps, evaluate_every: 13 steps}}
checkpoint: {{every: 5 steps, keep: 3, best: {{metric: val/accuracy, mode: max}}}}
log: {{console: quiet, csv: true}}
"""

# On a GPU machine: TRAINER_TEST_DEVICE=cuda, and for batch norm's state also
# TRAINER_TEST_MODEL="{kind: resnet18, stem: cifar}".
DEVICE = os.environ.get("TRAINER_TEST_DEVICE", "cpu")
MODEL = os.environ.get("TRAINER_TEST_MODEL", "{kind: mlp, hidden: [32], dropout: 0.2}")


class TrainerTest(unittest.TestCase):
    """A test with a folder of its own."""

    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainer-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def config(self, text=None, name="exp.yaml"):
        path = self.folder / name
        path.write_text(SMALL.format(device=DEVICE, model=MODEL) if text is None else text)
        return path

    def trainer(self, *arguments, timeout=300, **options):
        """Runs the binary to its end; text output, no terminal."""
        return subprocess.run([TRAINER, *map(str, arguments)], capture_output=True, text=True,
                              timeout=timeout, cwd=self.folder, **options)

    def train(self, config, output, *arguments, expect=0, **options):
        result = self.trainer("--config", config, "--output", output, *arguments, **options)
        self.assertEqual(result.returncode, expect, result.stderr)
        return result

    def start(self, config, output, *arguments):
        """Starts the binary; its error output goes to a file beside the run."""
        log = open(f"{output}.err", "ab")
        self.addCleanup(log.close)
        return subprocess.Popen([TRAINER, "--config", str(config), "--output", str(output),
                                 *map(str, arguments)], stderr=log, cwd=self.folder)

    def assert_same_run(self, run, reference):
        """Equal losses, evaluations and final state, to the bit."""
        self.assertEqual(curve(run), curve(reference))
        self.assertEqual(weights(run), weights(reference))


def records(run):
    with open(pathlib.Path(run) / "metrics.jsonl") as lines:
        return [json.loads(line) for line in lines]


# What depends on the machine's speed and memory, not on the training.
MEASURED = ("seconds", "step_ms", "data_wait_ms", "data_read_ms",
            "data_decode_ms", "data_transform_ms", "data_deliver_ms", "samples_per_s", "tokens_per_s", "mfu", "read_mb_s", "mem_host",
            "mem_allocated", "mem_peak", "mem_reserved")


def has_images_module():
    """Whether formats other than JPEG and PNM are read: a lean package and the tsan preset do not."""
    program = pathlib.Path(TRAINER)
    folders = [os.environ.get("TRAINER_LIB"), program.parent.parent / "lib", program.parent / "lib"]
    return any(folder and (pathlib.Path(folder) / "libtrainer_images.so").exists() for folder in folders)


needs_images_module = unittest.skipUnless(has_images_module(), "libtrainer_images.so is not here")


def curve(run):
    return [{k: v for k, v in record.items() if k not in MEASURED} for record in records(run)]


def losses(run):
    return [record["loss"] for record in records(run) if "loss" in record]


def checkpoints(run):
    folder = pathlib.Path(run) / "checkpoints"
    return sorted(path for path in folder.glob("step-*") if path.is_dir())


def weights(run):
    """Digest of every tensor file of the last checkpoint."""
    last = checkpoints(run)[-1]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(last.glob("*.safetensors"))}


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.001)
    return False


def kill(process, how=signal.SIGKILL):
    process.send_signal(how)
    return process.wait()
