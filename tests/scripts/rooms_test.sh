#!/usr/bin/env bash
# The rooms obey their tiers: by scripts/check_rooms.sh, and by what the compiler is given.
source "$(dirname -- "${BASH_SOURCE[0]}")/harness.sh"

check() { run "$SOURCE_DIR/scripts/check_rooms.sh" "$@"; }

# write FILE LINES...
write() {
  local file=$dir/tree/src/$1
  shift
  mkdir -p "${file%/*}"
  printf '%s\n' "$@" >"$file"
}

test_this_checkout_is_in_order() {
  check
  assert_eq "$output" "rooms: as docs/architecture.md allows"
  assert_eq "$code" 0
}

test_allowed_edges() {
  write engine/trainer.h '#include "data/feed.h"' '#include "engine/step.h"'
  write models/a.cpp '#include "kernels/k.h"' '#include "monitor/record.h"' '#include <ATen/core/Tensor.h>'
  write data/a.cpp '#include "memory/pinned.h"' '#include "core/error.h"'
  write config/a.cpp '#include <yaml-cpp/yaml.h>'
  write config/CMakeLists.txt 'trainer_room(config SOURCES a.cpp' '  ROOMS core)' \
    'set_source_files_properties(a.cpp PROPERTIES COMPILE_DEFINITIONS ROOMS_NOT_OURS)'
  check "$dir/tree"
  assert_eq "$code" 0
}

test_forbidden_edges() {
  write core/a.h '#include "config/experiment.h"'
  write optim/a.cpp '#include "engine/trainer.h"' '#include "data/feed.h"'
  write data/CMakeLists.txt 'trainer_room(data SOURCES a.cpp' '  ROOMS core models' \
    '  PRIVATE torch::torch)'
  check "$dir/tree"
  assert_eq "$code" 1
  assert_contains "$output" "src/core/a.h: core (tier 0) may not depend on config (tier 1)"
  assert_contains "$output" "src/optim/a.cpp: optim (tier 2) may not depend on engine (tier 3)"
  assert_contains "$output" "src/optim/a.cpp: optim may not depend on data, which is in the same tier"
  assert_contains "$output" "src/data/CMakeLists.txt: data may not depend on models"
  assert_contains "$output" "check_rooms.sh: 4 problems"
}

test_outside_libraries_stay_in_their_rooms() {
  write config/a.h '#include <ATen/core/Tensor.h>'
  write monitor/a.h '#include <c10/core/Device.h>'
  write engine/a.cpp '#include <yaml-cpp/yaml.h>' '#include <torch/torch.h>'
  write core/text.cpp '#include <spdlog/spdlog.h>'
  write core/log.cpp '#include <spdlog/spdlog.h>'
  write engine/b.cpp '#include <CLI/CLI.hpp>'
  check "$dir/tree"
  assert_eq "$code" 1
  assert_contains "$output" "src/config/a.h: torch belongs in core/tensors.h memory"
  assert_contains "$output" "src/monitor/a.h: torch belongs in"
  assert_contains "$output" "src/engine/a.cpp: yaml-cpp belongs in config"
  assert_contains "$output" "src/engine/a.cpp: torch's catch-all headers (slow to compile) belongs in no room"
  assert_contains "$output" "src/core/text.cpp: spdlog belongs in core/log.cpp"
  assert_lacks "$output" "src/core/log.cpp: "
  assert_contains "$output" "src/engine/b.cpp: CLI11 belongs in cli"
}

test_an_unknown_room_needs_a_tier() {
  write plugins/a.h '#include "core/error.h"'
  write engine/a.h '#include "plugins/a.h"'
  check "$dir/tree"
  assert_eq "$code" 1
  assert_contains "$output" "src/plugins: an unknown room; give it a tier in scripts/check_rooms.sh"
  assert_contains "$output" "src/engine/a.h: there is no room plugins"
}

# With the include folders of a real unit of `optim`: a header of a room that it names compiles, one
# of a room that it does not name is not found.
test_the_compiler_sees_only_the_rooms_that_are_named() {
  local build=${BUILD_DIR:-$SOURCE_DIR/build/release} commands includes
  commands=$build/compile_commands.json
  [[ -f "$commands" ]] || fail "no $commands: build first, or set BUILD_DIR"
  # Room folders alone; torch is not needed for these headers. Their names are taken from the
  # command and their paths made anew, since one with a space stands there in quotes.
  mapfile -t includes < <(grep -E '"command".*src/optim/optimizer\.cpp' "$commands" |
    grep -oE -- '/rooms/[a-z]+' | sort -u | sed "s|^|-I$build|")
  ((${#includes[@]} >= 2)) || fail "no room folders in the command of src/optim/optimizer.cpp"
  compile() {
    printf '#include "%s"\n' "$1" >unit.cpp
    run "${CXX:-c++}" -std=c++20 -fsyntax-only "${includes[@]}" unit.cpp
  }
  compile config/experiment.h
  assert_eq "$code" 0
  compile data/sampler.h
  assert_eq "$code" 1
  assert_contains "$output" "data/sampler.h"
  compile monitor/run_folder.h
  assert_eq "$code" 1
}

run_tests
