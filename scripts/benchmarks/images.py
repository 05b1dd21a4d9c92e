"""The input pipeline beside torchvision's DataLoader, in turns on one machine.

    python scripts/benchmarks/images.py PHOTOS TRAINER [--workers N] [--samples N] [--rounds N]

PHOTOS is a folder of class folders of JPEG files; they are linked into a temporary folder as often
as it takes to have that many samples. Both sides make batches of 256 of random_resized_crop 224,
horizontal flip and normalisation with N workers: TRAINER (the program, or a package's launcher) by
`trainer bench`, torchvision by a DataLoader with pinned memory, once with Pillow and once with
torchvision.io.decode_jpeg. Prints one JSON object a measurement and the best ratios at the end.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
BATCH = 256

CONFIG = """
name: images
model: {{kind: resnet50, classes: {classes}}}
data:
  train: {{kind: image_folder, path: {path}, transforms: imagenet_train, index: false}}
  loader: {{workers: {workers}}}
batch: {{global: 256, micro: 256}}
precision: {{mode: {mode}}}
optim: {{kind: sgd, lr: 0.01, momentum: 0.9}}
train: {{length: 1 epochs}}
"""


def link_samples(photos, target, samples):
    """Returns how many were linked: whole rounds of all files."""
    files = sorted(path for path in photos.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    rounds = -(-samples // len(files))
    for index, path in itertools.product(range(rounds), files):
        folder = target / path.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        link = folder / f"{index:04}_{path.name}"
        try:
            os.link(path, link)
        except OSError:
            link.symlink_to(path.resolve())
    return rounds * len(files)


def torchvision_loader(folder, workers, variant):
    """Images a second over a whole epoch, the second one: the first pays for starting the workers."""
    import torch
    import torchvision.transforms.v2 as v2
    from torchvision import datasets
    from torchvision.io import decode_jpeg, read_file

    steps = [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()]
    if variant == "pil":
        transform = v2.Compose([*steps, v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])
        data = datasets.ImageFolder(folder, transform)
    else:
        transform = v2.Compose([*steps, v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])
        data = datasets.ImageFolder(folder, transform, loader=lambda path: decode_jpeg(read_file(path)))
    loader = torch.utils.data.DataLoader(
        data, BATCH, shuffle=True, num_workers=workers, pin_memory=torch.cuda.is_available(),
        persistent_workers=True, drop_last=True)
    for _ in range(2):
        started, images = time.perf_counter(), 0
        for pixels, _ in loader:
            if torch.cuda.is_available():
                pixels = pixels.cuda(non_blocking=True)
            images += pixels.shape[0]
    return images / (time.perf_counter() - started)


def ours(trainer, config, seconds):
    command = [trainer, "bench", "--config", config, "--stages", "host,delivered", "--seconds", str(seconds), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["stages"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("photos", type=Path)
    parser.add_argument("trainer")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--samples", type=int, default=20000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--peer", help=argparse.SUPPRESS)  # a measurement in a process of its own
    arguments = parser.parse_args()
    if arguments.peer:
        rate = torchvision_loader(arguments.photos, arguments.workers, arguments.peer)
        print(json.dumps({"images_per_s": round(rate)}))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "photos"
        samples = link_samples(arguments.photos, folder, arguments.samples)
        config = Path(scratch) / "images.yaml"
        mode = "bf16"
        config.write_text(CONFIG.format(path=folder, workers=arguments.workers, mode=mode,
                                        classes=len(list(folder.iterdir()))))
        print(json.dumps({"samples": samples, "workers": arguments.workers}), flush=True)
        best = {}
        for _ in range(arguments.rounds):
            for stage in ours(arguments.trainer, config, arguments.seconds):
                name = f"trainer {stage['stage']} {stage.get('decode', '')}".strip()
                best[name] = max(best.get(name, 0), stage["images_per_s"])
                print(json.dumps({"what": name, "images_per_s": round(stage["images_per_s"]),
                                  "cpus": stage.get("cpus")}), flush=True)
            for variant in ("tensor", "pil"):
                command = [sys.executable, __file__, str(folder), "-", "--workers", str(arguments.workers),
                           "--peer", variant]
                result = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                rate = json.loads(result.splitlines()[-1])["images_per_s"]
                name = f"torchvision {variant}"
                best[name] = max(best.get(name, 0), rate)
                print(json.dumps({"what": name, "images_per_s": rate}), flush=True)
        peer = max(rate for name, rate in best.items() if name.startswith("torchvision"))
        for name, rate in best.items():
            if name.startswith("trainer"):
                print(f"{name}: {rate:.0f} images/s, {rate / peer:.2f} times the best of torchvision ({peer:.0f})")


if __name__ == "__main__":
    main()
