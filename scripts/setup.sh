#!/usr/bin/env bash
# Installs what building needs, and only what is missing.
#
#   scripts/setup.sh [--with-dev] [--with-oracle] [--help]
#
#   --with-dev     also the packages of apt-packages-dev.txt: clang for the fuzzer, linters
#   --with-oracle  the Python packages of requirements.txt even where LIBTORCH or CMAKE_PREFIX_PATH
#                  already name a LibTorch to build with
#
# Two things are installed: Debian or Ubuntu packages (scripts/apt-packages.txt; needs root or
# sudo), and a virtual environment .venv with PyPI's torch, which brings LibTorch, and the packages
# that the Python tests use (requirements.txt). Where the environment names a LibTorch of yours
#
#   LIBTORCH=/opt/libtorch scripts/setup.sh
#
# nothing is installed from PyPI, and tests that need Python packages are skipped. A second run
# finds everything in place and needs no network. Exit code 2: something has to be installed by
# hand; the message lists it.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

with_dev=false
with_oracle=false
while (($#)); do
  case $1 in
    --with-dev) with_dev=true ;;
    --with-oracle) with_oracle=true ;;
    -h | --help) usage && exit 0 ;;
    *) die 2 "unknown option $1; see --help" ;;
  esac
  shift
done

is_installed() {
  [[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" == installed ]]
}

# Prints one package for each line of a list that no alternative of satisfies.
missing_packages() {
  local line name alternatives satisfied
  while IFS= read -r line; do
    [[ -z "$line" || "$line" == \#* ]] && continue
    IFS='|' read -r -a alternatives <<<"$line"
    satisfied=false
    for name in "${alternatives[@]}"; do
      is_installed "$name" && satisfied=true && break
    done
    $satisfied || printf '%s\n' "$line"
  done < <(cat -- "$@")
}

# The first alternative that the package lists know, or the first of all.
installable() {
  local alternatives name
  IFS='|' read -r -a alternatives <<<"$1"
  for name in "${alternatives[@]}"; do
    if apt-cache show "$name" >/dev/null 2>&1; then
      printf '%s\n' "$name"
      return
    fi
  done
  printf '%s\n' "${alternatives[0]}"
}

install_system_packages() {
  local lists=("$ROOT/scripts/apt-packages.txt") missing as_root=() wanted=() line
  $with_dev && lists+=("$ROOT/scripts/apt-packages-dev.txt")
  if ! command -v dpkg-query >/dev/null; then
    warn "no Debian or Ubuntu here: the system packages are not checked." \
      "The build needs what ${lists[0]} lists."
    return
  fi
  mapfile -t missing < <(missing_packages "${lists[@]}")
  if ((${#missing[@]} == 0)); then
    say "System packages: all installed"
    return
  fi
  if ((EUID != 0)); then
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }; then
      as_root=(sudo)
    else
      die 2 "these packages are missing, and neither root nor sudo is at hand to install them:" \
        "apt-get install ${missing[*]%%|*}"
    fi
  fi
  say "Installing system packages: ${missing[*]%%|*}"
  "${as_root[@]}" apt-get update -qq
  for line in "${missing[@]}"; do wanted+=("$(installable "$line")"); done
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${wanted[@]}"
}

check_cmake() {
  command -v cmake >/dev/null || die 2 "cmake is missing: install CMake 3.25 or newer"
  local version
  version=$(cmake --version | awk 'NR == 1 { print $3 }')
  version_at_least "$version" 3.25 ||
    die 2 "CMake $version is too old: 3.25 or newer is needed ($(command -v cmake))"
}

# The python3 that can make virtual environments: not every one on a PATH has ensurepip.
python_for_venv() {
  local python
  for python in python3 /usr/bin/python3; do
    if command -v "$python" >/dev/null && "$python" -c 'import ensurepip, venv' 2>/dev/null; then
      command -v "$python"
      return
    fi
  done
  die 2 "no python3 that can make a virtual environment: install python3-venv"
}

requirements_stamp() { sha256sum "$ROOT/requirements.txt" | cut -d ' ' -f 1; }

# Whether .venv holds exactly the versions of requirements.txt; asks no network.
requirements_satisfied() {
  local stamp=$ROOT/.venv/requirements.sha256
  [[ -x "$ROOT/.venv/bin/python" ]] || return 1
  [[ -f "$stamp" && "$(<"$stamp")" == "$(requirements_stamp)" ]] && return
  "$ROOT/.venv/bin/python" - "$ROOT/requirements.txt" <<'PY' 2>/dev/null || return 1
import importlib.metadata
import sys

for line in open(sys.argv[1]):
    name, _, version = line.split("#")[0].strip().partition("==")
    if name and importlib.metadata.version(name).split("+")[0] != version:
        sys.exit(1)
PY
  requirements_stamp >"$stamp"
}

install_python_packages() {
  if requirements_satisfied; then
    say "Python packages: all installed in .venv"
    return
  fi
  local python
  python=$(python_for_venv)
  say "Installing the Python packages of requirements.txt into .venv (with $python)"
  note "torch comes with its CUDA libraries: about 3 GB to download, 7 GB on disk"
  [[ -x "$ROOT/.venv/bin/python" ]] || "$python" -m venv "$ROOT/.venv"
  "$ROOT/.venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off \
    -q -r "$ROOT/requirements.txt"
  requirements_stamp >"$ROOT/.venv/requirements.sha256"
}

check_libtorch_setting
install_system_packages
check_cmake
if libtorch=$(named_libtorch) && ! $with_oracle; then
  say "LibTorch: $libtorch"
  note "nothing is installed from PyPI; tests that need Python packages are skipped"
else
  install_python_packages
fi
