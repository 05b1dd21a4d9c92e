"""Activation checkpointing: memory and time of each policy, on a GPT-2.

    python scripts/benchmarks/checkpointing.py TRAINER [--batch N] [--length N] [--steps N]
        [--layers N --heads N --width N] [--policies none,blocks,every:2,every:4,selective,offload]
        [--dropout P] [--deterministic]

TRAINER (the program, or a package's launcher) trains the same model (350M parameters unless told
otherwise) on the same random tokens once for each policy, the first of which is what the others are
compared with. Times are medians over the last half of the steps. Prints one JSON object a policy
and a table in Markdown. Ends with 1 where a run failed.

What of the peak is activations depends on how far the backward pass has come by then. What stays
between two steps (mem_allocated) holds the gradients, which a peak at the beginning of the backward
pass does not. So there are two figures, and the activations (with what operators need for a moment)
are between them:

    at least   the peak less what stays between steps
    at most    the peak less what stays without the gradients: parameters and optimiser state
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from gpt2 import VOCABULARY, Failed, add_shape_arguments, check_shape, config_text, run_trainer, write_tokens

POLICIES = "none,blocks,every:2,every:4,selective,offload"


def policy_names(text):
    names = [name for name in text.split(",") if name]
    for name in names:
        kind, _, number = name.partition(":")
        if not (number.isdigit() if kind == "every" else name in POLICIES.split(",")):
            raise argparse.ArgumentTypeError(f"{name} is not one of {POLICIES}; every:N for N from 2")
    if not names:
        raise argparse.ArgumentTypeError("no policy")
    return names


def policy_yaml(name):
    kind, _, number = name.partition(":")
    return f"{{every: {number}}}" if number else kind


def gradient_bytes(shape):
    """Of a GPT-2 with a tied head in fp32, as parameters are under autocast."""
    block = 12 * shape.width**2 + 13 * shape.width
    return 4 * ((VOCABULARY + shape.length + 2) * shape.width + shape.layers * block)


def measure(arguments, tokens, name):
    config = config_text(arguments, tokens, policy_yaml(name), arguments.dropout, arguments.deterministic)
    records = run_trainer(arguments.trainer, config, arguments.steps)
    steady = records[len(records) // 2:]
    result = {"policy": name, "step_ms": round(statistics.median(record["step_ms"] for record in steady), 3)}
    if "mem_peak" in records[-1]:
        peak, stays = records[-1]["mem_peak"], records[-1]["mem_allocated"]
        result.update(mem_peak=peak, mem_allocated=stays, activations_least=peak - stays,
                      activations_most=peak - stays + gradient_bytes(arguments))
    if "mem_host" in records[-1]:
        result["mem_host"] = records[-1]["mem_host"]
    result["losses"] = [float(record["loss"]) for record in records]
    return result


def compare_losses(result, base):
    differences = [abs(a - b) for a, b in zip(result["losses"], base["losses"])]
    result["losses_equal"] = result["losses"] == base["losses"]
    result["largest_loss_difference"] = max(differences)


def gib(result, key):
    return f"{result[key] / 2**30:.2f}" if key in result else "-"


def share(result, base, key):
    """How many times as much the base needs."""
    return f"{base[key] / result[key]:.2f} x" if result.get(key, 0) > 0 and key in base else "-"


def print_table(results):
    base = results[0]
    print(f"\n| | ms a step | of {base['policy']} | peak, GiB | between steps | activations at least, at most | "
          f"times less than {base['policy']} | host, GiB | losses |")
    print("|---|---|---|---|---|---|---|---|---|")
    for result in results:
        least, most = "activations_least", "activations_most"
        losses = "equal" if result["losses_equal"] else f"within {result['largest_loss_difference']:.1e}"
        print(f"| {result['policy']} | {result['step_ms']:.2f} | {result['step_ms'] / base['step_ms']:.3f} x | "
              f"{gib(result, 'mem_peak')} | {gib(result, 'mem_allocated')} | "
              f"{gib(result, least)}, {gib(result, most)} | "
              f"{share(result, base, least)}, {share(result, base, most)} | {gib(result, 'mem_host')} | {losses} |")


def compare(arguments):
    results, failures = [], 0
    with tempfile.TemporaryDirectory() as scratch:
        tokens = Path(scratch) / "tokens.bin"
        write_tokens(tokens, arguments)
        for name in arguments.policies:
            try:
                result = measure(arguments, tokens, name)
            except Failed as error:
                failures += 1
                print(json.dumps({"policy": name, "error": str(error)}), flush=True)
                continue
            results.append(result)
            compare_losses(result, results[0])
            print(json.dumps(result), flush=True)
    if results:
        print_table(results)
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("trainer")
    add_shape_arguments(parser, layers=24, heads=16, width=1024, batch=16, steps=12)
    parser.add_argument("--policies", type=policy_names, default=POLICIES)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--deterministic", action="store_true")
    arguments = parser.parse_args()
    check_shape(parser, arguments)
    return compare(arguments)


if __name__ == "__main__":
    sys.exit(main())
