#!/usr/bin/env bash
# The README's two commands as a stranger has them: in a bare Debian, on a clone of the last commit. `make run` must
# answer BF.ADD, and `make test` must pass.
#
# usage: scripts/fresh.sh [SUITE [SERVER]]
#
# SUITE is Debian's, by default trixie; SERVER is redis-server, the default, or valkey-server. It needs root,
# debootstrap, unshare and the network, and port 6379 or $PORT. The Debian is in a temporary folder, which is gone at
# the end with all that was started there; what the commands said stays in .build/fresh.
#
#   DEBIAN_MIRROR  where debootstrap fetches from
#   FRESH_TAR      file of a bare Debian that is used again; debootstrap fills it if it is not there
#   FRESH_RUST     not empty: Rust and its crates are those of whoever calls this ($RUSTUP_HOME and $CARGO_HOME, or
#                  ~/.rustup and ~/.cargo, mounted in the Debian), for a machine that cannot reach rustup. Otherwise
#                  `make run` installs Rust, as it does for everybody
#   FRESH_GOAL     what is made in place of test, such as test-examples
set -euo pipefail
cd "$(dirname "$0")/.."

suite=${1:-trixie}
server=${2:-redis-server}
port=${PORT:-6379}
goal=${FRESH_GOAL:-test}
# Seconds until a filter must answer. A machine of two cores builds in three minutes.
patience=1800
logs=$PWD/.build/fresh/$suite-$server
# Where the Debian has the clone.
clone=root/libbloom
root=''

main() {
    case $server in
        redis-server | valkey-server) ;;
        *) die "the server is '$server', and neither redis-server nor valkey-server" ;;
    esac
    [ "$(id -u)" -eq 0 ] || die 'root rights are needed: sudo make test-fresh'
    local tool
    for tool in debootstrap unshare git; do
        command -v "$tool" >/dev/null || die "$tool is needed: apt-get install debootstrap util-linux git"
    done
    scripts/run.sh check "$port"

    rm -rf "$logs"
    mkdir -p "$logs"
    root=$(mktemp -d)
    trap clean EXIT
    chmod 755 "$root"
    say "a bare $suite in $root; logs in $logs"
    step setup make_debian
    step run inside bash -euc "$run" run "$server" "$port" "$patience"
    local answered=$took
    step test inside make "$goal" SERVER="$server"

    say "passed on $suite, commit $(git rev-parse --short HEAD), $(inside "$server" --version | cut -d ' ' -f 1-3):"
    say "  make run: BF.ADD answered after $answered s"
    say "  make $goal: $took s, $(results)"
}

# What the Debian runs for `make run`: the server is asked until it answers.
# shellcheck disable=SC2016 # it is another shell's
run='
server=$1 port=$2 patience=$3
make run SERVER="$server" PORT="$port" &
until answer=$("${server%-server}-cli" -p "$port" BF.ADD seen a 2>/dev/null) && [ "$answer" = 1 ]; do
    kill -0 $! 2>/dev/null || { echo "make run ended"; exit 1; }
    [ "$SECONDS" -lt "$patience" ] || { echo "BF.ADD has no answer after $SECONDS s: $answer"; exit 1; }
    sleep 1
done
"${server%-server}-cli" -p "$port" SHUTDOWN NOSAVE
wait
'

say() { printf 'fresh: %s\n' "$*"; }
die() {
    printf 'fresh: %s\n' "$*" >&2
    exit 1
}

# step name command...: what it says goes into a file, and is shown if it fails. Leaves the seconds in `took`.
step() {
    local log=$logs/$1.log began=$SECONDS
    say "$1"
    shift
    # In a subshell that the shell's -e holds for, which it would not in a condition.
    set +e
    (
        set -e
        "$@"
    ) >"$log" 2>&1 </dev/null
    local status=$?
    set -e
    took=$((SECONDS - began))
    if [ "$status" -ne 0 ]; then
        tail -n 100 "$log" >&2
        die "failed on $suite with $server after $took s; all of it is in $log"
    fi
}

# The Debian with the clone, and with what the README takes for granted.
make_debian() {
    if [ -n "${FRESH_TAR:-}" ] && [ -e "$FRESH_TAR" ]; then
        tar --numeric-owner -xpf "$FRESH_TAR" -C "$root"
    else
        debootstrap --variant=minbase "$suite" "$root" "${DEBIAN_MIRROR:-http://deb.debian.org/debian}"
        if [ -n "${FRESH_TAR:-}" ]; then
            tar --numeric-owner -cpf "$FRESH_TAR.part" -C "$root" .
            mv "$FRESH_TAR.part" "$FRESH_TAR"
        fi
    fi
    # The checkout may be another user's, which git does not read for root.
    printf '[safe]\n\tdirectory = *\n' >"$root.gitconfig"
    GIT_CONFIG_GLOBAL=$root.gitconfig git clone --quiet --depth 1 "file://$PWD" "$root/$clone"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    inside apt-get -qq update
    inside env DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends make git
    # Certificates that this machine trusts besides Debian's, such as a proxy's.
    if compgen -G '/usr/local/share/ca-certificates/*.crt' >/dev/null; then
        inside env DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends ca-certificates
        cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/"
        inside update-ca-certificates
    fi
}

# inside command...: runs it in the Debian, in the clone. Mounts, and processes that it leaves, end with it.
inside() {
    local words=(HOME=/root LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin) name
    for name in http_proxy https_proxy no_proxy; do
        if [ -n "${!name:-}" ]; then words+=("$name=${!name}"); fi
    done
    # Python's pip would look only among its own.
    if [ -e "$root/etc/ssl/certs/ca-certificates.crt" ]; then
        words+=(PIP_CERT=/etc/ssl/certs/ca-certificates.crt)
    fi
    # shellcheck disable=SC2016 # it is another shell's
    unshare --mount --pid --ipc --uts --fork --kill-child bash -euc '
        root=$1 clone=$2 rustup=$3 cargo=$4
        shift 4
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        if [ -n "$rustup" ]; then
            mkdir -p "$root/root/.rustup" "$root/root/.cargo"
            mount --bind -o ro "$rustup" "$root/root/.rustup"
            mount --bind "$cargo" "$root/root/.cargo"
        fi
        exec chroot "$root" env -i --chdir="/$clone" "$@"
    ' inside "$root" "$clone" \
        "${FRESH_RUST:+${RUSTUP_HOME:-$HOME/.rustup}}" "${FRESH_RUST:+${CARGO_HOME:-$HOME/.cargo}}" "${words[@]}" "$@"
}

# How many tests passed, by the words of cargo and of Python's unittest.
results() {
    awk '/^test result: ok\. / { rust += $4 }
        /^Ran [0-9]+ tests? in / { python += $2 }
        /^OK \(skipped=/ { skipped = $2 }
        END { printf "%d tests of cargo, %d of Python %s\n", rust, python, skipped }' "$logs/test.log"
}

clean() { rm -rf --one-file-system "$root" "$root.gitconfig"; }

main
