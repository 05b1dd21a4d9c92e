"""Reads with Python's safetensors what the C++ tests wrote: interop_test.py <test_checkpoint>."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77

try:
    import torch
    from safetensors import safe_open
    from safetensors.torch import load_file
except ImportError as error:
    print(f"skipped: {sys.executable} cannot import what reads the files: {error}")
    sys.exit(SKIPPED)

PROGRAM = pathlib.Path(sys.argv.pop()).resolve()


def patterned(shape, dtype):
    """tests/oracle/checkpoint.py's values."""
    base = torch.arange(torch.Size(shape).numel()) * 7 % 11
    return (base if dtype == torch.uint8 else base - 3).to(dtype).reshape(shape)


class Interop(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        subprocess.run(
            [PROGRAM, "--gtest_filter=Interop.*"],
            check=True,
            env=os.environ | {"TRAINER_INTEROP_FOLDER": str(cls.folder)},
            stdout=subprocess.DEVNULL,
        )

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def assert_tensor(self, actual, shape, dtype):
        self.assertEqual(actual.dtype, dtype)
        self.assertEqual(list(actual.shape), shape)
        self.assertTrue(torch.equal(actual, patterned(shape, dtype)))

    def test_every_dtype_and_name(self):
        file = self.folder / "ours.safetensors"
        with safe_open(file, framework="pt") as opened:
            self.assertEqual(opened.metadata(), {"format": "pt"})
        expected = {
            "b": ([3], torch.uint8),
            "d": ([2, 3], torch.float64),
            "f": ([4], torch.float32),
            "h": ([5], torch.float16),
            "bf": ([7], torch.bfloat16),
            "l": ([1, 2], torch.int64),
            "i": ([3, 1], torch.int32),
            "s": ([3], torch.int16),
            "c": ([5], torch.int8),
            "t": ([9], torch.bool),
            "scalar": ([], torch.int64),
            "empty": ([0, 3], torch.float32),
            'quote " \\ \n \t': ([2], torch.float32),
            "zwölf/文": ([2], torch.int32),
        }
        tensors = load_file(file)
        self.assertEqual(set(tensors), set(expected))
        for name, (shape, dtype) in expected.items():
            self.assert_tensor(tensors[name], shape, dtype)

    def test_a_checkpoint(self):
        folder = self.folder / "checkpoints" / "step-000007"
        self.assert_tensor(load_file(folder / "model.safetensors")["weight"], [2, 3], torch.float32)
        manifest = json.loads((folder / "manifest.json").read_text())
        self.assertEqual(manifest["version"], 1)
        for name, file in manifest["files"].items():
            self.assertEqual((folder / name).stat().st_size, file["size"])
        self.assertEqual(json.loads((folder / "state.json").read_text())["step"], 7)


if __name__ == "__main__":
    unittest.main()
