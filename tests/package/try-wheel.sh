#!/usr/bin/env bash
# Installs the wheel of the Python package in a bare Debian's own Python, without a network, and uses it there: a filter
# in the program, its file, and the program `libbloom`.
#
# usage: tests/package/try-wheel.sh WHEEL [SUITE]...
#
# SUITE is Debian's, by default bookworm and trixie. Needs root, debootstrap and unshare. Everything is in a temporary
# folder, and gone at the end.
#
#   DEBIAN_MIRROR  where debootstrap fetches from
#   WHEEL_TARS     folder of files SUITE.tar of such a Debian, which are used again; what is not there is put there
set -euo pipefail

need() { printf 'try-wheel: %s\n' "$*" >&2 && exit 1; }
[ $# -gt 0 ] && [ -f "$1" ] || need "there is no wheel ${1:-named}: run 'make wheel' first"
[ "$(id -u)" -eq 0 ] || need "needs root rights: sudo make test-wheel"
for tool in debootstrap unshare; do
    command -v "$tool" >/dev/null || need "needs $tool, which is not here: apt-get install debootstrap util-linux"
done
wheel=$(realpath "$1")
shift
[ $# -gt 0 ] || set -- bookworm trixie
root=$(mktemp -d)
trap 'rm -rf --one-file-system "$root"' EXIT

# Five lines that do what the package's page begins with, and one for what they leave.
program='
from libbloom import Filter
seen = Filter(1_000_000, 0.001, seed=7)
assert seen.add("https://example.com/") and "https://example.com/" in seen and "other" not in seen
assert seen.update(f"item {number}" for number in range(100_000)) > 99_900
seen.save("/seen.bloom"); assert Filter.load("/seen.bloom") == seen
'

for suite in "$@"; do
    bare=$root/$suite tar=${WHEEL_TARS:+$WHEEL_TARS/$suite.tar}
    mkdir "$bare"
    if [ -n "$tar" ] && [ -e "$tar" ]; then
        tar --numeric-owner -xpf "$tar" -C "$bare"
    else
        debootstrap --variant=minbase --include=python3-venv,python3-pip "$suite" "$bare" \
            "${DEBIAN_MIRROR:-http://deb.debian.org/debian}" >/dev/null
        if [ -n "$tar" ]; then
            tar --numeric-owner -cpf "$tar.part" -C "$bare" .
            mv "$tar.part" "$tar"
        fi
    fi
    cp "$wheel" "$bare/"
    # No network, and nothing of this machine but the kernel.
    inside() {
        unshare --net --mount --pid --fork --kill-child chroot "$bare" \
            env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "$@"
    }
    inside python3 -m venv /venv
    inside /venv/bin/pip install --quiet --disable-pip-version-check --no-index "/${wheel##*/}"
    inside /venv/bin/python -c "$program"
    found=$(inside /venv/bin/libbloom query /seen.bloom 'item 7')
    [ "$found" = 'item 7' ] || need "$suite: libbloom query said '$found'"
    status=0
    line=$(inside /venv/bin/libbloom pull key -o /x.bloom 2>&1) || status=$?
    [ "$status:$line" = "2:libbloom: redis-py is missing: pip install 'libbloom[redis]'" ] ||
        need "$suite: without redis-py it said '$line', with code $status"
    printf 'try-wheel: %s, %s, glibc %s: passed\n' "$suite" "$(inside python3 --version)" \
        "$(inside ldd --version | sed -n '1s/.* //p')"
done
