#!/usr/bin/env bash
# Makes a package that runs on machines without this checkout, a network or our distribution: the
# program, its tests, the configurations, and every library they need except torch's, CUDA's and the
# system's own C and C++ ones.
#
#   scripts/package.sh [--lean] [--arch NAME] [--no-archive]
#
#   --lean        without the OpenCV module (formats other than JPEG) and what only it needs
#   --arch NAME   the architecture in the names; default this machine's
#   --no-archive  the folder alone
#
# Builds preset release first. Result: dist/trainer-VERSION-ARCH/ and the same as .tar.xz. The
# machine that runs it needs glibc and libstdc++ at least as new as this one's, and torch of the
# same version: `trainer` in the package looks for it (its first lines say where).
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

lean=false archive=true arch=$(uname -m)
while (($#)); do
  case $1 in
    --lean) lean=true ;;
    --no-archive) archive=false ;;
    --arch)
      need_value "$1" $#
      arch=$2
      shift
      ;;
    -h | --help) usage && exit 0 ;;
    *) die 2 "unknown option $1; see --help" ;;
  esac
  shift
done

# The system's own, of glibc and the compiler: a package that brought these along would break the
# machine's other libraries, as all of glibc must be of one version.
# By exact name, as librttopo and librtmp are not librt.
is_system() {
  case $1 in
    libc.so.6 | libm.so.6 | libpthread.so.0 | libdl.so.2 | librt.so.1 | libresolv.so.2 | \
      libutil.so.1 | libstdc++.so.6 | libgcc_s.so.1 | ld-linux*.so.*) return 0 ;;
  esac
  return 1
}

# Torch's and CUDA's, which the launcher finds in an installed torch.
is_torch_or_cuda() {
  case $1 in
    libtorch* | libc10* | libgomp.so* | libgomp-* | libcud* | libcublas* | libcufft* | libcufile* | \
      libcurand* | libcusolver* | libcusparse* | libcupti* | libnccl* | libnv*) return 0 ;;
  esac
  return 1
}

needed_by() { readelf -d "$1" 2>/dev/null | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }

# Copies into lib/ what $@ (programs and libraries) need, and what that needs in turn.
copy_closure() {
  local -A paths=() seen=()
  local queue=("$@") file name path
  while ((${#queue[@]})); do
    file=${queue[0]}
    queue=("${queue[@]:1}")
    while read -r name _ path _; do
      [[ "$path" == /* ]] && paths[$name]=$path
    done < <(ldd "$file")
    while IFS= read -r name; do
      [[ -n "${seen[$name]:-}" ]] && continue
      seen[$name]=1
      is_system "$name" && continue
      is_torch_or_cuda "$name" && continue
      [[ -e "$bundle/lib/$name" ]] && continue
      path=${paths[$name]:-}
      [[ -n "$path" ]] || die 1 "$file needs $name, which is not found on this machine"
      install -m 755 -- "$path" "$bundle/lib/$name"
      copy_licence "$path"
      queue+=("$path")
    done < <(needed_by "$file")
  done
}

# Keeps the licence of the Debian package that a library comes from.
copy_licence() {
  local package
  package=$(dpkg-query -S "$(readlink -f -- "$1")" 2>/dev/null | head -n 1 | cut -d : -f 1) || true
  if [[ -n "$package" && -f "/usr/share/doc/$package/copyright" ]]; then
    install -m 644 -D -- "/usr/share/doc/$package/copyright" "$bundle/licenses/$package"
  fi
}

# Links the packaged files to their lib folder and to nowhere on the machine that built them.
set_runpaths() {
  local file
  patchelf --set-rpath "\$ORIGIN/../lib" "$bundle/bin/trainer"
  for file in "$bundle"/bin/tests/*; do patchelf --set-rpath "\$ORIGIN/../../lib" "$file"; done
  for file in "$bundle"/lib/*.so*; do patchelf --set-rpath "\$ORIGIN" "$file"; done
}

# Files of tests/: those that git knows, or all where this is no git checkout (in a container).
test_files() {
  if [[ -e .git ]]; then
    git ls-files -z -- tests
  else
    find tests -type f ! -name '*.pyc' -print0
  fi
}

# Everything of the tests that runs: goldens, Python tests and the oracle, but no C++.
copy_tests() {
  local file
  test_files >"$bundle/files"
  while IFS= read -r -d '' file; do
    case $file in
      *.cpp | *.h | *CMakeLists.txt | tests/scripts/*) continue ;;
    esac
    install -D -m "$(stat -c %a -- "$file")" -- "$file" "$bundle/$file"
  done <"$bundle/files"
  rm -- "$bundle/files"
  mkdir -p "$bundle/bin/tests"
  for file in "$release"/bin/*; do
    [[ -x "$file" && ! -d "$file" && "${file##*/}" != trainer ]] || continue
    install -m 755 -- "$file" "$bundle/bin/tests/"
  done
}

make_archive() {
  local time
  time=$(git log -1 --format=%ct 2>/dev/null || date +%s)
  say "Packing dist/$name.tar.xz"
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@${SOURCE_DATE_EPOCH:-$time}" \
    -C "$ROOT/dist" -c "$name" | xz -T0 -6 >"$ROOT/dist/$name.tar.xz.part"
  mv -- "$ROOT/dist/$name.tar.xz.part" "$ROOT/dist/$name.tar.xz"
}

command -v patchelf >/dev/null || die 2 "patchelf is missing: run scripts/setup.sh"
"$ROOT/scripts/build.sh" release
cd -- "$ROOT"
libtorch=$(find_libtorch)
version=$(sed -n 's/^project(trainer VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
name=trainer-$version-$arch
$lean && name+=-lean
release=$ROOT/build/release
bundle=$ROOT/dist/$name
rm -rf -- "$bundle"
mkdir -p -- "$bundle"/{bin,lib,scripts}

say "Collecting dist/$name"
install -m 755 -- "$release/bin/trainer" "$bundle/bin/"
install -m 755 -- "$release/lib/libtrainer_engine.so" "$bundle/lib/"
if ! $lean; then
  [[ -f "$release/lib/libtrainer_images.so" ]] ||
    die 2 "the build has no OpenCV module (libopencv-dev was missing); --lean packages without it"
  install -m 755 -- "$release/lib/libtrainer_images.so" "$bundle/lib/"
fi
copy_tests
copy_closure "$release/bin/trainer" "$bundle"/lib/libtrainer_*.so "$bundle"/bin/tests/*
strip --strip-unneeded "$bundle"/bin/trainer "$bundle"/bin/tests/* "$bundle"/lib/libtrainer_*.so
set_runpaths

cp -r -- configs datasets docs "$bundle/"
cp -- README.md LICENSE CHANGELOG.md "$bundle/"
cp -- scripts/sweep.sh scripts/common.sh "$bundle/scripts/"
install -m 755 -- scripts/package/trainer scripts/package/run-tests "$bundle/"
sed -n "s/^__version__ = '\([0-9.]*\).*/\1/p" "$libtorch/version.py" 2>/dev/null \
  >"$bundle/lib/torch-version" || sed 's/+.*//' "$libtorch/build-version" >"$bundle/lib/torch-version"
$archive && make_archive

say "dist/$name: $(du -sh -- "$bundle" | cut -f 1), $(find "$bundle/lib" -name '*.so*' | wc -l) libraries"
! $archive || note "dist/$name.tar.xz: $(du -h -- "dist/$name.tar.xz" | cut -f 1)"
