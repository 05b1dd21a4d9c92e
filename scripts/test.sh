#!/usr/bin/env bash
# Installs what is missing, builds everything and runs the tests.
#
#   scripts/test.sh [--preset release|dev|asan|tsan] [CTEST ARGUMENTS...]
#
#   scripts/test.sh -R optim            only the tests whose name matches
#   scripts/test.sh --preset asan       under the address and undefined-behaviour sanitizers
#
# Tests labelled gpu are reported as skipped where there is no GPU. Exit code: ctest's.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

preset=release
arguments=()
while (($#)); do
  case $1 in
    --preset)
      need_value "$1" $#
      preset=$2
      shift
      ;;
    -h | --help) usage && exit 0 ;;
    *) arguments+=("$1") ;;
  esac
  shift
done

"$ROOT/scripts/setup.sh"
"$ROOT/scripts/build.sh" "$preset"
cd -- "$ROOT"
# ThreadSanitizer's shadow memory needs a fixed layout: without -R it fails to start now and then.
fixed_layout=()
[[ "$preset" != tsan ]] || fixed_layout=(setarch "$(uname -m)" -R)
"${fixed_layout[@]}" ctest --preset "$preset" --output-on-failure "${arguments[@]}"
