"""Weights go to torchvision and back without a change of name, shape or result.

    interop_test.py MODEL_TOOL        exits with 77 where a package is missing
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
    import torchvision
    from safetensors.torch import load_file, save_file
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "oracle"))
import formula  # noqa: E402

MODEL_TOOL = pathlib.Path(sys.argv.pop(1)).resolve()
KINDS = ("resnet18", "resnet50")
CLASSES = 10


def tool(*arguments):
    return subprocess.run([MODEL_TOOL, *map(str, arguments)], capture_output=True, text=True)


class InteropTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def assert_close(self, actual, wanted):
        distance = ((actual - wanted).abs().max() / wanted.abs().max()).item()
        self.assertLessEqual(distance, 1e-5)

    def run_tool(self, *arguments):
        result = tool(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_torchvision_loads_what_we_write(self):
        for kind in KINDS:
            with self.subTest(kind):
                file = self.folder / f"{kind}.safetensors"
                self.run_tool("export", kind, CLASSES, 7, file)
                model = getattr(torchvision.models, kind)(num_classes=CLASSES).eval()
                model.load_state_dict(load_file(file), strict=True)
                with torch.no_grad():
                    logits = model(formula.model_input([2, 3, 64, 64]))
                self.assert_close(load_file(f"{file}.logits")["logits"], logits)

    def test_we_load_what_torchvision_writes(self):
        for kind in KINDS:
            with self.subTest(kind):
                model = getattr(torchvision.models, kind)(num_classes=CLASSES).eval()
                formula.fill_state(model)
                sample = torch.rand([3, 3, 72, 64], generator=torch.Generator().manual_seed(5))
                files = (f"{kind}.{part}" for part in ("weights", "input", "output"))
                weights, data, out = (self.folder / file for file in files)
                save_file(model.state_dict(), weights)
                save_file({"input": sample}, data)
                self.run_tool("check", kind, CLASSES, weights, data, out)
                with torch.no_grad():
                    self.assert_close(load_file(out)["logits"], model(sample))

    def test_weights_of_another_architecture_are_refused(self):
        file = self.folder / "resnet34.safetensors"
        save_file(torchvision.models.resnet34(num_classes=5).state_dict(), file)
        result = tool("check", "resnet18", CLASSES, file, file, self.folder / "out")
        self.assertEqual(result.returncode, 1)
        self.assertIn("layer1.2.conv1.weight", result.stderr)
        self.assertIn("fc.weight", result.stderr)


if __name__ == "__main__":
    unittest.main()
