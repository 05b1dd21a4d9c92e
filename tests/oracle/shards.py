"""Golden tar archives for tests/data, from Python's tarfile.

    python tests/oracle/shards.py          (in the repository's root)

Writes tests/data/golden/shards/: the same samples in the ustar, pax and GNU formats, where the
latter two hold names too long for the first, and packed.tar, which is what `pack` writes.
"""

import io
import json
import tarfile
from pathlib import Path

FOLDER = Path("tests/data/golden/shards")
LONG = "folder-" * 20 + "x/" + "ä" * 120


def add(archive, name, content, kind=tarfile.REGTYPE):
    member = tarfile.TarInfo(name)
    member.size = len(content)
    member.type = kind
    archive.addfile(member, io.BytesIO(content))


def write_samples(archive, long_name):
    add(archive, "train", b"", tarfile.DIRTYPE)
    add(archive, "train/0001.jpg", b"first")
    add(archive, "train/0001.cls", b"2\n")
    add(archive, "train/._0001.jpg", b"resource fork")
    add(archive, "README", b"no sample")
    add(archive, "train/b.cls", b"1")
    add(archive, "train/b.JPEG", b"s" * 512)
    add(archive, "train/b.seg.png", b"a mask, not the image")
    add(archive, "other/0001.json", json.dumps({"label": 0, "weight": 0.5}).encode())
    add(archive, "other/0001.png", b"")
    if long_name:
        add(archive, LONG + ".webp", b"y" * 1000)
        add(archive, LONG + ".json", json.dumps({"cls": "1", "width": 3}).encode())


def write_packed(path):
    """Members as tests/data/tools/pack_test.cpp has them, in the order and form of `pack`."""
    blocks = []
    for index, (label, content) in enumerate([(0, b"P5\n2 1\n255\nab"), (1, b"P5\n2 1\n255\n\0\xff")]):
        for name, data in [(f"{index:09}.pgm", content), (f"{index:09}.cls", b"%d" % label)]:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            blocks += [member.tobuf(tarfile.USTAR_FORMAT), data, bytes(-len(data) % 512)]
    path.write_bytes(b"".join(blocks) + bytes(1024))


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    formats = {"ustar": tarfile.USTAR_FORMAT, "pax": tarfile.PAX_FORMAT, "gnu": tarfile.GNU_FORMAT}
    for name, form in formats.items():
        with tarfile.open(FOLDER / f"{name}.tar", "w", format=form) as archive:
            write_samples(archive, long_name=name != "ustar")
    write_packed(FOLDER / "packed.tar")


if __name__ == "__main__":
    main()
