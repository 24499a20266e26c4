#!/usr/bin/env bash
# Prints the path of another's module, which it builds first where a git address is given.
#
# usage: scripts/rival.sh redisbloom|valkey-bloom PATH.so|ADDRESS[#BRANCH-OR-TAG]
#
# A clone and its module stay in .build/rivals and are used again; remove them to fetch what is new.
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1 from=$2
# In a hook of git's they name another repository.
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_PREFIX

main() {
    if [ -f "$from" ]; then
        echo "$from"
        return
    fi
    case $from in
        *.so) die "there is no $from" ;;
        *://* | *@*:* | /* | .*) ;;
        *) die "'$from' is neither a module nor a git address" ;;
    esac
    local ref='' clone log
    case $from in *'#'*) ref=${from##*#} from=${from%#*} ;; esac
    clone=.build/rivals/$name-$(printf '%s' "$from#$ref" | cksum | cut -d' ' -f1)
    log=$clone.log
    if [ ! -e "$clone/module.so" ]; then
        mkdir -p .build/rivals
        rm -rf "$clone"
        git clone --quiet --depth 1 ${ref:+--branch "$ref"} "$from" "$clone" >"$log" 2>&1 || fail "$log" "cannot clone $from"
        (cd "$clone" && "build_${name//-/_}") >>"$log" 2>&1 || fail "$log" "cannot build $from"
    fi
    echo "$clone/module.so"
}

die() {
    echo "rival: $name: $*" >&2
    exit 1
}
fail() {
    tail -n 15 "$1" >&2
    die "$2; $1 has all of it. Build it by its own instructions and give the path of its .so instead"
}

# Each step of a build says itself that it failed: bash does not heed `set -e` in front of `||`.

# RedisBloom's own build needs many tools. For a comparison only the compiler and -O3 matter, so this builds
# with those.
build_redisbloom() {
    git submodule update --quiet --init --depth 1 || return
    local sources malloc=$PWD/src/td_redismodule_malloc.h
    sources=$(sed -n '/^_SOURCES=/,/^$/p' Makefile | grep -oE '(deps|src)/[A-Za-z0-9_/]+\.c') || return
    # Older ones have no allocator of the server's for t-digest.
    [ -e "$malloc" ] || malloc=td_malloc.h
    # Unquoted on purpose: a list of files.
    # shellcheck disable=SC2086
    "${CC:-cc}" -std=gnu99 -O3 -fPIC -shared -w -D_GNU_SOURCE -DREDIS_MODULE_TARGET -DREDISMODULE_TARGET \
        -DREDISMODULE_SDK_RLEC -DTD_MALLOC_INCLUDE="\"$malloc\"" \
        -I. -Isrc -Ideps/RedisModulesSDK -Ideps -Ideps/murmur2 -Ideps/t-digest-c/src -Ideps/readies/cetara/diag \
        $sources deps/t-digest-c/src/tdigest.c -lm -o module.so
}

# A target folder of its own, whatever the caller's is.
build_valkey_bloom() {
    cargo build --release --target-dir target || return
    cp target/release/libvalkey_bloom.so module.so
}

main
