"""Numbers by formula, the same to the bit as tests/support/formula.h, so that no golden file has to
store weights or inputs.

u(index, salt) in [-1, 1) is a 32-bit integer hash of both, over 2**31, less one. Tensors take it at
their elements' positions in row-major order, in float64, and are then rounded to float32.
"""

import math

import numpy as np
import torch


def uniform(count, salt):
    x = (np.arange(1, count + 1, dtype=np.uint64) * 0x9E3779B1 + salt * 0x85EBCA77) & 0xFFFFFFFF
    for _ in range(2):
        x = ((x ^ (x >> np.uint64(16))) * 0x45D9F3B) & 0xFFFFFFFF
    x ^= x >> np.uint64(16)
    return x.astype(np.float64) / 2.0**31 - 1.0


def tensor(shape, salt, scale=1.0, shift=0.0):
    values = shift + scale * uniform(math.prod(shape), salt)
    return torch.from_numpy(values.astype(np.float32)).reshape(shape)


def model_input(shape, step=0):
    """A batch of inputs; each step has its own."""
    return tensor(shape, salt=1000 + step)


def targets(count, classes, step=0):
    return (7 * (torch.arange(count) + step) + 3) % classes


def fill_state(model):
    """Sets every parameter and buffer. A tensor's salt is its place in the state_dict, from 1."""
    with torch.no_grad():
        for salt, (name, value) in enumerate(model.state_dict().items(), start=1):
            if name.endswith("num_batches_tracked"):
                value.fill_(3)
            elif value.dim() >= 2:  # keeps the size of activations through ReLU layers
                fan_in = value.numel() // value.shape[0]
                value.copy_(tensor(value.shape, salt, scale=math.sqrt(6.0 / fan_in)))
            elif name.endswith("running_var"):
                value.copy_(tensor(value.shape, salt, scale=0.5, shift=1.0))
            elif name.endswith(".weight"):
                value.copy_(tensor(value.shape, salt, scale=0.1, shift=1.0))
            else:
                value.copy_(tensor(value.shape, salt, scale=0.1))
