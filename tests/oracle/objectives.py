"""Golden values of the objectives, from torch.nn.functional.

    .venv/bin/python tests/oracle/objectives.py        writes tests/golden/objectives/losses.json:

[{kind, label_smoothing, targets, classes, samples, loss_sum, gradient, metrics}]. With the numbers
of formula.py: logits = tensor([samples, classes], salt=1, scale=4); weights = tensor([samples],
salt=2, scale=0.5, shift=1), the second one 0; `targets` "classes" are formula.targets, "soft" are
softmax(tensor([samples, classes], salt=3, scale=2)). loss_sum is the sum of weight * loss, gradient
that of loss_sum by the logits, metrics the weighted sums of accuracy (and of accuracy in the five
largest logits, with more than five classes); for soft targets against the class of the largest one.
"""

import json
import pathlib

import torch
import torch.nn.functional as F

import formula

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "objectives"


def sample_losses(kind, logits, target, smoothing):
    if kind == "cross_entropy":
        return F.cross_entropy(logits, target, reduction="none", label_smoothing=smoothing)
    wanted = target if target.dim() == 2 else F.one_hot(target, logits.shape[1]).float()
    return ((logits - wanted) ** 2).mean(dim=1)


def case(kind, smoothing, targets, classes, samples=12):
    logits = formula.tensor([samples, classes], salt=1, scale=4.0).requires_grad_()
    weights = formula.tensor([samples], salt=2, scale=0.5, shift=1.0)
    weights[1] = 0
    target = formula.targets(samples, classes)
    if targets == "soft":
        target = formula.tensor([samples, classes], salt=3, scale=2.0).softmax(dim=1)
    loss_sum = (weights * sample_losses(kind, logits, target, smoothing)).sum()
    loss_sum.backward()

    wanted = target if targets == "classes" else target.argmax(dim=1)
    order = logits.argsort(dim=1, descending=True)
    ranks = (order == wanted[:, None]).int().argmax(dim=1)
    tops = [1, 5] if classes > 5 else [1]
    return {
        "kind": kind,
        "label_smoothing": smoothing,
        "targets": targets,
        "classes": classes,
        "samples": samples,
        "loss_sum": loss_sum.item(),
        "gradient": logits.grad.tolist(),
        "metrics": [(weights.double() * (ranks < top)).sum().item() for top in tops],
    }


def main():
    cases = [
        case("cross_entropy", smoothing, targets, classes)
        for smoothing in (0.0, 0.1)
        for targets in ("classes", "soft")
        for classes in (3, 7)
    ]
    cases += [case("mse", 0.0, targets, classes) for targets in ("classes", "soft")
              for classes in (3, 7)]
    (GOLDEN / "losses.json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
