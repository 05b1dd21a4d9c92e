"""Writes tests/golden/checkpoint/: a file of each dtype by Python's safetensors.

Element i of each tensor is (7 i mod 11) - 3, or its truth for booleans, or 7 i mod 11 for unsigned
bytes: both sides compute it, and a wrong offset, dtype or shape shows. Run from the repository's
root: python tests/oracle/checkpoint.py
"""

import pathlib

import torch
from safetensors.torch import save_file

OUT = pathlib.Path("tests/golden/checkpoint")
DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "bool": torch.bool,
}
NAMES = {
    'quote " and \\ back': [2],
    "zwölf/\u6587": [1, 2],
    "tab\tand\nline": [3],
    "scalar": [],
    "empty": [0, 4],
}


def values(shape, dtype):
    count = torch.Size(shape).numel()
    base = torch.arange(count) * 7 % 11
    if dtype == torch.bool:
        return (base - 3).to(torch.bool).reshape(shape)
    return (base if dtype == torch.uint8 else base - 3).to(dtype).reshape(shape)


def main():
    tensors = {name: values([3, 5], dtype) for name, dtype in DTYPES.items()}
    tensors |= {name: values(shape, torch.float32) for name, shape in NAMES.items()}
    OUT.mkdir(parents=True, exist_ok=True)
    save_file(tensors, OUT / "python.safetensors", metadata={"format": "pt", "by": "python"})


if __name__ == "__main__":
    main()
