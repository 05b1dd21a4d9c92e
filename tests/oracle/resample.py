"""Golden values for tests/data/images/resample_test.cpp, from Pillow.

    python tests/oracle/resample.py          (in the repository's root)

Writes tests/data/golden/resample.json. The pictures are a formula that the test has too. Results
are hexadecimal HWC bytes, or the 64-bit FNV-1a hash of these bytes where they are many. Made with
Pillow 13.0.0.
"""

import json
import math
from pathlib import Path

import numpy as np
from PIL import Image

FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
MOST_BYTES = 3000

# (height, width) of the picture, (top, left, height, width) of the box and (height, width) of the
# result.
CASES = [
    ((1, 1), (0, 0, 1, 1), (1, 1)),
    ((1, 1), (0, 0, 1, 1), (5, 9)),
    ((2, 3), (0, 0, 2, 3), (7, 8)),
    ((9, 1), (0, 0, 9, 1), (4, 12)),
    ((28, 28), (0, 0, 28, 28), (32, 32)),
    ((37, 53), (0, 0, 37, 53), (16, 23)),
    ((37, 53), (0, 0, 37, 53), (16, 53)),  # one direction only
    ((37, 53), (0, 0, 37, 53), (37, 19)),
    ((37, 53), (5, 11, 23, 31), (9, 3)),
    ((37, 53), (5, 11, 23, 31), (30, 37)),
    ((37, 53), (5, 11, 23, 31), (23, 31)),
    ((37, 53), (0, 0, 30, 30), (20, 25)),  # just not columns first
    ((37, 53), (0, 0, 30, 30), (19, 25)),  # just columns first
    ((37, 53), (0, 0, 30, 20), (29, 32)),
    ((37, 53), (0, 0, 30, 20), (31, 42)),
    ((37, 53), (1, 2, 36, 10), (14, 10)),
    ((40, 60), (3.5, 7.25, 20.5, 33.75), (17, 26)),
    ((40, 60), (3.5, 7.25, 20.5, 33.75), (33, 41)),
    ((40, 60), (3.875, 7, 20, 33), (20, 33)),  # moved by a fraction: filtered, though not scaled
    ((40, 60), (0, 0, 39.625, 59.125), (24, 24)),
    ((60, 40), (2.5, 0.625, 55.125, 39.25), (21, 24)),
    ((40, 60), (20.25, 30.125, 0.5, 0.75), (5, 6)),
    ((20, 20000), (0, 0, 20, 20000), (24, 40)),
    ((20000, 20), (0, 0, 20000, 20), (40, 24)),
    ((20, 20000), (0, 0, 20, 20000), (3, 9)),  # thousands of taps
    ((20000, 20), (0, 0, 20000, 20), (2, 19)),
    ((400, 500), (41, 67, 250, 350), (224, 224)),
    ((500, 400), (67, 41, 350, 250), (224, 224)),
    ((100, 125), (10.25, 16.75, 62.5, 87.5), (224, 224)),
]


def picture(height, width, channels):
    index = np.arange(1, height * width * channels + 1, dtype=np.uint64)
    values = (index * 0x9E3779B1) & 0xFFFFFFFF
    values = ((values ^ (values >> np.uint64(15))) * 0x85EBCA77) & 0xFFFFFFFF
    values = (values >> np.uint64(24)).astype(np.uint8)
    return Image.fromarray(values.reshape((height, width, 3) if channels == 3 else (height, width)))


def resized(image, box, size, interpolation):
    """Pillow's filter sees the whole picture around the box; cropping first keeps to the pixels
    that the box touches."""
    top, left, height, width = box
    first_row, first_column = math.floor(top), math.floor(left)
    last_row, last_column = math.ceil(top + height), math.ceil(left + width)
    cropped = image.crop((first_column, first_row, last_column, last_row))
    x, y = left - first_column, top - first_row
    return cropped.resize(size[::-1], FILTERS[interpolation], box=(x, y, x + width, y + height))


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def main():
    golden = []
    for picture_size, box, size in CASES:
        for channels in (1, 3):
            image = picture(*picture_size, channels)
            for interpolation in FILTERS:
                data = resized(image, box, size, interpolation).tobytes()
                few = len(data) <= MOST_BYTES
                result = {"pixels": data.hex()} if few else {"hash": fnv1a(data)}
                case = {"picture": picture_size, "channels": channels, "box": box, "size": size}
                golden.append({**case, "interpolation": interpolation, **result})
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in golden)
    Path("tests/data/golden/resample.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
