#!/usr/bin/env bash
# Builds the fuzzers with clang, of the experiment file's parser and of the image decoders, and runs
# each for a while.
#
#   scripts/fuzz.sh [SECONDS]     default 30, for each
#
# Inputs start from tests/fuzz/corpus and tests/data/golden/decode; new ones stay in
# build/fuzz/corpus-*, and one that crashes in build/fuzz/crash-*. Exit code 0 also where clang or its libFuzzer is missing, with a notice.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

case ${1:-30} in
  -h | --help) usage && exit 0 ;;
  *[!0-9]*) die 2 "$1 is no number of seconds; see --help" ;;
esac
seconds=${1:-30}

if ! clang++ -fsanitize=fuzzer -x c++ - -o /dev/null 2>/dev/null <<<'
  extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }'; then
  say "No clang with libFuzzer here: fuzzing is skipped (scripts/setup.sh --with-dev installs it)"
  exit 0
fi
"$ROOT/scripts/build.sh" fuzz config_fuzzer image_fuzzer
cd -- "$ROOT/build/fuzz"

# fuzz NAME SEEDS OPTIONS...
fuzz() {
  local name=$1 seeds=$2
  shift 2
  mkdir -p "corpus-$name"
  say "Fuzzing $name for $seconds s"
  UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
    "bin/${name}_fuzzer" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
    -verbosity=0 -print_final_stats=1 -artifact_prefix="$PWD/" "$@" "corpus-$name" "$seeds"
}

fuzz config "$ROOT/tests/fuzz/corpus" -max_len=4096 -dict="$ROOT/tests/fuzz/config.dict"
fuzz image "$ROOT/tests/data/golden/decode" -max_len=65536
