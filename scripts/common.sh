# shellcheck shell=bash
# Functions that the scripts share. Sourced, never run.

ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '==> %s\n' "$*"; }
note() { printf '    %s\n' "$*"; }
warn() { printf 'warning: %s\n' "$*" >&2; }

# die CODE MESSAGE...
die() {
  local code=$1
  shift
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit "$code"
}

# Prints the comment block at the top of the calling script, which is its help text.
usage() {
  awk 'NR == 1 { next } /^#/ { sub(/^# ?/, ""); print; next } { exit }' "$0"
}

# need_value FLAG REMAINING: ends with the usage exit code where a flag came last, without a value.
need_value() {
  (($2 >= 2)) || die 2 "$1 needs a value; see --help"
}

# version_at_least HAVE WANT
version_at_least() {
  [[ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" == "$2" ]]
}

is_libtorch() { [[ -f "$1/include/ATen/ATen.h" && -d "$1/lib" ]]; }

# Ends the script where LIBTORCH is set to something else: that is surely a mistake.
check_libtorch_setting() {
  [[ -z "${LIBTORCH:-}" ]] || is_libtorch "$LIBTORCH" ||
    die 2 "LIBTORCH=$LIBTORCH is no LibTorch folder: it must hold include/ATen and lib/"
}

# Prints the LibTorch folder that the caller's environment names, by LIBTORCH or by an entry of
# CMAKE_PREFIX_PATH (the folder itself or its share/cmake). Fails where it names none.
named_libtorch() {
  if [[ -n "${LIBTORCH:-}" ]]; then
    (cd -- "$LIBTORCH" && pwd)
    return
  fi
  local entries entry up
  IFS=':;' read -r -a entries <<<"${CMAKE_PREFIX_PATH:-}"
  for entry in "${entries[@]}"; do
    for up in . ../.. ../../..; do
      if [[ -n "$entry" ]] && is_libtorch "$entry/$up"; then
        (cd -- "$entry/$up" && pwd)
        return
      fi
    done
  done
  return 1
}

# The torch that a build here uses: a named one, or the virtual environment's.
find_libtorch() {
  local found
  if found=$(named_libtorch); then
    printf '%s\n' "$found"
    return
  fi
  for found in "$ROOT"/.venv/lib/python3*/site-packages/torch; do
    if is_libtorch "$found"; then
      printf '%s\n' "$found"
      return
    fi
  done
  return 1
}

# Memory that may be used, in MiB: the machine's available memory, or less where a control group
# (container, batch job) has a lower limit.
available_mib() {
  local mib limit
  mib=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo)
  for limit in /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes; do
    if [[ -r "$limit" ]] && [[ "$(<"$limit")" =~ ^[0-9]{1,15}$ ]]; then
      limit=$(($(<"$limit") / 1048576))
      ((limit < mib)) && mib=$limit
    fi
  done
  printf '%s\n' "$mib"
}

# Compile jobs to run at once: a unit that includes torch takes up to 1.5 GB.
build_jobs() {
  local jobs by_memory
  jobs=$(nproc)
  by_memory=$(($(available_mib) / 1500))
  ((by_memory < jobs)) && jobs=$by_memory
  ((jobs < 1)) && jobs=1
  printf '%s\n' "$jobs"
}

# json_value FILE KEY: the scalar of a top-level key in a JSON file that is printed with one key a
# line and two spaces of indentation, without its quotes. Fails where it is absent or null.
json_value() {
  awk -v key="  \"$2\": " '
    index($0, key) == 1 {
      value = substr($0, length(key) + 1)
      sub(/,?[ \t\r]*$/, "", value)
      gsub(/^"|"$/, "", value)
      found = value != "null" && value !~ /^[[{]/
      if (found) print value
      exit
    }
    END { exit !found }' "$1"
}
