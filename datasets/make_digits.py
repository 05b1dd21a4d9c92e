"""Writes datasets/digits/*-ubyte from scikit-learn's copy of the UCI digits.

    python datasets/make_digits.py digits.csv.gz datasets/digits

digits.csv.gz is sklearn/datasets/data/digits.csv.gz of any scikit-learn wheel: 1,797 rows of 64
pixels (0..16) and the label. Pixels become round(v * 255 / 16). The split is stratified and fixed:
within each class, in the file's order, every fifth sample (the 5th, 10th, ...) goes to the test
set; then, so that it has exactly 360, the last sample of each of the classes with the largest
remainder goes there too (the smaller digit first). Both sets keep the file's order.
"""

import gzip
import struct
import sys
from pathlib import Path

TEST_SAMPLES = 360


def read_rows(path):
    with gzip.open(path, "rt") as lines:
        rows = [[int(float(value)) for value in line.split(",")] for line in lines]
    assert len(rows) == 1797 and all(len(row) == 65 for row in rows)
    return rows


def test_indices(labels):
    by_class = {digit: [i for i, label in enumerate(labels) if label == digit] for digit in range(10)}
    chosen = {i for members in by_class.values() for i in members[4::5]}
    by_remainder = sorted(by_class, key=lambda digit: (-(len(by_class[digit]) % 5), digit))
    for digit in by_remainder[: TEST_SAMPLES - len(chosen)]:
        chosen.add(by_class[digit][-1])
    assert len(chosen) == TEST_SAMPLES
    return chosen


def write_idx(folder, name, rows):
    pixels = bytes(int(value * 255 / 16 + 0.5) for row in rows for value in row[:64])
    labels = bytes(row[64] for row in rows)
    (folder / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, len(rows), 8, 8) + pixels)
    (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, len(rows)) + labels)


def main():
    source, folder = Path(sys.argv[1]), Path(sys.argv[2])
    rows = read_rows(source)
    test = test_indices([row[64] for row in rows])
    folder.mkdir(parents=True, exist_ok=True)
    write_idx(folder, "train", [row for i, row in enumerate(rows) if i not in test])
    write_idx(folder, "test", [row for i, row in enumerate(rows) if i in test])


if __name__ == "__main__":
    main()
