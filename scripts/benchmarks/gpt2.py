"""Training a GPT-2 beside PyTorch and Hugging Face's Trainer, in turns on one machine.

    python scripts/benchmarks/gpt2.py TRAINER [--batch N] [--length N] [--steps N] [--rounds N]
        [--layers N --heads N --width N] [--peers eager,hf,compile]

All sides train the same architecture (124M parameters unless told otherwise) without dropout on the
same random tokens, with bf16 autocast, fused AdamW and gradient clipping; the first GPU, or the CPU
where there is none. TRAINER is the program, or a package's launcher. The peers, each in a process
of its own:

    eager    a plain PyTorch loop: fused attention, tokens already in pinned memory, no
             synchronisation before the last step has been launched
    compile  the same loop around torch.compile(model)
    hf       transformers.Trainer with GPT2LMHeadModel (attention by SDPA, four loader processes)

A step's time is the device's own, from the end of the step before; medians are over the last two
thirds of the steps. Peak memory is the most that the caching allocator had handed out at once
during the process's life. Prints one JSON object a measurement, and at the end a table in Markdown,
whose ratios are between medians over the rounds. The tokens are random: every loss stays near
ln(50257) = 10.8 (hf's is smaller by a token's share: it predicts one less of each sample, and still
divides by --length). Ends with 1 where a measurement failed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

IDS, VOCABULARY = 50257, 50304  # ids that occur; rows of the embedding, a multiple of 128
LR, WEIGHT_DECAY, BETAS, CLIP_NORM = 6e-4, 0.1, (0.9, 0.95), 1.0
LOADER_PROCESSES = 4

CONFIG = """
name: gpt2-benchmark
deterministic: {deterministic}
model:
  kind: gpt2
  layers: {layers}
  heads: {heads}
  width: {width}
  context: {length}
  vocabulary: {vocabulary}
  dropout: {dropout}
data:
  train: {{kind: tokens, path: {tokens}, length: {length}}}
batch: {{global: {batch}, micro: {batch}}}
precision: {{mode: bf16}}
objective: {{kind: language_modeling}}
optim: {{kind: adamw, lr: {lr}, weight_decay: {weight_decay}, betas: {betas}, clip_norm: {clip_norm}}}
train: {{length: {steps} steps}}
memory: {{activation_checkpointing: {checkpointing}}}
checkpoint: {{every: null}}
log: {{every: 1 steps, console: quiet, tensorboard: false, csv: false}}
"""


class Failed(Exception):
    """A measured process did not end well; the text is the end of what it said."""


def add_shape_arguments(parser, layers, heads, width, batch, steps):
    parser.add_argument("--layers", type=int, default=layers)
    parser.add_argument("--heads", type=int, default=heads)
    parser.add_argument("--width", type=int, default=width)
    parser.add_argument("--batch", type=int, default=batch)
    parser.add_argument("--length", type=int, default=1024, help="tokens of a sample")
    parser.add_argument("--steps", type=int, default=steps)


def check_shape(parser, shape):
    for name in ("layers", "heads", "width", "batch", "length"):
        if getattr(shape, name) < 1:
            parser.error(f"--{name} has to be at least 1")
    if shape.width % shape.heads:
        parser.error(f"--heads {shape.heads} does not divide --width {shape.width}")
    if shape.steps < 3:
        parser.error("--steps has to be at least 3: the first ones are warm-up")


def write_tokens(path, shape):
    """nanoGPT's raw uint16 file, with a batch more than all steps take."""
    import numpy as np

    count = (shape.steps + 1) * shape.batch * shape.length + 1
    np.random.default_rng(1).integers(0, IDS, count, dtype=np.uint16).tofile(path)


# --- our program ---------------------------------------------------------------------------------
def config_text(shape, tokens, checkpointing="none", dropout=0.0, deterministic=False):
    return CONFIG.format(
        layers=shape.layers, heads=shape.heads, width=shape.width, length=shape.length,
        batch=shape.batch, steps=shape.steps, vocabulary=VOCABULARY, tokens=json.dumps(str(tokens)),
        lr=LR, weight_decay=WEIGHT_DECAY, betas=list(BETAS), clip_norm=CLIP_NORM,
        checkpointing=checkpointing, dropout=dropout, deterministic=json.dumps(deterministic))


def finished(command, environment=None):
    """The standard output of a process that ended with 0."""
    try:
        process = subprocess.run(command, capture_output=True, text=True, env=environment)
    except OSError as error:
        raise Failed(str(error)) from error
    if process.returncode != 0:
        said = (process.stderr.strip() or process.stdout.strip()).splitlines()[-3:]
        raise Failed(f"ended with {process.returncode}: " + " | ".join(said))
    return process.stdout


def step_records(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if "step_ms" in record]


def run_trainer(trainer, config, steps):
    """The records of the run's steps. Its folder, which holds a checkpoint in the end, is removed."""
    with tempfile.TemporaryDirectory() as scratch:
        path, output = Path(scratch) / "config.yaml", Path(scratch) / "run"
        path.write_text(config)
        # What it keeps about a token file would stay behind in the user's cache folder.
        environment = {**os.environ, "XDG_CACHE_HOME": str(Path(scratch) / "cache")}
        finished([trainer, "--config", str(path), "--output", str(output)], environment)
        try:
            records = step_records(output)
        except (OSError, ValueError) as error:
            raise Failed(f"its metrics.jsonl cannot be read: {error}") from error
    if len(records) != steps:
        raise Failed(f"its metrics.jsonl has {len(records)} steps of {steps}")
    return records


def measure_trainer(arguments, tokens):
    records = run_trainer(arguments.trainer, config_text(arguments, tokens), arguments.steps)
    return {"device": "cuda" if "mem_peak" in records[-1] else "cpu",
            "step_ms": [record["step_ms"] for record in records],
            "losses": [float(records[0]["loss"]), float(records[-1]["loss"])],
            "peak": records[-1].get("mem_peak")}


# --- the peers -----------------------------------------------------------------------------------
def make_gpt2(shape):
    import torch
    import torch.nn.functional as F
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            width = shape.width
            self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
            self.queries_keys_values = nn.Linear(width, 3 * width)
            self.attention_out = nn.Linear(width, width)
            self.rise = nn.Linear(width, 4 * width)
            self.fall = nn.Linear(4 * width, width)

        def attention(self, hidden):
            parts = self.queries_keys_values(hidden).unflatten(-1, (3, shape.heads, -1)).unbind(2)
            query, key, value = (part.transpose(1, 2) for part in parts)  # [batch, heads, length, size]
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
            return self.attention_out(mixed.transpose(1, 2).flatten(2))

        def forward(self, hidden):
            hidden = hidden + self.attention(self.attention_norm(hidden))
            inner = F.gelu(self.rise(self.mlp_norm(hidden)), approximate="tanh")
            return hidden + self.fall(inner)

    class Gpt2(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(VOCABULARY, shape.width)
            self.positions = nn.Embedding(shape.length, shape.width)
            self.blocks = nn.Sequential(*(Block() for _ in range(shape.layers)))
            self.norm = nn.LayerNorm(shape.width)
            self.head = nn.Linear(shape.width, VOCABULARY, bias=False)
            self.apply(self.initialise)
            for block in self.blocks:
                for last in (block.attention_out, block.fall):
                    nn.init.normal_(last.weight, std=0.02 / (2 * shape.layers) ** 0.5)
            self.head.weight = self.tokens.weight

        @staticmethod
        def initialise(module):
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

        def forward(self, ids, targets):
            places = torch.arange(ids.shape[1], device=ids.device)
            hidden = self.blocks(self.tokens(ids) + self.positions(places))
            logits = self.head(self.norm(hidden))
            return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    return Gpt2()


class Stopwatch:
    """Marks on the device's own line of time, read when everything has been launched."""

    def __init__(self):
        import torch

        self.cuda = torch.cuda if torch.cuda.is_available() else None
        self.marks = []

    def mark(self, *_, **__):
        if self.cuda is None:
            self.marks.append(time.perf_counter())
        else:
            event = self.cuda.Event(enable_timing=True)
            event.record()
            self.marks.append(event)

    def milliseconds(self):
        pairs = zip(self.marks, self.marks[1:])
        if self.cuda is None:
            return [1000 * (end - begin) for begin, end in pairs]
        self.cuda.synchronize()
        return [begin.elapsed_time(end) for begin, end in pairs]


def read_tokens(path):
    import numpy as np
    import torch

    return torch.from_numpy(np.fromfile(path, dtype=np.uint16).astype(np.int64))


def train_plainly(shape, path, compiled):
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokens = read_tokens(path)
    if device == "cuda":
        tokens = tokens.pin_memory()
    model = make_gpt2(shape).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, betas=BETAS, weight_decay=WEIGHT_DECAY, fused=True)
    loss_of = torch.compile(model) if compiled else model
    size, watch, losses = shape.batch * shape.length, Stopwatch(), []
    watch.mark()
    for begin in range(0, shape.steps * size, size):
        ids, targets = (tokens[first:first + size].view(shape.batch, shape.length).to(device, non_blocking=True)
                        for first in (begin, begin + 1))
        with torch.autocast(device, torch.bfloat16):
            loss = loss_of(ids, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
        watch.mark()
    return watch.milliseconds(), losses


def train_by_hugging_face(shape, path):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

    samples = read_tokens(path)[:shape.steps * shape.batch * shape.length].view(-1, shape.length)
    losses, watch = [], Stopwatch()

    class Samples(torch.utils.data.Dataset):
        def __len__(self):
            return len(samples)

        def __getitem__(self, index):
            return {"input_ids": samples[index], "labels": samples[index]}  # the model shifts them

    class Watched(Trainer):
        def compute_loss(self, *positional, **named):
            loss = super().compute_loss(*positional, **named)
            losses.append(loss.detach())
            return loss

    class Marks(TrainerCallback):
        on_train_begin = on_step_end = staticmethod(watch.mark)

    model = GPT2LMHeadModel(GPT2Config(
        vocab_size=VOCABULARY, n_positions=shape.length, n_layer=shape.layers, n_head=shape.heads,
        n_embd=shape.width, attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0, use_cache=False,
        bos_token_id=IDS - 1, eos_token_id=IDS - 1, attn_implementation="sdpa"))
    with tempfile.TemporaryDirectory() as scratch:
        settings = TrainingArguments(
            scratch, per_device_train_batch_size=shape.batch, max_steps=shape.steps, bf16=True,
            optim="adamw_torch_fused", learning_rate=LR, weight_decay=WEIGHT_DECAY, adam_beta1=BETAS[0],
            adam_beta2=BETAS[1], max_grad_norm=CLIP_NORM, lr_scheduler_type="constant", report_to=[],
            save_strategy="no", logging_strategy="no", disable_tqdm=True,
            dataloader_num_workers=LOADER_PROCESSES, use_cpu=not torch.cuda.is_available())
        Watched(model, settings, train_dataset=Samples(), callbacks=[Marks()]).train()
    return watch.milliseconds(), losses


PEERS = {
    "eager": lambda shape, path: train_plainly(shape, path, compiled=False),
    "hf": train_by_hugging_face,
    "compile": lambda shape, path: train_plainly(shape, path, compiled=True),
}


def be_peer(arguments):
    # With several GPUs in sight transformers would spread the batch over them.
    os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch

    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    milliseconds, losses = PEERS[arguments.peer](arguments, arguments.tokens)
    cuda = torch.cuda.is_available()
    print(json.dumps({"device": "cuda" if cuda else "cpu", "step_ms": milliseconds,
                      "losses": [losses[0].item(), losses[-1].item()],
                      "peak": torch.cuda.max_memory_allocated() if cuda else None}))


def measure_peer(arguments, tokens, name):
    shape = [f"--{key}={getattr(arguments, key)}" for key in ("layers", "heads", "width", "batch", "length", "steps")]
    out = finished([sys.executable, __file__, "-", f"--peer={name}", f"--tokens={tokens}", *shape])
    try:
        return json.loads(out.splitlines()[-1])
    except (IndexError, ValueError) as error:
        raise Failed("its last line is no measurement") from error


# --- results -------------------------------------------------------------------------------------
def summary(name, measured, shape):
    steady = measured["step_ms"][len(measured["step_ms"]) // 3:]
    step_ms = statistics.median(steady)
    peak = measured["peak"]
    return {"what": name, "device": measured["device"], "step_ms": round(step_ms, 3),
            "step_ms_mean": round(statistics.mean(steady), 3),
            "tokens_per_s": round(1000 * shape.batch * shape.length / step_ms, 1),
            "peak_gib": None if peak is None else round(peak / 2**30, 3),
            "first_loss": measured["losses"][0], "last_loss": measured["losses"][1]}


def median_of(results, key):
    values = [result[key] for result in results if result[key] is not None]
    return statistics.median(values) if values else None


def ratio(ours, theirs, key):
    """Between medians over the rounds; nothing where they are not comparable."""
    if {result["device"] for result in ours} != {result["device"] for result in theirs}:
        return "-"
    mine, other = median_of(ours, key), median_of(theirs, key)
    return f"{mine / other:.3f} x" if mine and other else "-"


def cell(results, key, form):
    return ", ".join("-" if result[key] is None else format(result[key], form) for result in results)


def print_table(by_name):
    ours = by_name.get("trainer", [])
    print("\n| | ms a step | tokens/s | peak, GiB | ours: tokens/s | ours: peak | first, last loss |")
    print("|---|---|---|---|---|---|---|")
    for name, results in by_name.items():
        compared = name != "trainer" and ours
        speed, memory = (ratio(ours, results, key) if compared else "" for key in ("tokens_per_s", "peak_gib"))
        last = results[-1]
        print(f"| {name} | {cell(results, 'step_ms', '.2f')} | {cell(results, 'tokens_per_s', ',.0f')} | "
              f"{cell(results, 'peak_gib', '.2f')} | {speed} | {memory} | "
              f"{last['first_loss']:.3f}, {last['last_loss']:.3f} |")


def compare(arguments):
    by_name, failures = {}, 0
    with tempfile.TemporaryDirectory() as scratch:
        tokens = Path(scratch) / "tokens.bin"
        write_tokens(tokens, arguments)
        for _ in range(arguments.rounds):
            for name in ("trainer", *arguments.peers):
                try:
                    measured = (measure_trainer(arguments, tokens) if name == "trainer"
                                else measure_peer(arguments, tokens, name))
                except Failed as error:
                    failures += 1
                    print(json.dumps({"what": name, "error": str(error)}), flush=True)
                    continue
                result = summary(name, measured, arguments)
                by_name.setdefault(name, []).append(result)
                print(json.dumps(result), flush=True)
    print_table(by_name)
    return 1 if failures else 0


def peer_names(text):
    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]} is not one of {', '.join(PEERS)}")
    return names


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("trainer")
    add_shape_arguments(parser, layers=12, heads=12, width=768, batch=32, steps=60)
    parser.add_argument("--peers", type=peer_names, default=list(PEERS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--peer", choices=PEERS, help=argparse.SUPPRESS)  # a measurement in a process of its own
    parser.add_argument("--tokens", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    check_shape(parser, arguments)
    if arguments.peer:
        be_peer(arguments)
        return 0
    return compare(arguments)


if __name__ == "__main__":
    sys.exit(main())
