"""Using what a run made: eval, predict, export, tokenize, and samples during training.

What Python reads back (torch, transformers, peft) is left out, with the reason, where it is missing.
"""

import csv
import importlib.util
import io
import json
import re
import struct
import unittest

from support import DEVICE, ROOT, TrainerTest, checkpoints, curve, records, weights

DIGITS = f"""
name: digits
seed: 3
device: {DEVICE}
model: {{kind: mlp, hidden: [32]}}
data:
  train: {{kind: digits, transforms: [{{random_crop: {{size: 8, padding: 1}}}}, {{normalize: digits}}]}}
  val: {{kind: digits, split: test, transforms: [{{normalize: digits}}]}}
  loader: {{workers: 1}}
batch: {{global: 64}}
optim: {{kind: adamw, lr: 5e-3, ema: 0.9}}
train: {{length: 60 steps, evaluate_every: 25 steps}}
log: {{console: quiet, tensorboard: false}}
"""

TEXT = f"""
name: text
seed: 5
device: {DEVICE}
model: {{kind: gpt2, layers: 2, heads: 2, width: 32, context: 32, dropout: 0.1}}
data:
  train: {{kind: text, path: corpus.txt, length: 24, part: train}}
  val: {{kind: text, path: corpus.txt, length: 24, part: val}}
batch: {{global: 16, evaluate: 32}}
optim: {{kind: adamw, lr: 5e-3}}
train: {{length: 40 steps, evaluate_every: 20 steps}}
log: {{console: quiet, tensorboard: false}}
"""

# 8x8 pixels.
IMAGES = ROOT / "datasets/digits"


def has(*packages):
    return all(importlib.util.find_spec(name) is not None for name in packages)


def needs(*packages):
    return unittest.skipUnless(has(*packages), f"Python has no {' or no '.join(packages)}")


def corpus():
    """About 20 kB of ASCII with something to learn, and some UTF-8."""
    words = ["the", "king", "said", "naïve", "words", "to", "a", "queen", "who", "went", "home"]
    state, lines = 1, []
    for _ in range(600):
        line = []
        for _ in range(6):
            state = (state * 1103515245 + 12345) % 2**31
            line.append(words[(state >> 8) % len(words)])
        lines.append(" ".join(line) + ".\n")
    return "".join(lines)


def read_idx(path):
    data = path.read_bytes()
    dimensions = data[3]
    shape = struct.unpack(f">{dimensions}I", data[4:4 + 4 * dimensions])
    return shape, data[4 + 4 * dimensions:]


class UseTest(TrainerTest):
    def use(self, *arguments, expect=0, **options):
        result = self.trainer(*arguments, **options)
        self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        return result

    def evaluated(self, run, *arguments):
        return json.loads(self.use("eval", "--checkpoint", run, "--json", *arguments).stdout)

    def assert_last_evaluation(self, run):
        last = [record for record in records(run) if "val/loss" in record][-1]
        got = self.evaluated(checkpoints(run)[-1])
        self.assertEqual(got["step"], last["step"])
        metrics = {name: value for name, value in last.items() if name.startswith("val/")}
        self.assertEqual({name: got[name] for name in metrics}, metrics)
        return got


class Images(UseTest):
    def setUp(self):
        super().setUp()
        self.run_folder = self.folder / "run"
        self.train(self.config(DIGITS), self.run_folder)

    def write_pictures(self, count=40):
        """The first test digits as PGM; returns their labels by path."""
        (width, pixels), (_, labels) = self.digits()
        folder = self.folder / "pictures"
        folder.mkdir()
        size = 64
        expected = {}
        for i in range(count):
            path = folder / f"{count - i:03}.pgm"
            path.write_bytes(b"P5 8 8 255\n" + pixels[i * size:(i + 1) * size])
            expected[str(path)] = str(labels[i])
        return folder, expected

    def digits(self):
        files = sorted(IMAGES.glob("*-ubyte"))
        images = next(f for f in files if "images" in f.name and f.name.startswith(("test", "t10k")))
        labels = next(f for f in files if "labels" in f.name and f.name.startswith(("test", "t10k")))
        return read_idx(images), read_idx(labels)

    def test_eval_is_the_runs_own_evaluation(self):
        got = self.assert_last_evaluation(self.run_folder)
        self.assertTrue(got["averaged_weights"])
        # Of the folder, the best checkpoint or else the newest.
        self.assertEqual(self.evaluated(self.run_folder), got)
        self.assertEqual(self.evaluated(self.run_folder / "checkpoints"), got)

    def test_eval_of_other_weights_and_data(self):
        averaged = self.evaluated(self.run_folder)
        raw = self.evaluated(self.run_folder, "--no-ema")
        self.assertFalse(raw["averaged_weights"])
        self.assertNotEqual(raw["val/loss"], averaged["val/loss"])
        trained = self.evaluated(self.run_folder, "--data", "train")
        self.assertIn("train/loss", trained)
        self.assertNotIn("val/loss", trained)
        text = self.use("eval", "--checkpoint", self.run_folder).stdout
        self.assertIn(f"val/accuracy {averaged['val/accuracy']:.6g}\n", text)
        smaller = self.evaluated(self.run_folder, "--set", "batch.evaluate=7")
        self.assertAlmostEqual(smaller["val/loss"], averaged["val/loss"], places=5)

    def test_predict_gives_every_probability(self):
        folder, labels = self.write_pictures()
        output = self.folder / "out.csv"
        self.use("predict", "--checkpoint", self.run_folder, "--input", folder, "--output", output)
        rows = list(csv.DictReader(io.StringIO(output.read_text())))
        self.assertEqual([row["path"] for row in rows], sorted(labels))
        hits = 0
        for row in rows:
            values = {name: float(value) for name, value in row.items()
                      if name not in ("path", "class", "probability")}
            self.assertEqual(len(values), 10)
            self.assertAlmostEqual(sum(values.values()), 1, places=5)
            best = max(values, key=values.get)
            self.assertEqual(row["class"], best)
            self.assertEqual(float(row["probability"]), values[best])
            hits += row["class"] == labels[row["path"]]
        self.assertGreater(hits, 25)  # of 40; chance is 4
        again = self.use("predict", "--checkpoint", self.run_folder, "--input", folder)
        self.assertEqual(again.stdout, output.read_text())

    def test_predict_top(self):
        folder, _ = self.write_pictures(3)
        result = self.use("predict", "--checkpoint", self.run_folder, "--input", folder, "--top", 3)
        rows = list(csv.reader(io.StringIO(result.stdout)))
        self.assertEqual(rows[0], ["path", "class", "probability", "class_2", "probability_2",
                                   "class_3", "probability_3"])
        for row in rows[1:]:
            self.assertGreaterEqual(float(row[2]), float(row[4]))
            self.assertGreaterEqual(float(row[4]), float(row[6]))

    def test_predict_leaves_bad_files_out(self):
        folder, labels = self.write_pictures(3)
        (folder / "broken.pgm").write_bytes(b"P5 8 8 255\nshort")
        (folder / "notes.txt").write_text("no picture")
        (folder / ".hidden.pgm").write_bytes(b"no picture")
        result = self.use("predict", "--checkpoint", self.run_folder, "--input", folder, expect=4)
        self.assertIn("broken.pgm", result.stderr)
        self.assertIn("predicted 3 of 4 files", result.stderr)
        self.assertEqual([row["path"] for row in csv.DictReader(io.StringIO(result.stdout))],
                         sorted(labels))

    def test_mistakes(self):
        empty = self.folder / "empty"
        empty.mkdir()
        predict = ("predict", "--checkpoint", self.run_folder)
        for arguments, code, message in (
                ((*predict, "--input", empty), 4, "there is no image in it"),
                ((*predict, "--input", "nowhere"), 4, "there is no such file or folder"),
                ((*predict, "--prompt", "A"), 2, "give it images with --input"),
                (predict, 2, "--input (images) or --prompt (text)"),
                ((*predict, "--prompt", "A", "--input", empty), 2, "--input"),
                (("eval", "--checkpoint", "nowhere"), 9, "there is no such folder"),
                (("eval", "--checkpoint", empty), 9, "this is no checkpoint and no run"),
                (("eval", "--checkpoint", self.run_folder, "--set", "batch.evalute=3"), 3,
                 "batch.evalute"),
                (("eval", "--checkpoint", self.run_folder, "--set", "data.val=null"), 3,
                 "no data.val"),
                (("export", "--checkpoint", self.run_folder, "--format", "huggingface", "--output",
                  "x"), 3, "export it as safetensors"),
                (("export", "--checkpoint", self.run_folder, "--format", "safetensors", "--output",
                  empty), 9, "exists already"),
                (("export", "--checkpoint", self.run_folder, "--format", "safetensors",
                  "--adapters", "--output", "x"), 2, "trained no adapters")):
            with self.subTest(arguments=arguments):
                result = self.use(*arguments, expect=code)
                self.assertIn(message, result.stderr)
                self.assertFalse((self.folder / "x").exists())

    def test_a_damaged_checkpoint(self):
        model = checkpoints(self.run_folder)[-1] / "model.safetensors"
        model.write_bytes(model.read_bytes()[:-5])
        result = self.use("eval", "--checkpoint", model.parent, expect=9)
        self.assertIn("model.safetensors", result.stderr)

    @needs("torch", "safetensors")
    def test_exports_agree_with_predict(self):
        import torch
        from safetensors.torch import load_file
        folder, labels = self.write_pictures()
        result = self.use("predict", "--checkpoint", self.run_folder, "--input", folder)
        rows = list(csv.DictReader(io.StringIO(result.stdout)))
        wanted = torch.tensor([[float(v) for k, v in row.items()
                                if k not in ("path", "class", "probability")] for row in rows])
        (_, pixels), _ = self.digits()
        count = len(labels)
        images = torch.frombuffer(bytearray(pixels[:count * 64]), dtype=torch.uint8)
        images = images.view(count, 1, 8, 8).flip(0).float() / 255  # as the paths are sorted
        mean, std = self.normalisation()
        images = (images - mean) / std

        script = self.folder / "model.pt"
        self.use("export", "--checkpoint", self.run_folder, "--format", "torchscript", "--output",
                 script)
        got = torch.jit.load(str(script))(images).softmax(1)
        self.assertLessEqual((got - wanted).abs().max().item(), 1e-5)

        file = self.folder / "model.safetensors"
        self.use("export", "--checkpoint", self.run_folder, "--format", "safetensors", "--output",
                 file)
        state = load_file(file)
        x = images.flatten(1)
        layers = sorted({name.rsplit(".", 1)[0] for name in state})
        for i, name in enumerate(layers):
            x = x @ state[name + ".weight"].T + state[name + ".bias"]
            x = x.relu() if i + 1 < len(layers) else x
        self.assertLessEqual((x.softmax(1) - wanted).abs().max().item(), 1e-5)

    def normalisation(self):
        text = self.trainer("config", "print", self.folder / "exp.yaml").stdout
        found = re.search(r"normalize:.*?mean: \[([\d.e-]+)\].*?std: \[([\d.e-]+)\]", text, re.S)
        if found:
            return float(found.group(1)), float(found.group(2))
        raise AssertionError(text)


class Text(UseTest):
    def setUp(self):
        super().setUp()
        (self.folder / "corpus.txt").write_text(corpus(), encoding="utf-8")
        self.run_folder = self.folder / "run"

    def train_text(self, *arguments, text=TEXT, run=None):
        self.train(self.config(text), run or self.run_folder, *arguments)

    def write(self, *arguments, run=None, expect=0):
        return self.use("predict", "--checkpoint", run or self.run_folder, *arguments,
                        expect=expect, encoding="utf-8")

    def export(self, format, *arguments, run=None, name=None):
        output = self.folder / (name or format)
        self.use("export", "--checkpoint", run or self.run_folder, "--format", format, "--output",
                 output, *arguments)
        return output

    def test_eval_and_generation(self):
        self.train_text()
        self.assert_last_evaluation(self.run_folder)
        prompt = ("--prompt", "the king", "--max-tokens", 80)  # past the context of 32
        first = self.write(*prompt, "--seed", 7).stdout
        self.assertTrue(first.startswith("the king"))
        self.assertEqual(self.write(*prompt, "--seed", 7).stdout, first)
        self.assertNotEqual(self.write(*prompt, "--seed", 8).stdout, first)
        greedy = self.write(*prompt, "--temperature", 0).stdout
        self.assertEqual(self.write(*prompt, "--top-k", 1, "--seed", 9).stdout, greedy)
        self.assertEqual(self.write(*prompt, "--top-p", 0, "--seed", 9).stdout, greedy)
        several = self.write(*prompt, "--seed", 7, "--samples", 2).stdout
        self.assertTrue(several.startswith("--- 1 of 2 ---\n" + first + "--- 2 of 2 ---\n"))

    def test_generation_is_utf8_whatever_the_model_says(self):
        self.train_text("--set", "train.length=1 steps")
        result = self.trainer("predict", "--checkpoint", self.run_folder, "--prompt", "é",
                              "--max-tokens", 300)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreater(result.stdout.count("\ufffd"), 10)

    def test_mistakes(self):
        self.train_text("--set", "train.length=1 steps")
        predict = ("predict", "--checkpoint", self.run_folder)
        for arguments, message in (
                ((*predict, "--input", "corpus.txt"), "give it text with --prompt"),
                ((*predict, "--prompt", "x" * 40), "model's context 32"),
                ((*predict, "--prompt", "x", "--temperature", "-1"), "--temperature"),
                ((*predict, "--prompt", "x", "--top", "3"), "--top")):
            with self.subTest(arguments=arguments):
                self.assertIn(message, self.use(*arguments, expect=2).stderr)

    def test_samples_do_not_change_the_run(self):
        self.train_text()
        sampled = self.folder / "sampled"
        self.train_text("--set", 'log.samples={prompt: "the", tokens: 20}', run=sampled)
        self.assertEqual(curve(sampled), curve(self.run_folder))
        self.assertEqual(weights(sampled), weights(self.run_folder))
        log = (sampled / "trainer.log").read_text(errors="replace")
        self.assertEqual(log.count("sample after step"), 2)
        refused = self.trainer("--config", self.config(TEXT), "--output", self.folder / "refused",
                               "--set", f'log.samples={{prompt: "{"x" * 40}"}}')
        self.assertEqual(refused.returncode, 3, refused.stderr)
        self.assertIn("log.samples.prompt: the prompt has 40 tokens", refused.stderr)

    def test_tokenize(self):
        output = self.folder / "tokens"
        arguments = ("data", "tokenize", "--input", "corpus.txt", "--tokenizer", "bytes",
                     "--output", output, "--workers", 2)
        result = self.use(*arguments)
        size = (self.folder / "corpus.txt").stat().st_size
        self.assertIn(f"{size} tokens of", result.stdout)
        before = {path.name: path.read_bytes() for path in output.iterdir()}
        self.use(*arguments)
        self.assertEqual({path.name: path.read_bytes() for path in output.iterdir()}, before)
        # A run on them is the run on the text.
        self.train_text()
        text = TEXT.replace("kind: text, path: corpus.txt", "kind: tokens, path: tokens")
        shards = self.folder / "on-shards"
        self.train_text(text=text, run=shards)
        self.assertEqual(curve(shards), curve(self.run_folder))
        self.write("--prompt", "the", "--max-tokens", 5, run=shards)
        self.use("data", "tokenize", "--input", "nowhere.txt", "--tokenizer", "bytes", "--output",
                 "x", expect=4)
        self.use(*arguments, "--kind", "jsonl", "--document-separator", "x", expect=2)

    @needs("torch", "transformers", "safetensors")
    def test_hugging_face_export_and_greedy_text(self):
        import torch
        from safetensors.torch import load_file
        from transformers import AutoModelForCausalLM
        self.train_text()
        model = AutoModelForCausalLM.from_pretrained(self.export("huggingface")).eval()
        plain = load_file(self.export("safetensors"))
        state = model.state_dict()
        for name, value in plain.items():
            self.assertTrue(torch.equal(state[name], value), name)
        ids = list(b"the king")
        with torch.no_grad():
            while len(ids) < 30:
                logits = model(torch.tensor([ids])).logits[0, -1]
                ids.append(int(logits.argmax()))
        text = self.write("--prompt", "the king", "--max-tokens", 22, "--temperature", 0).stdout
        self.assertEqual(text, bytes(ids).decode("utf-8", "replace") + "\n")
        script = torch.jit.load(str(self.export("torchscript")))
        for shape in ((1, 32), (3, 7)):
            tokens = torch.arange(shape[0] * shape[1]).view(shape) % 200
            with torch.no_grad():
                difference = (script(tokens) - model(tokens).logits).abs().max().item()
            self.assertLessEqual(difference, 1e-5)

    @needs("torch", "transformers", "peft")
    def test_adapters(self):
        import torch
        from peft import PeftModel
        from transformers import AutoModelForCausalLM
        self.train_text()
        base = self.export("huggingface", name="base")
        lora = TEXT.replace("dropout: 0.1}", f"weights: {base}, lora: {{rank: 2}}}}")
        run = self.folder / "lora"
        self.train_text(text=lora, run=run)
        self.assert_last_evaluation(run)
        adapters = self.export("safetensors", "--adapters", run=run, name="adapters")
        self.assertEqual(sorted(path.name for path in adapters.iterdir()),
                         ["adapter_config.json", "adapter_model.safetensors"])
        tokens = torch.arange(64).view(2, 32) % 200
        with torch.no_grad():
            adapted = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base),
                                                adapters).eval()(tokens).logits
            before = AutoModelForCausalLM.from_pretrained(base).eval()(tokens).logits
            merged = AutoModelForCausalLM.from_pretrained(
                self.export("huggingface", "--merge", run=run, name="merged")).eval()(tokens).logits
            script = torch.jit.load(str(self.export("torchscript", run=run)))(tokens)
        self.assertGreater((adapted - before).abs().max().item(), 1e-3)
        self.assertLessEqual((adapted - merged).abs().max().item(), 1e-5)
        self.assertLessEqual((adapted - script).abs().max().item(), 1e-5)


if __name__ == "__main__":
    unittest.main()
