# shellcheck shell=bash
# Sourced: what several scripts do. `$me` is what their messages begin with.

export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH" # where rustup puts cargo, whether or not the user's shell knows

say() { printf '%s: %s\n' "${me:?}" "$*" >&2; }
die() {
    say "$*"
    exit 1
}

# ---- Tests on servers -----------------------------------------------------------------------------

# put file place: a copy in the place of an old one, which another run may still have loaded.
put() { cp "$1" "$2.$$" && mv -f "$2.$$" "$2"; }

# build_tests profile place: the program with the tests.
build_tests() {
    local tests
    tests=$(cargo test --profile "$1" --test integration --no-run \
        --message-format=json-render-diagnostics | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')
    put "$tests" "$2"
}

# What the log says of failures; all of it when the tests did not come to an end.
print_failures() {
    if grep -q '^test result: ' "$1"; then sed -n '/^failures:$/,$p' "$1"; else cat "$1"; fi
}

# How many tests a log has as passed, failed, skipped and left out. To the log a skipped one has passed.
counts() {
    local passed failed skipped filtered
    skipped=$(grep -c '^skipped: ' "$1") || true
    read -r passed failed filtered <<<"$(sed -n \
        's/^test result: .* \([0-9]*\) passed; \([0-9]*\) failed;.* \([0-9]*\) filtered.*/\1 \2 \3/p' "$1")"
    if [ -n "$passed" ]; then passed=$((passed - skipped)); fi
    echo "${passed:-?} ${failed:-?} $skipped ${filtered:-?}"
}

# ---- Debian's packages, fetched without being installed or changing the system's sources -----------

debian_keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# has_debian name program: whether Debian's packages can be had and worked on here.
has_debian() {
    if ! command -v apt-get >/dev/null || ! command -v "$2" >/dev/null || ! [ -r "$debian_keyring" ]; then
        say "$1 comes from Debian, with apt-get, $2 and Debian's keys"
        return 1
    fi
}

# debian_source suite [deb | deb-src]: the line that names a suite to apt.
debian_source() {
    echo "${2:-deb} [signed-by=$debian_keyring] ${DEBIAN_MIRROR:-http://deb.debian.org/debian} $1 main"
}

# start_apt folder source: apt reads lists and keeps files of its own there, so that no root rights are needed.
start_apt() {
    rm -rf "$1"
    mkdir -p "$1/lists/partial" "$1/cache/archives/partial"
    echo "$2" >"$1/sources.list"
    private_apt "$1" update
}

private_apt() {
    local apt=$1
    shift
    apt-get -qq -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=- \
        -o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt/cache" -o APT::Sandbox::User=root "$@" >&2
}

# fetch_tree folder release package: unpacks the sources of a package of a release of Debian, as their authors gave
# them out, into the folder, which is new.
fetch_tree() {
    local folder=$1 release=$2 package=$3 apt=$1.apt
    rm -rf "$folder"
    mkdir -p "$folder"
    start_apt "$apt" "$(debian_source "$release" deb-src)" &&
        (cd "$apt" && private_apt "$apt" source --download-only --tar-only "$package") &&
        tar -xf "$apt/$package"_*.orig.tar.* -C "$folder" || return
    rm -rf "$apt"
}

# fetch_debian folder suite package...: unpacks packages of a suite there. The folder gets its name when it is complete.
fetch_debian() {
    local folder=$1 suite=$2 apt=$1.apt package
    shift 2
    if [ -d "$folder" ]; then return; fi
    has_debian "$*" dpkg || return
    say "fetching from Debian's $suite: $*"
    rm -rf "$folder.part"
    start_apt "$apt" "$(debian_source "$suite")" && (cd "$apt" && private_apt "$apt" download "$@") || return
    for package in "$apt"/*.deb; do dpkg -x "$package" "$folder.part" || return; done
    rm -rf "$apt"
    mv "$folder.part" "$folder"
}
