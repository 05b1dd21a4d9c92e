"""Golden values of RandAugment's and TrivialAugmentWide's operations, from torchvision and Pillow.

    .venv/bin/python tests/oracle/augment.py        (in the repository's root)

writes tests/data/golden/augment.json:

ops         torchvision's names, in the order of both spaces.
signed      whether each has two directions.
magnitudes  [{space, bins, height, width, values: {op: [one a bin]}}], in single precision. height
            and width are those of the image, and count in space "rand" only.
images      {name: {height, width, channels, pixels}}, pixels as hexadecimal HWC bytes.
results     [{image, op, magnitude, fill, pixels}].
checksums   [{image, op, space, bins, crc}]: the CRC-32 of all results of an op at every bin, of
            each bin the positive magnitude before the negative one where it has both.
            "position 300x221" is no stored image, but position_image(300, 221).
ties        [{image, op, magnitude, crc}]: slopes that lie midway between two of 16 bits.

The steps between magnitudes are those of torch on a processor with AVX2 or AVX-512; without them
torch rounds once more. Made with Pillow 13.0.0, torch 2.11.0, torchvision 0.26.0.
"""

import json
import zlib
from pathlib import Path

import numpy as np
import torch
from data import encoded, noise_image, smooth_image
from PIL import Image
from torchvision.transforms import InterpolationMode, RandAugment, TrivialAugmentWide
from torchvision.transforms.autoaugment import _apply_op

FILE = Path("tests/data/golden/augment.json")
GEOMETRIC = ["ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate"]
LARGE = "position 300x221"
# Where another way to the slope shows, and no step of torchvision's lies near a rounding edge: any
# good libm gives these.
TIES = [399, 2473, 4179, 4895, 5443, 116067, 118195]


def position_image(height, width):
    """Grey; neighbours differ, so that a pixel from elsewhere shows."""
    y, x = np.mgrid[0:height, 0:width].astype(np.uint32)
    return Image.fromarray(((y * 40503 + x * 10007) * 2654435761 >> 24 & 255).astype(np.uint8))


def input_images():
    smooth = smooth_image(17, 23)
    noise = noise_image(19, 18)
    dark = Image.fromarray((np.asarray(noise) // 9 + 60).astype(np.uint8))
    return {
        "rgb": smooth,
        "grey": smooth.convert("L"),
        "small": noise.crop((0, 0, 9, 7)),
        "small grey": noise.crop((0, 0, 8, 11)).convert("L"),
        "noise": noise,  # few pixels a value: equalize runs out of 255
        "noise grey": noise_image(18, 31).convert("L"),
        "dark": dark,
        "square": smooth_image(24, 24),
        "tall": smooth_image(61, 3),
        "wide": noise_image(2, 40),
        "row": noise_image(3, 1).convert("L"),
        "pixel": noise_image(2, 1).crop((0, 1, 1, 2)),
        "pixel grey": Image.new("L", (1, 1), 77),
        "constant": Image.new("RGB", (20, 20), (0, 100, 255)),
        "two values": Image.fromarray(np.repeat(np.uint8([[90], [91]]), 300, axis=0).reshape(20, 30)),
    }


def space(name, bins, height, width):
    if name == "rand":
        return RandAugment()._augmentation_space(bins, (height, width))
    return TrivialAugmentWide()._augmentation_space(bins)


def magnitudes(name, bins, height, width):
    values = {
        op: [float(value) for value in of_bins]
        for op, (of_bins, _) in space(name, bins, height, width).items()
        if of_bins.ndim > 0
    }
    return {"space": name, "bins": bins, "height": height, "width": width, "values": values}


def apply(image, op, magnitude, fill=None):
    return _apply_op(image, op, magnitude, interpolation=InterpolationMode.NEAREST, fill=fill)


def signed_magnitudes(of_bins, signed):
    for value in of_bins.reshape(-1).tolist():
        yield value
        if signed:
            yield -value


def results(images):
    for name in ["small", "small grey"]:
        for op, (of_bins, signed) in space("trivial", 7, 0, 0).items():
            of_bins = of_bins[[1, 4, 6]] if of_bins.ndim > 0 else of_bins
            for magnitude in signed_magnitudes(of_bins, signed):
                for fill in [0, 128] if op in GEOMETRIC else [0]:
                    result = apply(images[name], op, magnitude, fill)
                    pixels = np.asarray(result).tobytes().hex()
                    yield {"image": name, "op": op, "magnitude": magnitude, "fill": fill, "pixels": pixels}


def checksum(image, op, of_bins, signed):
    crc = 0
    for magnitude in signed_magnitudes(of_bins, signed):
        result = apply(image, op, magnitude)
        assert result.size == image.size and result.mode == image.mode
        crc = zlib.crc32(np.asarray(result).tobytes(), crc)
    return crc


def checksums(images):
    for name, image in {**images, LARGE: position_image(300, 221)}.items():
        for kind, bins in [("rand", 31), ("trivial", 31), ("rand", 8)]:
            for op, (of_bins, signed) in space(kind, bins, image.height, image.width).items():
                crc = checksum(image, op, of_bins, signed)
                yield {"image": name, "op": op, "space": kind, "bins": bins, "crc": crc}


def ties():
    """Odd multiples of 2^-17, where the last bit of the slope decides."""
    image = position_image(300, 221)
    for multiple in TIES:
        for op in ["ShearX", "ShearY"]:
            magnitude = multiple / 2**17
            crc = zlib.crc32(np.asarray(apply(image, op, magnitude)).tobytes())
            yield {"image": LARGE, "op": op, "magnitude": magnitude, "crc": crc}


def main():
    assert torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
    images = input_images()
    sizes = [("rand", 31, 224, 160), ("rand", 11, 32, 33), ("rand", 2, 7, 500), ("rand", 9, 1, 1)]
    sizes += [("trivial", 31, 0, 0), ("trivial", 13, 0, 0), ("trivial", 2, 0, 0)]
    ops = space("trivial", 31, 0, 0)
    assert list(ops) == list(space("rand", 31, 1, 1))
    golden = {
        "ops": list(ops),
        "signed": [signed for _, signed in ops.values()],
        "magnitudes": [magnitudes(*size) for size in sizes],
        "images": {name: encoded(image) for name, image in images.items()},
        "results": list(results(images)),
        "checksums": list(checksums(images)),
        "ties": list(ties()),
    }
    FILE.write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
