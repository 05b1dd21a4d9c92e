#!/usr/bin/env bash
# Tests of scripts/setup.sh, build.sh, test.sh and quickstart.sh. The package managers, CMake, ctest
# and Python are stand-ins that note how they were called.
source "$(dirname -- "${BASH_SOURCE[0]}")/harness.sh"

# A checkout with the scripts alone, on a machine where all packages but $1... are installed.
make_checkout() {
  repo="$dir/check out"
  mkdir -p "$repo"
  cp -r "$SOURCE_DIR/scripts" "$SOURCE_DIR/requirements.txt" "$repo/"
  export calls="$dir/calls" missing="$*"
  : >"$calls"
  fake dpkg-query '[[ " $missing " == *" ${*: -1} "* ]] || printf installed'
  fake apt-get 'echo "apt-get $*" >>"$calls"'
  fake apt-cache 'exit 0'
  fake sudo 'shift $(( $1 == "-n" )); "$@"'
  fake cmake '[[ "$1" == --version ]] && echo "cmake version ${fake_cmake:-3.25.1}" ||
    echo "cmake $*" >>"$calls"'
  fake ctest 'echo "ctest $*" >>"$calls"'
  fake nvidia-smi 'exit 9'
  # Makes a virtual environment whose python notes its calls too.
  fake python3 '[[ "$1" == -c ]] && exit
    echo "python3 $*" >>"$calls"
    mkdir -p "$3/bin"
    printf "#!/usr/bin/env bash\necho \"venv \$*\" >>\"\$calls\"\n" >"$3/bin/python"
    chmod +x "$3/bin/python"
    torch=$3/lib/python3.11/site-packages/torch
    mkdir -p "$torch/include/ATen" "$torch/lib"
    touch "$torch/include/ATen/ATen.h"'
  unset LIBTORCH CMAKE_PREFIX_PATH
}

make_libtorch() {
  mkdir -p "$1/include/ATen" "$1/lib"
  touch "$1/include/ATen/ATen.h"
}

test_a_fresh_machine_gets_packages_and_an_environment() {
  make_checkout libyaml-cpp-dev cmake
  run "$repo/scripts/setup.sh"
  assert_eq "$code" 0
  assert_contains "$output" "Installing system packages: cmake libyaml-cpp-dev"
  assert_contains "$output" "about 3 GB to download"
  assert_contains "$(<"$calls")" "apt-get update -qq
apt-get install -y -qq --no-install-recommends cmake libyaml-cpp-dev
python3 -m venv $repo/.venv
venv -m pip install"
  assert_contains "$(<"$calls")" "-r $repo/requirements.txt"
}

test_a_second_run_does_nothing_and_asks_no_network() {
  make_checkout
  run "$repo/scripts/setup.sh"
  assert_contains "$output" "System packages: all installed"
  : >"$calls"
  run "$repo/scripts/setup.sh"
  assert_eq "$code" 0
  assert_eq "$(<"$calls")" ""
  assert_contains "$output" "Python packages: all installed in .venv"
}

test_changed_requirements_are_installed() {
  make_checkout
  run "$repo/scripts/setup.sh"
  : >"$calls"
  echo "einops==0.8.1" >>"$repo/requirements.txt"
  # The stand-in for python, asked what is installed, says that it is not this.
  printf '#!/usr/bin/env bash\n[[ "$1" == - ]] && exit 1\necho "venv $*" >>"$calls"\n' \
    >"$repo/.venv/bin/python"
  run "$repo/scripts/setup.sh"
  assert_eq "$code" 0
  assert_contains "$(<"$calls")" "venv -m pip install"
  assert_lacks "$(<"$calls")" "-m venv"
}

test_a_failed_download_is_tried_again() {
  make_checkout
  run "$repo/scripts/setup.sh"
  rm "$repo/.venv/requirements.sha256"
  printf '#!/usr/bin/env bash\nexit 1\n' >"$repo/.venv/bin/python"
  run "$repo/scripts/setup.sh"
  assert_eq "$code" 1
  [[ ! -e "$repo/.venv/requirements.sha256" ]] || fail "stamped although pip failed"
}

test_developer_packages_are_asked_for() {
  make_checkout shellcheck libclang-rt-14-dev libclang-rt-18-dev libclang-rt-19-dev
  fake apt-cache '[[ "$2" != libclang-rt-14-dev ]]'
  run "$repo/scripts/setup.sh"
  assert_lacks "$(<"$calls")" "apt-get"
  run "$repo/scripts/setup.sh" --with-dev
  assert_contains "$(<"$calls")" "--no-install-recommends libclang-rt-18-dev shellcheck"
}

test_without_root_it_says_what_to_install() {
  make_checkout cmake ninja-build
  fake sudo 'exit 1'
  local as_user=()
  if ((EUID == 0)); then
    chmod -R a+rX "$dir" "${dir%/*}"
    as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    # The checkout itself has to be readable by that user; in a private folder it is not.
    "${as_user[@]}" test -r "$repo/scripts/setup.sh" || return 0
  fi
  run "${as_user[@]}" "$repo/scripts/setup.sh" </dev/null
  assert_eq "$code" 2
  assert_contains "$output" "neither root nor sudo is at hand to install them: \
apt-get install cmake ninja-build"
  assert_lacks "$(<"$calls")" "apt-get"
}

test_a_libtorch_of_ones_own_needs_nothing_from_pypi() {
  make_checkout
  make_libtorch "$dir/my torch"
  LIBTORCH="$dir/my torch" run "$repo/scripts/setup.sh"
  assert_eq "$code" 0
  assert_contains "$output" "LibTorch: $dir/my torch"
  assert_eq "$(<"$calls")" ""
  LIBTORCH="$dir/my torch" run "$repo/scripts/setup.sh" --with-oracle
  assert_contains "$(<"$calls")" "venv -m pip install"
}

test_an_old_cmake_is_refused() {
  make_checkout
  fake_cmake=3.22.1 run "$repo/scripts/setup.sh"
  assert_eq "$code" 2
  assert_contains "$output" "CMake 3.22.1 is too old: 3.25 or newer is needed"
}

test_unknown_options_and_help() {
  make_checkout
  for script in setup build sweep package quickstart fuzz format; do
    run "$repo/scripts/$script.sh" --bogus
    assert_eq "$script $code" "$script 2"
    assert_contains "$output" "$script.sh: "
    assert_contains "$output" "see --help"
    run "$repo/scripts/$script.sh" --help
    assert_eq "$script $code" "$script 0"
    assert_contains "$output" "scripts/$script.sh"
    assert_lacks "$output" "set -euo"
  done
}

test_build_passes_the_preset_torch_and_targets() {
  make_checkout
  make_libtorch "$dir/my torch"
  LIBTORCH="$dir/my torch" JOBS=3 run "$repo/scripts/build.sh" release trainer
  assert_eq "$code" 0
  assert_eq "$(<"$calls")" "cmake --preset release -DTORCH_ROOT=$dir/my torch
cmake --build --preset release -j 3 --target trainer"
  run "$repo/scripts/build.sh" release
  assert_eq "$code" 2
  assert_contains "$output" "no LibTorch found: run scripts/setup.sh"
}

test_build_shows_why_configuring_failed() {
  make_checkout
  make_libtorch "$dir/my torch"
  fake cmake 'echo "CMake Error: no yaml-cpp"; exit 1'
  LIBTORCH="$dir/my torch" run "$repo/scripts/build.sh" asan
  assert_eq "$code" 1
  assert_contains "$output" "CMake Error: no yaml-cpp"
  assert_contains "$output" "configuring preset asan failed"
}

test_tests_run_with_the_preset_and_ctest_arguments() {
  make_checkout
  run "$repo/scripts/test.sh" --preset dev -R optim
  assert_eq "$code" 0
  assert_contains "$(<"$calls")" "ctest --preset dev --output-on-failure -R optim"
  fake nvidia-smi 'echo "GPU 0: a card"'
  run "$repo/scripts/test.sh"
  assert_contains "$(<"$calls")" "ctest --preset release --output-on-failure"
  assert_lacks "$(tail -n 1 "$calls")" "gpu"
}

test_quickstart_ends_with_the_accuracy_and_what_next() {
  make_checkout
  mkdir -p "$repo/build/release/bin" "$repo/configs"
  cat >"$repo/build/release/bin/trainer" <<'T'
#!/usr/bin/env bash
echo "trainer $*" >>"$calls"
mkdir -p runs/digits/001
ln -sfn 001 runs/digits/latest
printf '{\n  "status": "done",\n  "val/accuracy": 0.9722\n}\n' \
  >runs/digits/001/summary.json
T
  chmod +x "$repo/build/release/bin/trainer"
  run "$repo/scripts/quickstart.sh"
  assert_eq "$code" 0
  assert_contains "$(<"$calls")" "trainer --config configs/digits.yaml"
  assert_contains "$output" "Test accuracy: 97.22 %"
  assert_contains "$output" "Run folder: runs/digits/001"
  assert_eq "$(sed -n '/^Next:/,$p' <<<"$output" | grep -c '^    ')" 3
}

run_tests
