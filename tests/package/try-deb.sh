#!/usr/bin/env bash
# Installs the .deb in a clean Debian that systemd runs, with nothing of this machine but the kernel: the
# services start with the module, filters work, survive a restart and CONFIG REWRITE, and after the package is
# removed the server starts without it.
#
# usage: tests/package/try-deb.sh PACKAGE.deb [SUITE [SERVER]]
#
# SUITE is Debian's, by default bookworm; SERVER is redis, the default, or valkey. Needs root, debootstrap and unshare.
# Everything is in a temporary folder, in namespaces of its own (also of the network), and gone at the end.
set -euo pipefail

[ $# -gt 0 ] || set -- dist/*.deb
need() { printf 'try-deb: %s\n' "$*" >&2 && exit 1; }
[ -f "$1" ] || need "there is no package $1: run 'make package' first"
[ "$(id -u)" -eq 0 ] || need "needs root rights: sudo make test-deb"
for tool in debootstrap unshare nsenter; do
    command -v "$tool" >/dev/null || need "needs $tool, which is not here: apt-get install debootstrap util-linux"
done
package=$(realpath "$1")
suite=${2:-bookworm}
server=${3:-redis}
config=/etc/$server/$server.conf
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
root=$(mktemp -d)
init=''

main() {
    trap clean EXIT
    # mktemp's rights keep the servers' users out.
    chmod 755 "$root"
    say "a clean $suite in $root"
    debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,"$server-server" "$suite" "$root" "$mirror" >/dev/null
    cp "$package" "$root/package.deb"
    boot

    say 'install'
    inside dpkg -i /package.deb
    restart
    expect '1 1 0' bf BF.MADD seen a b a
    expect '1' bf BF.EXISTS seen a

    say 'restart'
    restart
    expect '1 1' bf BF.MEXISTS seen a b

    say 'CONFIG REWRITE, of an option too'
    local option
    option=$(bf CONFIG GET 'bf*error-rate' | head -n 1)
    expect OK bf CONFIG SET "$option" 0.001
    expect OK bf CONFIG REWRITE
    inside grep -n libbloom "$config"
    restart
    expect '1' bf BF.EXISTS seen a

    say 'remove: it names the lines that CONFIG REWRITE wrote'
    expect '1' bf DEL seen
    inside dpkg -r redis-libbloom 2>&1 | tee "$root/removed"
    grep -q "WARNING: without libbloom its server does not start until this is taken out of $config" "$root/removed"
    grep -Eq '^[0-9]+:loadmodule /usr/lib/redis/modules/libbloom.so' "$root/removed"
    grep -Eq "^[0-9]+:$option " "$root/removed"

    say 'the server starts when they are taken out'
    inside sed -i -e "$(sed -nE 's/^([0-9]+):.*/\1d/p' "$root/removed")" "$config"
    restart
    expect PONG bf PING

    say 'install again, and remove from a server whose file was left alone'
    inside dpkg -i /package.deb
    restart
    expect '1' bf BF.ADD seen a
    expect '1' bf DEL seen
    inside dpkg -r redis-libbloom 2>&1 | tee "$root/removed"
    if grep -q WARNING "$root/removed"; then fail 'a warning without a reason'; fi
    restart
    expect PONG bf PING
    bf BF.ADD seen a | grep -q 'unknown command' || fail 'the module is still there'

    say 'purge'
    inside dpkg -P redis-libbloom
    left=$(inside find / -xdev -name '*libbloom*' -not -path '/proc/*')
    [ -z "$left" ] || fail "left behind: $left"
    say 'all is well'
}

# systemd lets a service start a few times in a short while only, unless it forgets them.
restart() {
    inside systemctl reset-failed "$server-server"
    inside systemctl restart "$server-server" || fail 'the server does not start'
}

say() { printf -- '--- %s\n' "$*"; }
fail() {
    printf 'try-deb: %s\n' "$*" >&2
    inside journalctl --no-pager -n 50 >&2 || true
    exit 1
}

# systemd as the first process of namespaces of its own.
boot() {
    env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin unshare --mount --uts --ipc --net --pid --cgroup --fork --kill-child \
        bash -c "
            set -e
            mount --bind '$root' '$root'
            cd '$root'
            mount -t proc proc proc
            mount -t sysfs sysfs sys
            mount -t cgroup2 cgroup2 sys/fs/cgroup
            mount -t tmpfs tmpfs run
            mount --rbind /dev dev
            # Not only chroot: the units' sandboxes need a root that is a mount.
            pivot_root . mnt
            umount -l mnt
            exec chroot . /sbin/init
        " </dev/null >"$root/boot.log" 2>&1 &
    outer=$!
    for _ in $(seq 300); do
        init=$(pgrep -P "$outer" || true)
        if [ -n "$init" ] && [ -e "/proc/$init/root/run/systemd/system" ] &&
            inside systemctl is-active --quiet "$server-server"; then return; fi
        sleep 0.2
    done
    cat "$root/boot.log" >&2
    fail 'systemd did not come up'
}

inside() { nsenter --target "$init" --all --root env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@"; }
bf() {
    for _ in $(seq 50); do
        if inside "$server-cli" PING >/dev/null 2>&1; then break; fi
        sleep 0.2
    done
    inside "$server-cli" "$@"
}

# expect ANSWER command...
expect() {
    local wanted=$1 got
    shift
    got=$("$@" | tr '\n' ' ')
    [ "${got% }" = "$wanted" ] || fail "$*: '$got', not '$wanted'"
    printf '%s: %s\n' "$*" "$got"
}

clean() {
    if [ -n "$init" ]; then kill -KILL "$init" 2>/dev/null || true; fi
    wait 2>/dev/null || true
    rm -rf --one-file-system "$root"
}

main
