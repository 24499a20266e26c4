#!/usr/bin/env python3
"""Prints what a crate shows on docs.rs, an item a line in the words of its source, from what rustdoc says in JSON.

    public-api.py target/doc/libbloom.json

A crate's public-api.txt has the last list that was meant so: a line that goes or changes breaks the programs that use
it. A type or a function whose documentation has no example is an error.

Kept tools do not do it: cargo-public-api 0.52 lists no method of a type that libbloom shows from a hidden module (61 lines
of 240) or, with all that is hidden, every function of every module (2,060); cargo-semver-checks makes no list, and compares
with a published version.
"""

import functools
import json
import re
import sys
from pathlib import Path

# What `derive` implements besides, for the compiler alone.
OF_COMPILER = {"StructuralPartialEq", "TrivialClone"}
# Where the head of an item ends; the fields of a struct are items of their own.
ENDS = {"struct": "[{(;]", "constant": " =", "assoc_const": " =", "static": " =", "variant": r"\Z", "struct_field": r"\Z"}

document = json.loads(Path(sys.argv[1]).read_text())
index = document["index"]


def item(number):
    return index.get(str(number))


@functools.cache
def lines(file):
    return Path(file).read_text().split("\n")


def head(found, kind):
    """The source of an item up to its body, in one line and without comments."""
    (first, left), (last, right) = found["span"]["begin"], found["span"]["end"]
    text = lines(found["span"]["filename"])[first - 1 : last]
    text[-1] = text[-1][: right - 1]
    text[0] = text[0][left - 1 :]
    code = " ".join(" ".join(re.sub(r"//.*", "", line) for line in text).split())
    if kind != "variant":
        # As if it stood in one line; whether an argument can be changed inside is nobody's business.
        code = re.sub(r"([(<]) |,? ([)>])|(?<=[( ])mut (?=\w+[:,)])", r"\1\2", code)
    return re.split(ENDS.get(kind, "[{;]"), code, maxsplit=1)[0].strip(" ,").removeprefix("pub ")


def listed(number, within, name=None):
    """The lines of an item, and of all that it has."""
    found = item(number)
    if not found or is_hidden(found):
        return
    kind, inner = next(iter(found["inner"].items()))
    if kind == "use":
        if item(inner["id"]) and not inner["is_glob"]:
            yield from listed(inner["id"], within, inner["name"])
        return
    name = "::".join(filter(None, [within, name or found["name"]]))
    if kind in ("struct", "enum", "function") and "```" not in (found["docs"] or ""):
        bare.add(name)
    is_open = any("non_exhaustive" in str(attribute) for attribute in found["attrs"])
    yield f"{name}: " + (kind if kind == "module" else head(found, kind)) + (" (non-exhaustive)" if is_open else "")
    parts = inner if isinstance(inner, dict) else {}
    shape = parts.get("kind") if kind == "struct" and isinstance(parts.get("kind"), dict) else {}
    fields = shape.get("plain", {}).get("fields") or shape.get("tuple") or []
    for each in [*parts.get("items", []), *parts.get("variants", []), *fields]:
        yield from listed(each, name)
    derived = []
    for block in map(item, parts.get("impls", []) if kind in ("struct", "enum") else []):
        implemented = block and block["inner"]["impl"]
        if not block or implemented["is_synthetic"] or implemented["blanket_impl"]:
            continue
        if not implemented["trait"]:
            for method in [] if is_hidden(block) else implemented["items"]:
                yield from listed(method, name)
        elif any("automatically_derived" in str(attribute) for attribute in block["attrs"]):
            derived.append(implemented["trait"]["path"])
        else:
            yield head(block, "impl")
    if derived := sorted(set(derived) - OF_COMPILER):
        yield f"{name}: derives {', '.join(derived)}"


def is_hidden(found):
    return any("doc(hidden)" in str(attribute) for attribute in found["attrs"])


bare = set()
print(*sorted(set(listed(document["root"], ""))), sep="\n")
if bare:
    sys.exit(f"without an example: {', '.join(sorted(bare))}")
