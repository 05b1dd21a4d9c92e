"""Writes tests/golden/optim/optimizers.json: PyTorch's optimisers over ten steps.

The gradients are not stored: both sides compute them from the parameters of the step before, as
grad(p) = p * scale + shift with a scale and shift for each step, so that a wrong update shows in
every later one. Run from the repository's root: python tests/oracle/optim.py
"""

import json
import pathlib

import torch

STEPS = 10
LR = 0.0625  # exact in float32, as the learning rate is there
SHAPES = {"conv.weight": [4, 3, 2, 2], "conv.bias": [4], "fc.weight": [5, 7]}

SGD = dict(momentum=0.0, nesterov=False, weight_decay=0.0)
ADAM = dict(betas=[0.9, 0.99], eps=1e-8, weight_decay=0.0)
CASES = {
    "sgd": ("sgd", SGD),
    "sgd_decay": ("sgd", SGD | dict(weight_decay=0.1)),
    "sgd_momentum": ("sgd", SGD | dict(momentum=0.9, weight_decay=0.01)),
    "sgd_nesterov": ("sgd", SGD | dict(momentum=0.9, nesterov=True, weight_decay=0.01)),
    "adam": ("adam", ADAM),
    "adam_decay": ("adam", ADAM | dict(weight_decay=0.1)),
    "adamw": ("adamw", ADAM | dict(weight_decay=0.1)),
    "adamw_betas": ("adamw", ADAM | dict(betas=[0.5, 0.75], eps=1e-3, weight_decay=0.2)),
}
KINDS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


def gradient(parameter, step):
    return parameter.detach() * (0.5 + 0.125 * step) + (0.25 - 0.0625 * step)


def start(shape, offset):
    count = torch.Size(shape).numel()
    return (torch.arange(count, dtype=torch.float32) * 0.37 + offset).sin().reshape(shape)


def run(kind, settings, initial):
    parameters = {name: value.clone().requires_grad_() for name, value in initial.items()}
    # foreach=False: the plain formulas, one operator at a time, in double precision below.
    optimizer = KINDS[kind](list(parameters.values()), lr=LR, foreach=False, **settings)
    for step in range(STEPS):
        for parameter in parameters.values():
            parameter.grad = gradient(parameter, step)
        optimizer.step()
    return {name: value.detach().flatten().tolist() for name, value in parameters.items()}


def main():
    initial = {name: start(shape, i) for i, (name, shape) in enumerate(SHAPES.items())}
    exact = {name: value.double() for name, value in initial.items()}
    golden = {
        "steps": STEPS,
        "lr": LR,
        "initial": {
            name: {"shape": SHAPES[name], "values": value.flatten().tolist()}
            for name, value in initial.items()
        },
        "cases": {
            name: {"kind": kind, **settings, "final": run(kind, settings, exact)}
            for name, (kind, settings) in CASES.items()
        },
    }
    path = pathlib.Path("tests/golden/optim/optimizers.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
