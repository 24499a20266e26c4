#!/usr/bin/env bash
# Builds images with the Dockerfile, starts them by their own entry points, and looks at what users rely on.
#
# usage: scripts/test-image.sh [redis | valkey | redis8]...      without a name: all
#
#   redis    BASE=redis:7.4-bookworm
#   valkey   BASE=valkey/valkey:8.1-bookworm
#   redis8   BASE=redis:8.0-bookworm and BASE=redis:8, whose entry points load RedisBloom; also the other ways of
#            docs/containers.md
#
# ENGINE is docker or podman; by default the first of them that works.
#
# A base that cannot be pulled, or with STAND_INS=yes every base, is replaced by a stand-in under the same name: Debian
# (debootstrap), its server package, and the official entry point. Each line says so. Variables for these:
#
#   REDIS_IMAGES, VALKEY_IMAGES   git addresses or folders of the official images' sources
#   REDISBLOOM                    a RedisBloom for the stand-in of Redis 8
#
# Stand-ins stay in .build/image, to be used again. They need root, debootstrap, git, and this machine's Rust.
set -euo pipefail
cd "$(dirname "$0")/.."
me=test-image
# shellcheck source=scripts/common.sh
. scripts/common.sh

redis_images=${REDIS_IMAGES:-https://github.com/redis/docker-library-redis}
valkey_images=${VALKEY_IMAGES:-https://github.com/valkey-io/valkey-container}
room=$PWD/.build/image
config=/etc/libbloom/bloom.conf
modules=/usr/local/lib/redis/modules
scratch=''   # folder of this run
running=''   # name of the server that is running
# podman writes the OCI format unless told otherwise, which has no health check.
export BUILDAH_FORMAT=docker

main() {
    [ $# -gt 0 ] || set -- redis valkey redis8
    choose_engine
    mkdir -p "$room"
    scratch=$(mktemp -d /tmp/bloom-image-XXXXXX)
    trap clean_up EXIT
    provide_base rust:1.95-bookworm rust_stand_in
    local name
    for name in "$@"; do
        case $name in
            redis)
                provide_base redis:7.4-bookworm server_stand_in bookworm redis \
                    "$redis_images" release/7.4:debian master:7.4/debian
                try_image redis redis:7.4-bookworm
                ;;
            valkey)
                provide_base valkey/valkey:8.1-bookworm server_stand_in trixie valkey \
                    "$valkey_images" mainline:8.1/debian mainline:8.0/debian
                try_image valkey valkey/valkey:8.1-bookworm
                ;;
            redis8)
                provide_base redis:8.0-bookworm server_stand_in trixie redis "$redis_images" release/8.0:debian
                try_image redis redis:8.0-bookworm
                try_redis_8 redis:8.0-bookworm
                # The entry point of this image may put the modules before the user's arguments; that of 8.0 puts
                # them last.
                provide_base redis:8 server_stand_in trixie redis "$redis_images" release/8.{10,8,6,4,2}:debian
                try_image redis redis:8
                try_redis_8 redis:8
                ;;
            *) die "unknown image '$name': redis, valkey or redis8" ;;
        esac
    done
    say 'all passed'
}

# ---- What is tried ---------------------------------------------------------------------------------

# try_image redis|valkey BASE
try_image() {
    local kind=$1 base=$2 image=libbloom-tried-$1 data
    say "--- $image on $base"
    build "$image" . --build-arg BASE="$base"
    say "size: $(size_of "$image") MB; base $(size_of "$base") MB"
    local health
    health=$(health_of "$image")
    [ -n "$health" ] || die 'the image has no health check'

    say 'as it is, with a mounted folder that root owns'
    data=$(new_folder 0)
    start "$image" '' "$data" rw
    is "$kind" 1 BF.ADD seen a
    [ "$(user_of_server)" = 999 ] || die "the server runs as user $(user_of_server)"
    inside sh -c "$health" || die 'the health check fails though the server answers'
    is "$kind" OK SAVE
    stop
    start "$image" '' "$data" rw
    is "$kind" 1 BF.EXISTS seen a
    is "$kind" 0 BF.ADD seen a
    stop

    say 'with --user 999:999, and a folder of that user'
    data=$(new_folder 999)
    start "$image" 999:999 "$data" rw
    is "$kind" 1 BF.ADD seen a
    stop
    start "$image" 999:999 "$data" rw
    is "$kind" 0 BF.ADD seen a
    stop

    say "with --user 999:999, and root's folder: nobody may give it away, so nothing is saved, as in the base"
    data=$(new_folder 0)
    start "$image" 999:999 "$data" rw
    is "$kind" 1 BF.ADD seen a
    case $(ask "$kind" SAVE) in ERR*) ;; *) die "saved into a folder of root's" ;; esac
    stop now

    say 'with a read-only root, and a mounted folder that root owns'
    data=$(new_folder 0)
    start "$image" '' "$data" ro
    is "$kind" 1 BF.ADD seen a
    is "$kind" OK SAVE
    inside sh -c "$health" || die 'the health check writes'
    stop
    start "$image" '' "$data" ro
    is "$kind" 0 BF.ADD seen a
    stop

    say 'with arguments of its user'
    data=$(new_folder 0)
    start "$image" '' "$data" rw --include "$config" --appendonly yes --port 7000
    is "$kind" 1 BF.ADD seen a
    ! inside sh -c "$health" 2>/dev/null || die 'the health check passes though nothing answers where it asks'
    stop
    start "$image" '' "$data" rw --include "$config" --appendonly yes
    is "$kind" 0 BF.ADD seen a
    stop
}

# The ways of docs/containers.md to have this module in RedisBloom's place in an image that brings both.
try_redis_8() {
    local base=$1 data library=$scratch/libbloom.so empty=$scratch/empty.so
    data=$(new_folder 0)
    take_file libbloom-tried-redis /usr/lib/redis/modules/libbloom.so "$library"
    chmod 755 "$library"
    : >"$empty"

    say "Redis 8's own image, with the module mounted over RedisBloom, and an option"
    mounts=("$library:$modules/redisbloom.so")
    start "$base" '' "$data" rw --bf-error-rate 0.001
    is redis 1 BF.ADD seen a
    is_ours_with_the_others
    case $(ask redis CONFIG GET bf-error-rate) in *0.001*) ;; *) die 'the option was not taken' ;; esac
    stop

    say "Redis 8's own image, with an empty file mounted over RedisBloom"
    mounts=("$library:/opt/libbloom.so" "$empty:$modules/redisbloom.so")
    start "$base" '' "$data" rw --loadmodule /opt/libbloom.so bf-error-rate 0.001
    is redis 0 BF.ADD seen a
    is_ours_with_the_others
    stop

    say "Redis 8's own image with both: the log says what to do, or names the file that is in the way"
    local log=$scratch/both.log
    mounts=("$library:$modules/zbloom.so")
    refused "$base" "$data" "$log"
    grep -q "another module has the name 'bf': only one .* mount this one over redisbloom.so" "$log" ||
        die "the log does not say what to do: $(cat "$log")"
    say "$(grep -o 'the module for Bloom filters is not loaded.*' "$log")"
    mounts=("$library:/opt/libbloom.so")
    refused "$base" "$data" "$log" --loadmodule /opt/libbloom.so
    mounts=()
    grep -qE "another module has the name 'bf': only one|Can't load module from $modules/*redisbloom.so" "$log" ||
        die "the log names neither: $(cat "$log")"
    say "$(grep -oE "the module for Bloom filters is not loaded.*|Can't load module from .*" "$log" | head -n 1)"
}

# MODULE LIST has this module under the name of both, and what else stood in the folder.
is_ours_with_the_others() {
    local list number others
    list=$(ask redis MODULE LIST | tr '\n' ' ')
    # 1.2.3 is listed as 10203.
    number=$(awk -F '[".]' '/^version/ { print $2 * 10000 + $3 * 100 + $4; exit }' Cargo.toml)
    case $list in *"name bf ver $number "*) ;; *) die "another module has the name: $list" ;; esac
    others=$(inside sh -c "ls $modules" | grep -vc 'redisbloom' || true)
    [ "$(grep -o 'name [^ ]* ver' <<<"$list" | grep -vcE 'name (bf|vectorset) ')" = "$others" ] ||
        die "of $others other modules some are missing: $list"
}

# ask redis|valkey COMMAND…: the server's answer, on whichever of the two ports it is.
ask() {
    local kind=$1
    shift
    inside sh -c 'port=6379; "$0" -p 7000 ping >/dev/null 2>&1 && port=7000; exec "$0" -p $port "$@"' "$kind-cli" "$@" 2>&1
}

# is redis|valkey ANSWER COMMAND…
is() {
    local kind=$1 expected=$2 answer
    shift 2
    answer=$(ask "$kind" "$@")
    [ "$answer" = "$expected" ] || die "$* answered '$answer', not '$expected'"
}

new_folder() {
    local folder
    folder=$(mktemp -d "$scratch/data-XXXXXX")
    chmod 755 "$folder"
    chown "$1" "$folder"
    echo "$folder"
}

# ---- The engine ------------------------------------------------------------------------------------

choose_engine() {
    if [ -z "${ENGINE:-}" ]; then
        for ENGINE in docker podman none; do
            if "$ENGINE" info >/dev/null 2>&1; then break; fi
        done
    fi
    [ "$ENGINE" != none ] || die 'docker (with its engine) or podman is needed'
    say "with $ENGINE"
}

# build IMAGE FOLDER [arguments]
build() {
    "$ENGINE" build --network host --tag "$1" "${@:3}" "$2" >"$scratch/build.log" 2>&1 ||
        die "$1 could not be built: $(tail -n 20 "$scratch/build.log")"
}

# The words of the image's health check. The two engines have it in different places.
health_of() {
    "$ENGINE" image inspect "$1" | python3 -c '
import json, sys
image = json.load(sys.stdin)[0]
print((image.get("Healthcheck") or image["Config"]["Healthcheck"])["Test"][3])'
}

# Megabytes of an image.
size_of() { "$ENGINE" image inspect --format '{{.Size}}' "$1" | awk '{ printf "%d\n", $1 / 1000000 }'; }

take_file() {
    local container
    container=$("$ENGINE" create "$1")
    "$ENGINE" cp "$container:$2" "$3"
    "$ENGINE" rm "$container" >/dev/null
}

# start IMAGE USER FOLDER rw|ro [arguments]: the image's entry point, with its own arguments if there are no others,
# and what the array `mounts` says (file:place). Then the server answers.
mounts=()
start() {
    launch "$@"
    local _
    for _ in $(seq 150); do
        if [[ $(ask redis ping) = *PONG* || $(ask valkey ping) = *PONG* ]]; then return; fi
        sleep 0.2
    done
    die "the server does not answer: $("$ENGINE" logs "$running" 2>&1)"
}

# refused IMAGE FOLDER LOG [arguments]: the server ends by itself.
refused() {
    local log=$3
    launch "$1" '' "$2" rw "${@:4}"
    local _
    for _ in $(seq 150); do
        if [ "$("$ENGINE" inspect --format '{{.State.Running}}' "$running")" = false ]; then
            "$ENGINE" logs "$running" >"$log" 2>&1
            running=''
            return
        fi
        sleep 0.2
    done
    die 'the server runs with two modules of one name'
}

launch() {
    local image=$1 user=$2 data=$3 mode=$4 mount flags=()
    shift 4
    for mount in "${mounts[@]}"; do flags+=(--volume "$mount:ro"); done
    if [ -n "$user" ]; then flags+=(--user "$user"); fi
    if [ "$mode" = ro ]; then flags+=(--read-only); fi
    running=libbloom-tried
    "$ENGINE" rm --force "$running" >/dev/null 2>&1 || true
    # The health check is run by hand.
    "$ENGINE" run --detach --no-healthcheck --name "$running" --volume "$data:/data" "${flags[@]}" "$image" "$@" >/dev/null
}

# inside COMMAND…: in the running container.
inside() { "$ENGINE" exec "$running" "$@"; }

user_of_server() { inside sh -c 'while read -r name uid rest; do [ "$name" = Uid: ] && echo "$uid"; done </proc/1/status'; }

# stop [now]: by SIGTERM, on which a server saves; `now` loses what was not saved.
stop() {
    if [ "${1:-}" = now ]; then "$ENGINE" kill "$running"; else "$ENGINE" stop "$running"; fi >/dev/null
    "$ENGINE" rm --force "$running" >/dev/null
    running=''
}

clean_up() {
    if [ -n "$running" ]; then stop now || true; fi
    rm -rf --one-file-system "$scratch"
}

# ---- Stand-ins -------------------------------------------------------------------------------------

# provide_base IMAGE MAKER [arguments]: pulls the image, or makes a stand-in of that name.
provide_base() {
    local image=$1 folder
    shift
    if ! "$ENGINE" image inspect "$image" >/dev/null 2>&1; then
        if [ -z "${STAND_INS:-}" ] && "$ENGINE" pull "$image" >/dev/null 2>&1; then return; fi
        folder=$room/${image//[:\/]/-}
        "$1" "$folder" "${@:2}"
    fi
    if [ "$("$ENGINE" image inspect --format '{{index .Config.Labels "stand-in"}}' "$image")" = yes ]; then
        say "$image: a STAND-IN, of Debian's packages$([ "$1" = rust_stand_in ] || echo ' and the official entry point')"
    fi
}

debian_root() {
    local folder=$1 suite=$2 packages=$3
    if [ -e "$folder/complete" ]; then return; fi
    command -v debootstrap >/dev/null || die 'debootstrap is needed for stand-ins'
    rm -rf --one-file-system "$folder"
    mkdir -p "$folder"
    debootstrap --variant=minbase --include="$packages" "$suite" "$folder/root" >"$folder/log" 2>&1 ||
        die "debootstrap failed: $(tail -n 3 "$folder/log")"
    rm -rf "$folder"/root/var/cache/apt/archives/*.deb "$folder"/root/var/lib/apt/lists/*
    touch "$folder/complete"
}

# The official image's paths: /usr/local/cargo and a toolchain on the PATH; the crates that were fetched here already.
rust_stand_in() {
    local folder=$1 sysroot
    sysroot=$(rustc --print sysroot)
    debian_root "$folder" bookworm gcc,libc6-dev,ca-certificates
    if ! [ -x "$folder/root/usr/local/rust/bin/cargo" ]; then
        mkdir -p "$folder/root/usr/local/rust" "$folder/root/usr/local/cargo"
        cp -a "$sysroot/bin" "$sysroot/lib" "$folder/root/usr/local/rust/"
        cp -a "${CARGO_HOME:-$HOME/.cargo}/registry" "$folder/root/usr/local/cargo/"
    fi
    write_image rust:1.95-bookworm "$folder" <<'END'
ENV PATH=/usr/local/rust/bin:/usr/sbin:/usr/bin:/sbin:/bin CARGO_HOME=/usr/local/cargo
END
}

# server_stand_in FOLDER SUITE redis|valkey GIT BRANCH:FOLDER…: the first branch that is there has the entry point.
server_stand_in() {
    local folder=$1 suite=$2 kind=$3 git=$4 packages place image
    shift 4
    packages=$kind-server,$kind-tools
    if [ "$kind" = redis ]; then packages=$packages,gosu; fi
    debian_root "$folder" "$suite" "$packages"
    local source=$room/$kind-images.git
    [ -e "$source" ] || git clone --quiet --bare "$git" "$source" || die "the entry point cannot be had from $git"
    for place in "$@" none; do
        [ "$place" != none ] || die "$git has none of $*"
        if git --git-dir="$source" show "$place/docker-entrypoint.sh" >"$folder/entry" 2>/dev/null; then break; fi
    done
    say "entry point: $place"
    install -m 755 "$folder/entry" "$folder/root/usr/local/bin/docker-entrypoint.sh"
    chroot "$folder/root" sh -c "usermod -u 999 $kind 2>/dev/null; groupmod -g 999 $kind" || true
    install -d -m 755 -o 999 -g 999 "$folder/root/data"
    # Where the official image has it: from 8.0.2 on its entry point knows the server by this path.
    install -m 755 "$folder/root/usr/bin/$kind-server" "$folder/root/usr/local/bin/$kind-server"
    case $place in
        release/8*) modules_of_redis_8 "$folder/root$modules" ;;
    esac
    image=${folder##*/}
    case $kind in
        valkey) image=valkey/valkey:${image#valkey-valkey-} ;;
        redis) image=redis:${image#redis-} ;;
    esac
    write_image "$image" "$folder" <<END
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
VOLUME /data
WORKDIR /data
ENTRYPOINT ["docker-entrypoint.sh"]
EXPOSE 6379
CMD ["$kind-server"]
END
}

# RedisBloom where the official image has it, and a module in the place of its neighbours, JSON and search.
modules_of_redis_8() {
    local folder=$1 header name
    [ -n "${REDISBLOOM:-}" ] || die 'REDISBLOOM=path.so is needed for the stand-in of Redis 8'
    mkdir -p "$folder"
    install -m 755 "$REDISBLOOM" "$folder/redisbloom.so"
    header=$(find "${CARGO_HOME:-$HOME/.cargo}/registry/src" -path '*/redis-module-*' -name redismodule.h | head -n 1)
    for name in rejson redisearch; do
        printf '#include "redismodule.h"\nint RedisModule_OnLoad(RedisModuleCtx *c, RedisModuleString **v, int n) { (void)v; (void)n; return RedisModule_Init(c, "%s", 1, REDISMODULE_APIVER_1); }\n' "$name" |
            cc -shared -fPIC -I"${header%/*}" -x c - -o "$folder/$name.so"
    done
}

# write_image NAME FOLDER <instructions: an image of the folder's root.
write_image() {
    rm -rf "$2/context"
    mkdir -p "$2/context"
    {
        printf 'FROM scratch\nADD root.tar /\nLABEL stand-in=yes\n'
        cat
    } >"$2/context/Dockerfile"
    tar -C "$2/root" --one-file-system -cf "$2/context/root.tar" .
    build "$1" "$2/context"
    rm -rf "$2/context"
}

main "$@"
