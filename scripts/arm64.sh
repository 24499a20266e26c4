#!/usr/bin/env bash
# Tests the module for arm64 on an x86-64 Debian: it is built across, and what is built runs under qemu, with arm64's
# own server. On an arm64 machine none of this is needed: there `make test` runs as everywhere.
#
# usage: scripts/arm64.sh [core | moves | packages | integration | cycles]... [name of integration tests]...
#
#   core         the unit tests of the core and of the module, but for the statistical ones
#   moves        each kind of filter in each way in which filters are moved, from a server of x86-64 to one of arm64
#                and back: files, DUMP, chunks, MIGRATE, full synchronisation, replication
#   packages     the archive and the .deb: their own tests, then their pages, step by step, in a Debian of arm64
#   integration  the integration tests, with servers of arm64
#   cycles       no test: what llvm-mca estimates of the kernels' cycles (benches/cycles.rs), as a table
#
# Without one, the first four, in this order; names choose integration tests. It needs root, debootstrap, unshare, ip and
# the network. What it makes stays in .build/arm64: two Debians, `builder` of x86-64 with the compiler and qemu, and `machine`
# of arm64 with the servers, and what the tests said. What is built is the last commit.
#
#   DEBIAN_MIRROR  where debootstrap fetches from
#   ARM64_TAR      file of the two Debians that is used again; it is written if it is not there
#   THREADS        integration tests at once, by default two for each processor
#
# The compiler is Debian sid's, since that has Rust's standard library for arm64 as a package. How fast arm64 is, nothing
# here tells.
set -euo pipefail
cd "$(dirname "$0")/.."
me=arm64
# shellcheck source=scripts/common.sh
. scripts/common.sh

target=aarch64-unknown-linux-gnu
home=$PWD/.build/arm64
builder=$home/builder
machine=$home/machine
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
cargo_home=${CARGO_HOME:-$HOME/.cargo}
# The handler for programs of arm64, while this one runs, where the system has none.
handler=/proc/sys/fs/binfmt_misc/libbloom-aarch64
no_flaw='--ignore-warnings ARM64-COW-BUG'

main() {
    local parts='' names='' word
    for word in "$@"; do
        case $word in
            core | moves | packages | integration | cycles) parts="$parts $word" ;;
            *) names="$names $word" ;;
        esac
    done
    if [ -n "$names" ] && [ -z "$parts" ]; then parts=integration; fi
    [ "$(uname -sm)" = 'Linux x86_64' ] || die 'this is for Linux on x86-64; on arm64 it is: make test'
    [ "$(id -u)" -eq 0 ] || die 'root rights are needed: sudo make test-arm64'
    for word in debootstrap unshare ip git; do
        command -v "$word" >/dev/null || die "$word is needed: apt-get install debootstrap util-linux iproute2 git"
    done
    scripts/setup.sh test
    mkdir -p "$home/logs"
    trap clean EXIT
    make_debians
    take_commit
    write_programs

    local status=0 summary='' part began
    for part in ${parts:-core moves packages integration}; do
        began=$SECONDS
        say "$part"
        # A function in a condition would go on after an error.
        set +e
        (
            set -e
            # Unquoted on purpose: a list of words.
            # shellcheck disable=SC2086
            "test_$part" $names
        ) >"$home/logs/$part.log" 2>&1 </dev/null
        word=$?
        set -e
        if [ "$word" -ne 0 ]; then
            status=1
            tail -n 60 "$home/logs/$part.log" >&2
        fi
        summary+=$(printf '%-12s %6s s  %s' "$part" $((SECONDS - began)) "$(results "$part" "$word")")$'\n'
    done
    printf '%s' "$summary"
    return "$status"
}

# results part status: how it ended, and how many tests passed.
results() {
    [ "$2" -eq 0 ] || printf 'failed, see %s: ' "$home/logs/$1.log"
    awk '/^test result: / { passed += $4; failed += $6 }
        /^Ran [0-9]+ tests? in / { passed += $2 }
        END { printf "%d passed, %d failed", passed, failed }' "$home/logs/$1.log"
}

# ---- The two Debians -----------------------------------------------------------------------------

make_debians() {
    if [ ! -e "$machine/ready" ] && [ -n "${ARM64_TAR:-}" ] && [ -e "$ARM64_TAR" ]; then
        say "two Debians from $ARM64_TAR"
        rm -rf --one-file-system "$builder" "$machine"
        tar --numeric-owner -xpf "$ARM64_TAR" -C "$home"
    fi
    [ -e "$builder/ready" ] || make_builder
    [ -e "$machine/ready" ] || make_machine
    if [ -n "${ARM64_TAR:-}" ] && [ ! -e "$ARM64_TAR" ]; then
        tar --numeric-owner --one-file-system --exclude=builder/root/target -cpf "$ARM64_TAR.part" -C "$home" builder machine
        mv "$ARM64_TAR.part" "$ARM64_TAR"
    fi
}

make_builder() {
    say "a Debian of x86-64 in $builder"
    rm -rf --one-file-system "$builder"
    debootstrap --variant=minbase --include=ca-certificates sid "$builder" "$mirror" >"$home/logs/builder.log"
    inside "$builder" dpkg --add-architecture arm64
    # A mirror may have an old sid.
    inside "$builder" apt-get -qq -o Acquire::Check-Valid-Until=false update
    # binutils-multiarch, since packages are made of what objdump and strip say of a module of arm64.
    inside "$builder" apt-get -qq install --no-install-recommends \
        rustc cargo libclang-dev gcc libc6-dev git make python3-venv redis-server qemu-user llvm \
        gcc-aarch64-linux-gnu libc6-dev-arm64-cross libstd-rust-dev:arm64 \
        binutils-multiarch cargo-auditable cargo-cyclonedx >>"$home/logs/builder.log"
    touch "$builder/ready"
}

make_machine() {
    say "a Debian of arm64 in $machine"
    rm -rf --one-file-system "$machine"
    debootstrap --foreign --arch=arm64 --variant=minbase --include=redis-server sid "$machine" "$mirror" \
        >"$home/logs/machine.log"
    run_arm64
    inside "$machine" /debootstrap/debootstrap --second-stage >>"$home/logs/machine.log"
    touch "$machine/ready"
}

# Has the kernel start programs of arm64 by the builder's qemu, unless it has a handler for them.
run_arm64() {
    local folder=${handler%/*}
    [ -e "$folder/register" ] || mount -t binfmt_misc binfmt_misc "$folder"
    if grep -qs '^magic 7f454c460201010000000000000000000200b700' "$folder"/*; then return; fi
    printf '%s' ":${handler##*/}:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:$builder/usr/bin/qemu-aarch64:F" \
        >"$folder/register"
}

clean() {
    if [ -e "$handler" ]; then echo -1 >"$handler"; fi
}

# inside folder command...: runs it in that Debian, in /root/libbloom. Mounts and processes that it leaves end with it. The
# builder sees the other Debian as /machine, and shares the crates that were fetched; the others have a network of their
# own, so that their server gets its usual port.
inside() {
    local folder=$1 words=(HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive) name net=--net
    shift
    if [ "$folder" = "$builder" ]; then net=''; fi
    words+=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
    for name in http_proxy https_proxy no_proxy; do
        if [ -n "${!name:-}" ]; then words+=("$name=${!name}"); fi
    done
    words+=(CARGO_TARGET_DIR=/root/target "PIP_CERT=/etc/ssl/certs/ca-certificates.crt")
    words+=(CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc)
    words+=("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=qemu-aarch64 -L /usr/aarch64-linux-gnu")
    words+=('BINDGEN_EXTRA_CLANG_ARGS_aarch64_unknown_linux_gnu=--target=aarch64-linux-gnu -I/usr/aarch64-linux-gnu/include')
    mkdir -p "$folder/machine" "$folder/root/.cargo/registry" "$cargo_home/registry" "$folder/root/libbloom"
    cp /etc/resolv.conf "$folder/etc/resolv.conf"
    # Certificates that this machine trusts besides Debian's, such as a proxy's.
    if [ -e /etc/ssl/certs/ca-certificates.crt ] && [ -d "$folder/etc/ssl/certs" ]; then
        cp /etc/ssl/certs/ca-certificates.crt "$folder/etc/ssl/certs/"
    fi
    # Unquoted on purpose: there may be no word.
    # shellcheck disable=SC2016,SC2086 # it is another shell's
    unshare --mount --pid --ipc --uts $net --fork --kill-child bash -euc '
        root=$1 net=$2 machine=$3 registry=$4
        shift 4
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        if [ -n "$net" ]; then
            ip link set lo up
        else
            mount --bind "$registry" "$root/root/.cargo/registry"
            if [ -d "$machine" ]; then mount --bind "$machine" "$root/machine"; fi
        fi
        exec chroot "$root" env -i --chdir=/root/libbloom "$@"
    ' inside "$folder" "$net" "$machine" "$cargo_home/registry" "${words[@]}" "$@"
}

# The last commit, in the builder. Files that are the same stay as they are, so that cargo does not build them again.
take_commit() {
    local clone=$builder/root/libbloom
    [ -e "$clone/.git" ] || git init --quiet "$clone"
    # The checkout may be another user's, which git does not read for root.
    printf '[safe]\n\tdirectory = *\n' >"$home/gitconfig"
    GIT_CONFIG_GLOBAL=$home/gitconfig git -C "$clone" fetch --quiet --depth 1 "file://$PWD" HEAD
    git -C "$clone" reset --quiet --hard FETCH_HEAD
}

# What the tests start as a server, of either machine. Both are Debian sid's, of one version.
write_programs() {
    wrap "$builder/usr/bin/qemu-aarch64" "$machine" >"$home/redis-server-arm64"
    # By its own libraries, whatever this system has.
    printf '#!/bin/sh\nexec %q --library-path %q %q "$@"\n' "$builder/lib64/ld-linux-x86-64.so.2" \
        "$builder/usr/lib/x86_64-linux-gnu" "$builder/usr/bin/redis-server" >"$home/redis-server-x86"
    # Tests compile modules that are in the way.
    cat >"$home/cc-arm64" <<END
#!/bin/sh
exec unshare --mount sh -euc 'mount --bind /tmp "\$0/tmp"; exec chroot "\$0" aarch64-linux-gnu-gcc "\$@"' $(printf %q "$builder") "\$@"
END
    chmod +x "$home/cc-arm64"
    # The arm64 server, by its paths inside the builder.
    wrap qemu-aarch64 /machine >"$home/redis-server-machine"
    chmod +x "$home"/redis-server-*
}

# wrap qemu folder: a program that is arm64's server, by the qemu and the Debian of these paths. At its start the server
# looks for a flaw of Linux on arm64, and takes qemu's map of its memory for that.
# shellcheck disable=SC2016 # it is another shell's
wrap() {
    printf '#!/bin/sh\n[ "$1" = --version ] || set -- "$@" %s\nexec %q -L %q %q "$@"\n' "$no_flaw" "$1" "$2" "$2/usr/bin/redis-server"
}

# ---- The parts -----------------------------------------------------------------------------------

test_core() {
    inside "$builder" cargo test --locked --profile tested --target "$target" --lib --test vectors -p libbloom -p libbloom-rdb -p bloom \
        --no-fail-fast -- --skip torture::
}

# The module for arm64 as $arm64, the one for this machine as $x86, and the program with the tests as $tests.
build_modules() {
    inside "$builder" cargo build --locked --profile tested --target "$target" --lib --package bloom
    put "$builder/root/target/$target/tested/libbloom.so" "$home/libbloom-arm64.so"
    cargo build --locked --profile tested --lib --package bloom
    put "${CARGO_TARGET_DIR:-target}/tested/libbloom.so" "$home/libbloom-x86.so"
    build_tests tested "$home/integration"
    arm64=$home/libbloom-arm64.so x86=$home/libbloom-x86.so tests=$home/integration
}

test_moves() {
    local tests arm64 x86
    build_modules
    echo '--- from x86-64 to arm64'
    BLOOM_TEST_SERVER=$home/redis-server-x86 BLOOM_TEST_MODULE=$x86 \
        BLOOM_TEST_OTHER_SERVER=$home/redis-server-arm64 BLOOM_TEST_OTHER_MODULE=$arm64 "$tests" states::
    echo '--- from arm64 to x86-64'
    BLOOM_TEST_SERVER=$home/redis-server-arm64 BLOOM_TEST_MODULE=$arm64 \
        BLOOM_TEST_OTHER_SERVER=$home/redis-server-x86 BLOOM_TEST_OTHER_MODULE=$x86 "$tests" states::
}

test_integration() {
    local tests arm64 x86
    build_modules
    TMPDIR=/tmp CC=$home/cc-arm64 BLOOM_TEST_EMULATOR=qemu BLOOM_TEST_SERVER=$home/redis-server-arm64 BLOOM_TEST_MODULE=$arm64 \
        "$tests" --show-output --test-threads "${THREADS:-$((2 * $(getconf _NPROCESSORS_ONLN)))}" "$@"
}

# The packages need the glibc of the Debian that they are made in.
test_packages() {
    local root pages=$home/packages
    inside "$builder" env -u CARGO_TARGET_DIR GLIBC_FLOOR=9 CARGO_BUILD_TARGET="$target" make pack
    put "$home/redis-server-machine" "$builder/usr/local/bin/redis-server-arm64"
    inside "$builder" env GLIBC_FLOOR=9 make test-packed SERVER=redis-server-arm64
    rm -rf "$pages" && mkdir -p "$pages"
    cp "$builder"/root/libbloom/dist/* "$pages/"
    run_arm64
    for page in archive deb; do
        root=$(mktemp -d "$home/try.XXXXXX")
        echo "--- the page of the $page"
        cp -a "$machine/." "$root"
        mkdir -p "$root/root/libbloom"
        cp "$pages"/* "$root/root/libbloom/"
        { page "$page"; echo "$try"; } >"$root/root/steps"
        inside "$root" bash -eux /root/steps "$page"
        rm -rf --one-file-system "$root"
    done
}

# page archive|deb: the steps of docs/install.md, for root, for arm64, and without systemd.
page() {
    local title=Debian
    [ "$1" = deb ] || title='The archive'
    awk -v title="^## $title" '$0 ~ title { found = 1 } found && /^```/ { if (inside) exit; inside = 1; next } inside' docs/install.md |
        sed -e 's/sudo //g; s/x86_64/aarch64/g; s/amd64/arm64/g; /systemctl/d; /^redis-cli/d'
    # "Without systemd … put `loadmodule …` into the server's own file."
    if [ "$1" = deb ]; then echo 'echo "loadmodule /usr/lib/redis/modules/libbloom.so" >>/etc/redis/redis.conf'; fi
}

# What is done in the Debian after the steps of a page.
# shellcheck disable=SC2016 # it is another shell's
try='
config=/etc/redis/redis.conf
mkdir -p /run/redis && chown redis /run/redis
start() {
    setpriv --reuid redis --regid redis --clear-groups redis-server "$config" --ignore-warnings ARM64-COW-BUG
    for _ in $(seq 300); do if [ "$(redis-cli PING)" = PONG ]; then return; fi; sleep 0.2; done
    exit 1
}
stop() { redis-cli SHUTDOWN || true; }
start
[ "$(redis-cli BF.ADD seen a)" = 1 ]
chown redis /etc/redis "$config"
[ "$(redis-cli CONFIG REWRITE)" = OK ]
stop
start
[ "$(redis-cli BF.EXISTS seen a)" = 1 ]
[ "$(redis-cli BF.EXISTS seen b)" = 0 ]
[ "$(redis-cli DEL seen)" = 1 ]
stop
if [ "$1" = deb ]; then
    dpkg -r redis-libbloom 2>&1 | tee /root/removed
    grep "is taken out of $config" /root/removed
    sed -i -e "$(sed -nE "s/^([0-9]+):.*/\1d/p" /root/removed)" "$config"
    start
    redis-cli BF.ADD seen a | grep "unknown command"
    stop
    dpkg -P redis-libbloom
    [ -z "$(find / -xdev -name "*libbloom*" -not -path "/proc/*" -not -path "/root/*")" ]
fi
'

# Instructions and estimated cycles for an item in the kernels' loops, on two processors of servers.
test_cycles() {
    inside "$builder" cargo build --locked --release --target "$target" --package bytemuck
    # shellcheck disable=SC2016 # it is another shell's
    inside "$builder" bash -euc '
        built=/root/target/$1/release
        rustc --edition 2024 --crate-type lib --emit asm -C opt-level=3 --target "$1" benches/cycles.rs -o /root/cycles.s \
            --extern bytemuck="$(ls "$built"/deps/libbytemuck-*.rlib | head -n 1)" -L dependency="$built/deps" \
            -L dependency=/root/target/release/deps
        # figure loop processor line: what llvm-mca says, for one of a thousand items. A loop is from a label to the
        # branch back to it.
        figure() {
            awk -v name="$1:" "\$0 == name { on = 1 } /cfi_endproc/ { on = 0 }
                on && /^\.LBB/ { text = \"\"; label = substr(\$1, 1, length(\$1) - 1); next }
                on { text = text \$0 \"\n\" }
                on && /^\tb/ && \$NF == label { printf \"%s\", text; exit }" /root/cycles.s |
                llvm-mca -mtriple=aarch64 -mcpu="$2" -iterations=1000 |
                awk -v line="$3:" "index(\$0, line) == 1 { printf \"%.1f\", \$NF / 1000 }"
        }
        llvm-mca --version | sed -n "s/.*LLVM version/LLVM/p"
        echo "| loop | instructions | neoverse-n1 | neoverse-v2 |"
        echo "|---|---|---|---|"
        for loop in portable_contains vector_contains portable_insert vector_insert; do
            n1=$(figure "$loop" neoverse-n1 "Total Cycles") v2=$(figure "$loop" neoverse-v2 "Total Cycles")
            [ -n "$n1" ] && echo "| $loop | $(figure "$loop" neoverse-n1 Instructions) | $n1 | $v2 |"
        done' cycles "$target" | tee "$home/cycles.md"
}

main "$@"
