"""Golden values of twenty AdamW steps of the transformers, from transformers 5.24 and timm 1.0.31.

    .venv/bin/python tests/oracle/transformer_steps.py    writes, relative to tests/golden:

engine/transformer_steps.json [{model, input, classes, documents, ignored, optimizer, clip_norm,
                         losses, distance, parameters, parameter_tolerance}]: twenty steps from
                         formula.fill_state (a tied head once) in float32. `model`, `input`,
                         `classes` and `documents` are as in models/transformers.json. Step k (from
                         0) takes tokens formula.targets(step 11 + k) or images
                         formula.model_input(step k), and formula.targets(step k); with `ignored`
                         = [every, at] the targets at flat positions i with i % every == at do not
                         count. Its loss, the mean over the targets that count, is losses[k], before
                         the update. `distance` is how far this float32 run's losses are from a
                         float64 one's at most. `optimizer` has torch.optim.AdamW's arguments, and
                         clip_norm is clip_grad_norm_'s or null. `parameters` are models.samples()
                         after the last update, of those whose gradient is not 0 but for rounding:
                         AdamW makes whole steps of such a gradient's sign. `parameter_tolerance` is
                         relative to 1 + |value|: four times the distance from the float64 run, at
                         least 1e-5.
"""

import copy
import json

import timm
import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

import formula
import models
from transformers_models import LLAMA, LLAMA3, Untied, document_arguments, llama_arguments, tokens

STEPS = 20
IGNORED = -100
ADAMW = {"lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}
# The biases of keys move no softmax: their gradients are rounding errors.
WITHOUT_GRADIENT = ("attn.c_attn.bias", "attn.qkv.bias")


def logits_of(model, case, step, dtype):
    if len(case["input"]) == 4:
        return model(formula.model_input(case["input"], step).to(dtype))
    arguments = {}
    if case["documents"]:
        arguments = document_arguments(case["documents"])
        arguments["attention_mask"] = arguments["attention_mask"].to(dtype)
    inputs = tokens(case["input"], case["classes"], 11 + step)
    return model(inputs, use_cache=False, **arguments).logits.flatten(0, -2)


def targets_of(case, count, step):
    targets = formula.targets(count, case["classes"], step)
    if case["ignored"]:
        every, at = case["ignored"]
        targets[torch.arange(count) % every == at] = IGNORED
    return targets


def twenty_steps(model, case, dtype):
    model = copy.deepcopy(model).to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), **case["optimizer"])
    losses = []
    for step in range(STEPS):
        logits = logits_of(model, case, step, dtype)
        loss = F.cross_entropy(logits, targets_of(case, len(logits), step), ignore_index=IGNORED)
        optimizer.zero_grad()
        loss.backward()
        if case["clip_norm"]:
            torch.nn.utils.clip_grad_norm_(model.parameters(), case["clip_norm"])
        optimizer.step()
        losses.append(loss.item())
    return losses, {name: models.samples(value) for name, value in model.named_parameters()
                    if not name.endswith(WITHOUT_GRADIENT)}


def run(model, description, shape, classes, documents=None, ignored=None, clip_norm=None):
    model.train()
    formula.fill_state(Untied(model))
    case = {"model": description, "input": shape, "classes": classes, "documents": documents,
            "ignored": ignored, "optimizer": ADAMW, "clip_norm": clip_norm}
    losses, parameters = twenty_steps(model, case, torch.float32)
    exact_losses, exact_parameters = twenty_steps(model, case, torch.float64)
    pairs = [(a, b) for name in parameters for a, b in zip(parameters[name], exact_parameters[name])]
    distance = max(abs(a - b) for a, b in zip(losses, exact_losses))
    parted = max(abs(a - b) / (1 + abs(b)) for a, b in pairs)
    print(f"{description['kind']}: losses {losses[0]:.4f} to {losses[-1]:.4f}, float64 is "
          f"{distance:.1e} away, parameters {parted:.1e}")
    return {**case, "losses": losses, "distance": distance, "parameters": parameters,
            "parameter_tolerance": max(1e-5, 4 * parted)}


def gpt2(**changes):
    sizes = {"layers": 2, "heads": 4, "width": 32, "context": 32}
    config = GPT2Config(n_layer=2, n_head=4, n_embd=32, n_positions=32, vocab_size=65,
                        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=None,
                        eos_token_id=None)
    return run(GPT2LMHeadModel(config), {"kind": "gpt2", **sizes}, [3, 24], 65, **changes)


def llama(**changes):
    description = {**LLAMA, "tied": False, "rope_scaling": LLAMA3, "head_size": 16}
    config = LlamaConfig(**llama_arguments(description), head_dim=16)
    return run(LlamaForCausalLM(config), description, [2, 24], 65, **changes)


def vit():
    description = {"kind": "vit", "image": 32, "patch": 8, "layers": 2, "heads": 4, "width": 32,
                   "intermediate": 128}
    model = timm.create_model("vit_base_patch16_224", img_size=32, patch_size=8, embed_dim=32,
                              depth=2, num_heads=4, num_classes=10)
    return run(model, description, [8, 3, 32, 32], 10)


def main():
    torch.set_num_threads(1)  # one order of summation, wherever this runs
    packed = [[0] * 5 + [1] * 13 + [2] * 6, [0] * 24, [0] + [1] * 23]
    cases = [
        gpt2(),
        gpt2(documents=packed, ignored=[5, 2], clip_norm=1.0),
        llama(),
        llama(documents=packed[:2], ignored=[7, 0]),
        vit(),
    ]
    (models.GOLDEN / "engine/transformer_steps.json").write_text(
        "[\n" + ",\n".join(json.dumps(one, separators=(",", ":")) for one in cases) + "\n]\n")


if __name__ == "__main__":
    main()
