#!/usr/bin/env bash
# Fetches a public data set, verifies it and unpacks it into datasets/NAME. May be repeated: what is
# there already is left alone.
#
#   scripts/get_data.sh cifar10                      into datasets/cifar10
#   scripts/get_data.sh mnist /data/mnist            into another folder
#   scripts/get_data.sh --mirror /mnt/archives cifar10     the archive from a folder, no network
#   scripts/get_data.sh --list
#
# TRAINER_MIRROR=FOLDER is the same as --mirror FOLDER. Needs curl (unless there is a mirror), tar
# and gzip.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

list() {
  cat <<'END'
mnist          28x28 grey, 10 classes     kind: mnist
fashion-mnist  28x28 grey, 10 classes     kind: mnist
cifar10        32x32 RGB, 10 classes      kind: cifar10       (binary version)
cifar100       32x32 RGB, 100 classes     kind: cifar100      (binary version)
imagenette     about 320 pixels RGB, 10   kind: image_folder  (train/, val/)
cifar10-jpeg   CIFAR-10 as JPEG files     kind: image_folder  (train/, test/; from a mirror only,
                                          into datasets/cifar10)
END
}

# A file that is missing, damaged or in the way: the exit code of `trainer` for data.
fail() { die 4 "$@"; }

# Lines of "algorithm checksum file url": each publisher's own figures, or those of torchvision.
# "-" for a URL: from a mirror only.
files_of() {
  case $1 in
    mnist)
      local base=https://ossci-datasets.s3.amazonaws.com/mnist
      echo "md5 f68b3c2dcbeaaa9fbdd348bbdeb94873 train-images-idx3-ubyte.gz $base/train-images-idx3-ubyte.gz"
      echo "md5 d53e105ee54ea40749a09fcbcd1e9432 train-labels-idx1-ubyte.gz $base/train-labels-idx1-ubyte.gz"
      echo "md5 9fb629c4189551a2d022fa330f9573f3 t10k-images-idx3-ubyte.gz $base/t10k-images-idx3-ubyte.gz"
      echo "md5 ec29112dd5afa0611ce80d1b7f02629c t10k-labels-idx1-ubyte.gz $base/t10k-labels-idx1-ubyte.gz"
      ;;
    fashion-mnist)
      local base=http://fashion-mnist.s3-website.eu-central-1.amazonaws.com
      echo "md5 8d4fb7e6c68d591d4c3dfef9ec88bf0d train-images-idx3-ubyte.gz $base/train-images-idx3-ubyte.gz"
      echo "md5 25c81989df183df01b3e8a0aad5dffbe train-labels-idx1-ubyte.gz $base/train-labels-idx1-ubyte.gz"
      echo "md5 bef4ecab320f06d8554ea6380940ec79 t10k-images-idx3-ubyte.gz $base/t10k-images-idx3-ubyte.gz"
      echo "md5 bb300cfdad3c16e7a12a480ee83cd310 t10k-labels-idx1-ubyte.gz $base/t10k-labels-idx1-ubyte.gz"
      ;;
    cifar10)
      echo "md5 c32a1d4ab5d03f1284b67883e8d87530 cifar-10-binary.tar.gz https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
      ;;
    cifar100)
      echo "md5 03b5dce01913d631647c71ecec9e9cb8 cifar-100-binary.tar.gz https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz"
      ;;
    imagenette)
      echo "md5 3df6f0d01a2c9592104656642f5e78a3 imagenette2-320.tgz https://s3.amazonaws.com/fast-ai-imageclas/imagenette2-320.tgz"
      ;;
    cifar10-jpeg)
      echo "sha256 b0fdac6b08a88d8cfa3d4a2934cc2bc5d721623be444d43f2c1bdc19df430396 cifar10-jpeg.tar.xz -"
      ;;
    *)
      die 2 "unknown data set \"$1\"; --list names those that there are"
      ;;
  esac
}

verify() { # algorithm checksum file
  local actual
  actual=$("${1}sum" "$3" | cut -d' ' -f1)
  [[ $actual == "$2" ]] || fail "$3 is damaged or another version: its $1 is $actual, expected $2"
}

# Into $work, from the mirror or the network.
obtain() { # algorithm checksum file url
  local target=$work/$3
  if [[ -n $mirror ]]; then
    local source=$mirror/$3
    # MNIST and Fashion-MNIST name their files alike, so a mirror may keep them in a folder a set.
    [[ -f $mirror/$name/$3 ]] && source=$mirror/$name/$3
    [[ -f $source ]] || fail "the mirror has neither $mirror/$3 nor $mirror/$name/$3"
    ln -s "$(realpath "$source")" "$target"
  elif [[ $4 == - ]]; then
    fail "$name is not on the network: give --mirror FOLDER (or TRAINER_MIRROR), a folder that holds $3"
  else
    command -v curl >/dev/null || fail "curl is not installed (Debian: apt-get install curl)"
    curl --fail --location --silent --show-error --retry 3 --output "$target" "$4" ||
      fail "could not fetch $4; where there is no network, give --mirror FOLDER with $3 in it"
  fi
  verify "$1" "$2" "$target"
}

unpack() { # file
  case $1 in
    cifar10-jpeg.tar.xz) tar -xJf "$work/$1" -C "$work/out" ;;
    *.tar.gz | *.tgz) tar -xzf "$work/$1" -C "$work/out" --strip-components=1 ;;
    *.gz) gzip -dc "$work/$1" >"$work/out/${1%.gz}" ;;
  esac
}

mirror=${TRAINER_MIRROR:-}
words=()
while (($# > 0)); do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --list) list; exit 0 ;;
    --mirror)
      need_value "$1" "$#"
      mirror=$2
      shift
      ;;
    -*) die 2 "unknown option $1; see --help" ;;
    *) words+=("$1") ;;
  esac
  shift
done
((${#words[@]} == 1 || ${#words[@]} == 2)) || die 2 "which data set? usage: get_data.sh [--mirror FOLDER] NAME [DIR]; --list names them"
[[ -z $mirror || -d $mirror ]] || die 2 "the mirror $mirror is no folder"

name=${words[0]}
files=$(files_of "$name")
directory=${words[1]:-$ROOT/datasets/${name%-jpeg}}
done_mark=$directory/.complete

if [[ -f $done_mark ]]; then
  [[ $(<"$done_mark") == "$name" ]] ||
    fail "$directory holds $(<"$done_mark"), not $name; name another folder or remove that one"
  echo "$name is in $directory already"
  exit 0
fi
[[ ! -e $directory ]] || [[ -d $directory && -z $(ls -A "$directory") ]] ||
  fail "$directory exists and was not made by this script; name another folder or move it away"

# The set appears whole or not at all: it is unpacked beside its place and then renamed.
mkdir -p "$(dirname "$directory")"
work=$(mktemp -d "$(dirname "$directory")/.get_data.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/out"
while read -r algorithm checksum file url; do
  say "$name: $file"
  obtain "$algorithm" "$checksum" "$file" "$url"
  unpack "$file"
done <<<"$files"
echo "$name" >"$work/out/.complete"
[[ ! -d $directory ]] || rmdir "$directory"
mv "$work/out" "$directory"
echo "$name is in $directory"
