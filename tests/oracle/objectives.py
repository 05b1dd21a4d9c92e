"""Golden values of the objectives, from torch.nn.functional.

    .venv/bin/python tests/oracle/objectives.py        writes tests/golden/objectives/losses.json:

[{kind, label_smoothing, targets, classes, samples, loss_sum, gradient, metrics}]. With the numbers
of formula.py: logits = tensor([samples, classes], salt=1, scale=4); weights = tensor([samples],
salt=2, scale=0.5, shift=1), the second one 0; `targets` "classes" are formula.targets, "soft" are
softmax(tensor([samples, classes], salt=3, scale=2)). loss_sum is the sum of weight * loss, gradient
that of loss_sum by the logits, metrics the weighted sums of accuracy (and of accuracy in the five
largest logits, with more than five classes); for soft targets against the class of the largest one.

and tests/golden/objectives/language.json:

[{samples, length, width, vocabulary, label_smoothing, z_loss, ignored, loss_sum, weight_sum,
  hidden_gradient, head_gradient, plain_loss_sum, hits}]. hidden = tensor([samples, length, width],
salt=11, scale=2), head = tensor([vocabulary, width], salt=12, scale=1.5), targets =
formula.targets(samples * length, vocabulary), of which `ignored` are -100: "none", "all", or those
with position % 8 in 1, 4, 5 ("some"). weights = tensor([samples],
salt=13, scale=0.5, shift=1). Logits are hidden @ head.T; loss_sum is the sum over tokens of
weight * (F.cross_entropy + z_loss * logsumexp^2), the gradients are its; plain_loss_sum is without
smoothing and z-loss, hits the weighted count of targets that have the largest logit.
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


def language_case(vocabulary, smoothing=0.0, z_loss=0.0, ignored="some"):
    samples, length, width = 2, 6, 4
    hidden = formula.tensor([samples, length, width], salt=11, scale=2.0).requires_grad_()
    head = formula.tensor([vocabulary, width], salt=12, scale=1.5).requires_grad_()
    weights = formula.tensor([samples], salt=13, scale=0.5, shift=1.0).repeat_interleave(length)
    target = formula.targets(samples * length, vocabulary)
    positions = torch.arange(samples * length) % 8
    if ignored != "none":
        target[(positions == 1) | (positions == 4) | (positions == 5) | (ignored == "all")] = -100
    counts = target != -100

    logits = (hidden @ head.T).reshape(-1, vocabulary)
    losses = F.cross_entropy(logits, target, reduction="none", label_smoothing=smoothing)
    squares = torch.where(counts, logits.logsumexp(dim=1) ** 2, 0.0)
    loss_sum = (weights * (losses + z_loss * squares)).sum()
    loss_sum.backward()
    plain = F.cross_entropy(logits, target, reduction="none")
    return {
        "samples": samples,
        "length": length,
        "width": width,
        "vocabulary": vocabulary,
        "label_smoothing": smoothing,
        "z_loss": z_loss,
        "ignored": ignored,
        "loss_sum": loss_sum.item(),
        "weight_sum": (weights * counts).sum().item(),
        "hidden_gradient": hidden.grad.flatten().tolist(),
        "head_gradient": head.grad.flatten().tolist(),
        "plain_loss_sum": (weights * plain).sum().item(),
        "hits": (weights * (logits.argmax(dim=1) == target)).sum().item(),
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

    language = [
        language_case(vocabulary, smoothing, z_loss)
        for vocabulary in (1, 7, 131)
        for smoothing, z_loss in ((0.0, 0.0), (0.1, 0.0), (0.0, 0.02), (0.1, 0.02))
    ]
    language += [language_case(7, 0.1, 0.02, ignored) for ignored in ("none", "all")]
    (GOLDEN / "language.json").write_text(json.dumps(language, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
