"""Checks the committed experiment files, and some wrong ones, against the JSON schema.

Usage: schema_test.py PRINT_SCHEMA CONFIGS
"""

import copy
import json
import pathlib
import re
import subprocess
import sys

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


class CoreLoader(yaml.SafeLoader):
    """PyYAML reads YAML 1.1, where 1e-3 is text and yes is a boolean; the files are YAML 1.2."""


CoreLoader.yaml_implicit_resolvers = {}
for tag, pattern, first in [
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"|~|null|Null|NULL", ["~", "n", "N", ""]),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+0123456789."),
]:
    CoreLoader.add_implicit_resolver(
        "tag:yaml.org,2002:" + tag, re.compile("^(?:" + pattern + ")$"), list(first))

MINIMAL = "{model: {kind: lenet}, data: {train: {kind: digits}}, optim: {kind: sgd}}"

# A change of MINIMAL: path of keys -> value.
ACCEPTED = [
    {},
    {"schedule": {"final": 0.5, "kind": "cosine", "warmup": "1K steps"}},
    {"objective": {"label_smoothing": 0.1}},
    {"seed": "${SEED}"},
    {"model.kind": "${MODEL}"},
    {"model.weights": "a.safetensors"},
    {"model.weights": {"path": "a", "skip": ["fc.*"]}},
    {"data.train.transforms": ["horizontal_flip", {"horizontal_flip": None}, {"resize": 8},
                               {"random_crop": {"size": 8, "padding": 1}},
                               {"normalize": "digits"},
                               {"normalize": {"mean": [0], "std": [1]}}]},
    {"optim.ema": 0.99},
    {"optim.ema": None},
    {"train": {"length": "10min"}},
    {"device": "cuda:1"},
    {"data.val": {"kind": "mnist", "path": "m"}},
    {"data.val": {"kind": "manifest", "path": "m.csv", "root": "auto", "classes": ["a"],
                  "channels": 3, "background": [255, 0, 7]}},
    {"data.val": {"kind": "tar_shards", "path": "*.tar", "index": False, "max_pixels": 1}},
    {"data.train.channels": "auto"},
    {"data.train.channels": "${CHANNELS}"},
    {"data.train.transforms": "imagenet_train"},
    {"data.train.transforms": "${RECIPE}"},
    {"data.train.transforms": ["rand_augment", {"rand_augment": {"bins": 10, "magnitude": 1}},
                               {"trivial_augment": None}]},
    {"data.loader": {"decode": "gpu", "on_bad_sample": "skip", "max_bad_share": 0}},
    {"data.loader": {"cache": "none"}},
    {"data.loader": {"cache": "ram"}},
    {"data.loader": {"cache": {"ram": None}}},
    {"data.loader": {"cache": {"ram": "auto"}}},
    {"data.loader": {"cache": {"ram": 4096}}},
    {"data.loader": {"cache": {"ram": "1.5 GB"}}},
    {"data.loader": {"cache": {"ram": {"size": "8GiB", "holds": "decoded"}}}},
    {"model": {"kind": "gpt2", "vocabulary": "auto", "freeze": ["*.wte.*"]}},
    {"model": {"kind": "llama", "kv_heads": 4, "rope_scaling": "yarn"}},
    {"model": {"kind": "llama", "rope_scaling": {"kind": "llama3", "factor": 8}}},
    {"model": {"kind": "vit", "lora": {"targets": ["*.qkv"]}}},
    {"model": {"kind": "hf", "path": "folder", "context": "auto", "lora": None}},
    {"data.train": {"kind": "tinyshakespeare", "part": "train", "tokenizer": "bytes"}},
    {"data.train": {"kind": "text", "path": "t", "document_separator": "\n\n"}},
    {"data.train": {"kind": "jsonl", "path": "t", "chat": "chatml", "packing": "documents"}},
    {"data.train": {"kind": "tokens", "path": "*.bin", "tokenizer": None}},
    {"memory": {"activation_checkpointing": "selective"}},
    {"memory": {"activation_checkpointing": {"every": 2}}},
    {"optim.layer_decay": 0.75},
    {"train": {"length": "300M tokens"}},
]
REFUSED = [
    {"sed": 1},
    {"seed": -1},
    {"seed": "1"},
    {"deterministic": "yes"},
    {"device": "gpu"},
    {"model.kind": "resnet19"},
    {"model.stem": "cifar"},
    {"optim.betas": [0.9, 0.99]},
    {"optim.lr": 0},
    {"train": {"length": 10}},
    {"train": {"length": "10 stps"}},
    {"schedule": {"kind": "cosine", "warmup": "10min"}},
    {"data.train.transforms": ["resize"]},
    {"data.train.transforms": [{"resize": 8, "center_crop": 8}]},
    {"data.train": {"kind": "mnist"}},
    {"data.train": {"kind": "manifest"}},
    {"data.train.channels": 2},
    {"data.train.channels": "3"},
    {"data.train.background": [0]},
    {"data.train.transforms": "imagenet_trian"},
    {"data.train.transforms": ["imagenet_train"]},
    {"data.train.transforms": [{"rand_augment": 9}]},
    {"data.train.transforms": [{"rand_augment": {"magnitude": 31}}]},
    {"data.loader": {"decode": "cuda"}},
    {"data.loader": {"max_bad_share": 1.5}},
    {"data.loader": {"cache": "8GiB"}},
    {"data.loader": {"cache": {"ram": 0}}},
    {"data.loader": {"cache": {"ram": "8G"}}},
    {"data.loader": {"cache": {"ram": "512"}}},
    {"data.loader": {"cache": {"ram": "8GiB", "none": None}}},
    {"model": {"kind": "gpt2", "classes": 10}},
    {"model": {"kind": "gpt2", "kv_heads": 4}},
    {"model": {"kind": "hf"}},
    {"model": {"kind": "llama", "rope_scaling": "ntk"}},
    {"model": {"kind": "gpt2", "lora": {"targets": []}}},
    {"data.train": {"kind": "text"}},
    {"data.train": {"kind": "tinyshakespeare", "path": "t"}},
    {"data.train": {"kind": "tokens", "path": "t", "packing": "tight"}},
    {"data.train": {"kind": "text", "path": "t", "val_share": 1}},
    {"memory": {"activation_checkpointing": {"every": 1}}},
    {"optim.layer_decay": 0},
]


def changed(change):
    experiment = copy.deepcopy(yaml.load(MINIMAL, CoreLoader))
    for path, value in change.items():
        *parents, last = path.split(".")
        node = experiment
        for key in parents:
            node = node[key]
        node[last] = value
    return experiment


def main():
    print_schema, configs = sys.argv[1:]
    schema = json.loads(subprocess.run([print_schema], check=True, capture_output=True).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    failures = []
    files = sorted(pathlib.Path(configs).glob("*.yaml"))
    for file in files:
        for error in validator.iter_errors(yaml.load(file.read_text("utf-8"), CoreLoader)):
            failures.append(f"{file.name}: {error.message}")
    for change in ACCEPTED:
        if not validator.is_valid(changed(change)):
            failures.append(f"should pass: {change}")
    for change in REFUSED:
        if validator.is_valid(changed(change)):
            failures.append(f"should not pass: {change}")
    if not validator.is_valid({"base": "other.yaml", "model": {"classes": 3}}):
        failures.append("a file with a base should pass")
    if validator.is_valid({"base": "other.yaml", "modl": {}}):
        failures.append("a file with a base and an unknown section should not pass")
    print(f"{len(files)} files, {len(ACCEPTED)} accepted, {len(REFUSED)} refused")
    print("\n".join(failures))
    return 1 if failures or not files else 0


if __name__ == "__main__":
    sys.exit(main())
