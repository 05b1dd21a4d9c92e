#!/usr/bin/env bash
# Configures and builds one preset of CMakePresets.json in build/PRESET.
#
#   scripts/build.sh PRESET [TARGET...]
#
#   scripts/build.sh release            everything, tests too
#   scripts/build.sh release trainer    the program and its modules alone
#
# As many jobs run as there are processors and memory for (1.5 GB each); JOBS=N overrides it.
# LIBTORCH or CMAKE_PREFIX_PATH name a LibTorch other than the virtual environment's.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

case ${1:-} in
  -h | --help) usage && exit 0 ;;
  '' | -*) die 2 "name a preset: dev, release, asan, tsan, tidy or fuzz; see --help" ;;
esac
preset=$1
shift

check_libtorch_setting
libtorch=$(find_libtorch) ||
  die 2 "no LibTorch found: run scripts/setup.sh, or set LIBTORCH to a LibTorch folder"
jobs=${JOBS:-$(build_jobs)}
cd -- "$ROOT"
say "Building preset $preset with $jobs jobs against $libtorch"
# TORCH_ROOT is given each time, so that a build folder follows a changed LIBTORCH.
mkdir -p "build/$preset"
log=build/$preset/configure.log
cmake --preset "$preset" -DTORCH_ROOT="$libtorch" >"$log" 2>&1 || {
  cat "$log" >&2
  die 1 "configuring preset $preset failed"
}
targets=()
(($#)) && targets=(--target "$@")
cmake --build --preset "$preset" -j "$jobs" "${targets[@]}"
