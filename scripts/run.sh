#!/usr/bin/env bash
# Starts the server with the module and redis.conf, in the foreground, with a data folder for each port.
#
# usage: scripts/run.sh [start | check] PORT [arguments for the server]
#
#   check  only says whether the port is free, and the folder can be written to
#
# The server gets a copy of redis.conf, data/PORT/redis.conf, since CONFIG REWRITE changes the file that a server was
# started with. The copy is made anew at each start, unless CONFIG REWRITE or a hand has changed it.
# $SERVER is the server's program, by default redis-server. It writes for bash 3.2 too.
set -euo pipefail
cd "$(dirname "$0")/.."

main() {
    [ $# -ge 2 ] || die 'usage: scripts/run.sh [start | check] PORT [arguments for the server]'
    local action=$1 port=$2
    shift 2
    # An octal number to one program is a decimal one to another; 0 is a free port, whose number nobody would know.
    case $port in '' | 0* | *[!0-9]* | ??????*) die "PORT is '$port', and not a number from 1 to 65535" ;; esac
    [ "$port" -le 65535 ] || die "PORT is '$port', and not a number from 1 to 65535"
    local folder
    for folder in data "data/$port"; do
        [ ! -e "$folder" ] || [ -w "$folder" ] || die "you cannot write to $PWD/$folder: remove it, or have its owner give it to you"
    done
    if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
        die "port $port is in use: stop what listens there, or take another one (make run PORT=$((port < 65535 ? port + 1 : 6379)))"
    fi
    if [ "$action" = start ]; then start "$port" "$@"; fi
}

start() {
    local folder=data/$1 config=data/$1/redis.conf
    if [ -e data/dump.rdb ] || [ -e data/appendonlydir ]; then
        say "data of an earlier version is in ./data, and each port's own is in ./data/PORT: move it there if it is wanted"
    fi
    mkdir -p "$folder"
    sed -e "s|^dir .*|dir ./$folder|" -e "s|^port .*|port $1|" redis.conf >"$config.new"
    if ! [ -e "$config" ] || cmp -s "$config" "$config.origin"; then
        cp "$config.new" "$config"
        mv "$config.new" "$config.origin"
    else
        cmp -s "$config.new" "$config.origin" ||
            say "redis.conf has changed, and so has its copy: $config is used; without it the new one would be"
        rm "$config.new"
    fi
    shift
    exec "${SERVER:-redis-server}" "$config" "$@"
}

say() { printf 'run: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

main "$@"
