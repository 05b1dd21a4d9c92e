"""Language models by running the binary: runs are exact whatever the data, the workers, the cut and
a kill; what is frozen stays; mistakes are named with their place."""

import itertools
import json
import math
import os
import pathlib
import random
import struct
import unittest

from support import (DEVICE, TrainerTest, checkpoints, curve, kill, losses, records, wait_until,
                     weights)

# The models are too small for more than one thread: several would mostly wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# 24 steps; the documents and the chat make several epochs of them.
TEXT = """
name: text
seed: 3
device: {device}
deterministic: true
model: {{kind: gpt2, layers: {layers}, heads: 2, width: 16, context: 32, dropout: {dropout}}}
data:
  train: {{{source}, part: train}}
  val: {{{source}, part: val}}
  loader: {{workers: 0}}
batch: {{global: 8}}
optim: {{kind: adamw, lr: 2e-3, weight_decay: 0.1, clip_norm: 1.0}}
schedule: {{kind: cosine, warmup: 2 steps}}
train: {{length: 24 steps, evaluate_every: 11 steps}}
checkpoint: {{every: null}}
log: {{console: quiet}}
"""
SEPARATOR = "<|end|>"
WORDS = "the a king queen and of crown war peace shall not go to bed in anger my lord".split()
TINY = "{kind: gpt2, layers: 2, heads: 2, width: 16, context: 32}"


def sentence(generator, words):
    return " ".join(generator.choice(WORDS) for _ in range(words))


def read_tensors(path):
    """{name: (shape, bytes)} of a safetensors file."""
    content = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + size])
    header.pop("__metadata__", None)
    begin = 8 + size
    return {name: (one["shape"], content[begin + one["data_offsets"][0]:
                                         begin + one["data_offsets"][1]])
            for name, one in header.items()}


def write_tensors(path, tensors):
    """Float32 `tensors` as read_tensors gives them."""
    header, at = {}, 0
    for name, (shape, content) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(content)]}
        at += len(content)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text +
                     b"".join(content for _, content in tensors.values()))


def model_of(run):
    return read_tensors(checkpoints(run)[-1] / "model.safetensors")


def floats(content):
    return struct.unpack(f"<{len(content) // 4}f", content)


class TextTest(TrainerTest):
    def documents(self):
        """A file of documents of 1 to 60 bytes or so, some of them longer than a sample."""
        generator = random.Random(5)
        path = self.folder / "documents.txt"
        if not path.exists():
            path.write_text(SEPARATOR.join(sentence(generator, generator.randrange(1, 15))
                                           for _ in range(150)))
        return (f"kind: text, path: {path}, document_separator: \"{SEPARATOR}\", length: 32, "
                "packing: documents, val_share: 0.2")

    def chat(self):
        """Conversations whose prompts and answers differ in length: so does what is learnt."""
        generator = random.Random(6)
        path = self.folder / "chat.jsonl"
        if not path.exists():
            lines = []
            for _ in range(120):
                prompt = sentence(generator, generator.randrange(1, 4))
                answer = sentence(generator, generator.randrange(1, 5))
                lines.append(json.dumps({"messages": [{"role": "user", "content": prompt},
                                                      {"role": "assistant", "content": answer}]}))
            path.write_text("\n".join(lines) + "\n")
        return (f"kind: jsonl, path: {path}, chat: plain, length: 32, packing: documents, "
                "val_share: 0.2")

    def sources(self):
        return {"shakespeare": "kind: tinyshakespeare, length: 32, val_share: 0.002",
                "documents": self.documents(),
                "chat": self.chat(),
                "chat alone": self.chat().replace("packing: documents", "packing: none")}

    def text_config(self, source, dropout=0.1, layers=2):
        return self.config(TEXT.format(device=DEVICE, source=source, dropout=dropout,
                                       layers=layers))


class Exact(TextTest):
    def test_workers_and_prefetch_do_not_change_the_run(self):
        for name, source in self.sources().items():
            with self.subTest(name):
                config = self.text_config(source)
                reference = self.folder / f"{name} 0"
                self.train(config, reference)
                self.assertEqual(len(losses(reference)), 24)
                for workers, prefetch in ((1, 4), (3, 1)):
                    run = self.folder / f"{name} {workers}"
                    self.train(config, run, "--set", f"data.loader.workers={workers}", "--set",
                               f"data.loader.prefetch={prefetch}")
                    self.assert_same_run(run, reference)

    def test_killed_and_resumed(self):
        random.seed(2)
        every = ["--set", "checkpoint.every=1 steps", "--set", "optim.ema=0.9"]
        for name, source in self.sources().items():
            with self.subTest(name):
                config = self.text_config(source)
                reference = self.folder / f"{name} whole"
                self.train(config, reference, *every)
                run = self.folder / f"{name} killed"
                kills = 0
                for _ in range(2):
                    process = self.start(config, run, "--resume", "auto", "--set",
                                         "data.loader.workers=1", *every)
                    seen = steps_seen(run)
                    target = seen + random.randrange(1, 5)
                    wait_until(lambda: steps_seen(run) >= target or process.poll() is not None)
                    kills += kill(process) < 0
                self.assertGreater(kills, 0, "no run was still alive to be killed")
                self.train(config, run, "--resume", "auto", *every)
                self.assert_same_run(run, reference)

    # No dropout: its draws depend on the cut. 1e-5 relative: float32 sums in another order.
    def test_micro_batches_give_the_loss_of_the_whole(self):
        for name, source in self.sources().items():
            with self.subTest(name):
                config = self.text_config(source, dropout=0)
                whole = None
                for micro in (8, 4, 3):
                    run = self.folder / f"{name} {micro}"
                    self.train(config, run, "--set", f"batch.micro={micro}")
                    if whole is None:
                        whole = losses(run)
                        continue
                    for step, (cut, uncut) in enumerate(zip(losses(run), whole, strict=True)):
                        self.assertLessEqual(abs(cut - uncut), 1e-5 * abs(uncut),
                                             f"micro {micro}, step {step}")

    def test_activation_checkpointing_does_not_change_the_run(self):
        policies = ["none", "blocks", "{every: 2}", "{every: 3}", "selective",
                    "{offload: {min_size: 1}}"]
        for name, source in itertools.islice(self.sources().items(), 2):
            with self.subTest(name):
                config = self.text_config(source, layers=4)
                for i, policy in enumerate(policies):
                    self.train(config, self.folder / f"{name} {i}", "--set", "batch.micro=3", "--set",
                               f"memory.activation_checkpointing={policy}")
                    self.assert_same_run(self.folder / f"{name} {i}", self.folder / f"{name} 0")

    def test_perplexity_is_of_the_loss(self):
        run = self.folder / "run"
        self.train(self.text_config(self.documents()), run)
        values = [record for record in records(run) if "val/loss" in record]
        self.assertTrue(values)
        for record in values:
            self.assertAlmostEqual(record["val/perplexity"] / math.exp(record["val/loss"]), 1)


def steps_seen(run):
    """Records of steps so far; lines that are being written do not count."""
    try:
        return (run / "metrics.jsonl").read_bytes().count(b'"loss"')
    except FileNotFoundError:
        return 0


class FineTuning(TextTest):
    def setUp(self):
        super().setUp()
        self.experiment = self.text_config(self.documents())
        base = self.folder / "base"
        self.train(self.experiment, base, "--set", "train.length=2 steps", "--set",
                   "schedule={kind: constant}")
        self.weights_file = checkpoints(base)[-1] / "model.safetensors"
        self.base = read_tensors(self.weights_file)

    def tuned(self, name, *settings):
        """The model's tensors after training on from the base."""
        run = self.folder / name
        self.train(self.experiment, run, "--set", f"model.weights={self.weights_file}", *settings)
        return model_of(run)

    def test_frozen_parameters_stay_to_the_bit_and_the_others_learn(self):
        tuned = self.tuned("frozen", "--set", "model.freeze=['*.wte.*', '*.h.0.*']")
        self.assertEqual(tuned.keys(), self.base.keys())
        for name, value in tuned.items():
            frozen = ".wte." in name or ".h.0." in name
            self.assertEqual(value == self.base[name], frozen, name)

    def test_lora_changes_the_adapters_only(self):
        tuned = self.tuned("lora", "--set", "model.lora={rank: 2, dropout: 0.1, targets: ['*.c_attn']}")
        adapters = {name for name in tuned if ".lora_" in name}
        self.assertEqual(adapters, {f"transformer.h.{i}.attn.c_attn.lora_{side}.weight"
                                    for i in range(2) for side in "AB"})
        self.assertEqual(tuned.keys() - adapters, self.base.keys())
        for name, value in self.base.items():
            self.assertEqual(tuned[name], value, name)
        for name in adapters:
            self.assertTrue(any(floats(tuned[name][1])), f"{name} is still 0")

    def test_lora_resumes_exactly(self):
        settings = ["--set", f"model.weights={self.weights_file}", "--set",
                    "model.lora={rank: 2, dropout: 0.1, targets: ['*.c_attn', '*.c_fc']}"]
        self.train(self.experiment, self.folder / "whole", *settings)
        run = self.folder / "halves"
        self.train(self.experiment, run, *settings, "--set", "train.length=10 steps", "--set",
                   "schedule.length=24 steps", "--set", "train.evaluate_every=11 steps")
        self.train(self.experiment, run, *settings, "--resume", "auto")
        self.assertEqual(losses(run), losses(self.folder / "whole"))
        self.assertEqual(weights(run), weights(self.folder / "whole"))

    def test_loras_default_targets_suit_the_model(self):
        tuned = self.tuned("default", "--set", "model.lora={rank: 2}")
        self.assertTrue(any(".c_attn.lora_A" in name for name in tuned))

    def test_layer_decay_scales_the_steps_of_the_blocks(self):
        # One step of plain SGD moves each parameter by its rate times its gradient.
        sgd = ["--set", "optim={kind: sgd, lr: 1.0}", "--set", "train.length=1 steps", "--set",
               "schedule={kind: constant}", "--set", "model.dropout=0"]
        plain = self.tuned("plain", *sgd)
        decayed = self.tuned("decayed", *sgd, "--set", "optim.layer_decay=0.5")
        for name in plain:
            distance = 0 if ".ln_f." in name else 3
            if ".h." in name:
                distance = 2 - int(name.split(".h.")[1].split(".")[0])
            ratio = self.moved(name, decayed) / self.moved(name, plain)
            self.assertAlmostEqual(ratio, 0.5 ** distance, delta=1e-3, msg=name)

    def moved(self, name, tensors):
        pairs = zip(floats(tensors[name][1]), floats(self.base[name][1]), strict=True)
        return math.sqrt(sum((a - b) ** 2 for a, b in pairs))


class Mistakes(TextTest):
    def run_with(self, train, model=TINY, val=None):
        config = self.config(f"""\
name: text
device: cpu
model: {model}
data:
  train: {train}
  val: {val or "null"}
batch: {{global: 4}}
optim: {{kind: sgd, lr: 0.01}}
train: {{length: 2 steps}}
log: {{console: quiet}}
""")
        return self.trainer("--config", config, "--output", self.folder / "run")

    def refuse(self, code, *said, train=None, model=TINY, val=None):
        """The run ends with `code`, and its one error says all of `said`."""
        result = self.run_with(train or self.text_source(), model, val)
        self.assertEqual(result.returncode, code, result.stderr)
        for part in said:
            self.assertIn(part, result.stderr)
        self.assertFalse((self.folder / "run/checkpoints").exists())

    def text_source(self, content="to be or not to be, that is the question. " * 20):
        path = self.folder / "text.txt"
        path.write_text(content)
        return f"{{kind: text, path: {path}, length: 16}}"

    def token_source(self, content):
        path = self.folder / "tokens.bin"
        path.write_bytes(content)
        return f"{{kind: tokens, path: {path}, length: 16}}"

    # --- data ---
    def test_a_token_beyond_the_vocabulary(self):
        self.refuse(4, "text.txt: the token at offset 0 is 116", "the vocabulary has 100 ids",
                    model=TINY[:-1] + ", vocabulary: 100}")

    def test_a_token_beyond_the_vocabulary_in_the_middle_of_a_token_file(self):
        tokens = [*range(50)] * 4
        tokens[77] = 60
        self.refuse(4, "tokens.bin: the token at offset 154 is 60", "the vocabulary has 50 ids",
                    train=self.token_source(struct.pack("<200H", *tokens)),
                    model=TINY[:-1] + ", vocabulary: 50}")

    def test_a_token_beyond_the_vocabulary_in_the_validation_data(self):
        train = self.token_source(struct.pack("<200H", *[*range(50)] * 4))
        other = self.folder / "other.bin"
        other.write_bytes(struct.pack("<200H", *[*range(100)] * 2))
        self.refuse(4, "other.bin: the token at offset 100 is 50", train=train,
                    val=f"{{kind: tokens, path: {other}, length: 16}}",
                    model=TINY[:-1] + ", vocabulary: 50}")

    def test_raw_tokens_do_not_know_their_vocabulary(self):
        self.refuse(3, "model.vocabulary: auto", "give a number",
                    train=self.token_source(struct.pack("<200H", *range(200))))

    def test_a_token_file_that_ends_within_a_token(self):
        self.refuse(4, "tokens.bin: the file has 399 bytes",
                    "ends within the token at offset 398",
                    train=self.token_source(struct.pack("<200H", *range(200))[:-1]),
                    model=TINY[:-1] + ", vocabulary: 200}")

    def test_an_empty_corpus(self):
        self.refuse(4, "text.txt: the corpus is empty", train=self.text_source(""))

    def test_a_folder_without_text(self):
        (self.folder / "texts").mkdir()
        self.refuse(4, "texts: this folder holds no .txt files",
                    train=f"{{kind: text, path: {self.folder}/texts, length: 16}}")

    def test_a_jsonl_line_that_is_broken_is_named(self):
        path = self.folder / "chat.jsonl"
        path.write_text('{"text": "one"}\n{"text": "two"\n')
        self.refuse(4, "chat.jsonl", "2", train=f"{{kind: jsonl, path: {path}, length: 16}}")

    # --- what does not go together ---
    def test_a_sample_longer_than_the_context_at_its_place(self):
        self.refuse(3, "exp.yaml:5:", "data.train.length: sequences of 64 tokens",
                    "context of 32", train=self.text_source().replace("16}", "64}"))

    def test_images_for_a_language_model(self):
        self.refuse(3, "exp.yaml:5:", "data.train.kind: gives images", train="{kind: digits}")

    def test_text_for_a_resnet(self):
        self.refuse(3, "exp.yaml:5:", "data.train.kind: gives text", model="{kind: resnet18}")

    def test_a_frozen_glob_that_matches_nothing(self):
        self.refuse(3, 'model.freeze[1]: "*.fc.*" matches no parameter',
                    model=TINY[:-1] + ", freeze: ['*.wte.*', '*.fc.*']}")

    def test_everything_frozen(self):
        self.refuse(3, "model.freeze leaves no parameter that learns",
                    model=TINY[:-1] + ", freeze: ['*']}")

    def test_an_adapters_target_that_matches_nothing(self):
        self.refuse(3, '"*.q_proj" matches no linear layer',
                    model=TINY[:-1] + ", lora: {targets: ['*.q_proj']}}")

    # --- folders of Hugging Face ---
    HF = {"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 4, "n_positions": 32,
          "vocab_size": 256}

    def hugging_face(self, config=None, **changes):
        """A folder of GPT-2 of zeros, in two shards; `changes` are of tensors' shapes."""
        folder = self.folder / "hf"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config or self.HF))
        shapes = {"wte.weight": [256, 4], "wpe.weight": [32, 4]}
        for name, shape in (("ln_1", [4]), ("attn.c_attn", [4, 12]), ("attn.c_proj", [4, 4]),
                            ("ln_2", [4]), ("mlp.c_fc", [4, 16]), ("mlp.c_proj", [16, 4])):
            shapes[f"h.0.{name}.weight"] = shape
            shapes[f"h.0.{name}.bias"] = shape[-1:]
        shapes.update({"ln_f.weight": [4], "ln_f.bias": [4]})
        shapes.update(changes)
        tensors = {f"transformer.{name}": (shape, bytes(4 * math.prod(shape)))
                   for name, shape in shapes.items()}
        names = list(tensors)
        for number, part in ((1, names[:6]), (2, names[6:])):
            write_tensors(folder / f"model-0000{number}-of-00002.safetensors",
                          {name: tensors[name] for name in part})
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {
            name: f"model-0000{1 if i < 6 else 2}-of-00002.safetensors"
            for i, name in enumerate(names)}}))
        return folder, f"{{kind: hf, path: {folder}}}"

    def test_a_good_folder_trains(self):
        _, model = self.hugging_face()
        result = self.run_with(self.text_source(), model)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_folder_that_is_not_there(self):
        self.refuse(3, "nowhere/config.json cannot be read", model="{kind: hf, path: nowhere}")

    def test_a_folder_without_config(self):
        (self.folder / "hf").mkdir()
        self.refuse(3, "hf/config.json cannot be read", model=f"{{kind: hf, path: {self.folder}/hf}}")

    def test_an_unknown_model_type(self):
        _, model = self.hugging_face({**self.HF, "model_type": "bert"})
        self.refuse(3, 'hf/config.json has model_type: "bert"', "gpt2, llama", model=model)

    def test_a_missing_shard(self):
        folder, model = self.hugging_face()
        (folder / "model-00002-of-00002.safetensors").unlink()
        self.refuse(9, "hf/model-00002-of-00002.safetensors", model=model)

    def test_a_folder_without_weights(self):
        folder, model = self.hugging_face()
        for file in folder.glob("model*"):
            file.unlink()
        self.refuse(9, "hf: holds neither model.safetensors nor", model=model)

    def test_a_tensor_of_another_shape(self):
        _, model = self.hugging_face(**{"wpe.weight": [16, 4]})
        self.refuse(9, "the weights of", "transformer.wpe.weight is [32, 4] in the model",
                    "[16, 4] in the file", model=model)

    def test_samples_longer_than_the_folders_context(self):
        _, model = self.hugging_face()
        self.refuse(3, "data.train.length is 64 tokens", "at most 32", model=model,
                    train=self.text_source().replace("16}", "64}"))

    def test_images_for_the_folders_language_model(self):
        _, model = self.hugging_face()
        self.refuse(3, "the model reads text, and data.train gives images", model=model,
                    train="{kind: digits}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
