# shellcheck shell=bash
# A small test harness: functions named test_* run each in a subshell and a fresh folder $dir (its
# name holds a space, as paths may). Source it first; end a test program with `run_tests`.

SOURCE_DIR=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
export SOURCE_DIR

fail() {
  printf '%s: %s\n' "${FUNCNAME[-3]:-test}" "$*" >&2
  exit 1
}

assert_eq() { [[ "$1" == "$2" ]] || fail "expected: $2"$'\n'"     got: $1"; }
assert_contains() { [[ "$1" == *"$2"* ]] || fail "expected to find: $2"$'\n'"              in: $1"; }
assert_lacks() { [[ "$1" != *"$2"* ]] || fail "expected not to find: $2"$'\n'"                  in: $1"; }
assert_file() { [[ -f "$1" ]] || fail "no file $1"; }

# run COMMAND...: sets `code` and `output` (both streams).
run() {
  code=0
  output=$("$@" 2>&1) || code=$?
}

# fake NAME BODY: a program on the PATH of the test.
fake() {
  mkdir -p "$dir/fake"
  printf '#!/usr/bin/env bash\n%s\n' "$2" >"$dir/fake/$1"
  chmod +x "$dir/fake/$1"
}

skip() {
  echo "skipped: $*"
  exit 77
}

run_tests() {
  local name code failed=0 total=0 root
  root=$(mktemp -d)
  # The path is wanted as it is now.
  # shellcheck disable=SC2064
  trap "rm -rf -- '$root'" EXIT
  for name in $(compgen -A function test_); do
    total=$((total + 1))
    dir="$root/$name dir"
    mkdir -p "$dir"
    # Not as an `if` condition: that would switch `set -e` off inside.
    (
      set -eu
      cd -- "$dir"
      PATH="$dir/fake:$PATH"
      "$name"
    )
    code=$?
    if ((code == 0)); then
      echo "ok      $name"
    else
      echo "FAILED  $name"
      failed=$((failed + 1))
    fi
  done
  echo "$((total - failed)) of $total passed"
  ((failed == 0 && total > 0))
}
