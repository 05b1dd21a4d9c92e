"""Golden values of the transformers, from transformers 5.24 and timm 1.0.31.

    .venv/bin/python tests/oracle/transformers_models.py    writes, relative to tests/golden:

models/transformers.json [{model, config, input, classes, documents, logits, loss, gradients,
                         logit_tolerance, gradient_tolerance}]: one forward and backward pass in
                         float32, filled as formula.fill_state does (a tied head once). `model` is a
                         description as golden.h reads it and `config` transformers' config.json of
                         the same (null for timm's ViT). Tokens and targets are formula.targets of
                         steps 11 and 0, reshaped; images are formula.model_input. `documents` are
                         null, or the number of each token's document, whose positions start from 0.
                         `logits` are those of samples() at 64 positions; loss is the mean
                         cross-entropy; gradients are {name: {norm, samples}} in the order of the
                         parameters. The tolerances are as in models.py.
models/rotary.json       [{model, length, frequencies, scale}]: transformers' inverse frequencies.
models/hf_config.json    {gpt2, llama, mistral, qwen2, vit}: config.json as transformers 5.24 writes
                         it by default.
"""

import copy
import json
import math

import timm
import torch
import torch.nn.functional as F
from transformers import (GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM,
                          MistralConfig, Qwen2Config, Qwen2ForCausalLM, ViTConfig)
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

import formula
import models


class Untied:
    """A model's state without the second name of a tied tensor."""

    def __init__(self, model):
        self.model = model

    def state_dict(self):
        return dict(self.model.named_parameters())


def tokens(shape, vocabulary, step):
    return formula.targets(math.prod(shape), vocabulary, step).reshape(shape)


def spread(value, count=64):
    flat = value.detach().reshape(-1)
    return [flat[i * (len(flat) - 1) // (count - 1)].item() for i in range(count)]


def document_arguments(documents):
    """Positions and the 4-d additive mask of packed rows."""
    documents = torch.tensor(documents)
    length = documents.shape[1]
    same = documents[:, :, None] == documents[:, None, :]
    visible = same & torch.ones(length, length).tril().bool()
    positions = torch.zeros_like(documents)
    for i in range(1, length):
        follows = documents[:, i] == documents[:, i - 1]
        positions[:, i] = torch.where(follows, positions[:, i - 1] + 1, 0)
    mask = torch.zeros(visible.shape).masked_fill(~visible, -math.inf)[:, None]
    return {"position_ids": positions, "attention_mask": mask}


def run(model, inputs, classes, documents, dtype):
    model = copy.deepcopy(model).to(dtype)
    if inputs.is_floating_point():
        logits = model(inputs.to(dtype))
    else:
        arguments = document_arguments(documents) if documents else {}
        if documents:
            arguments["attention_mask"] = arguments["attention_mask"].to(dtype)
        logits = model(inputs, use_cache=False, **arguments).logits
    flat = logits.flatten(0, -2)
    loss = F.cross_entropy(flat, formula.targets(len(flat), classes))
    loss.backward()
    return model, logits.detach(), loss.item()


def case(description, model, shape, classes, config=None, documents=None):
    model.train()
    formula.fill_state(Untied(model))
    image = len(shape) == 4
    inputs = formula.model_input(shape) if image else tokens(shape, classes, 11)
    single, logits, loss = run(model, inputs, classes, documents, torch.float32)
    exact, exact_logits, _ = run(model, inputs, classes, documents, torch.float64)
    distance = ((logits - exact_logits).abs().max() / exact_logits.abs().max()).item()
    return {
        "model": description,
        "config": config.to_dict() if config else None,
        "input": shape,
        "classes": classes,
        "documents": documents,
        "logits": spread(logits),
        "loss": loss,
        "gradients": {name: models.summary(value.grad)
                      for name, value in single.named_parameters()},
        "logit_tolerance": max(1e-5, 4 * distance),
        "gradient_tolerance": max(1e-5, 4 * models.largest_distance(single, exact)),
    }


def gpt2(documents=None, **changes):
    sizes = {"layers": 2, "heads": 4, "width": 32, "context": 32}
    config = GPT2Config(n_layer=2, n_head=4, n_embd=32, n_positions=32, vocab_size=65,
                        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=None,
                        eos_token_id=None, n_inner=changes.get("intermediate"),
                        tie_word_embeddings=changes.get("tied", True))
    return case({"kind": "gpt2", **sizes, **changes}, GPT2LMHeadModel(config), [3, 24], 65, config,
                documents)


LLAMA = {"kind": "llama", "layers": 2, "heads": 4, "kv_heads": 2, "width": 32, "context": 32,
         "intermediate": 48, "norm_eps": 1e-6}


def llama_arguments(description):
    scaling = description.get("rope_scaling", {})
    rope = {"rope_type": scaling.get("kind", "default"),
            "rope_theta": description.get("rope_theta", 10000.0)}
    names = {"original_context": "original_max_position_embeddings"}
    kept = {key: value for key, value in scaling.items() if key != "kind"}
    if rope["rope_type"] in ("linear", "dynamic"):
        kept.pop("original_context", None)
    rope.update({names.get(key, key): value for key, value in kept.items()})
    return dict(num_hidden_layers=description["layers"], num_attention_heads=description["heads"],
                num_key_value_heads=description["kv_heads"], hidden_size=description["width"],
                intermediate_size=description["intermediate"],
                max_position_embeddings=description["context"], vocab_size=65,
                rms_norm_eps=description["norm_eps"], rope_parameters=rope, bos_token_id=None,
                eos_token_id=None, tie_word_embeddings=description["tied"])


def llama(documents=None, **changes):
    description = {**LLAMA, "tied": False, **changes}
    arguments = llama_arguments(description)
    if description.get("qkv_bias"):
        config = Qwen2Config(**arguments)
        model = Qwen2ForCausalLM(config)
    else:
        config = LlamaConfig(**arguments, head_dim=description.get("head_size"))
        model = LlamaForCausalLM(config)
    # transformers takes sequences beyond max_position_embeddings, this program up to the context.
    return case({**description, "context": 32}, model, [2, 24], 65, config, documents)


def vit():
    description = {"kind": "vit", "image": 32, "patch": 8, "layers": 2, "heads": 4, "width": 32,
                   "intermediate": 128}
    model = timm.create_model("vit_base_patch16_224", img_size=32, patch_size=8, embed_dim=32,
                              depth=2, num_heads=4, num_classes=10)
    return case(description, model, [3, 3, 32, 32], 10)


def rotary(length, **scaling):
    context = scaling.get("original_context", 64)
    description = {**LLAMA, "width": 64, "tied": False, "rope_theta": 500.0, "context": context,
                   "rope_scaling": scaling}
    config = LlamaConfig(**llama_arguments(description))
    values, scale = ROPE_INIT_FUNCTIONS[scaling["kind"]](config, "cpu", seq_len=length)
    return {"model": description, "length": length, "frequencies": values.tolist(),
            "scale": scale}


LLAMA3 = {"kind": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_context": 16}


def main():
    torch.set_num_threads(1)
    packed = [[0] * 5 + [1] * 13 + [2] * 6, [0] * 24]
    cases = [
        gpt2(),
        gpt2(intermediate=40, tied=False, documents=[*packed, [0] + [1] * 23]),
        llama(rope_scaling=LLAMA3, head_size=16),
        llama(qkv_bias=True, tied=True, rope_theta=1e6),
        llama(documents=packed),
        llama(rope_scaling={"kind": "dynamic", "factor": 2.0, "original_context": 16}, context=16),
        llama(rope_scaling={"kind": "yarn", "factor": 2.0, "original_context": 16}, kv_heads=1),
        vit(),
    ]
    (models.GOLDEN / "models/transformers.json").write_text(
        "[\n" + ",\n".join(json.dumps(one, separators=(",", ":")) for one in cases) + "\n]\n")
    models.write("models/rotary.json", [
        rotary(20, kind="linear", factor=4.0),
        rotary(20, kind="dynamic", factor=4.0, original_context=64),
        rotary(200, kind="dynamic", factor=4.0, original_context=64),
        rotary(20, kind="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
               original_context=64),
        rotary(20, kind="yarn", factor=4.0, original_context=64),
        rotary(20, kind="yarn", factor=16.0, original_context=256, beta_fast=16.0, beta_slow=2.0,
               truncate=False),
        rotary(20, kind="yarn", factor=4.0, original_context=64, attention_factor=0.75),
    ])
    defaults = {"gpt2": GPT2Config(), "llama": LlamaConfig(), "mistral": MistralConfig(),
                "qwen2": Qwen2Config(num_hidden_layers=2), "vit": ViTConfig()}
    models.write("models/hf_config.json",
                 {name: json.loads(config.to_json_string()) for name, config in defaults.items()})


if __name__ == "__main__":
    main()
