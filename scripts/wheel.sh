#!/usr/bin/env bash
# Builds the Python package to be given away: a wheel for this machine's system and all of its Pythons from 3.10 on, and
# the source distribution.
#
# usage: scripts/wheel.sh FOLDER
#
# On Linux with glibc the wheel is refused if it needs a newer one than scripts/package.py's GLIBC_FLOOR; its name says
# which. With $GLIBC_FLOOR in the environment it is named for the machine that builds it, whose glibc it needs: for trials.
# The bytes of the wheel depend on the folder of the checkout: cargo puts the path of a crate outside of a workspace, which
# the core is for python/, into the names of symbols.
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -eq 1 ] || {
    echo 'usage: scripts/wheel.sh FOLDER' >&2
    exit 2
}
mkdir -p "$1"
folder=$(cd "$1" && pwd)
# Not the archives of the module, which may be beside it.
sdist=$folder/libbloom-$(sed -n 's/^version = "\(.*\)"$/\1/p' python/Cargo.toml).tar.gz
rm -f "$folder"/libbloom-*.whl "$sdist"
tools=$PWD/.build/tools
cargo_home=${CARGO_HOME:-$HOME/.cargo}
export PATH="$cargo_home/bin:$PATH"

# In fixed versions, since what they write is in the packages.
if ! [ -e "$tools/ready" ] || [ packaging/python/requirements.txt -nt "$tools/ready" ]; then
    python3 -m venv --clear "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check -r packaging/python/requirements.txt
    touch "$tools/ready"
fi

# Without this machine's paths in it, separated as names with spaces need.
separator=$'\x1f'
export CARGO_ENCODED_RUSTFLAGS="--remap-path-prefix=$PWD=.$separator--remap-path-prefix=$cargo_home=cargo"
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    # A source tree without a history gets 1980, which every archive format can hold; scripts/package.py does
    # this too.
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 315532800)
fi
export SOURCE_DATE_EPOCH
words=(--release --locked --strip --manifest-path python/Cargo.toml --target-dir .build/wheel --out "$folder")
if [ "$(uname -s)" = Linux ] && ! ldd --version 2>&1 | grep -qi musl; then
    floor=$(sed -n 's/^GLIBC_FLOOR = "\(.*\)"$/\1/p' scripts/package.py)
    if [ -n "${GLIBC_FLOOR:-}" ]; then words+=(--compatibility linux); else words+=(--compatibility "manylinux_${floor//./_}"); fi
fi
"$tools/bin/maturin" build --quiet "${words[@]}"
"$tools/bin/maturin" sdist --manifest-path python/Cargo.toml --out "$folder"
packaging/python/finish.py "$folder"/libbloom-*.whl "$sdist"
"$tools/bin/twine" check --strict "$folder"/libbloom-*.whl "$sdist"
