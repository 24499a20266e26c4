#!/usr/bin/env bash
# Builds the packages of the last commit twice, in surroundings that must not matter, and compares every byte.
#
# usage: scripts/reproduce.sh
#
# The second build has another folder, other folders for cargo, its tools and what it builds, another umask, locale
# and time zone, one job at a time, and is told the time. What must be the same is the compiler. The wheel of the Python
# package is that of the first build: its bytes depend on the folder (scripts/wheel.sh).
set -euo pipefail
cd "$(dirname "$0")/.."

cargo_home=${CARGO_HOME:-$HOME/.cargo}
export PATH="$cargo_home/bin:$PATH"
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
one=$root/one two=$root/the/second/build
unset CARGO_TARGET_DIR SOURCE_DATE_EPOCH

say() { printf -- '--- %s\n' "$*"; }

say "$(git log -1 --format='%h %s')"
git clone --quiet . "$one"
make -C "$one" --no-print-directory package

say 'the same again, elsewhere'
# The tools are copied, not built again; the crates come anew.
mkdir -p "$root/cargo/bin"
cp "$cargo_home"/.crates* "$root/cargo"
cp "$cargo_home"/bin/cargo-{auditable,cyclonedx} "$root/cargo/bin"
if [ -e "$cargo_home/config.toml" ]; then cp "$cargo_home/config.toml" "$root/cargo"; fi
(
    umask 077
    mkdir -p "${two%/*}"
    git clone --quiet "$one" "$two"
    export CARGO_HOME=$root/cargo CARGO_TARGET_DIR=$root/elsewhere CARGO_BUILD_JOBS=1
    export LC_ALL=C.UTF-8 TZ=Pacific/Chatham
    SOURCE_DATE_EPOCH=$(git -C "$one" log -1 --format=%ct) make -C "$two" --no-print-directory package \
        WHEELS="$one/.build/package/wheel"
)

say 'compared'
for file in "$one"/.build/package/libbloom.* "$one"/dist/*; do
    cmp "$file" "$two${file#"$one"}"
done
[ "$(ls "$one/dist")" = "$(ls "$two/dist")" ]
(cd "$one/dist" && sha256sum -- *)
