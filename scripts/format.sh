#!/usr/bin/env bash
# Formats the C++ sources with clang-format and the repository's .clang-format.
#
#   scripts/format.sh           rewrites what differs
#   scripts/format.sh --check   changes nothing; exit code 1 names what differs
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

arguments=(-i)
case ${1:-} in
  '') ;;
  --check) arguments=(--dry-run --Werror) ;;
  -h | --help) usage && exit 0 ;;
  *) die 2 "unknown option $1; see --help" ;;
esac
command -v clang-format >/dev/null || die 2 "clang-format is missing: scripts/setup.sh --with-dev"
cd -- "$ROOT"
git ls-files -z -- '*.h' '*.cpp' | xargs -0 --no-run-if-empty clang-format "${arguments[@]}"
