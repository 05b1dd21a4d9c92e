"""Writes tests/golden/optim/schedules.json: learning rates of torch.optim.lr_scheduler.

Closed forms where PyTorch has them: its recursive ones round at each step. The cases with a warm-up
go through SequentialLR, as a user of PyTorch would write them.
Run from the repository's root: python tests/oracle/schedule.py
"""

import json
import pathlib
import warnings

import torch
from torch.optim import lr_scheduler

LR = 0.3
LENGTH = 40
WARMUP = 8


def optimizer():
    return torch.optim.SGD([torch.zeros(1)], lr=LR)


def closed_form(scheduler, updates=LENGTH + 1):
    rates = []
    for update in range(updates):
        scheduler.last_epoch = update
        rates.append(scheduler._get_closed_form_lr()[0])
    return rates


def stepped(scheduler, updates):
    rates = []
    for _ in range(updates):
        rates.append(scheduler.get_last_lr()[0])
        scheduler.optimizer.step()
        scheduler.step()
    return rates


def warmed_up(start, make, updates=LENGTH):
    sgd = optimizer()
    warmup = lr_scheduler.LinearLR(sgd, start_factor=start, total_iters=WARMUP)
    chain = lr_scheduler.SequentialLR(sgd, [warmup, make(sgd)], milestones=[WARMUP])
    return stepped(chain, updates)


def main():
    warnings.simplefilter("ignore")  # SequentialLR's own use of a deprecated argument
    sgd = optimizer
    golden = {
        "constant": stepped(lr_scheduler.ConstantLR(sgd(), factor=1.0), LENGTH),
        "linear": closed_form(lr_scheduler.LinearLR(sgd(), 1.0, 0.1, LENGTH)),
        "cosine": closed_form(lr_scheduler.CosineAnnealingLR(sgd(), LENGTH, eta_min=0.01 * LR)),
        "step": closed_form(lr_scheduler.StepLR(sgd(), 12, gamma=0.3)),
        "multistep": closed_form(lr_scheduler.MultiStepLR(sgd(), [10, 25, 33], gamma=0.2)),
        "one_cycle": stepped(
            lr_scheduler.OneCycleLR(
                sgd(), max_lr=LR, total_steps=LENGTH, pct_start=0.3, div_factor=20,
                final_div_factor=50, anneal_strategy="cos", cycle_momentum=False),
            LENGTH),
        "warmup_constant": warmed_up(0.1, lambda o: lr_scheduler.ConstantLR(o, factor=1.0)),
        "warmup_linear": warmed_up(
            0.25, lambda o: lr_scheduler.LinearLR(o, 1.0, 0.1, LENGTH - WARMUP)),
        "warmup_cosine": warmed_up(
            0.1,
            lambda o: lr_scheduler.CosineAnnealingLR(o, LENGTH - WARMUP, eta_min=0.01 * LR)),
    }
    path = pathlib.Path("tests/golden/optim/schedules.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(f'  "{name}": {json.dumps(rates)}' for name, rates in golden.items())
    head = json.dumps({"lr": LR, "length": LENGTH, "warmup": WARMUP})[1:-1]
    path.write_text(f'{{{head}, "rates": {{\n{lines}\n}}}}\n')


if __name__ == "__main__":
    main()
