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
