#!/usr/bin/env bash
# Fetches what the tests of the client libraries need beside Python's and Java's packages, into .build/clients.
#
# usage: scripts/clients.sh node | go
#
#   node  the packages of tests/clients/node, and where the system's Node.js is older than they need, a newer one
#         from npm, in node-bin
#   go    go-redis and kafka-go, from Go's proxy or, where that cannot be reached, from Debian's packages; and where
#         the system's Go is older than they need, a newer one from Debian's bookworm-backports, in go-root. What cannot
#         be had is told in go/missing.
#
# This script runs in bash 3.2 too.
set -euo pipefail
cd "$(dirname "$0")/.."
me=clients
# shellcheck source=scripts/common.sh
. scripts/common.sh

root=$PWD/.build/clients
# Debian 12 has Node.js 18 and Go 1.19.
oldest_node=20
node=node@22.23.3
oldest_go=23
go=golang-1.23

main() {
    mkdir -p "$root"
    case ${1:-} in
        node) fetch_node ;;
        go) fetch_go ;;
        *) die 'usage: scripts/clients.sh node | go' ;;
    esac
}

fetch_node() {
    local version
    version=$(node --version)
    version=${version#v}
    if [ "${version%%.*}" -lt "$oldest_node" ]; then
        say "fetching $node from npm, since Node.js here is $version"
        npm install --silent --no-audit --no-fund --no-save --prefix "$root/node-bin" "$node" ||
            die "npm could not install $node"
        export PATH="$root/node-bin/node_modules/node/bin:$PATH"
    fi
    # The tests go where their libraries are, since that is where Node.js looks for them.
    mkdir -p "$root/node"
    cp tests/clients/node/* "$root/node"
    cd "$root/node" && npm ci --silent --no-audit --no-fund
}

fetch_go() {
    rm -rf "$root/go"
    mkdir -p "$root/go"
    cp tests/clients/go/* "$root/go"
    if ! has_go; then
        fetch_debian "$root/go-root" bookworm-backports "$go-go" "$go-src" ||
            missing "there is no Go 1.$oldest_go or later, so no go-redis"
        export PATH="$root/go-root/usr/lib/${go/lang/}/bin:$PATH"
        has_go || missing "the Go of Debian's backports does not run here, so there is no go-redis"
    fi
    (cd "$root/go" && go mod tidy) >"$root/go.log" 2>&1 && return
    say "Go's proxy does not give them: $(tail -n 1 "$root/go.log")"
    # The packages that kafka-go needs are newer in sid than Go here.
    fetch_debian "$root/go-debian" sid golang-github-redis-go-redis-dev golang-github-cespare-xxhash-v2-dev \
        golang-github-dgryski-go-rendezvous-dev golang-github-segmentio-kafka-go-dev &&
        fetch_debian "$root/go-debian-13" trixie golang-github-klauspost-compress-dev golang-github-pierrec-lz4-dev ||
        missing "go-redis and kafka-go can be fetched neither from Go's proxy nor from Debian"
    use go-debian redis/go-redis v9 v9.0.0
    use go-debian cespare/xxhash v2 v2.0.0
    use go-debian cespare/xxhash '' v1.0.0
    use go-debian dgryski/go-rendezvous '' v0.0.0
    use go-debian segmentio/kafka-go '' v0.4.51
    use go-debian-13 klauspost/compress '' v1.15.9
    use go-debian-13 pierrec/lz4 v4 v4.1.15
    say 'compiling go-redis and kafka-go'
    (cd "$root/go" && GOFLAGS=-mod=mod go build -o /dev/null .) >"$root/go.log" 2>&1 ||
        die "Debian's packages do not fit: $(tail -n 1 "$root/go.log")"
}

# use folder name major version: a package of Debian's, in the place of what go.mod names. The version is of no account
# then, but has to be there.
use() {
    local packages=$root/$1/usr/share/gocode/src/github.com/$2 name=github.com/$2${3:+/$3}
    local path=$root/go-modules/${name//\//+}
    # With or without a folder for the major version, or for an older one of the same code.
    [ ! -d "$packages/v2" ] || packages=$packages/v2
    rm -rf "$path" && mkdir -p "$path" && cp -R "$packages/." "$path"
    # Some are older than modules, or name themselves otherwise.
    [ "$(sed -n 's/^module //p' "$path/go.mod" 2>/dev/null)" = "$name" ] || echo "module $name" >"$path/go.mod"
    (cd "$root/go" && go mod edit -require "$name@$4" -replace "$name=$path")
}

# Ends the search; the test of go-redis is then skipped, with this as its reason.
missing() {
    say "$*"
    echo "$*" >"$root/go/missing"
    exit 0
}

has_go() {
    local version
    version=$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null) || return 1
    version=${version#go1.}
    [ "${version%%[.a-z]*}" -ge "$oldest_go" ]
}

main "$@"
