#!/usr/bin/env bash
# Checks that the rooms of src/ depend on one another only as docs/architecture.md allows.
#
#   scripts/check_rooms.sh [ROOT]     the checkout to check; default this one
#
# The build enforces most of it, since a room sees the headers of those rooms alone that its
# CMakeLists.txt names. This checks what those lists themselves may say, and which room may
# include which outside library. Exit code 1 lists what is wrong.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

case ${1:-} in
  -h | --help) usage && exit 0 ;;
  -*) die 2 "unknown option $1; see --help" ;;
esac
src=${1:-$ROOT}/src
[[ -d "$src" ]] || die 2 "no folder $src"

declare -A tier=(
  [core]=0 [config]=1
  [monitor]=2 [memory]=2 [precision]=2 [distributed]=2 [data]=2 [models]=2 [objectives]=2
  [optim]=2 [kernels]=2 [checkpoint]=2
  [engine]=3 [doctor]=3
  [cli]=4
)
# Sideways edges that are allowed in tier 2; every room may use monitor's sinks.
sideways=' models>kernels objectives>kernels optim>kernels data>memory '
problems=0

problem() {
  printf '%s\n' "$*"
  problems=$((problems + 1))
}

# check_edge FROM TO WHERE
check_edge() {
  [[ "$1" == "$2" ]] && return
  if [[ -z "${tier[$2]:-}" ]]; then
    problem "$3: there is no room $2"
  elif ((tier[$2] > tier[$1])); then
    problem "$3: $1 (tier ${tier[$1]}) may not depend on $2 (tier ${tier[$2]}): dependencies point down"
  elif ((tier[$2] == tier[$1])) && [[ "$2" != monitor && "$sideways" != *" $1>$2 "* ]]; then
    problem "$3: $1 may not depend on $2, which is in the same tier"
  fi
}

check_includes() {
  local room=$1 where header
  while IFS=: read -r where _ header; do
    header=${header#*\"}
    [[ "$header" == */* ]] || continue
    check_edge "$room" "${header%%/*}" "${where#"${src%src}"}"
  done < <(grep -rHn --include='*.h' --include='*.cpp' -E '^[[:space:]]*#[[:space:]]*include "' \
    "$src/$room")
}

# The rooms that a room's CMakeLists.txt names after ROOMS, up to the next keyword or the end.
check_lists() {
  local room=$1 other
  local list=$src/$room/CMakeLists.txt
  [[ -f "$list" ]] || return 0
  while IFS= read -r other; do
    check_edge "$room" "$other" "${list#"${src%src}"}"
  done < <(sed 's/#.*//; s/[()]/ & /g' "$list" | tr -s ' \t' '\n' |
    awk '/^([A-Z_]+|[()])$/ { inside = $0 == "ROOMS"; next } inside && NF')
}

# only PATTERN WHAT ALLOWED...: outside headers that only some rooms or files may include.
only() {
  local pattern=$1 what=$2 file relative place
  shift 2
  while IFS= read -r file; do
    relative=${file#"$src/"}
    for place in "$@"; do
      [[ "$relative" == "$place" || "$relative" == "$place"/* ]] && continue 2
    done
    problem "src/$relative: $what belongs in ${*:-no room}"
  done < <(grep -rlE --include='*.h' --include='*.cpp' "#[[:space:]]*include [<\"]($pattern)" "$src")
}

for folder in "$src"/*/; do
  room=$(basename -- "$folder")
  if [[ -z "${tier[$room]:-}" ]]; then
    problem "src/$room: an unknown room; give it a tier in scripts/check_rooms.sh"
    continue
  fi
  check_includes "$room"
  check_lists "$room"
done
only 'yaml-cpp/' 'yaml-cpp' config
only 'spdlog/' 'spdlog' core/log.cpp
only 'CLI/' 'CLI11' cli
only '(ATen|c10|torch|caffe2)/' 'torch' core/tensors.h memory precision distributed data models \
  objectives optim kernels checkpoint engine doctor
only '(torch/torch|torch/types|torch/extension|ATen/ATen)\.h' "torch's catch-all headers (slow to compile)"

((problems == 0)) || die 1 "$problems problems"
echo "rooms: as docs/architecture.md allows"
