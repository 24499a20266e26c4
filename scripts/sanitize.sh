#!/usr/bin/env bash
# Builds servers and the module with sanitizers, runs the integration tests with them, and sums up.
#
# usage: scripts/sanitize.sh [address] [thread] [redis-8[=folder]] [valkey-8.1[=folder]] [name of tests]...
#
#   address     AddressSanitizer and LeakSanitizer in both, UndefinedBehaviorSanitizer in the server, and Rust's
#               own checks of overflow and of unsafe calls in the module
#   thread      ThreadSanitizer in both
#   redis-8     Debian trixie's source package of Redis 8.0
#   valkey-8.1  Debian trixie's source package of Valkey
#
# Without one of the first two, both; without a server, both. A folder is one with that server's sources, which are
# copied; without it they are fetched from Debian. Names choose tests, as cargo test does.
# The module uses the sanitizer runtime of the server's compiler, which must fit Rust's: GCC 12 and Rust 1.97 do. No report
# about the module is suppressed, only a race in Valkey and a leak in both servers (tests/sanitizers).
# What it builds stays in .build/sanitize. A report of a sanitizer fails the test that its server was for: see
# tests/integration/support/server.rs, and tests/integration/adversary/sanitizers.rs for what proves it first.
set -euo pipefail
cd "$(dirname "$0")/.."
me=sanitize
# shellcheck source=scripts/common.sh
. scripts/common.sh

root=$PWD/.build/sanitize
target=${CARGO_TARGET_DIR:-$PWD/target}

# Tests that hold what cannot hold under a sanitizer, with the reason. Besides, whoever limits a process's addresses
# is skipped, since a sanitizer takes terabytes of them for its tables: see `limit_addresses` of the tests.
# left_out sanitizer server
left_out() {
    # Blocks have exactly the size that was asked for, where a plan foretells what the system's allocator makes of it.
    echo plan::tells_what_the_filter_becomes
    if [ "$1" = address ]; then
        # Redis adds to a number of keys of 2^63 - 1 that a client gives to any command (in getKeysUsingKeySpecs,
        # before the module is asked), which is not defined.
        echo declared::the_server_knows_as_many_sources_as_there_are
    fi
    case $2 in
        # Valkey writes through a null pointer when it undoes MODULE LOADEX (the test knows how it ends). Here that is a
        # report of its own, or its handler of crashes, which stops all threads to print their stacks, makes hundreds.
        valkey-*) echo loading::an_option_that_nobody_has_costs_no_data_and_leaves_no_half_of_the_module ;;
    esac
}

main() {
    local sanitizers='' servers='' names='' word
    for word in "$@"; do
        case $word in
            address | thread) sanitizers="$sanitizers $word" ;;
            redis-8 | redis-8=/* | valkey-8.1 | valkey-8.1=/*) servers="$servers $word" ;;
            *=*) die "no server '$word'; there are redis-8=/folder and valkey-8.1=/folder" ;;
            *) names="$names $word" ;;
        esac
    done
    [ "$(uname -s)" = Linux ] || die 'only Linux has what this needs'
    scripts/setup.sh nightly cxx
    mkdir -p "$root"
    # The tests themselves need no checks.
    build_tests "${PROFILE:-dev}" "$root/integration"

    local status=0 ran='' summary='' sanitizer server
    for sanitizer in ${sanitizers:-address thread}; do
        build_module "$sanitizer"
        for server in ${servers:-redis-8 valkey-8.1}; do
            if build_server "$sanitizer" "$server"; then
                ran=yes
                # Unquoted on purpose: a list of words.
                # shellcheck disable=SC2086
                run "$sanitizer" "${server%%=*}" $names || status=1
                summary+=$(row "$sanitizer" "${server%%=*}")$'\n'
            else
                say "${server%%=*} is left out"
                summary+=$(printf '%-8s %-11s left out: it could not be built here' "$sanitizer" "${server%%=*}")$'\n'
            fi
        done
    done

    printf '%-8s %-11s %7s %7s %7s %9s\n%s' sanitizer server passed failed skipped 'left out' "$summary"
    [ -n "$ran" ] || die 'no server was built'
    return "$status"
}

# ---- What is built -------------------------------------------------------------------------------

# Rust's standard library comes without the checks, which an address sanitizer does not mind. A thread sanitizer has
# to be told to take it: what it then does not see, tests/sanitizers/shim.c shows it.
flags() {
    case $1 in
        address) echo '-Zsanitizer=address' ;;
        thread) echo '-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer' ;;
    esac
}

# The runtime of the sanitizer is the server's: a library leaves its calls of it open. What a module of the same
# flags does wrong must be found first.
build_module() {
    local module host
    host=$(rustc +nightly -vV | sed -n 's/^host: //p')
    say "building the module for sanitizer $1"
    module=$(RUSTFLAGS=$(flags "$1") cargo +nightly build --lib --package bloom --target-dir "$target/sanitize" --target "$host" \
        --message-format=json-render-diagnostics | sed -nE 's/.*"([^"]*libbloom\.so)".*/\1/p')
    put "$module" "$root/module-$1.so"
    # Unquoted on purpose: a list of words.
    # shellcheck disable=SC2046
    rustc +nightly --edition 2024 --crate-type cdylib -Copt-level=1 -Cdebuginfo=1 $(flags "$1") \
        tests/sanitizers/faulty.rs -o "$root/faulty-$1.so"
    # The head of shim.c says why it is needed.
    if [ "$1" = thread ]; then
        cc -shared -fPIC -O1 -fno-builtin -Wall -Wextra tests/sanitizers/shim.c -o "$root/shim.so" -ldl
    fi
}

# build_server sanitizer name[=folder]
build_server() {
    local sanitizer=$1 name=${2%%=*} source='' family folder
    case $2 in *=*) source=${2#*=} ;; esac
    family=${name%%-*}
    folder=$root/$name-$sanitizer
    [ ! -x "$folder/tree/src/$family-server" ] || return 0
    if [ -n "$source" ]; then
        [ -f "$source/src/Makefile" ] || die "no sources of a server in '$source'"
        rm -rf "$folder.part"
        mkdir -p "$folder.part"
        cp -R "$source" "$folder.part/tree" && make -C "$folder.part/tree/src" distclean >/dev/null 2>&1 || return
    else
        has_debian "$name" make || return
        fetch_tree "$folder.part" trixie "$family" && mv "$folder.part/$family"-* "$folder.part/tree" || return
    fi
    say "building $name for sanitizer $sanitizer"
    # The second kind of flags adds to the first of the server's own choice. Redis and Valkey have another name each
    # for them. Valkey loads modules in a way that no sanitizer can have, unless it knows of the address one.
    local more=''
    case $sanitizer:$family in
        address:*) more=-fsanitize=undefined ;;
        thread:valkey) more=-DVALKEY_ADDRESS_SANITIZER ;;
    esac
    make -C "$folder.part/tree/src" -j "$(getconf _NPROCESSORS_ONLN)" MALLOC=libc OPTIMIZATION=-O1 \
        SANITIZER="$sanitizer" REDIS_CFLAGS="$more" SERVER_CFLAGS="$more" REDIS_LDFLAGS="$more" SERVER_LDFLAGS="$more" \
        "$family-server" >"$root/build-$name-$sanitizer.log" 2>&1 || {
        tail -n 20 "$root/build-$name-$sanitizer.log" >&2
        return 1
    }
    rm -rf "$folder"
    mv "$folder.part" "$folder"
}

# ---- The tests -----------------------------------------------------------------------------------

# run sanitizer server [name of tests]...
run() {
    local sanitizer=$1 name=$2 log=$root/$1-$2.log skip=''
    shift 2
    local word preload=''
    if [ "$sanitizer" = thread ]; then preload=$root/shim.so; fi
    for word in $(left_out "$sanitizer" "$name"); do skip="$skip --skip $word"; done
    say "testing $name with sanitizer $sanitizer"
    # An allocation that fails is null: a refusal of a huge one is what many tests are about.
    # Unquoted on purpose: lists of words.
    # shellcheck disable=SC2086
    if ! BLOOM_TEST_SANITIZER=$sanitizer BLOOM_TEST_FAULTY=$root/faulty-$sanitizer.so \
        BLOOM_TEST_SERVER=$root/$name-$sanitizer/tree/src/${name%%-*}-server BLOOM_TEST_MODULE=$root/module-$sanitizer.so \
        ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=1 \
        LSAN_OPTIONS=suppressions=$PWD/tests/sanitizers/leak.txt \
        UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
        TSAN_OPTIONS=allocator_may_return_null=1:suppressions=$PWD/tests/sanitizers/thread.txt LD_PRELOAD=$preload \
        "$root/integration" --show-output $skip "$@" >"$log" 2>&1; then
        print_failures "$log"
        return 1
    fi
}

# A line of the summary.
row() {
    local passed failed skipped filtered
    read -r passed failed skipped filtered <<<"$(counts "$root/$1-$2.log")"
    printf '%-8s %-11s %7s %7s %7s %9s' "$1" "$2" "$passed" "$failed" "$skipped" "$filtered"
}

main "$@"
