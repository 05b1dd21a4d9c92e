"""Training on image files end to end: the same run whatever the layout, the cache and the threads;
files that are ugly or broken; and what is refused before the first step."""

import csv
import io
import itertools
import json
import os
import random
import shutil
import struct
import subprocess
import time
import unittest
import zlib
from unittest import mock

from support import TRAINER, TrainerTest, curve, kill, losses, needs_images_module, records, wait_until

try:
    import numpy as np
    from PIL import Image, ImageOps
except ImportError:
    raise SystemExit(77)

EXPERIMENT = """
name: images
seed: 5
device: cpu
model: {model}
data:
  train: {{{train}, transforms: {transforms}}}
{val}
  loader: {{{loader}}}
batch: {{global: {batch}}}
optim: {{kind: adamw, lr: 1e-3}}
train: {{length: {length}, evaluate_every: 4 steps}}
checkpoint: {{every: {every}}}
log: {{console: quiet, tensorboard: false}}
"""

MLP = "{kind: mlp, hidden: [8]}"
RESNET = "{kind: resnet18, stem: imagenet}"
AUGMENT = ("[{random_resized_crop: 32}, horizontal_flip, {color_jitter: {brightness: 0.4, "
           "contrast: 0.4, saturation: 0.4, hue: 0.1}}, rand_augment, {normalize: imagenet}]")
PLAIN = "[{resize: 32}, {center_crop: 32}, {normalize: imagenet}]"
NOBODY = 65534


def source(kind, path):
    return f"kind: {kind}, path: {path}"


def adobe_marker(jpeg):
    """Where the segment APP14, which names the colour transform, begins and ends."""
    at = 2
    while jpeg[at + 1] != 0xEE:
        at += 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big")
    return at, at + 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big")


def without_adobe_marker(jpeg):
    begin, end = adobe_marker(jpeg)
    return jpeg[:begin] + jpeg[end:]


def called_ycck(jpeg):
    """The same CMYK file with its components called YCCK."""
    _, end = adobe_marker(jpeg)
    return jpeg[: end - 1] + b"\x02" + jpeg[end:]


def png(width, height, bits, colour_type, rows):
    """A PNG file; `rows` gives the bytes of each row without its filter's number."""
    def chunk(kind, data):
        checksum = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + checksum

    packer = zlib.compressobj(9)
    data = b"".join(packer.compress(b"\0" + row) for row in rows) + packer.flush()
    return (b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour_type, 0, 0, 0))
            + chunk(b"IDAT", data) + chunk(b"IEND", b""))


class ImagesTest(TrainerTest):
    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)  # another user reads it in some tests
        self.random = np.random.default_rng(11)
        # Lists of samples are kept here, not with the user's. What is trained is too small for
        # more than one OpenMP thread.
        environment = mock.patch.dict(os.environ, XDG_CACHE_HOME=str(self.folder / "cache"),
                                      OMP_NUM_THREADS="1")
        environment.start()
        self.addCleanup(environment.stop)

    def picture(self, height, width):
        """Smooth, as photographs are: noise makes large files."""
        noise = self.random.integers(0, 256, (6, 6, 3), dtype=np.uint8)
        return Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC)

    def save(self, name, height=36, width=44, **options):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self.picture(height, width).save(path, **options)
        return path

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def plain_folder(self, name="train", each=6, labels=("a", "b")):
        for label in labels:
            for i in range(each):
                self.save(f"{name}/{label}/{i}.jpg", 34 + i, 40)

    def experiment(self, train="kind: image_folder, path: train", val=None, transforms=AUGMENT,
                   loader="workers: 1", batch=6, length="8 steps", model=MLP, every="null",
                   name="exp.yaml"):
        line = f"  val: {{{val}, transforms: {PLAIN}}}" if val else ""
        return self.config(
            EXPERIMENT.format(train=train, val=line, transforms=transforms, loader=loader,
                              batch=batch, length=length, model=model, every=every), name)

    def run_of(self, name, *arguments, expect=0, **settings):
        """Trains in the folder `name`, by an experiment of these settings."""
        run = self.folder / name
        self.train(self.experiment(**settings), run, *arguments, expect=expect)
        return run

    def refused(self, expect, *texts, **settings):
        """A run that must end before anything is written, with these texts in its message."""
        result = self.train(self.experiment(**settings), self.folder / "refused", expect=expect)
        for text in texts:
            self.assertIn(text, result.stderr)
        self.assertFalse((self.folder / "refused").exists())
        return result.stderr

    def manifest(self, name, rows):
        """A CSV or JSON lines file of rows, which are dictionaries."""
        with open(self.folder / name, "w", newline="") as file:
            if name.endswith(".jsonl"):
                file.writelines(json.dumps(row) + "\n" for row in rows)
                return
            table = csv.DictWriter(file, rows[0].keys())
            table.writeheader()
            table.writerows(rows)

    def rows_of(self, folder):
        """The samples of an image folder as a manifest's rows, in the folder's order."""
        files = [path for path in (self.folder / folder).rglob("*") if path.is_file()]
        files.sort(key=lambda path: (os.fsencode(path.parent), os.fsencode(path)))
        return [{"path": str(path.relative_to(self.folder)), "label": path.parent.name}
                for path in files]

    def pack(self, output, split="train", **settings):
        result = self.trainer("data", "pack", "--config", self.experiment(**settings), "--split",
                              split, "--output", output, "--shard-size", "64KiB")
        self.assertEqual(result.returncode, 0, result.stderr)

    def mixed_folders(self):
        """Small pictures, and large ones that JPEG decoding reduces, with names that need care."""
        for split, each in (("train", 7), ("val", 3)):
            for label in ("cat", "dög, brown"):
                for i in range(each):
                    self.save(f"{split}/{label}/{i}.jpg", 33 + i, 60 - 2 * i)
                self.save(f"{split}/{label}/grün\n\"a\", b.png", 40, 33)
                for i in range(2):
                    self.save(f"{split}/{label}/large.{i}.jpg", 600, 600, quality=85)
                self.save(f"{split}/{label}/large.1.webp", 48, 48)


class Layouts(ImagesTest):
    CACHES = ["none", "ram", "{ram: {holds: decoded}}", "{ram: {size: 20KiB}}",
              "{ram: {size: 20KiB, holds: decoded}}"]
    LENGTH = "9 steps"  # more than two epochs, so that caches give what they hold

    def make_layouts(self):
        self.mixed_folders()
        for split in ("train", "val"):
            rows = self.rows_of(split)
            self.manifest(f"{split}.csv", rows)
            self.manifest(f"{split}.jsonl", rows)
            self.pack(f"{split}-shards", split, val=source("image_folder", "val"))

    @staticmethod
    def sources(layout):
        kind, form = {"folder": ("image_folder", "{}"), "csv": ("manifest", "{}.csv"),
                      "jsonl": ("manifest", "{}.jsonl"),
                      "shards": ("tar_shards", "{}-shards")}[layout]
        return {split: source(kind, form.format(split)) for split in ("train", "val")}

    @needs_images_module
    def test_layouts_caches_and_threads_do_not_change_the_run(self):
        self.make_layouts()
        usual = {"batch": 9, "length": self.LENGTH}
        reference = self.run_of("reference", loader="workers: 0", **usual, **self.sources("folder"))
        self.assertEqual(len(losses(reference)), 9)
        self.assertEqual(sum("val/loss" in record for record in records(reference)), 3)
        layouts = ["csv", "jsonl", "shards", "folder"]
        threads = [(3, 5), (1, 1), (0, 4), (3, 1), (1, 5)]
        cases = [(layout, "none") for layout in layouts[:3]]
        cases += [(layout, cache) for layout in ("shards", "folder") for cache in self.CACHES[1:]]
        for number, (layout, cache) in enumerate(cases):
            workers, prefetch = threads[number % len(threads)]
            loader = f"workers: {workers}, prefetch: {prefetch}, cache: {cache}"
            with self.subTest(layout=layout, loader=loader):
                run = self.run_of(f"run-{number}", loader=loader, **usual, **self.sources(layout))
                self.assert_same_run(run, reference)

    @needs_images_module
    def test_a_convolutional_network_on_shards_with_a_cache(self):
        self.make_layouts()
        usual = {"batch": 8, "length": "4 steps", "model": RESNET}
        reference = self.run_of("reference", loader="workers: 0", **usual, **self.sources("folder"))
        run = self.run_of("run", loader="workers: 3, prefetch: 2, cache: {ram: {holds: decoded}}",
                          **usual, **self.sources("shards"))
        self.assert_same_run(run, reference)

    def test_large_pictures_alone(self):
        for label in ("a", "b"):
            for i in range(4):
                self.save(f"train/{label}/{i}.jpg", 600, 600, quality=85)
        self.pack("shards")
        usual = {"batch": 3, "length": "7 steps"}
        reference = self.run_of("reference", loader="workers: 0", **usual)
        sources = [source("image_folder", "train"), source("tar_shards", "shards")]
        caches = ["none", "ram", "{ram: {holds: decoded}}"]
        for number, (train, cache) in enumerate(itertools.product(sources, caches)):
            with self.subTest(train=train, cache=cache):
                run = self.run_of(f"run-{number}", train=train, **usual,
                                  loader=f"workers: 3, prefetch: 5, cache: {cache}")
                self.assert_same_run(run, reference)


class Killed(ImagesTest):
    KILLS = int(os.environ.get("TRAINER_KILLS", "3"))

    def kill_somewhere(self, config, run, chance):
        """Starts or resumes the run, and kills it when it has gone on for some steps. Whether it
        was not at its end yet."""
        def lines():
            try:
                return (run / "metrics.jsonl").read_bytes().count(b"\n")
            except FileNotFoundError:
                return 0

        seen = lines()
        target = seen + chance.randrange(2, 6)
        process = self.start(config, run, "--resume", "auto")
        wait_until(lambda: lines() >= target or process.poll() is not None)
        time.sleep(chance.uniform(0, 0.02))
        return kill(process) != 0

    def killed_run_equals(self, **settings):
        config = self.experiment(every="2 steps", length="40 steps", **settings)
        self.train(config, self.folder / "reference")
        run = self.folder / "killed"
        chance = random.Random(2)
        alive = sum(self.kill_somewhere(config, run, chance) for _ in range(self.KILLS))
        print(f"killed {alive} times before the run's end", flush=True)
        self.train(config, run, "--resume", "auto")
        self.assert_same_run(run, self.folder / "reference")
        return run

    @needs_images_module
    def test_on_shards_with_a_cache(self):
        self.mixed_folders()
        self.pack("shards")
        self.killed_run_equals(train=source("tar_shards", "shards"),
                               val=source("image_folder", "val"),
                               loader="workers: 2, prefetch: 3, cache: {ram: {size: 60KiB}}")

    def test_each_bad_sample_is_listed_once(self):
        self.plain_folder("train")
        self.plain_folder("val", each=4)
        self.write("train/a/bad.jpg", b"text")
        self.write("val/b/bad.jpg", b"")
        run = self.killed_run_equals(
            val=source("image_folder", "val"),
            loader="workers: 2, on_bad_sample: replace, max_bad_share: 0.9")
        self.assertEqual((run / "bad_samples.jsonl").read_bytes(),
                         (self.folder / "reference/bad_samples.jsonl").read_bytes())


class Ugly(ImagesTest):
    """Files that are unusual and good: each equals its pixels as Pillow decodes them."""

    def ugly(self, name, image, **options):
        """Saves the image; Pillow is to see in the file what the trainer sees."""
        path = self.folder / "ugly/fine" / name
        image.save(path, **options)
        with Image.open(path) as file:
            self.plain["fine/" + name] = ImageOps.exif_transpose(file).convert("RGB")
        return path

    def raw(self, name, content):
        path = self.write(f"ugly/fine/{name}", content)
        with Image.open(path) as file:
            self.plain["fine/" + name] = file.convert("RGB")

    def write_files(self):
        """Folder ugly/, and self.plain: what to see in each of its files."""
        self.plain = {}
        (self.folder / "ugly/fine").mkdir(parents=True)
        cmyk = self.ugly("cmyk.jpg", self.picture(36, 44).convert("CMYK")).read_bytes()
        self.raw("cmyk-unmarked.jpg", without_adobe_marker(cmyk))
        self.raw("ycck.jpg", called_ycck(cmyk))
        self.raw("ycck-unmarked.jpg", without_adobe_marker(called_ycck(cmyk)))
        for orientation in range(1, 9):
            exif = Image.Exif()
            exif[0x0112] = orientation
            self.ugly(f"turned{orientation}.jpg", self.picture(35, 50), exif=exif)
        self.write_pngs()
        self.ugly("one.png", self.picture(1, 1))
        self.ugly("long.png", self.picture(20, 20000))
        self.ugly("grün.png", self.picture(40, 34))
        self.ugly("two\nlines.png", self.picture(34, 40))
        self.ugly("a png.jpg", self.picture(38, 38), format="PNG")
        self.save("ugly/other/0.png")
        with Image.open(self.folder / "ugly/other/0.png") as file:
            self.plain["other/0.png"] = file.convert("RGB")

    def write_pngs(self):
        """Where Pillow drops alpha or the low byte, what is wanted is computed here."""
        grey = np.asarray(self.picture(37, 41).convert("L"))
        alpha = np.tile(np.linspace(0, 255, 41).astype(np.uint8), (37, 1))
        over_black = ((grey.astype(np.int64) * alpha + 127) // 255).astype(np.uint8)
        path = self.folder / "ugly/fine/grey-alpha.png"
        Image.merge("LA", [Image.fromarray(grey), Image.fromarray(alpha)]).save(path)
        self.plain["fine/grey-alpha.png"] = Image.fromarray(over_black).convert("RGB")
        deep = grey.astype(np.int64) * 257 ^ np.arange(41) * 5
        shallow = ((deep * 255 + 32767) // 65535).astype(np.uint8)
        self.write("ugly/fine/deep.png",
                   png(41, 37, 16, 0, (row.astype(">u2").tobytes() for row in deep)))
        self.plain["fine/deep.png"] = Image.fromarray(shallow).convert("RGB")
        self.ugly("palette.png", self.picture(39, 42).quantize(16))

    @needs_images_module
    def test_they_train_as_their_pixels(self):
        self.write_files()
        for name, pixels in self.plain.items():
            path = self.folder / "plain" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels.save(path, format="PNG")
        for name, transforms in (("evaluated", PLAIN), ("augmented", AUGMENT)):
            with self.subTest(transforms=name):
                usual = {"transforms": transforms, "batch": 7, "length": "8 steps"}
                ugly, plain = (self.run_of(f"{name}-{folder}", train=source("image_folder", folder),
                                           **usual) for folder in ("ugly", "plain"))
                self.assert_same_run(ugly, plain)

    @needs_images_module
    def test_inspect_tells_their_formats(self):
        self.write_files()
        config = self.experiment(train=source("image_folder", "ugly"))
        result = self.trainer("data", "inspect", "--config", config, "--json")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        found = json.loads(result.stdout)["sets"]["train"]
        self.assertEqual(found["broken"], [])
        self.assertEqual(found["samples"], len(self.plain))
        self.assertEqual({each["name"]: each["samples"] for each in found["formats"]}, {
            "JPEG, baseline, RGB": 8, "JPEG, baseline, CMYK": 4, "PNG, RGB": 7,
            "PNG, grey with alpha": 1, "PNG, grey, 16-bit": 1})
        self.assertEqual([each["name"] for each in found["misnamed"]], ["ugly/fine/a png.jpg"])
        self.assertEqual(found["turned"], 7)
        self.assertEqual(found["width"]["max"], 20000)
        self.assertEqual(found["height"]["min"], 1)

    def test_a_link_in_a_circle_is_ignored_and_named(self):
        self.plain_folder()
        reference = self.run_of("reference")
        (self.folder / "train/a/loop.jpg").symlink_to("loop.jpg")
        (self.folder / "train/a/up").symlink_to("..")
        (self.folder / "train/circle").symlink_to("circle")
        run = self.run_of("run")
        self.assert_same_run(run, reference)
        log = (run / "trainer.log").read_text()
        self.assertIn("ignored 2 links that lead nowhere or in a circle", log)
        self.assertIn("train/a/loop.jpg", log)


def broken_files():
    """Each broken file's bytes, and a part of the reason that must be given."""
    image = Image.radial_gradient("L").convert("RGB").resize((44, 36))
    whole, animated = io.BytesIO(), io.BytesIO()
    image.save(whole, "JPEG")
    whole = whole.getvalue()
    image.save(animated, "WebP", save_all=True, append_images=[image.rotate(90)])
    return {
        "cut.jpg": (whole[: len(whole) // 2], "damaged or cut short"),
        "empty.png": (b"", "the file is empty"),
        "text.jpg": (b"not an image\n" * 20, "no image of a known format"),
        "two\nlines.jpg": (whole[:-40], "it has no end marker"),
        "animated.webp": (animated.getvalue(), "animat"),
        "bomb.png": (png(30000, 30000, 1, 0, (bytes(3750) for _ in range(30000))),
                     "30000x30000 pixels, more than the limit"),
    }


class Broken(ImagesTest):
    @classmethod
    def setUpClass(cls):
        cls.files = broken_files()

    def broken_folder(self):
        self.plain_folder(each=9)
        for name, (content, _) in self.files.items():
            self.write(f"train/a/{name}", content)

    def printed(self, name):
        return f"train/a/{name}".replace("\n", "\\n")

    def lines(self, run):
        return [json.loads(line) for line in (run / "bad_samples.jsonl").read_text().splitlines()]

    def assert_one_line(self, errors, *texts):
        lines = [line for line in errors.splitlines() if "train/a/" in line]
        self.assertEqual(len(lines), 1, errors)
        for text in texts:
            self.assertIn(text, lines[0])

    def test_each_alone_ends_the_run_with_its_name_class_and_reason(self):
        self.plain_folder(each=1)
        for name, (content, reason) in self.files.items():
            with self.subTest(name=name):
                bad = self.write(f"train/a/{name}", content)
                result = self.train(self.experiment(batch=3), self.folder / "run", expect=4)
                self.assert_one_line(result.stderr, self.printed(name), 'class "a"', reason)
            bad.unlink()
            shutil.rmtree(self.folder / "run", ignore_errors=True)

    def test_a_bomb_takes_no_memory(self):
        self.write("train/a/bomb.png", self.files["bomb.png"][0])
        self.save("train/b/0.jpg")
        self.assertLess((self.folder / "train/a/bomb.png").stat().st_size, 200_000)
        for cache in ("none", "{ram: {holds: decoded}}"):
            config = self.experiment(batch=2, loader=f"workers: 1, cache: {cache}")
            command = [TRAINER, "--config", str(config), "--output", str(self.folder / "run")]
            process = subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=self.folder)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 4)
            self.assertLess(usage.ru_maxrss, 1_500_000)  # KiB
            shutil.rmtree(self.folder / "run", ignore_errors=True)

    def check_lines(self, lines, mode):
        rows = self.rows_of("train")
        bad = {index for index, row in enumerate(rows)
               if os.path.basename(row["path"]) in self.files}
        self.assertEqual([line["source"] for line in lines], ["train"] * len(lines))
        for line in lines:
            name = os.path.basename(rows[line["index"]]["path"])
            self.assertEqual(line["file"], self.printed(name))
            self.assertTrue(line["reason"].startswith(f'{self.printed(name)} (class "a"): '), line)
            self.assertIn(self.files[name][1], line["reason"])
            self.assertEqual("replaced_by" in line, mode == "replace")
            if mode == "replace":
                self.assertIn(line["replaced_by"], set(range(len(rows))) - bad)
        for epoch in range(2):  # of 4 steps each
            of_epoch = [line["index"] for line in lines if (line["step"] - 1) // 4 == epoch]
            self.assertEqual(len(of_epoch), len(bad))
            self.assertEqual(set(of_epoch), bad)

    def test_left_out_or_replaced_and_listed(self):
        self.broken_folder()
        for mode in ("skip", "replace"):
            with self.subTest(mode=mode):
                usual = f"on_bad_sample: {mode}, max_bad_share: 0.9"
                reference = self.run_of(mode, loader=f"workers: 0, {usual}")
                self.check_lines(self.lines(reference), mode)
                loaders = ["workers: 3, prefetch: 5", "workers: 1, cache: {ram: {holds: decoded}}"]
                for number, loader in enumerate(loaders):
                    run = self.run_of(f"{mode}-{number}", loader=f"{loader}, {usual}")
                    self.assert_same_run(run, reference)
                    self.assertEqual(self.lines(run), self.lines(reference))

    def test_left_out_equals_never_there_where_one_batch_holds_all(self):
        # The other samples keep their augmentation, as it depends on their index: bad files last.
        self.plain_folder(each=5)
        usual = {"transforms": PLAIN, "length": "1 steps"}
        reference = self.run_of("reference", batch=10, **usual)
        for name, (content, _) in self.files.items():
            self.write(f"train/b/{name}", content)
        run = self.run_of("run", batch=10 + len(self.files),
                          loader="workers: 1, on_bad_sample: skip, max_bad_share: 0.9", **usual)
        self.assertAlmostEqual(losses(run)[0], losses(reference)[0], delta=1e-6)

    def test_too_many_end_the_run(self):
        self.broken_folder()
        for mode in ("skip", "replace"):
            result = self.train(self.experiment(
                loader=f"workers: 1, on_bad_sample: {mode}, max_bad_share: 0.05"),
                self.folder / mode, expect=4)
            self.assertRegex(result.stderr, r"data\.train: [2-6] of 24 samples .*"
                                            r"data\.loader\.max_bad_share \(5 %\)")
            lines = self.lines(self.folder / mode)
            count = int(result.stderr.split("data.train: ")[-1].split(" of 24")[0])
            self.assertEqual(len({line["index"] for line in lines}), count)


class Unreadable(ImagesTest):
    """As another user, since root may read everything."""

    def setUp(self):
        super().setUp()
        self.user = {}
        if os.geteuid() == 0:
            self.user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        (self.folder / "runs").mkdir()
        (self.folder / "runs").chmod(0o777)
        self.plain_folder()
        try:
            result = self.trainer("--config", self.experiment(), "--dry-run", **self.user)
        except PermissionError as error:
            self.skipTest(f"another user cannot run the trainer: {error}")
        if result.returncode != 0:
            self.skipTest(f"another user cannot run the trainer: {result.stderr}")

    def test_a_file(self):
        locked = self.folder / "train/b/3.jpg"
        locked.chmod(0)
        result = self.train(self.experiment(), self.folder / "runs/fail", expect=4, **self.user)
        self.assertIn('train/b/3.jpg (class "b"): cannot open the file: Permission denied',
                      result.stderr)
        config = self.experiment(loader="workers: 1, on_bad_sample: replace, max_bad_share: 0.5")
        self.train(config, self.folder / "runs/replace", **self.user)
        lines = (self.folder / "runs/replace/bad_samples.jsonl").read_text().splitlines()
        self.assertEqual({json.loads(line)["file"] for line in lines}, {"train/b/3.jpg"})

    def test_a_folder(self):
        locked = self.folder / "train/b"
        locked.chmod(0)
        self.addCleanup(locked.chmod, 0o755)
        result = self.train(self.experiment(), self.folder / "runs/run", expect=4, **self.user)
        self.assertIn("train/b: cannot be read: Permission denied", result.stderr)
        self.assertFalse((self.folder / "runs/run").exists())

    def test_a_manifest(self):
        self.manifest("train.csv", self.rows_of("train"))
        (self.folder / "train.csv").chmod(0)
        result = self.train(self.experiment(train=source("manifest", "train.csv")),
                            self.folder / "runs/run", expect=4, **self.user)
        self.assertIn("train.csv: cannot open the file: Permission denied", result.stderr)


class Refused(ImagesTest):
    def test_a_label_outside_the_classes(self):
        self.plain_folder()
        rows = self.rows_of("train")
        for label, reason in (("2", "label 2 is outside the 2 classes"),
                              ("bb", 'label "bb" is none of the classes; did you mean "b"?')):
            rows[4]["label"] = label
            for name, line in (("train.csv", 6), ("train.jsonl", 5)):
                self.manifest(name, rows)
                self.refused(4, f"{name}: line {line}: {reason}",
                             train=source("manifest", f"{name}, classes: [a, b]"))

    def test_a_class_folder_without_images(self):
        self.plain_folder()
        self.write("train/c/note.txt", b"nothing yet")
        self.refused(4, "train/c: this class folder holds no images")

    def test_training_and_validation_with_different_classes(self):
        self.plain_folder("train")
        self.plain_folder("val", each=2, labels=("a", "c"))
        self.refused(4, "data.train has 2 classes and data.val 2", "only in data.train: b",
                     "only in data.val: c", val=source("image_folder", "val"))

    def test_fewer_samples_than_a_batch_with_drop_last(self):
        self.plain_folder(each=2)
        message = self.refused(3, "drop_last", loader="workers: 1, drop_last: true", batch=5)
        self.assertIn("4", message)

    def test_decoding_on_a_gpu_that_is_not_used(self):
        self.plain_folder()
        transforms = "[{random_resized_crop: 32}, {normalize: imagenet}]"
        self.refused(3, "exp.yaml:9:", "data.loader.decode: gpu needs a GPU, and device is cpu; "
                     "use decode: auto or cpu", loader="workers: 1, decode: gpu",
                     transforms=transforms)

    @unittest.skipIf(shutil.which("nvidia-smi"), "this machine has a GPU")
    def test_decoding_on_a_gpu_that_is_not_there(self):
        self.plain_folder()
        config = self.experiment(loader="workers: 1, decode: gpu",
                                 transforms="[{random_resized_crop: 32}, {normalize: imagenet}]")
        result = self.train(config, self.folder / "run", "--set", "device=auto", expect=5)
        self.assertIn("data.loader.decode is gpu, which cannot be done here: ", result.stderr)
        self.assertFalse((self.folder / "run").exists())


class Weights(ImagesTest):
    def weighted_run(self, name, weights, rows=None, **settings):
        """`weights` gives that of a row by its number."""
        rows = rows or self.rows_of("train")
        self.manifest(f"{name}.csv", [{**row, "weight": weights(number)}
                                      for number, row in enumerate(rows)])
        settings = {"batch": 5, "length": "6 steps", **settings}
        return self.run_of(name, train=source("manifest", f"{name}.csv"), **settings)

    def test_a_factor_of_all_changes_nothing(self):
        self.plain_folder()
        one = self.weighted_run("one", lambda _: 1)
        for name, weight in (("two", 2), ("quarter", 0.25)):
            self.assert_same_run(self.weighted_run(name, lambda _: weight), one)

    def test_shards_keep_weights(self):
        self.plain_folder()
        run = self.weighted_run("run", lambda number: 1 + number % 3)
        self.pack("shards", train=source("manifest", "run.csv"))
        on_shards = self.run_of("on-shards", train=source("tar_shards", "shards"), batch=5,
                                length="6 steps")
        self.assert_same_run(on_shards, run)
        self.assertNotEqual(losses(run), losses(self.weighted_run("one", lambda _: 1)))

    def test_what_has_weight_0_is_not_learned(self):
        self.plain_folder(each=10)
        rows = self.rows_of("train")
        others = [{**row, "label": "a" if number % 2 == 0 else row["label"]}
                  for number, row in enumerate(rows)]
        self.assertNotEqual(others, rows)
        run, other_run = (self.weighted_run(name, lambda number: number % 2, each, batch=10)
                          for name, each in (("run", rows), ("others", others)))
        self.assert_same_run(other_run, run)


if __name__ == "__main__":
    unittest.main(verbosity=2)
