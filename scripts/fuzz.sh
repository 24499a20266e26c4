#!/usr/bin/env bash
# Builds the fuzz targets and runs them, and sums up what they did.
#
# usage: scripts/fuzz.sh [stream] [chunks] [commands] [rdb] [operations]
#
# Without arguments: all of them. fuzz/src/lib.rs says what they are. $TIME is the seconds for each, by default
# 600; $JOBS how many run at once, by default 1. It starts from the seeds in fuzz/corpus; what it finds stays
# in .build/fuzz, for the next run to go on from. An input that fails goes to its folder artifacts. This script runs
# in bash 3.2 too.
set -euo pipefail
cd "$(dirname "$0")/.."
me=fuzz
# shellcheck source=scripts/common.sh
. scripts/common.sh

export CARGO_TARGET_DIR=$PWD/.build/fuzz/target
# Quick to build, and with lines in what a failure prints.
export CARGO_PROFILE_RELEASE_LTO=false CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=line-tables-only

main() {
    if [ "${1:-}" = --one ]; then
        one "$2"
        return
    fi
    [ $# -gt 0 ] || set -- stream chunks commands rdb operations
    local name
    for name in "$@"; do
        [ -f "fuzz/fuzz_targets/$name.rs" ] || die "no target '$name'; there are stream, chunks, commands, rdb and operations"
    done
    scripts/setup.sh fuzz
    say "building with $(rustc +nightly --version)"
    # cargo-fuzz takes its toolchain and its flags for cargo from where it runs.
    cargo +nightly fuzz build --features libfuzzer >&2

    local status=0
    printf '%s\n' "$@" | TIME=${TIME:-600} xargs -n 1 -P "${JOBS:-1}" scripts/fuzz.sh --one || status=1
    printf '%-11s %9s %12s %9s %9s  %s\n' target seconds executions 'cov. from' to result
    for name in "$@"; do row "$name"; done
    return "$status"
}

# Runs one target, with its output in a file.
one() {
    local name=$1 log=.build/fuzz/$1.log found=.build/fuzz/corpus/$1 host
    host=$(rustc +nightly -vV | sed -n 's/^host: //p')
    mkdir -p "$found" ".build/fuzz/artifacts/$name"
    say "$name: $TIME seconds"
    # No input needs an allocation as large as this: one that asks for it found a missing check.
    if ! ".build/fuzz/target/$host/release/$name" "$found" "fuzz/corpus/$name" "-artifact_prefix=.build/fuzz/artifacts/$name/" \
        "-max_total_time=$TIME" -max_len=8192 -timeout=20 -rss_limit_mb=2048 -malloc_limit_mb=64 \
        -print_final_stats=1 >"$log" 2>&1 </dev/null; then
        tail -n 60 "$log" >&2
        say "$name failed; to repeat it: cargo +nightly fuzz run --features libfuzzer $name and the file named above"
        return 1
    fi
}

# What a target did, from its log.
row() {
    local log=.build/fuzz/$1.log executions seconds result=passed
    read -r executions seconds <<<"$(sed -n 's/^Done \([0-9]*\) runs in \([0-9]*\) second.*/\1 \2/p' "$log")"
    [ -n "$executions" ] || result=FAILED
    printf '%-11s %9s %12s %9s %9s  %s\n' "$1" "${seconds:-?}" "${executions:-?}" \
        "$(coverage INITED "$log")" "$(coverage '[A-Z]*' "$log")" "$result"
}

# The edges that were met when a line of that kind was last written.
coverage() {
    sed -n "s/^#[0-9]*[[:space:]]*$1 *cov: \([0-9]*\).*/\1/p" "$2" | tail -n 1
}

main "$@"
