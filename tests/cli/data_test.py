"""`trainer data inspect|pack|split` and `trainer bench`, by running the binary on small folders."""

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import unittest
import zlib

from support import DEVICE, TRAINER, TrainerTest, losses, needs_images_module, wait_until

try:
    import numpy as np
    from PIL import Image
except ImportError:
    raise SystemExit(77)

FOLDERS = """
name: folders
seed: 5
device: {device}
model: {{kind: mlp, hidden: [16]}}
data:
  train: {{kind: {kind}, path: {train}, transforms: [{{random_resized_crop: 24}}, horizontal_flip, {{normalize: imagenet}}]}}
{val}
  loader: {{workers: 2}}
batch: {{global: 8}}
optim: {{kind: adamw, lr: 1e-3}}
train: {{length: 6 steps}}
log: {{console: quiet, tensorboard: false}}
"""

PLAIN = "[{resize: 24}, {center_crop: 24}, {normalize: imagenet}]"


def png_size(path):
    """Height and width by the file's header, whose checksum is right."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and data[12:16] == b"IHDR", data[:16]
    assert zlib.crc32(data[12:29]) == struct.unpack(">I", data[29:33])[0]
    width, height = struct.unpack(">II", data[16:24])
    return height, width


class DataTest(TrainerTest):
    def setUp(self):
        super().setUp()
        self.environment = {"XDG_CACHE_HOME": str(self.folder / "cache")}
        self.random = np.random.default_rng(11)

    def trainer(self, *arguments, **options):
        return super().trainer(*arguments, env={**os.environ, **self.environment}, **options)

    def picture(self, height, width):
        return Image.fromarray(self.random.integers(0, 256, (height, width, 3), dtype=np.uint8))

    def save(self, name, height=40, width=48, **options):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self.picture(height, width).save(path, **options)
        return path

    def clean_folder(self, name="train", each=6):
        for label in ("cat", "dög"):
            for i in range(each):
                self.save(f"{name}/{label}/{i}.jpg", 30 + i, 40)

    def folders(self, kind="image_folder", train="train", val=None, **replace):
        line = f"  val: {{kind: image_folder, path: {val}, transforms: {PLAIN}}}" if val else ""
        text = FOLDERS.format(device=DEVICE, kind=kind, train=train, val=line)
        for old, new in replace.items():
            text = text.replace(old, new)
        return self.config(text)

    def run_ok(self, *arguments, expect=0):
        result = self.trainer(*arguments)
        self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        return result


class Inspect(DataTest):
    def dirty_folder(self):
        self.clean_folder()
        whole = (self.folder / "train/cat/0.jpg").read_bytes()
        (self.folder / "train/cat/cut.jpg").write_bytes(whole[: len(whole) // 2])
        shutil.copy(self.folder / "train/cat/1.jpg", self.folder / "train/dög/same.jpg")
        self.save("train/dög/called.jpg", format="PNG")
        exif = Image.Exif()
        exif[0x0112] = 6
        self.save("train/cat/turned.jpg", 20, 60, exif=exif)
        self.save("val/cat/new.jpg")
        shutil.copy(self.folder / "train/dög/2.jpg", self.folder / "val/cat/leak.jpg")
        self.save("val/dög/new.jpg")

    def test_a_clean_folder(self):
        self.clean_folder()
        result = self.run_ok("data", "inspect", "--config", self.folders())
        self.assertIn("12 samples", result.stdout)
        self.assertIn("no problem was found", result.stdout)
        self.assertEqual(result.stderr, "")  # no progress line where there is no terminal

    @needs_images_module
    def test_all_problems_are_named_and_exit_with_4(self):
        self.dirty_folder()
        result = self.run_ok("data", "inspect", "--config", self.folders(val="val"), expect=4)
        for text in ("train/cat/cut.jpg (class \"cat\"): ", "cut short",
                     "train/dög/called.jpg (class \"dög\") is PNG",
                     "train: train/cat/1.jpg (class \"cat\") = train: train/dög/same.jpg",
                     "train: train/dög/2.jpg (class \"dög\") = val: val/cat/leak.jpg (class \"cat\")",
                     "turned by EXIF: 1", "train: 1 broken sample",
                     "train and val: 1 content in different classes"):
            self.assertIn(text, result.stdout)

    @needs_images_module
    def test_json_holds_the_same(self):
        self.dirty_folder()
        config = self.folders(val="val")
        result = self.run_ok("data", "inspect", "--config", config, "--json", expect=4)
        found = json.loads(result.stdout)
        train = found["sets"]["train"]
        self.assertEqual(train["samples"], 16)
        self.assertEqual(train["classes"],
                         [{"name": "cat", "samples": 8}, {"name": "dög", "samples": 8}])
        self.assertEqual([each["name"] for each in train["broken"]], ["train/cat/cut.jpg"])
        self.assertEqual([(each["name"], each["format"]) for each in train["misnamed"]],
                         [("train/dög/called.jpg", "PNG")])
        self.assertEqual(train["turned"], 1)
        self.assertEqual(train["height"], {"min": 30, "median": 33, "max": 60})
        self.assertEqual(train["width"], {"min": 20, "median": 40, "max": 48})
        self.assertEqual(train["bytes"], sum(path.stat().st_size for path in
                                             (self.folder / "train").rglob("*.jpg")))
        self.assertEqual([len(group["samples"]) for group in found["in_both"]], [2])
        self.assertEqual(self.run_ok("data", "inspect", "--config", config, "--json",
                                     expect=4).stdout, result.stdout)

    def test_one_split_and_headers(self):
        self.dirty_folder()
        config = self.folders(val="val")
        result = self.run_ok("data", "inspect", "--config", config, "--split", "val")
        self.assertNotIn("train", result.stdout)
        result = self.run_ok("data", "inspect", "--config", config, "--split", "train", "--headers")
        self.assertIn("train/dög/called.jpg (class \"dög\") is PNG", result.stdout)

    @needs_images_module
    def test_the_sheet_shows_the_pixels_of_the_batch(self):
        path = self.save("train/cat/only.png", 24, 24)
        sheet = self.folder / "sheet.png"
        transforms = "[{random_resized_crop: 24}, horizontal_flip, {normalize: imagenet}]"
        config = self.folders(**{transforms: PLAIN})
        self.run_ok("data", "inspect", "--config", config, "--sheet", sheet)
        # Enlarged twice, in a tile of at least 64 pixels with 4 of a gap and 16 for the caption.
        self.assertEqual(png_size(sheet), (2 * 24 + 16 + 4, 64 + 4))
        with Image.open(sheet) as shown, Image.open(path) as original:
            tile = np.asarray(shown)[:48, :48]
            wanted = np.asarray(original).repeat(2, axis=0).repeat(2, axis=1)
            self.assertTrue(np.array_equal(tile, wanted))
            self.assertLess(np.asarray(shown)[48:64].min(), 128)  # the caption

    @needs_images_module
    def test_the_sheet_has_the_augmented_images_of_the_first_step(self):
        self.clean_folder()
        config = self.folders()
        first, again, other = (self.folder / name for name in ("a.png", "b.png", "c.png"))
        self.run_ok("data", "inspect", "--config", config, "--sheet", first)
        self.run_ok("data", "inspect", "--config", config, "--sheet", again)
        self.run_ok("data", "inspect", "--config", config, "--sheet", other, "--set", "seed=6")
        self.assertEqual(png_size(first), (2 * 24 + 20, 8 * 68))
        self.assertEqual(first.read_bytes(), again.read_bytes())
        self.assertNotEqual(first.read_bytes(), other.read_bytes())

    @needs_images_module
    def test_a_sheet_that_cannot_be_written(self):
        self.clean_folder()
        result = self.run_ok("data", "inspect", "--config", self.folders(), "--sheet",
                             "missing/sheet.png", expect=9)
        self.assertIn("missing/sheet.png: cannot be written", result.stderr)

    def test_usage_errors(self):
        self.clean_folder()
        config = self.folders()
        for arguments, text in (
                (["data"], "subcommand"),
                (["data", "inspekt", "--config", config], "did you mean inspect?"),
                (["data", "inspect", "--config", config, "--headrs"], "did you mean --headers?"),
                (["data", "inspect", "--config", config, "--split", "trian"], "trian"),
                (["data", "inspect", "--config", config, "--full", "--headers"], "excludes"),
                (["data", "pack", "--config", config], "--output"),
                (["data", "pack", "--config", config, "--output", "a", "--shard-size", "1 GIB"],
                 "--shard-size"),
                (["data", "split", "--config", config, "--share", "2", "--output-train", "a",
                  "--output-val", "b"], "between 0 and 1"),
                (["bench", "--config", config, "--stages", "reed"], "did you mean read?"),
                (["bench", "--config", config, "--seconds", "0"], "--seconds")):
            with self.subTest(arguments=arguments):
                self.assertIn(text, self.run_ok(*arguments, expect=2).stderr)

    def test_a_split_that_the_experiment_has_not(self):
        self.clean_folder()
        result = self.run_ok("data", "inspect", "--config", self.folders(), "--split", "val",
                             expect=3)
        self.assertIn("the experiment has no data.val", result.stderr)


class Pack(DataTest):
    @needs_images_module
    def test_training_on_shards_equals_training_on_the_folder(self):
        self.clean_folder()
        self.save("train/cat/called.jpg", format="PNG")
        self.train(self.folders(), self.folder / "on-folder")
        result = self.run_ok("data", "pack", "--config", self.folders(), "--output", "shards",
                             "--shard-size", "8KiB")
        self.assertIn("13 samples in", result.stdout)
        self.assertIn(f"{{kind: tar_shards, path: {self.folder / 'shards'}}}", result.stdout)
        self.assertGreater(len(list((self.folder / "shards").glob("shard-*.tar"))), 1)
        self.train(self.folders(kind="tar_shards", train="shards"), self.folder / "on-shards")
        self.assertEqual(len(losses(self.folder / "on-folder")), 6)
        self.assertEqual(losses(self.folder / "on-shards"), losses(self.folder / "on-folder"))

    def test_grey_pixels_stay_grey(self):
        config = self.config()
        result = self.run_ok("data", "pack", "--config", config, "--output", "digits")
        self.assertIn("channels: 1", result.stdout)
        self.train(config, self.folder / "on-digits")
        self.train(config, self.folder / "on-shards", "--set", "data.train.kind=tar_shards", "--set",
                   f"data.train.path={self.folder / 'digits'}", "--set", "data.train.channels=1")
        self.assertEqual(losses(self.folder / "on-shards"), losses(self.folder / "on-digits"))

    def test_overwrites_only_when_asked(self):
        self.clean_folder()
        arguments = ["data", "pack", "--config", self.folders(), "--output", "shards"]
        self.run_ok(*arguments)
        self.assertIn("exists already", self.run_ok(*arguments, expect=9).stderr)
        self.run_ok(*arguments, "--overwrite")

    def test_a_signal_leaves_nothing(self):
        self.clean_folder(each=1)
        config = self.folders(kind="synthetic", train="x", **{
            "path: x, ": "samples: 200000, shape: [3, 64, 64], classes: 10, "})
        process = subprocess.Popen(
            [TRAINER, "data", "pack", "--config", config, "--output", "shards", "--shard-size",
             "1MiB"], cwd=self.folder, stderr=subprocess.PIPE, text=True)
        self.assertTrue(wait_until(lambda: any(self.folder.glob("shards.partial-*/shard-*1.tar"))))
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, errors)
        self.assertIn("nothing was written", errors)
        self.assertEqual(list(self.folder.glob("shards*")), [])


class Split(DataTest):
    def test_counts_and_that_a_run_can_use_it(self):
        self.clean_folder(each=10)
        result = self.run_ok("data", "split", "--config", self.folders(), "--share", "0.2",
                             "--output-train", "a.csv", "--output-val", "b.csv")
        self.assertIn("a.csv: 16 samples\nb.csv: 4 samples\n", result.stdout)
        train = (self.folder / "a.csv").read_text().splitlines()[1:]
        val = (self.folder / "b.csv").read_text().splitlines()[1:]
        self.assertEqual((len(train), len(val), len({*train, *val})), (16, 4, 20))
        self.assertEqual(sorted(line.rsplit(",", 1)[1] for line in val),
                         ["cat", "cat", "dög", "dög"])
        self.train(self.folders(kind="manifest", train="a.csv"), self.folder / "run")

    def test_the_seed_draws(self):
        self.clean_folder(each=10)
        for name, seed in (("a", []), ("b", ["--seed", "5"]), ("c", ["--seed", "6"])):
            self.run_ok("data", "split", "--config", self.folders(), "--share", "0.3",
                        "--output-train", f"{name}1.csv", "--output-val", f"{name}2.csv", *seed)
        a, b, c = ((self.folder / f"{name}2.csv").read_text() for name in "abc")
        self.assertEqual(a, b)  # the experiment's seed is 5
        self.assertNotEqual(a, c)


class Bench(DataTest):
    STAGES = ["read", "transform", "host", "step", "all"]

    def test_digits_in_a_table(self):
        result = self.run_ok("bench", "--config", self.config(), "--seconds", "0.05")
        rows = re.findall(r"^(\w+) +(?:cpu|gpu)? +(\d+) +([\d.]+)", result.stdout, re.MULTILINE)
        stages = [stage for stage, _, _ in rows]
        for stage in self.STAGES:
            self.assertIn(stage, stages)
        for stage, threads, rate in rows:
            self.assertGreater(int(threads), 0, stage)
            self.assertGreater(float(rate), 0, stage)
        self.assertIn("left out: decode, since the source holds pixels", result.stdout)
        self.assertRegex(result.stdout.splitlines()[-1], "^bound by .* images/s")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["exp.yaml"])

    def test_files_as_json(self):
        self.clean_folder()
        result = self.run_ok("bench", "--config", self.folders(), "--seconds", "0.05", "--json")
        found = json.loads(result.stdout)
        stages = {row["stage"]: row for row in found["stages"]}
        for stage in [*self.STAGES, "decode"]:
            row = stages[stage]
            self.assertGreater(row["images_per_s"], 0)
            self.assertAlmostEqual(row["images_per_s"], row["images"] / row["seconds"], delta=0.06)
        for stage in ("read", "decode", "host"):
            row = stages[stage]
            self.assertAlmostEqual(row["mb_per_s"], row["bytes"] / row["seconds"] / 1e6, delta=0.06)
        self.assertTrue(found["verdict"].startswith("bound by "), found["verdict"])

    def test_some_stages_only(self):
        self.clean_folder()
        result = self.run_ok("bench", "--config", self.folders(), "--seconds", "0.05", "--json",
                             "--stages", "decode,host,copy")
        found = json.loads(result.stdout)
        self.assertEqual({row["stage"] for row in found["stages"]} - {"copy"}, {"decode", "host"})
        if DEVICE == "cpu":
            self.assertEqual(found["left_out"], {"copy": "training is on the CPU"})

    def test_a_broken_file_is_named(self):
        self.clean_folder()
        (self.folder / "train/cat/0.jpg").write_bytes(b"\xff\xd8\xff")
        result = self.run_ok("bench", "--config", self.folders(), "--seconds", "0.05", expect=4)
        self.assertIn("train/cat/0.jpg", result.stderr)


if __name__ == "__main__":
    unittest.main()
