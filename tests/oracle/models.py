"""Golden values of the models, from torchvision's resnets and the same mlp and lenet in torch.nn.

    .venv/bin/python tests/oracle/models.py        writes, relative to tests/golden:

models/names.json     {kind: ["name [shape]", ...]}: the state_dict of each resnet, in order, for 3
                      input channels and 1000 classes.
models/initial.json   [{model, input, classes, seed, samples}]: parameters after
                      torch.manual_seed(seed) and construction.
models/gradients.json [{model, input, classes, mode, logits, loss, gradients, buffers,
                      logit_tolerance, gradient_tolerance}]: one forward and backward pass in mode
                      train or eval with formula.fill_state, formula.model_input and
                      formula.targets. loss is the mean cross-entropy; gradients and buffers are
                      {name: {norm, samples}}. The tolerances are relative to the largest logit and
                      to a gradient's norm: 1e-5, or four times the distance of this float32 pass
                      from one in float64 where that is more. It is for resnet50 in training, where
                      rounding moves some of its many ReLUs across zero.
engine/steps.json     {cases: [{model, input, classes, optimizer, losses, parameters,
                      loss_tolerance, parameter_tolerance}]}: ten steps from formula.fill_state in
                      train mode. Step k (from 0) takes formula.model_input(input, k) and
                      formula.targets(n, classes, k), its loss (before the update) is losses[k], the
                      mean cross-entropy. `parameters` are samples after the last update.
                      `optimizer` has the arguments of torch.optim's class by their names
                      ({"kind": "sgd" or "adamw", ...}; constant lr, every parameter in one group).
                      The tolerances are relative to 1 + |value|: four times the distance of this
                      float32 run from the same run in float64, at least 1e-6 and at most 1e-5. The
                      learning rates of the resnet are small because its ten steps are
                      chaotic: at 1e-2 the two runs part by 3e-2.

`model` is a description as golden.h reads it, `input` is [n, channels, height, width], and samples
are the elements at flat positions 0, size // 3, size // 2 and size - 1 in row-major order. Numbers
are float32 results printed to read back exactly, but for the norms, which were summed in float64.
"""

import copy
import json
import pathlib

import torch
import torch.nn.functional as F
import torchvision
from torch import nn

import formula

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"


class Mlp(nn.Module):
    def __init__(self, sizes, activation):
        super().__init__()
        self.layers = nn.ModuleList(map(nn.Linear, sizes[:-1], sizes[1:]))
        self.activation = activation

    def forward(self, x):
        x = x.flatten(1)
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)


class LeNet(nn.Module):
    def __init__(self, channels, height, width, classes):
        super().__init__()
        side = min(height, width)
        self.conv1 = nn.Conv2d(channels, 6, 5, padding=2 if side < 32 else 0)
        self.conv2 = nn.Conv2d(6, 16, 5, padding=2 if side < 12 else 0)
        with torch.no_grad():  # sizes come from the layers themselves, not from a formula
            features = self.features(torch.zeros(1, channels, height, width)).shape[1]
        self.fc1 = nn.Linear(features, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def features(self, x):
        for conv in (self.conv1, self.conv2):
            x = F.max_pool2d(F.relu(conv(x)), 2)
        return x.flatten(1)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(self.features(x))))))


def resnet(description, channels, classes):
    """torchvision's network; another stem than its own replaces conv1 and maxpool."""
    model = getattr(torchvision.models, description["kind"])(num_classes=classes)
    if description.get("stem") == "cifar":
        model.conv1 = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
        model.maxpool = nn.Identity()
    elif channels != 3:
        model.conv1 = nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False)
    return model


def make(description, shape, classes):
    _, channels, height, width = shape
    kind = description["kind"]
    if kind == "mlp":
        activation = getattr(F, description.get("activation", "relu"), torch.tanh)
        return Mlp([channels * height * width, *description["hidden"], classes], activation)
    if kind == "lenet":
        return LeNet(channels, height, width, classes)
    return resnet(description, channels, classes)


def samples(value):
    flat = value.detach().reshape(-1)
    return [flat[i].item() for i in (0, len(flat) // 3, len(flat) // 2, len(flat) - 1)]


def summary(value):
    return {"norm": value.detach().double().norm().item(), "samples": samples(value)}


def names():
    def lines(kind):
        model = getattr(torchvision.models, kind)()
        return [f"{name} {list(value.shape)}" for name, value in model.state_dict().items()]

    return {kind: lines(kind) for kind in ("resnet18", "resnet34", "resnet50", "resnet101")}


def initial(description, shape, classes, seed):
    torch.manual_seed(seed)
    model = make(description, shape, classes)
    return {
        "model": description,
        "input": shape,
        "classes": classes,
        "seed": seed,
        "samples": {name: samples(value) for name, value in model.named_parameters()},
    }


def backward(model, shape, classes, dtype):
    model = copy.deepcopy(model).to(dtype)
    logits = model(formula.model_input(shape).to(dtype))
    loss = F.cross_entropy(logits, formula.targets(shape[0], classes))
    loss.backward()
    return model, logits.detach(), loss.item()


def largest_distance(model, exact):
    """Of any gradient's elements and norm from the exact ones, relative to the exact norm."""
    pairs = [(a.grad.double(), b.grad) for a, b in zip(model.parameters(), exact.parameters())]
    return max(max((a - b).abs().max(), (a.norm() - b.norm()).abs()).item() / b.norm().item()
               for a, b in pairs)


def gradients(description, shape, classes, mode):
    start = make(description, shape, classes)
    formula.fill_state(start)
    start.train(mode == "train")
    model, logits, loss = backward(start, shape, classes, torch.float32)
    exact, exact_logits, _ = backward(start, shape, classes, torch.float64)
    logit_distance = ((logits - exact_logits).abs().max() / exact_logits.abs().max()).item()
    return {
        "model": description,
        "input": shape,
        "classes": classes,
        "mode": mode,
        "logits": logits.tolist(),
        "loss": loss,
        "gradients": {name: summary(value.grad) for name, value in model.named_parameters()},
        "buffers": {name: summary(value) for name, value in model.named_buffers()},
        "logit_tolerance": max(1e-5, 4 * logit_distance),
        "gradient_tolerance": max(1e-5, 4 * largest_distance(model, exact)),
    }


def optimizer_of(arguments, model):
    arguments = dict(arguments)
    kinds = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}
    return kinds[arguments.pop("kind")](model.parameters(), **arguments)


def ten_steps(model, shape, classes, optimizer, dtype):
    model = copy.deepcopy(model).to(dtype)
    optimizer = optimizer_of(optimizer, model)
    losses = []
    for step in range(10):
        logits = model(formula.model_input(shape, step).to(dtype))
        loss = F.cross_entropy(logits, formula.targets(shape[0], classes, step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, {name: samples(value) for name, value in model.named_parameters()}


def tolerance(values, exact):
    """Four times how far float32 took `values`, relative to 1 + |value|, from 1e-6 to 1e-5."""
    return min(1e-5, max(1e-6, 4 * max(abs(a - b) / (1 + abs(b)) for a, b in zip(values, exact))))


def steps(description, shape, classes, optimizer):
    model = make(description, shape, classes)
    formula.fill_state(model)
    losses, parameters = ten_steps(model, shape, classes, optimizer, torch.float32)
    exact_losses, exact_parameters = ten_steps(model, shape, classes, optimizer, torch.float64)
    flat, exact_flat = (sum(p.values(), []) for p in (parameters, exact_parameters))
    return {
        "model": description,
        "input": shape,
        "classes": classes,
        "optimizer": optimizer,
        "losses": losses,
        "parameters": parameters,
        "loss_tolerance": tolerance(losses, exact_losses),
        "parameter_tolerance": tolerance(flat, exact_flat),
    }


def write(path, value):
    (GOLDEN / path).write_text(json.dumps(value, separators=(",", ":")) + "\n")


def main():
    torch.set_num_threads(1)  # one order of summation, wherever this runs
    mlp = {"kind": "mlp", "hidden": [32, 16]}
    lenet = {"kind": "lenet"}
    resnet18, resnet50 = {"kind": "resnet18"}, {"kind": "resnet50"}
    cifar = {"kind": "resnet18", "stem": "cifar"}

    write("models/names.json", names())
    write("models/initial.json", [
        initial(mlp, [1, 1, 8, 8], 10, 1),
        initial(lenet, [1, 1, 28, 28], 10, 2),
        initial(resnet18, [1, 3, 64, 64], 10, 3),
        initial(resnet50, [1, 3, 64, 64], 10, 4),
    ])
    write("models/gradients.json", [
        gradients(mlp, [5, 1, 8, 8], 10, "train"),
        gradients({**mlp, "activation": "gelu"}, [5, 3, 4, 6], 7, "train"),
        gradients({**mlp, "activation": "tanh"}, [5, 1, 8, 8], 3, "eval"),
        gradients(lenet, [4, 1, 8, 8], 10, "train"),
        gradients(lenet, [4, 1, 28, 28], 10, "train"),
        gradients(lenet, [4, 3, 32, 40], 10, "eval"),
        gradients(resnet18, [4, 3, 64, 64], 10, "train"),
        gradients(resnet18, [4, 3, 64, 64], 10, "eval"),
        gradients(cifar, [4, 1, 16, 16], 10, "train"),
        gradients(resnet50, [4, 3, 64, 64], 10, "train"),
        gradients(resnet50, [4, 3, 64, 64], 10, "eval"),
    ])
    sgd = {"kind": "sgd", "momentum": 0.9, "nesterov": True}
    adamw = {"kind": "adamw", "betas": [0.9, 0.999]}
    write("engine/steps.json", {"cases": [
        steps(mlp, [16, 1, 8, 8], 10, {**sgd, "lr": 1e-2, "weight_decay": 1e-3}),
        steps(mlp, [16, 1, 8, 8], 10, {**adamw, "lr": 1e-3, "eps": 1e-8, "weight_decay": 0.05}),
        steps(cifar, [8, 3, 16, 16], 10, {**sgd, "lr": 3e-5, "weight_decay": 1e-2}),
        steps(cifar, [8, 3, 16, 16], 10,
              {**adamw, "lr": 3e-6, "eps": 1e-4, "weight_decay": 0.5}),
    ]})


if __name__ == "__main__":
    main()
