#!/usr/bin/env bash
# Installs what is missing to build, run, test or lint the module, and says nothing when nothing is.
#
# usage: scripts/setup.sh [goal]...
#
# The goals, of which build is the usual one:
#
#   build      a C compiler, libclang (bindgen reads the server's C header with it), Rust
#   run        what build needs, and the server: $SERVER, by default redis-server
#   test       what run needs
#   lint       what build needs, rustfmt and clippy
#   example    what run needs, and Python with venv and pip
#   node       what build needs, and Node.js with npm
#   chromium   what build needs, and Chromium
#   clients    what example needs, Node.js with npm, Go, and Java with Maven
#   prometheus what build needs, Prometheus and redis_exporter
#   python     what build needs, and Python with venv and pip
#   cxx        what build needs, and a C++ compiler
#   nightly    what build needs, and Rust's nightly toolchain
#   valgrind   what build needs, and valgrind
#   faketime   what build needs, and libfaketime where it is a package; without it the tests go without it
#   package    what python needs, objdump and strip, cargo-auditable and cargo-cyclonedx
#   fuzz       what nightly and cxx need (libFuzzer is written in C++), and cargo-fuzz
#   mutants    what test and python need, and cargo-mutants
#
# This script runs in bash 3.2 too, the one that macOS ships.
set -euo pipefail
cd "$(dirname "$0")/.."

server=${SERVER:-redis-server}
cargo_bin=${CARGO_HOME:-$HOME/.cargo}/bin
export PATH="$cargo_bin:$PATH" # where rustup puts cargo, whether or not the user's shell knows

main() {
    # Without it every Rust would seem too old, and be replaced.
    [ -n "$(wanted_rust)" ] || die "there is no Cargo.toml with a rust-version in $PWD"
    can_build
    local want_server='' want_lint='' want_python='' want_cxx='' want_nightly='' want_fuzz='' want_valgrind=''
    local want_clients='' want_node='' want_chromium='' want_package='' want_prometheus='' want_faketime='' want_mutants='' goal
    [ $# -gt 0 ] || set -- build
    for goal in "$@"; do
        case $goal in
            build) ;;
            run | test) want_server=yes ;;
            lint) want_lint=yes ;;
            example) want_server=yes want_python=yes ;;
            node) want_node=yes ;;
            chromium) want_chromium=yes ;;
            clients) want_server=yes want_python=yes want_node=yes want_clients=yes ;;
            prometheus) want_prometheus=yes ;;
            python) want_python=yes ;;
            nightly) want_nightly=yes ;;
            cxx) want_cxx=yes ;;
            fuzz) want_nightly=yes want_cxx=yes want_fuzz=yes ;;
            valgrind) want_valgrind=yes ;;
            faketime) want_faketime=yes ;;
            package) want_python=yes want_package=yes ;;
            mutants) want_server=yes want_python=yes want_mutants=yes ;;
            *) die "unknown goal '$goal'; scripts/setup.sh names the goals at its top" ;;
        esac
    done

    local missing=''
    has_cc || missing="$missing cc"
    has_libclang || missing="$missing libclang"
    if [ -n "$want_server" ] && ! has_server; then missing="$missing server"; fi
    if [ -n "$want_python" ] && ! has_python; then missing="$missing python"; fi
    if [ -n "$want_node" ] && ! has_node; then missing="$missing node"; fi
    if [ -n "$want_chromium" ] && ! has_chromium; then missing="$missing chromium"; fi
    if [ -n "$want_clients" ] && ! has_go; then missing="$missing go"; fi
    if [ -n "$want_clients" ] && ! has_java; then missing="$missing java"; fi
    if [ -n "$want_clients" ] && ! has_maven; then missing="$missing maven"; fi
    if [ -n "$want_prometheus" ] && ! has_prometheus; then missing="$missing prometheus"; fi
    if [ -n "$want_prometheus" ] && ! has_exporter; then missing="$missing exporter"; fi
    if [ -n "$want_cxx" ] && ! has_cxx; then missing="$missing cxx"; fi
    if [ -n "$want_valgrind" ] && ! has_valgrind; then missing="$missing valgrind"; fi
    # Debian's place for it is the one where the tests look.
    if [ -n "$want_faketime" ] && has apt-get && ! has_faketime; then missing="$missing faketime"; fi
    # Apple's developer tools have their own.
    if [ -n "$want_package" ] && ! is_macos && ! has_binutils; then missing="$missing binutils"; fi
    if ! has_cargo && ! has rustup && ! has curl; then missing="$missing curl"; fi
    # Unquoted on purpose: a list of words.
    # shellcheck disable=SC2086
    [ -z "$missing" ] || install_system $missing

    has_cargo || install_rust
    if [ -n "$want_lint" ]; then install_lint_tools; fi
    if [ -n "$want_nightly" ]; then install_nightly; fi
    if [ -n "$want_fuzz" ]; then install_cargo_fuzz; fi
    # What these write is in the packages.
    if [ -n "$want_package" ]; then install_tools cargo-auditable@0.7.7 cargo-cyclonedx@0.5.9; fi
    # A fixed version, because scripts/mutants.txt has the names that it gives to mutants.
    if [ -n "$want_mutants" ]; then install_tools cargo-mutants@27.1.0; fi
}

say() { printf 'setup: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}
has() { command -v "$1" >/dev/null 2>&1; }
is_macos() { [ "$(uname -s)" = Darwin ]; }

# Whoever works in the checkout of another user, or in one where root has built, would be told by cargo or mkdir, after
# minutes, of a denied permission.
can_build() {
    local path
    for path in . .build "${CARGO_TARGET_DIR:-target}"; do
        if [ -e "$path" ] && ! [ -w "$path" ]; then
            die "you cannot write to $(cd "$path" && pwd), which is $(owner "$path")'s: work in a clone of your own, or have it given to you (chown)"
        fi
    done
}

# By `ls`, whose words are the same everywhere.
owner() {
    local fields
    read -ra fields <<<"$(ls -ld "$1")"
    echo "${fields[2]}"
}

# ---- What is there -------------------------------------------------------------------------------

# A compiler without the C library's headers is no use, so one is put to the test.
has_cc() {
    # On macOS /usr/bin/cc exists without the developer tools and opens a dialog.
    if is_macos; then xcode-select -p >/dev/null 2>&1 || return 1; fi
    has cc && printf '#include <stdio.h>\n' | cc -x c -fsyntax-only - 2>/dev/null
}

# The one that cargo's build scripts call.
has_cxx() { has "${CXX:-c++}" && printf '#include <vector>\n' | "${CXX:-c++}" -x c++ -fsyntax-only - 2>/dev/null; }

# Looks where the crate clang-sys looks: nowhere but in $LIBCLANG_PATH when that is set, else in
# llvm-config's prefix, the library paths and the system's folders. The library alone is not enough:
# clang's own headers (stddef.h) must be there too.
has_libclang() {
    if [ -n "${LIBCLANG_PATH:-}" ]; then
        if [ -f "$LIBCLANG_PATH" ] || holds_libclang "$LIBCLANG_PATH"; then return 0; fi
        die "LIBCLANG_PATH is '$LIBCLANG_PATH', and no libclang is there"
    fi
    if is_macos; then
        # Comes with the developer tools.
        holds_libclang /Library/Developer/CommandLineTools/usr/lib \
            "$(xcode-select -p 2>/dev/null)/Toolchains/XcodeDefault.xctoolchain/usr/lib" \
            /usr/local/opt/llvm*/lib
        return
    fi
    local prefix
    prefix=$("${LLVM_CONFIG_PATH:-llvm-config}" --prefix 2>/dev/null) || prefix=/usr
    any_file "$prefix"/lib*/clang/*/include/stddef.h /usr/lib*/clang/*/include/stddef.h \
        /usr/lib/llvm*/lib*/clang/*/include/stddef.h /usr/local/lib*/clang/*/include/stddef.h \
        /usr/local/llvm*/lib*/clang/*/include/stddef.h || return 1
    holds_libclang "$prefix"/lib* /usr/local/llvm*/lib* /usr/local/lib*/*/* /usr/local/lib*/* \
        /usr/local/lib* /usr/lib*/*/* /usr/lib*/* /usr/lib* && return 0
    local folders IFS=:
    folders=${LD_LIBRARY_PATH:-}:${LIBRARY_PATH:-}
    # Unquoted on purpose: split at the colons.
    # shellcheck disable=SC2086
    holds_libclang $folders
}

# Whether one of the folders has the library, by any of its file names (never libclang-cpp).
holds_libclang() {
    local folder
    for folder in "$@"; do
        [ -n "$folder" ] || continue
        any_file "$folder"/libclang.so* "$folder"/libclang-[0-9]*.so* "$folder"/libclang.dylib && return 0
    done
    return 1
}

any_file() {
    local file
    for file in "$@"; do
        if [ -e "$file" ]; then return 0; fi
    done
    return 1
}

has_server() { has "$server"; }

# Debian splits ensurepip, which venv needs, from Python.
has_python() { has python3 && python3 -c 'import ensurepip, venv' 2>/dev/null; }

has_node() { has node && has npm; }

# Chrome does as well, which the machines of CI have.
has_chromium() { has "${CHROMIUM:-chromium}" || has google-chrome; }

# Debian's is too old, but scripts/clients.sh has a newer one there.
has_go() { has go || has_debian_packages; }

has_debian_packages() { has apt-get && has dpkg && [ -r /usr/share/keyrings/debian-archive-keyring.gpg ]; }

# Homebrew's Java stays off the PATH, so on macOS it is left to the user.
has_java() { is_macos || has javac; }

has_maven() { has mvn; }

has_prometheus() { has prometheus && has promtool; }

# Debian gives it a longer name.
has_exporter() { has prometheus-redis-exporter || has redis_exporter; }

# A cargo that is too old to read Cargo.toml is as good as none.
has_cargo() {
    local version
    version=$(cargo --version 2>/dev/null) || return 1
    version=${version#cargo }
    is_at_least "${version%%[ -]*}" "$(wanted_rust)"
}

wanted_rust() { sed -n 's/^rust-version *= *"\([0-9.]*\)".*/\1/p' Cargo.toml; }

# is_at_least 1.95.0 1.95: true when the first version is the second or a later one.
is_at_least() {
    local have_major have_minor want_major want_minor rest
    IFS=. read -r have_major have_minor rest <<<"$1"
    IFS=. read -r want_major want_minor rest <<<"$2"
    : "$rest"
    [ "$have_major" -gt "$want_major" ] ||
        { [ "$have_major" -eq "$want_major" ] && [ "${have_minor:-0}" -ge "${want_minor:-0}" ]; }
}

# ---- The system's packages -----------------------------------------------------------------------

install_system() {
    if is_macos && ! has_cc; then
        die "the C compiler and libclang come with Apple's developer tools: run 'xcode-select --install', then try again"
    fi
    local thing manager
    for thing in "$@"; do
        if [ "$thing" = server ]; then
            case $server in
                redis-server | valkey-server) ;;
                *) die "no such server: '$server' (SERVER is a command on the PATH or the path of one)" ;;
            esac
        fi
    done
    manager=$(find_manager) || die "install these by hand, no known package manager is here: $*"

    local packages=''
    for thing in "$@"; do packages="$packages $(package "$manager" "$thing")"; done
    packages=${packages# }
    if [ "$manager" != brew ] && [ "$(id -u)" -ne 0 ] && ! has sudo; then
        die "root rights are needed, and sudo is not here. As root, install with $manager: $packages"
    fi
    say "installing with $manager: $packages"
    # Unquoted on purpose: a list of words.
    # shellcheck disable=SC2086
    install_packages "$manager" $packages || die "$manager could not install: $packages"

    hash -r
    for thing in "$@"; do
        "has_$thing" || die "still missing after the installation: $(describe "$thing")"
    done
}

find_manager() {
    local manager
    for manager in apt-get dnf yum apk pacman zypper brew; do
        if has "$manager"; then
            echo "$manager"
            return
        fi
    done
    return 1
}

has_curl() { has curl; }
has_faketime() { any_file /usr/lib/*/faketime/libfaketime.so.1; }
has_valgrind() { has valgrind; }
has_binutils() { has objdump && has strip; }

describe() {
    case $1 in
        cc) echo 'a C compiler with the C library headers (cc)' ;;
        cxx) echo 'a C++ compiler with the C++ library headers (c++)' ;;
        libclang) echo 'libclang (if it is in an unusual place, set LIBCLANG_PATH to its folder)' ;;
        server) echo "$server (if the distribution has the other one, set SERVER=valkey-server or SERVER=redis-server)" ;;
        python) echo 'python3 with venv' ;;
        node) echo 'Node.js with npm' ;;
        go) echo 'Go' ;;
        java) echo 'a Java development kit (javac)' ;;
        maven) echo 'Maven (mvn)' ;;
        exporter) echo 'redis_exporter' ;;
        *) echo "$1" ;;
    esac
}

# The packages that bring a thing, by manager.
package() {
    case $1:$2 in
        apt-get:cc) echo gcc libc6-dev ;;
        apt-get:cxx | apk:cxx) echo g++ ;;
        dnf:cxx | yum:cxx | zypper:cxx) echo gcc-c++ ;;
        apt-get:libclang) echo libclang-dev ;;
        apt-get:server) echo "$server" ;;
        apt-get:python) echo python3 python3-venv ;;
        brew:node) echo node ;;
        *:node) echo nodejs npm ;;
        apt-get:go) echo golang-go ;;
        dnf:go | yum:go) echo golang ;;
        apt-get:exporter) echo prometheus-redis-exporter ;;
        *:exporter) echo redis_exporter ;;
        apt-get:java) echo default-jdk-headless ;;
        dnf:java | yum:java) echo java-latest-openjdk-devel ;;
        apk:java) echo openjdk17-jdk ;;
        pacman:java) echo jdk-openjdk ;;
        zypper:java) echo java-17-openjdk-devel ;;
        apt-get:faketime) echo libfaketime ;;
        apt-get:curl) echo curl ca-certificates ;;
        dnf:libclang | yum:libclang | zypper:libclang) echo clang-devel ;;
        apk:cc) echo gcc musl-dev ;;
        apk:libclang) echo clang-dev ;;
        pacman:libclang) echo clang ;;
        pacman:server) echo valkey ;; # brings redis-server as another name of itself
        brew:libclang) echo llvm ;;
        *:cc | *:cxx) echo gcc ;;
        *:server) echo "${server%-server}" ;;
        *:python) echo python3 ;;
        *:*) echo "$2" ;;
    esac
}

install_packages() {
    local manager=$1
    shift
    case $manager in
        apt-get) install_with_apt "$@" ;;
        dnf | yum) as_root "$manager" install -y -q "$@" ;;
        apk) as_root apk add --quiet "$@" ;;
        pacman)
            # Fetches the package lists only where there are none: newer lists alone would mix releases.
            any_file /var/lib/pacman/sync/*.db || as_root pacman -Sy --noconfirm || return
            as_root pacman -S --needed --noconfirm "$@"
            ;;
        zypper) as_root zypper --non-interactive --quiet install "$@" ;;
        brew) brew install --quiet "$@" ;;
    esac </dev/null
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# Debian's packages start a server at once, and again at every boot, where systemd runs. Nobody asked
# for that one, and it would take port 6379: it is kept from starting and its service is disabled.
install_with_apt() {
    local policy=/usr/sbin/policy-rc.d status=0
    if [ -e "$policy" ]; then
        policy=''
    else
        # Expanded now on purpose: the trap outlives this function.
        # shellcheck disable=SC2064
        trap "as_root rm -f $policy" EXIT
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
        as_root chmod 755 "$policy"
    fi

    # A third-party list that fails to update is no reason to stop.
    as_root apt-get update -qq || say "apt-get update failed; trying with the lists that are here"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 "$@" >/dev/null || status=$?

    if [ -n "$policy" ]; then
        as_root rm -f "$policy"
        trap - EXIT
        case " $* " in
            *" $server "*) if has systemctl; then as_root systemctl disable --quiet "$server" || true; fi ;;
        esac
    fi
    return "$status"
}

# ---- Rust ----------------------------------------------------------------------------------------

install_rust() {
    if has rustup; then
        say "updating the stable Rust toolchain (the crate needs Rust $(wanted_rust))"
        rustup toolchain install stable --profile minimal --no-self-update </dev/null >&2 ||
            die "rustup could not install the stable toolchain"
    else
        say "installing Rust with rustup, into $cargo_bin"
        local installer
        installer=$(mktemp)
        # The whole file first: a download that is cut off must not run half an installer.
        if ! curl --proto '=https' --tlsv1.2 --fail --silent --show-error --location \
            --retry 3 --output "$installer" https://sh.rustup.rs; then
            rm -f "$installer"
            die "could not download rustup; install Rust $(wanted_rust) or later by hand (https://rustup.rs)"
        fi
        # An older cargo of the system may stay beside it; shell profiles are left alone.
        RUSTUP_INIT_SKIP_PATH_CHECK=yes sh "$installer" -y --quiet --profile minimal --no-modify-path \
            </dev/null >&2 || {
            rm -f "$installer"
            die "rustup's installer failed"
        }
        rm -f "$installer"
    fi
    hash -r
    has_cargo || die "the active toolchain is older than Rust $(wanted_rust): $(cargo --version 2>&1 | head -n 1);" \
        "look at 'rustup show' (RUSTUP_TOOLCHAIN, an override or another default may choose it)"
}

install_lint_tools() {
    local missing=''
    cargo fmt --version >/dev/null 2>&1 || missing=rustfmt
    cargo clippy --version >/dev/null 2>&1 || missing="$missing clippy"
    [ -n "$missing" ] || return 0
    has rustup || die "missing beside this cargo, which is not rustup's:$missing"
    # Unquoted on purpose: a list of words.
    # shellcheck disable=SC2086
    rustup component add $missing </dev/null >&2 || die "rustup could not add: $missing"
}

# Sanitizers, and the fuzzer's eyes in the code, are in the nightly compiler only.
install_nightly() {
    if cargo +nightly --version >/dev/null 2>&1; then return 0; fi
    has rustup || die "the nightly toolchain is needed, and this cargo is not rustup's (https://rustup.rs)"
    say 'installing the nightly Rust toolchain'
    rustup toolchain install nightly --profile minimal --no-self-update </dev/null >&2 ||
        die 'rustup could not install the nightly toolchain'
}

install_cargo_fuzz() {
    if cargo fuzz --version >/dev/null 2>&1; then return 0; fi
    say 'installing cargo-fuzz'
    cargo install cargo-fuzz --locked --quiet </dev/null >&2 || die 'cargo could not install cargo-fuzz'
    hash -r
}

# Cargo's tools, in fixed versions.
install_tools() {
    local tool installed
    installed=$(cargo install --list)
    for tool in "$@"; do
        case $installed in *"${tool%@*} v${tool#*@}:"*) continue ;; esac
        say "installing $tool"
        # By force, since cargo does not replace a program that it has no record of, such as a copied one.
        cargo install "$tool" --locked --quiet --force </dev/null >&2 || die "cargo could not install $tool"
    done
    hash -r
}

main "$@"
