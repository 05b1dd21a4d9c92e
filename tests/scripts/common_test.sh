#!/usr/bin/env bash
# Tests of the functions in scripts/common.sh.
source "$(dirname -- "${BASH_SOURCE[0]}")/harness.sh"
source "$SOURCE_DIR/scripts/common.sh"

test_json_value_reads_top_level_scalars() {
  cat >summary.json <<'J'
{
  "best": {
    "step": 60,
    "value": 0.99
  },
  "classes": [
    "a"
  ],
  "seconds": 3.25,
  "status": "done",
  "step": 120,
  "val/accuracy": 0.97,
  "val/loss": null,
  "val/recall": 1.5e-2
}
J
  assert_eq "$(json_value summary.json status)" "done"
  assert_eq "$(json_value summary.json step)" 120
  assert_eq "$(json_value summary.json val/accuracy)" 0.97
  assert_eq "$(json_value summary.json val/recall)" 1.5e-2
  local key
  for key in val/loss value best classes val/precision; do
    run json_value summary.json "$key"
    assert_eq "$key $code $output" "$key 1 "
  done
}

test_version_at_least() {
  version_at_least 3.25.1 3.25 || fail "3.25.1 is at least 3.25"
  version_at_least 3.25 3.25 || fail "3.25 is at least 3.25"
  version_at_least 4.0 3.25 || fail "4.0 is at least 3.25"
  ! version_at_least 3.9 3.25 || fail "3.9 is below 3.25"
}

make_libtorch() {
  mkdir -p "$1/include/ATen" "$1/lib" "$1/share/cmake/Torch"
  touch "$1/include/ATen/ATen.h"
}

test_named_libtorch_reads_the_environment() {
  make_libtorch "$dir/lib torch"
  assert_eq "$(LIBTORCH="$dir/lib torch" named_libtorch)" "$dir/lib torch"
  export CMAKE_PREFIX_PATH="/nowhere:$dir/lib torch"
  assert_eq "$(LIBTORCH='' named_libtorch)" "$dir/lib torch"
  export CMAKE_PREFIX_PATH="$dir/lib torch/share/cmake;/nowhere"
  assert_eq "$(LIBTORCH='' named_libtorch)" "$dir/lib torch"
  export CMAKE_PREFIX_PATH="$dir/lib torch/share/cmake/Torch"
  assert_eq "$(LIBTORCH='' named_libtorch)" "$dir/lib torch"
  export CMAKE_PREFIX_PATH=/nowhere LIBTORCH=
  run named_libtorch
  assert_eq "$code" 1
}

test_a_wrong_libtorch_is_an_error() {
  export LIBTORCH="$dir"
  run check_libtorch_setting
  assert_eq "$code" 2
  assert_contains "$output" "LIBTORCH=$dir is no LibTorch folder: it must hold include/ATen and lib/"
}

test_build_jobs_obey_processors_and_memory() {
  nproc() { echo 8; }
  available_mib() { echo 4600; }
  assert_eq "$(build_jobs)" 3
  available_mib() { echo 64000; }
  assert_eq "$(build_jobs)" 8
  available_mib() { echo 500; }
  assert_eq "$(build_jobs)" 1
}

run_tests
