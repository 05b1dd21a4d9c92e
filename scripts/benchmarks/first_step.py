"""Seconds from starting a process to its first finished training step, for this trainer and for
Lightning with the same model, data and batch on the same device.

usage: first_step.py TRAINER CONFIG RUNS [lightning]

Prints one JSON line with every measurement. Both are timed by this script from outside: the trainer
by the first line of metrics.jsonl, Lightning by a file that a callback writes after its first step
(and a device synchronisation, so that the step has really finished).
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

LIGHTNING = """
import sys, torch, lightning as L, torch.nn.functional as F
from torch import nn
class LeNet(L.LightningModule):
    def __init__(s):
        super().__init__()
        s.net = nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
                              nn.Conv2d(6, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
                              nn.Flatten(), nn.Linear(64, 120), nn.ReLU(), nn.Linear(120, 84),
                              nn.ReLU(), nn.Linear(84, 10))
    def training_step(s, batch, i): return F.cross_entropy(s.net(batch[0]), batch[1])
    def configure_optimizers(s): return torch.optim.AdamW(s.parameters(), lr=2e-3)
class First(L.Callback):
    def on_train_batch_end(s, *a):
        if torch.cuda.is_available(): torch.cuda.synchronize()
        open(sys.argv[1], 'w').write('done')
data = torch.utils.data.TensorDataset(torch.rand(1437, 1, 8, 8), torch.randint(0, 10, (1437,)))
loader = torch.utils.data.DataLoader(data, 64, shuffle=True)
L.Trainer(max_steps=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
          enable_model_summary=False, callbacks=[First()]).fit(LeNet(), loader)
"""


def seconds_until(command, ready, log):
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        while not ready():
            if process.poll() is not None and not ready():
                raise SystemExit(f"{command[0]} ended with {process.returncode} before a step")
            time.sleep(0.002)
        return time.perf_counter() - begin
    finally:
        process.kill()
        process.wait()


def has_content(path):
    return lambda: path.exists() and path.stat().st_size > 0


def main():
    trainer, config, runs = sys.argv[1], sys.argv[2], int(sys.argv[3])
    peers = ["trainer"] + (["lightning"] if "lightning" in sys.argv[4:] else [])
    times = {peer: [] for peer in peers}
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, "log"), "w") as log:
        script = pathlib.Path(folder) / "peer.py"
        script.write_text(LIGHTNING)
        for i in range(runs):
            for peer in peers:
                if peer == "trainer":
                    out = pathlib.Path(folder) / f"run{i}"
                    command = [trainer, "--config", config, "--output", str(out)]
                    ready = has_content(out / "metrics.jsonl")
                else:
                    mark = pathlib.Path(folder) / f"mark{i}"
                    command = [sys.executable, str(script), str(mark)]
                    ready = has_content(mark)
                times[peer].append(round(seconds_until(command, ready, log), 3))
    print(json.dumps({"seconds_to_first_step": times}), flush=True)


if __name__ == "__main__":
    main()
