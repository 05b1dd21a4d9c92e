#!/usr/bin/env bash
# Tests of what scripts/package.sh puts beside the program: the launcher, which finds a torch, and
# run-tests, which counts.
source "$(dirname -- "${BASH_SOURCE[0]}")/harness.sh"

# A package whose program tells how it was started.
make_package() {
  bundle="$dir/trainer 0.1"
  mkdir -p "$bundle"/{bin/tests,lib,tests}
  cp "$SOURCE_DIR/scripts/package/trainer" "$SOURCE_DIR/scripts/package/run-tests" "$bundle/"
  echo 2.11.0 >"$bundle/lib/torch-version"
  printf '#!/usr/bin/env bash\necho "arguments: $*"; echo "libraries: $LD_LIBRARY_PATH"\n' \
    >"$bundle/bin/trainer"
  chmod +x "$bundle/bin/trainer"
  fake python3 'exit 1'
  unset LIBTORCH LD_LIBRARY_PATH
}

# make_torch FOLDER VERSION: a wheel's torch, with NVIDIA's packages beside it.
make_torch() {
  mkdir -p "$1/lib" "${1%/*}/nvidia/cu13/lib" "${1%/*}/nvidia/nccl/lib"
  touch "$1/lib/libtorch_cpu.so"
  printf "from typing import Optional\n__version__ = '%s'\n" "$2" >"$1/version.py"
}

test_libtorch_comes_first_with_its_cuda_libraries() {
  make_package
  make_torch "$dir/site packages/torch" 2.11.0+cu130
  export LIBTORCH="$dir/site packages/torch"
  run "$bundle/trainer" --config 'an exp.yaml'
  assert_eq "$code" 0
  assert_eq "$output" "arguments: --config an exp.yaml
libraries: $LIBTORCH/lib:$dir/site packages/nvidia/nccl/lib:$dir/site packages/nvidia/cu13/lib:$bundle/lib"
  LD_LIBRARY_PATH=/mine run "$bundle/trainer"
  assert_contains "$output" "$bundle/lib:/mine"
}

test_the_torch_of_python3() {
  make_package
  make_torch "$dir/site/torch" 2.11.0+cpu
  fake python3 'echo "${0%/*}/../site/torch"'
  run "$bundle/trainer"
  assert_contains "$output" "libraries: $dir/site/torch/lib:"
}

test_the_torch_of_a_virtual_environment() {
  make_package
  make_torch "$dir/.venv/lib/python3.12/site-packages/torch" 2.11.1
  run "$bundle/trainer"
  assert_contains "$output" "libraries: $dir/.venv/lib/python3.12/site-packages/torch/lib:"
  mkdir elsewhere
  cd elsewhere
  run "$bundle/trainer"
  assert_contains "$output" "no LibTorch 2.11.0 found"
  make_torch "$bundle/.venv/lib/python3.12/site-packages/torch" 2.11.0
  run "$bundle/trainer"
  assert_contains "$output" "libraries: $bundle/.venv/lib/python3.12/site-packages/torch/lib:"
}

test_another_version_is_not_taken() {
  make_package
  make_torch "$dir/site/torch" 2.9.1+cu130
  LIBTORCH="$dir/site/torch" run "$bundle/trainer"
  assert_eq "$code" 5
  assert_eq "$output" \
    "trainer: LIBTORCH=$dir/site/torch holds no LibTorch 2.11.0: $dir/site/torch is 2.9.1"
}

test_without_torch_the_program_starts_with_a_notice() {
  make_package
  run "$bundle/trainer" config check
  assert_eq "$code" 0
  assert_contains "$output" "trainer: no LibTorch 2.11.0 found: training will fail."
  assert_contains "$output" "pip install torch==2.11.0, or set LIBTORCH"
  assert_contains "$output" "arguments: config check"
}

test_a_link_to_the_launcher_works() {
  make_package
  mkdir -p "$dir/usr bin"
  ln -s "$bundle/trainer" "$dir/usr bin/trainer"
  run "$dir/usr bin/trainer"
  assert_contains "$output" "$bundle/lib"
}

# program NAME CODE OUTPUT: a compiled test's stand-in, and the torch that run-tests insists on.
program() {
  make_torch "$bundle/.venv/lib/python3.12/site-packages/torch" 2.11.0
  printf '#!/usr/bin/env bash\ncat <<"O"\n%s\nO\nexit %s\n' "$3" "$2" >"$bundle/bin/tests/$1"
  chmod +x "$bundle/bin/tests/$1"
}

test_run_tests_counts_every_program() {
  make_package
  program test_a 0 '[==========] 4 tests from 1 test suite ran.
[  PASSED  ] 3 tests.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Gpu.Runs'
  program test_b 1 '[  FAILED  ] Loss.IsFinite (0 ms)
[  PASSED  ] 7 tests.
[  FAILED  ] 2 tests, listed below:
[  FAILED  ] Loss.IsFinite
[  FAILED  ] Loss.IsSmall'
  run "$bundle/run-tests"
  assert_eq "$code" 1
  assert_eq "$(tail -n 1 <<<"$output")" "10 passed, 2 failed, 1 skipped"
  assert_contains "$output" "[  FAILED  ] Loss.IsSmall"
  run "$bundle/run-tests" test_a
  assert_eq "$code" 0
  assert_eq "$(tail -n 1 <<<"$output")" "3 passed, 0 failed, 1 skipped"
}

test_run_tests_counts_a_crash_as_a_failure() {
  make_package
  program test_a 139 '[ RUN      ] Loss.IsFinite'
  run "$bundle/run-tests"
  assert_eq "$code" 1
  assert_eq "$(tail -n 1 <<<"$output")" "0 passed, 1 failed, 0 skipped"
  assert_contains "$output" "exit code 139"
}

test_run_tests_needs_torch() {
  make_package
  run "$bundle/run-tests"
  assert_eq "$code" 5
  assert_contains "$output" "no LibTorch 2.11.0 found"
}

test_run_tests_that_run_nothing_fail() {
  make_package
  program test_a 0 '[  PASSED  ] 3 tests.'
  run "$bundle/run-tests" test_b
  assert_eq "$code" 1
  assert_eq "$output" "0 passed, 0 failed, 0 skipped"
}

test_run_tests_runs_python_tests() {
  make_package
  rm "$dir/fake/python3"
  hash -r
  command -v python3 >/dev/null || return 0
  make_torch "$dir/torch" 2.11.0
  export LIBTORCH="$dir/torch"
  printf '#!/usr/bin/env bash\necho "a tool"\n' >"$bundle/bin/tests/model_tool"
  chmod +x "$bundle/bin/tests/model_tool"
  mkdir -p "$bundle/tests/models"
  cat >"$bundle/tests/models/interop_test.py" <<'P'
import os
import subprocess
import sys
import unittest

MODEL_TOOL = sys.argv.pop(1)


class It(unittest.TestCase):
    def test_tool(self):
        self.assertEqual(subprocess.check_output([MODEL_TOOL], text=True), "a tool\n")

    def test_trainer(self):
        output = subprocess.check_output([os.environ["TRAINER"], "--help"], text=True)
        self.assertIn("arguments: --help", output)

    def test_wrong(self):
        self.fail("as meant")

    @unittest.skip("no GPU")
    def test_gpu(self):
        pass


unittest.main()
P
  echo 'import a_package_that_nobody_has' >"$bundle/tests/other_test.py"
  echo 'print("skipped: no GPU"); raise SystemExit(77)' >"$bundle/tests/third_test.py"
  printf 'import sys\nassert sys.argv[2].endswith("/configs")\n' >"$bundle/tests/config_test.py"
  mkdir "$bundle/tests/config"
  mv "$bundle/tests/config_test.py" "$bundle/tests/config/schema_test.py"
  program replay_config 0 'all read'
  run "$bundle/run-tests"
  assert_eq "$code" 1
  assert_contains "$output" "    skipped: no GPU"
  assert_contains "$output" "skipped: ModuleNotFoundError: No module named 'a_package_that_nobody_has'"
  assert_eq "$(tail -n 1 <<<"$output")" "4 passed, 1 failed, 3 skipped"
}

run_tests
