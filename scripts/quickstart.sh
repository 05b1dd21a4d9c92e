#!/usr/bin/env bash
# From a fresh checkout to a trained model: installs what is missing, builds, and trains the small
# network of configs/digits.yaml on the digits that come with the program. May be repeated.
#
#   scripts/quickstart.sh
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

case ${1:-} in
  '') ;;
  -h | --help) usage && exit 0 ;;
  *) die 2 "takes no arguments; see --help" ;;
esac

"$ROOT/scripts/setup.sh"
"$ROOT/scripts/build.sh" release trainer
cd -- "$ROOT"
say "Training: build/release/bin/trainer --config configs/digits.yaml"
build/release/bin/trainer --config configs/digits.yaml

run=$(cd -- runs/digits/latest && pwd -P)
run=${run#"$ROOT/"}
accuracy=$(json_value "$run/summary.json" val/accuracy) ||
  die 70 "$run/summary.json holds no val/accuracy"
say "Test accuracy: $(awk -v a="$accuracy" 'BEGIN { printf "%.2f %%", 100 * a }')"
cat <<END
    Run folder: $run (metrics.jsonl, summary.json, checkpoints/)

Next:
    build/release/bin/trainer --config configs/digits.yaml --set optim.lr=3e-3
    build/release/bin/trainer --config configs/digits.yaml --resume $run --set train.length='60 epochs'
    scripts/sweep.sh --config configs/digits.yaml --grid optim.lr=1e-3,3e-3 --grid seed=1,2
END
