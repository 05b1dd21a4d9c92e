#!/usr/bin/env bash
# Builds the fuzzer of the experiment file's parser with clang and runs it for a while.
#
#   scripts/fuzz.sh [SECONDS]     default 30
#
# Inputs start from tests/fuzz/corpus; new ones stay in build/fuzz/corpus, and one that crashes in
# build/fuzz/crash-*. Exit code 0 also where clang or its libFuzzer is missing, with a notice.
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
"$ROOT/scripts/build.sh" fuzz config_fuzzer
cd -- "$ROOT/build/fuzz"
mkdir -p corpus
say "Fuzzing the configuration parser for $seconds s"
UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
  bin/config_fuzzer -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=4096 \
  -dict="$ROOT/tests/fuzz/config.dict" -verbosity=0 -print_final_stats=1 \
  -artifact_prefix="$PWD/" corpus "$ROOT/tests/fuzz/corpus"
