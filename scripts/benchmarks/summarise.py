"""Throughput and memory of a run's metrics.jsonl, its first third left out as warm-up.

usage: summarise.py RUN [RUN ...]   prints one JSON line a run
"""

import json
import pathlib
import statistics
import sys


def summarise(run):
    lines = [json.loads(line) for line in open(pathlib.Path(run) / "metrics.jsonl")]
    steps = [line for line in lines if "loss" in line]
    steady = steps[len(steps) // 3:]
    result = {"run": str(run), "steps": steps[-1]["step"]}
    median = statistics.median(step["step_ms"] for step in steady)
    result["step_ms"] = round(median, 3)
    result["samples_per_s"] = round(statistics.median(s["samples_per_s"] for s in steady), 1)
    # By the clock, over everything between the first and the last steady record.
    first, last = steady[0], steady[-1]
    if last["seconds"] > first["seconds"]:
        result["samples_per_s_by_clock"] = round(
            (last["samples"] - first["samples"]) / (last["seconds"] - first["seconds"]), 1)
    result["data_wait_ms"] = round(statistics.median(s["data_wait_ms"] for s in steady), 3)
    if "mem_peak" in last:
        result["peak_gib"] = round(last["mem_peak"] / 2**30, 3)
    for line in reversed(lines):
        metrics = {k: v for k, v in line.items() if k.startswith("val/")}
        if metrics:
            result.update(metrics)
            break
    return result


if __name__ == "__main__":
    for path in sys.argv[1:]:
        print(json.dumps(summarise(path)), flush=True)
