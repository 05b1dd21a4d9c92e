"""Golden values for tests/data, from Pillow and torchvision.

    python tests/oracle/data.py          (in the repository's root)

Writes tests/data/golden/transforms.json (images as hexadecimal HWC bytes) and small image files
with the pixels that Pillow decodes from them, tests/data/golden/images/. Made with Pillow 13.0.0,
torchvision 0.26.0.
"""

import json
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as F

FOLDER = Path("tests/data/golden")
INTERPOLATIONS = {"bilinear": InterpolationMode.BILINEAR, "bicubic": InterpolationMode.BICUBIC}


def smooth_image(height, width):
    y, x = np.mgrid[0:height, 0:width]
    planes = [
        127 + 127 * np.sin(x / 5.0 + y / 11.0),
        127 + 127 * np.cos(y / 4.0) * np.sin(x / 13.0),
        255.0 * ((x // 6 + y // 9) % 2),  # edges, where cubic weights overshoot
    ]
    return Image.fromarray(np.stack(planes, axis=2).astype(np.uint8))


def noise_image(height, width):
    values = np.random.default_rng(7).integers(0, 256, (height, width, 3), dtype=np.uint8)
    values[0] = values[0, :, :1]  # a row of greys, whose hue is undefined
    return Image.fromarray(values)


def encoded(image):
    values = np.asarray(image)
    values = values.reshape(values.shape[0], values.shape[1], -1)
    height, width, channels = values.shape
    return {"height": height, "width": width, "channels": channels, "pixels": values.tobytes().hex()}


def resizes(images):
    sizes = [("rgb", 16), ("rgb", 31), ("rgb", 44), ("grey", 9), ("wide", 20)]
    for name, size in sizes:
        for kind, mode in INTERPOLATIONS.items():
            result = F.resize(images[name], size, interpolation=mode)
            yield {"image": name, "size": size, "interpolation": kind, "result": encoded(result)}


def center_crops(images):
    for name, size in [("rgb", 20), ("rgb", 33), ("rgb", 42), ("grey", 60)]:
        yield {"image": name, "size": size, "result": encoded(F.center_crop(images[name], size))}


def adjustments(images):
    functions = {
        "brightness": F.adjust_brightness,
        "contrast": F.adjust_contrast,
        "saturation": F.adjust_saturation,
        "hue": F.adjust_hue,
    }
    for kind, function in functions.items():
        for factor in [-0.5, -0.21, 0.13, 0.5] if kind == "hue" else [0.0, 0.4, 1.7]:
            yield {"kind": kind, "factor": factor, "result": encoded(function(images["noise"], factor))}


def write_image_files():
    """Files of many kinds, and what Pillow makes of them (upright, RGB)."""
    folder = FOLDER / "images"
    folder.mkdir(parents=True, exist_ok=True)
    image = smooth_image(16, 24)
    decoded = {}

    def save(name, picture, wanted=None, **options):
        picture.save(folder / name, **options)
        if wanted is None:
            with Image.open(folder / name) as file:
                wanted = ImageOps.exif_transpose(file).convert("RGB")
        decoded[name] = encoded(wanted)

    save("rgb.jpg", image, quality=90)
    save("progressive.jpg", image, quality=90, progressive=True)
    save("grey.jpg", image.convert("L"), quality=90)
    save("cmyk.jpg", image.convert("CMYK"), quality=90)
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        save(f"orientation{orientation}.jpg", image.crop((0, 0, 17, 10)), quality=90, exif=exif)
    save("rgb.png", image)
    save("grey.png", image.convert("L"))
    save("palette.png", image.quantize(16))
    alpha = image.copy()
    alpha.putalpha(Image.fromarray(np.tile(np.arange(24, dtype=np.uint8) * 11, (16, 1))))
    save("alpha.png", alpha, Image.alpha_composite(Image.new("RGBA", image.size, (0, 0, 0, 255)), alpha).convert("RGB"))
    deep = (np.asarray(image.convert("L")).astype(np.uint16) * 257) + 100 * (np.arange(24) % 2).astype(np.uint16)
    shallow = Image.fromarray((deep.astype(np.float64) / 257 + 0.5).astype(np.uint8))
    save("grey16.png", Image.fromarray(deep), shallow.convert("RGB"))
    save("rgb.bmp", image)
    save("rgb.webp", image, lossless=True)
    save("rgb.tif", image)
    return decoded


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    rgb = smooth_image(37, 53)
    images = {"rgb": rgb, "grey": rgb.convert("L"), "wide": smooth_image(20, 71), "noise": noise_image(16, 20)}
    golden = {
        "images": {name: encoded(image) for name, image in images.items()},
        "resize": list(resizes(images)),
        "center_crop": list(center_crops(images)),
        "adjust": list(adjustments(images)),
        "decoded": write_image_files(),
    }
    (FOLDER / "transforms.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
