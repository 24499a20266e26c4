# shellcheck shell=bash
# Sourced: what of Debian's packages is fetched without being installed, and without a change of the system's package
# sources. What sources it has the function `say`.

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
