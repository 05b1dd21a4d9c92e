"""Image files of every kind, and the pixels that a decoder has to make of them.

    python tests/oracle/decode.py          (in the repository's root)

Writes tests/data/golden/decode/: the files, and pixels.json with the upright pixels of each, as
hexadecimal HWC bytes, for 3 channels and, in "grey", for 1. Where nothing else is said they are what
Pillow 13.0.0 decodes. Compositing and 16-bit values are computed here, since Pillow cuts the low byte
off (RGB) or clips (grey); "most" is how far a decoder may be off. Files named regions_* have no
pixels: parts of them are compared with the whole.
"""

import json
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

FOLDER = Path("tests/data/golden/decode")
BACKGROUND = (10, 200, 90)  # also in decode_test.cpp

pixels = {}


def picture(height, width, noise=0):
    y, x = np.mgrid[0:height, 0:width]
    planes = [
        127 + 110 * np.sin(x / 5.0 + y / 11.0),
        127 + 110 * np.cos(y / 4.0) * np.sin(x / 13.0),
        40 + 170.0 * ((x // 6 + y // 9) % 2),
    ]
    spread = np.random.default_rng(3).normal(0, noise, (height, width, 3))
    return np.clip(np.stack(planes, axis=2) + spread, 0, 255).astype(np.uint8)


def upright(name):
    with Image.open(FOLDER / name) as file:
        return ImageOps.exif_transpose(file).convert("RGB")


def encoded(values):
    values = np.asarray(values)
    values = values.reshape(values.shape[0], values.shape[1], -1)
    height, width, channels = values.shape
    return {"height": height, "width": width, "channels": channels, "pixels": values.tobytes().hex()}


def expect(name, wanted=None, most=0, over=None):
    """`wanted` as RGB; `over` is what is wanted over BACKGROUND, where that differs."""
    image = upright(name) if wanted is None else Image.fromarray(wanted)
    pixels[name] = {"rgb": encoded(image), "grey": encoded(image.convert("L")), "most": most}
    if over is not None:
        pixels[name]["over"] = encoded(over)


def save(name, image, wanted=None, most=0, over=None, **options):
    (Image.fromarray(image) if isinstance(image, np.ndarray) else image).save(FOLDER / name, **options)
    expect(name, wanted, most, over)


def write(name, content, wanted=None, most=0, over=None):
    (FOLDER / name).write_bytes(content)
    expect(name, wanted, most, over)


def composite(values, alpha, background, depth=255):
    values, alpha = values.astype(np.int64), alpha.astype(np.int64)[..., None]
    total = 255 * values * alpha + np.array(background) * depth * (depth - alpha)
    return ((total + depth * depth // 2) // (depth * depth)).astype(np.uint8)


def save_transparent(name, image, values, alpha, depth=255, most=0, **options):
    image.save(FOLDER / name, **options)
    expect_transparent(name, values, alpha, depth, most)


def expect_transparent(name, values, alpha, depth=255, most=0):
    black = composite(values, alpha, (0, 0, 0), depth)
    expect(name, black, most, over=composite(values, alpha, BACKGROUND, depth))


# JPEG


def segment(content, marker):
    """Where the first segment of this marker begins and ends."""
    at = 2
    while content[at + 1] != marker:
        at += 2 + int.from_bytes(content[at + 2 : at + 4], "big")
    return at, at + 2 + int.from_bytes(content[at + 2 : at + 4], "big")


def with_sampling(content, factors, height, width):
    """The same coded blocks under other sampling factors of the first component and another size:
    a valid file, whose picture is scrambled, where both have as many units and blocks in a unit."""
    at, _ = segment(content, 0xC0)
    changed = bytearray(content)
    changed[at + 5 : at + 9] = struct.pack(">HH", height, width)
    changed[at + 11] = factors
    return bytes(changed)


def write_jpegs():
    image = picture(16, 24)
    save("rgb.jpg", image, quality=90)
    save("progressive.jpg", image, quality=90, progressive=True)
    save("grey.jpg", image[..., 0].copy(), quality=90)
    save("restarts.jpg", image, quality=90, restart_marker_blocks=1)
    save("one.jpg", image[:1, :1])
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        save(f"orientation{orientation}.jpg", image[:10, :17], quality=90, exif=exif)

    save("cmyk.jpg", Image.fromarray(image).convert("CMYK"), quality=90)
    adobe = (FOLDER / "cmyk.jpg").read_bytes()
    begin, end = segment(adobe, 0xEE)
    write("cmyk_unmarked.jpg", adobe[:begin] + adobe[end:])
    # The marker's last byte names the colour transform. Without the marker a YCCK file is the one
    # above.
    write("ycck.jpg", adobe[: end - 1] + b"\x02" + adobe[end:])

    image = Image.fromarray(picture(77, 123, noise=9))
    for name, subsampling in {"444": 0, "422": 1, "420": 2}.items():
        image.save(FOLDER / f"regions_{name}.jpg", quality=90, subsampling=subsampling)
    image.convert("L").save(FOLDER / "regions_grey.jpg", quality=90)
    image.save(FOLDER / "regions_progressive.jpg", quality=90, progressive=True)
    image.convert("CMYK").resize((61, 45)).save(FOLDER / "regions_cmyk.jpg", quality=80)
    # 422 has 8 x 10 units of 2 + 1 + 1 blocks, 420 has 8 x 5 of 4 + 1 + 1.
    for name, of, factors, height, width in [("440", "422", 0x12, 123, 77), ("411", "420", 0x41, 77, 123)]:
        content = (FOLDER / f"regions_{of}.jpg").read_bytes()
        (FOLDER / f"regions_{name}.jpg").write_bytes(with_sampling(content, factors, height, width))
        with Image.open(FOLDER / f"regions_{name}.jpg") as file:
            file.load()
    Image.fromarray(picture(20, 20000)).convert("L").save(FOLDER / "regions_wide.jpg", quality=20)


# PNG


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, bits, colour_type, rows, interlaced=0, extra=b""):
    header = struct.pack(">IIBBBBB", width, height, bits, colour_type, 0, 0, interlaced)
    data = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def packed(values, bits):
    """Rows of samples of 1, 2 or 4 bits as bytes."""
    for row in values:
        digits = "".join(f"{value:0{bits}b}" for value in row)
        digits += "0" * (-len(digits) % 8)
        yield int(digits, 2).to_bytes(len(digits) // 8, "big")


def passes(values):
    """The rows of the seven passes of Adam7."""
    steps = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    for top, left, down, right in steps:
        for row in values[top::down, left::right]:
            if row.size:
                yield row.tobytes()


def write_pngs():
    image = picture(11, 13)
    grey = image[..., 0].copy()
    alpha = np.tile(np.linspace(0, 255, 13).astype(np.uint8), (11, 1))
    save("rgb.png", image)
    save("grey.png", grey)
    save("one.png", image[:1, :1])
    save("palette.png", Image.fromarray(image).quantize(16))
    write("interlaced.png", png(13, 11, 8, 2, passes(image), interlaced=1))
    exif = Image.Exif()
    exif[0x0112] = 6
    save("orientation6.png", image, exif=exif)

    for bits in (1, 2, 4):
        values = grey >> (8 - bits)
        spread = (values.astype(np.int64) * 255 // (2**bits - 1)).astype(np.uint8)
        wanted = np.repeat(spread[..., None], 3, axis=2)
        write(f"grey{bits}.png", png(13, 11, bits, 0, packed(values, bits)), wanted)
        key = int(values[4, 4])
        name = f"grey{bits}_key.png"
        extra = chunk(b"tRNS", struct.pack(">H", key))
        (FOLDER / name).write_bytes(png(13, 11, bits, 0, packed(values, bits), extra=extra))
        expect_transparent(name, wanted, np.where(values == key, 0, 255))

    rgb = np.repeat(grey[..., None], 3, axis=2)
    grey_alpha = Image.merge("LA", [Image.fromarray(grey), Image.fromarray(alpha)])
    save_transparent("grey_alpha.png", grey_alpha, rgb, alpha)
    rgba = Image.fromarray(np.dstack([image, alpha]))
    save_transparent("rgba.png", rgba, image, alpha)
    key = int(grey[5, 5])
    save_transparent("grey_key.png", Image.fromarray(grey), rgb, np.where(grey == key, 0, 255), transparency=key)
    key = tuple(int(value) for value in image[5, 5])
    opaque = np.where((image == key).all(axis=2), 0, 255)
    save_transparent("rgb_key.png", Image.fromarray(image), image, opaque, transparency=key)
    quantized = Image.fromarray(image).quantize(8)
    table = bytes(range(0, 256, 32))
    values = np.asarray(quantized.convert("RGB"))
    opaque = np.array(list(table))[np.asarray(quantized)]
    save_transparent("palette_alpha.png", quantized, values, opaque, transparency=table)

    deep = (image.astype(np.uint16) * 257) ^ np.arange(13, dtype=np.uint16)[:, None] * 19
    shallow = ((deep.astype(np.int64) * 255 + 32767) // 65535).astype(np.uint8)
    rows = [row.astype(">u2").tobytes() for row in deep]
    write("rgb16.png", png(13, 11, 16, 2, rows), shallow)
    rows = [row.astype(">u2").tobytes() for row in deep[..., 0]]
    write("grey16.png", png(13, 11, 16, 0, rows), np.repeat(shallow[..., :1], 3, axis=2))
    deep_alpha = alpha.astype(np.uint16) * 257 - (alpha > 0) * np.uint16(100)
    rows = [row.astype(">u2").tobytes() for row in np.dstack([deep, deep_alpha])]
    (FOLDER / "rgba16.png").write_bytes(png(13, 11, 16, 6, rows))
    expect_transparent("rgba16.png", deep, deep_alpha, 65535)


# The others


def big_endian_tiff(values):
    """Uncompressed RGB in one strip."""
    height, width, _ = values.shape
    entries = [(256, width), (257, height), (258, 8), (259, 1), (262, 2), (273, 0), (277, 3), (278, height)]
    entries += [(279, values.size)]
    start = 8 + 2 + 12 * len(entries) + 4
    body = b""
    for tag, value in entries:
        if tag == 258:  # three values, which lie behind the directory
            body += struct.pack(">HHII", tag, 3, 3, start)
        elif tag == 273:
            body += struct.pack(">HHII", tag, 4, 1, start + 6)
        elif tag == 279:
            body += struct.pack(">HHII", tag, 4, 1, value)
        else:
            body += struct.pack(">HHIHH", tag, 3, 1, value, 0)
    head = b"MM\0*" + struct.pack(">IH", 8, len(entries))
    return head + body + struct.pack(">I", 0) + struct.pack(">HHH", 8, 8, 8) + values.tobytes()


def write_tiffs(image, alpha):
    save("rgb.tif", image)
    save("lzw.tif", image, compression="tiff_lzw")
    write("big_endian.tif", big_endian_tiff(image))
    deep = image[..., 0].astype(np.uint16) * 257 + np.uint16(90)
    shallow = ((deep.astype(np.int64) * 255 + 32767) // 65535).astype(np.uint8)
    save("grey16.tif", deep, np.repeat(shallow[..., None], 3, axis=2))
    # libtiff multiplies colours by alpha and rounds, so that compositing rounds twice.
    save_transparent("rgba.tif", Image.fromarray(np.dstack([image, alpha])), image, alpha, most=1)
    save("orientation6.tif", image, np.rot90(image, -1).copy(), tiffinfo={274: 6})
    save("orientation3.tif", image, np.rot90(image, 2).copy(), tiffinfo={274: 3})
    merged = Image.merge("LA", [Image.fromarray(image[..., 0]), Image.fromarray(alpha)])
    merged.save(FOLDER / "grey_alpha.tif")


def write_webps(image, alpha):
    save("rgb.webp", image, lossless=True)
    save("lossy.webp", image, quality=90)
    save_transparent("rgba.webp", Image.fromarray(np.dstack([image, alpha])), image, alpha, lossless=True, exact=True)
    exif = Image.Exif()
    exif[0x0112] = 6
    save("orientation6.webp", image, lossless=True, exif=exif)
    frames = [Image.fromarray(image[::step]).resize((13, 11)) for step in (2, 3)]
    Image.fromarray(image).save(FOLDER / "animated.webp", save_all=True, append_images=frames)


def write_pnms(image):
    grey = image[..., 0]
    header = b"# a comment\n13 # another\n11\n"
    text = "\n".join(" ".join(str(value) for value in row.ravel()) for row in image).encode()
    write("rgb.ppm", b"P6\n" + header + b"255\n" + image.tobytes())
    write("text.ppm", b"P3 " + header + b"255\n" + text, image)
    bits = (grey > 120).astype(np.uint8)
    wanted = np.repeat(255 - 255 * bits[..., None], 3, axis=2)
    write("bits.pbm", b"P4\n" + header + b"".join(packed(bits, 1)), wanted)
    digits = "\n".join("".join(str(value) for value in row) for row in bits).encode()
    write("text.pbm", b"P1\n" + header + digits, wanted)
    for name, most in [("most100.pgm", 100), ("most1023.pgm", 1023)]:
        values = grey.astype(np.int64) * most // 255
        wanted = ((values * 255 + most // 2) // most).astype(np.uint8)
        kind = ">u2" if most > 255 else "u1"
        content = b"P5\n" + header + b"%d\n" % most + values.astype(kind).tobytes()
        write(name, content, np.repeat(wanted[..., None], 3, axis=2))


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_jpegs()
    write_pngs()
    image = picture(11, 13)
    alpha = np.tile(np.linspace(0, 255, 13).astype(np.uint8), (11, 1))
    write_tiffs(image, alpha)
    write_webps(image, alpha)
    write_pnms(image)
    save("rgb.bmp", image)
    save("palette.bmp", Image.fromarray(image).quantize(16))
    save("grey.bmp", image[..., 0].copy())
    (FOLDER / "pixels.json").write_text(json.dumps(pixels, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
