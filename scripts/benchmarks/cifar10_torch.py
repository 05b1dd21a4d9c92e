"""The recipe of configs/cifar10.yaml in PyTorch: the peer of its accuracy and time.

usage: cifar10_torch.py FOLDER EPOCHS SEED...   FOLDER holds train/<class>/*.jpg, test/<class>/*.jpg

torchvision's ResNet-18 with a 3x3 stem, bf16 autocast, channels_last, SGD with Nesterov momentum,
a one-cycle schedule, label smoothing, random crops with padding and flips. All images are decoded
once and kept on the device, and augmented there, so that its speed is not that of a data loader.
Prints one JSON line a seed.
"""

import json
import pathlib
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
import torch.nn.functional as F
import torchvision
from PIL import Image

BATCH, LR, WEIGHT_DECAY, RISE, START, FINAL = 512, 0.4, 5e-4, 0.2, 0.04, 1e-5
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def load(folder):
    classes = sorted(path.name for path in folder.iterdir() if path.is_dir())
    files = [(path, label) for label, name in enumerate(classes)
             for path in sorted((folder / name).iterdir())]
    with ThreadPoolExecutor() as pool:
        images = list(pool.map(lambda f: np.asarray(Image.open(f[0]).convert("RGB")), files))
    pixels = torch.from_numpy(np.stack(images)).cuda().permute(0, 3, 1, 2)
    return pixels, torch.tensor([label for _, label in files]).cuda()


def normalised(pixels):
    mean = torch.tensor(MEAN, device="cuda").view(1, 3, 1, 1)
    std = torch.tensor(STD, device="cuda").view(1, 3, 1, 1)
    return ((pixels.float() / 255 - mean) / std).contiguous(memory_format=torch.channels_last)


def augmented(pixels):
    """Padding of 4 black pixels, a random 32x32 crop, a random flip."""
    n = len(pixels)
    padded = F.pad(pixels, (4, 4, 4, 4))
    rows = torch.randint(0, 9, (n, 1), device="cuda") + torch.arange(32, device="cuda")
    columns = torch.randint(0, 9, (n, 1), device="cuda") + torch.arange(32, device="cuda")
    flip = torch.rand(n, 1, device="cuda") < 0.5
    columns = torch.where(flip, columns.flip(1), columns)
    index = torch.arange(n, device="cuda").view(n, 1, 1, 1)
    channel = torch.arange(3, device="cuda").view(1, 3, 1, 1)
    return padded[index, channel, rows.view(n, 1, 32, 1), columns.view(n, 1, 1, 32)]


def train_once(train, train_labels, test, test_labels, epochs, seed):
    torch.manual_seed(seed)
    model = torchvision.models.resnet18(num_classes=10)
    model.conv1 = torch.nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    torch.nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
    model.maxpool = torch.nn.Identity()
    model = model.cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), LR, momentum=0.9, nesterov=True,
                                weight_decay=WEIGHT_DECAY, fused=True)
    steps = epochs * -(-len(train) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, LR, total_steps=steps, pct_start=RISE, cycle_momentum=False,
        div_factor=1 / START, final_div_factor=START / FINAL)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(epochs):
        model.train()
        for index in torch.randperm(len(train), device="cuda").split(BATCH):
            with torch.autocast("cuda", torch.bfloat16):
                loss = F.cross_entropy(model(normalised(augmented(train[index]))),
                                       train_labels[index], label_smoothing=0.1)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            schedule.step()
        model.eval()
        correct = 0
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
            for pixels, labels in zip(test.split(BATCH), test_labels.split(BATCH)):
                correct += (model(normalised(pixels)).argmax(1) == labels).sum()
        accuracy = correct.item() / len(test)
    print(json.dumps({"peer": "pytorch eager", "seed": seed, "epochs": epochs,
                      "val/accuracy": accuracy,
                      "seconds": round(time.perf_counter() - begin, 1)}), flush=True)


def main():
    folder, epochs = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
    data = (*load(folder / "train"), *load(folder / "test"))
    for seed in sys.argv[3:]:
        train_once(*data, epochs, int(seed))


if __name__ == "__main__":
    main()
