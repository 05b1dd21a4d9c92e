#!/usr/bin/env bash
# The shell scripts pass shellcheck, and the files that tools read are valid.
source "$(dirname -- "${BASH_SOURCE[0]}")/harness.sh"

scripts() {
  cd -- "$SOURCE_DIR"
  find scripts tests/scripts .ci -type f ! -name '*.txt' -print0 |
    xargs -0 grep -lE '^#!/usr/bin/env bash|^# shellcheck shell=bash'
}

test_every_script_is_covered_and_parses() {
  local script
  while IFS= read -r script; do
    bash -n "$SOURCE_DIR/$script" || fail "$script does not parse"
    case $script in
      */common.sh | */harness.sh | *_test.sh) ;;
      *) [[ -x "$SOURCE_DIR/$script" ]] || fail "$script is not executable" ;;
    esac
  done < <(scripts)
  assert_contains "$(scripts)" "scripts/package/run-tests"
  assert_contains "$(scripts)" ".ci/run"
}

test_shellcheck_finds_nothing() {
  if ! command -v shellcheck >/dev/null; then
    echo "shellcheck is not installed: nothing checked"
    return
  fi
  local list
  mapfile -t list < <(scripts)
  cd -- "$SOURCE_DIR"
  # In the tests, fakes are quoted programs, `dir`, `code` and `output` are the harness's, and `set -e`
  # is on inside each.
  run shellcheck -x -e SC1091,SC2016,SC2154,SC2034,SC2164 "${list[@]}"
  assert_eq "$output" ""
}

test_presets_are_valid() {
  cd -- "$SOURCE_DIR"
  run cmake --list-presets=configure
  assert_eq "$code" 0
  for preset in dev release asan tsan tidy fuzz; do assert_contains "$output" "\"$preset\""; done
}

test_suppression_files_of_the_presets_exist() {
  local file
  while IFS= read -r file; do
    assert_file "$SOURCE_DIR/sanitizers/$file"
  done < <(grep -oE 'sanitizers/[a-z]+\.supp' "$SOURCE_DIR/CMakePresets.json" | cut -d / -f 2)
}

test_package_lists_name_packages_alone() {
  run grep -hvE '^#|^$|^[a-z0-9][a-z0-9.+|-]+$' "$SOURCE_DIR"/scripts/apt-packages*.txt
  assert_eq "$output" ""
}

test_links_of_the_documents_lead_somewhere() {
  local file link
  cd -- "$SOURCE_DIR"
  while IFS=: read -r file link; do
    link=${link#*](}
    link=${link%)}
    link=${link%%#*}
    [[ -z "$link" || "$link" == *://* || "$link" == mailto:* ]] && continue
    [[ -e "${file%/*}/$link" ]] || fail "$file: nothing at $link"
  done < <(find . -name '*.md' -not -path './build/*' -not -path './.venv/*' -not -path './dist/*' \
    -exec grep -HoE '\]\([^) ]+\)' {} +)
}

run_tests
