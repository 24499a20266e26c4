# What the scripts that run the integration tests on servers have in common, for them to source. `$me` is what their
# messages begin with.
# shellcheck shell=bash

say() { printf '%s: %s\n' "${me:?}" "$*" >&2; }
die() {
    say "$*"
    exit 1
}

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
