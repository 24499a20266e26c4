#!/usr/bin/env python3
"""Prints what a crate shows on docs.rs, an item a line, from what rustdoc says in JSON.

    public-api.py target/doc/libbloom.json

A crate's public-api.txt has the last list that was meant so: a line that goes or changes breaks the programs that use
it. A type or a function whose documentation has no example is an error.

cargo-public-api would not do: of a type that libbloom shows from a hidden module it lists no method, or, with all that is
hidden, every function of every module.
"""

import json
import sys
from pathlib import Path

# What `derive` implements besides, for the compiler alone.
OF_COMPILER = ("StructuralPartialEq", "TrivialClone")

document = json.loads(Path(sys.argv[1]).read_text())
index = document["index"]


def item(number):
    return index.get(str(number))


def commas(parts):
    return ", ".join(parts)


def arguments(args):
    """What follows a path: `<'a, T, Item = U>`, `(A) -> B`, or nothing."""
    if not args:
        return ""
    if "parenthesized" in args:
        inputs, output = args["parenthesized"]["inputs"], args["parenthesized"]["output"]
        return f"({commas(map(typed, inputs))})" + (f" -> {typed(output)}" if output else "")
    inner = args["angle_bracketed"]
    parts = []
    for arg in inner["args"]:
        kind, value = next(iter(arg.items())) if isinstance(arg, dict) else (arg, "_")
        parts.append({"lifetime": str, "type": typed, "const": lambda const: const["expr"]}.get(kind, str)(value))
    for constraint in inner["constraints"]:
        kind, value = next(iter(constraint["binding"].items()))
        bound = f" = {typed(value['type'])}" if kind == "equality" and "type" in value else f": {bounds(value)}"
        parts.append(constraint["name"] + arguments(constraint["args"]) + bound)
    return f"<{commas(parts)}>" if parts else ""


def path(value):
    return value["path"].replace("crate::", "") + arguments(value["args"])


def bounds(values):
    parts = []
    for bound in values:
        kind, value = next(iter(bound.items()))
        if kind == "trait_bound":
            question = "?" if value["modifier"] == "maybe" else ""
            parts.append(question + higher(value["generic_params"]) + path(value["trait"]))
        elif kind == "outlives":
            parts.append(value)
        else:
            parts.append(f"use<{commas(str(next(iter(arg.values()))) for arg in value)}>")
    return " + ".join(parts)


def higher(parameters):
    return f"for<{commas(parameter['name'] for parameter in parameters)}> " if parameters else ""


def typed(value):
    if not isinstance(value, dict):
        return "_"
    kind, inner = next(iter(value.items()))
    match kind:
        case "resolved_path":
            return path(inner)
        case "generic" | "primitive":
            return inner
        case "borrowed_ref":
            lifetime = f"{inner['lifetime']} " if inner["lifetime"] else ""
            return f"&{lifetime}{'mut ' if inner['is_mutable'] else ''}{typed(inner['type'])}"
        case "raw_pointer":
            return f"*{'mut' if inner['is_mutable'] else 'const'} {typed(inner['type'])}"
        case "tuple":
            return f"({commas(map(typed, inner))})"
        case "slice":
            return f"[{typed(inner)}]"
        case "array":
            return f"[{typed(inner['type'])}; {inner['len']}]"
        case "impl_trait":
            return f"impl {bounds(inner)}"
        case "dyn_trait":
            traits = " + ".join(higher(each["generic_params"]) + path(each["trait"]) for each in inner["traits"])
            return f"dyn {traits}" + (f" + {inner['lifetime']}" if inner["lifetime"] else "")
        case "qualified_path":
            of = f"<{typed(inner['self_type'])} as {path(inner['trait'])}>" if inner["trait"] else typed(inner["self_type"])
            return f"{of}::{inner['name']}"
        case "function_pointer":
            return "fn" + signature(inner["sig"])
    raise ValueError(f"a type of another kind: {kind}")


def signature(sig):
    inputs = [f"{name}: {typed(kind)}" if name != "self" else itself(kind) for name, kind in sig["inputs"]]
    return f"({commas(inputs)})" + (f" -> {typed(sig['output'])}" if sig["output"] else "")


def itself(kind):
    return {"Self": "self", "&Self": "&self", "&mut Self": "&mut self"}.get(typed(kind), f"self: {typed(kind)}")


def generics(value):
    """The parameters, and the conditions on them."""
    parts, conditions = [], []
    for parameter in value["params"]:
        kind, inner = next(iter(parameter["kind"].items()))
        if kind == "type" and not inner["is_synthetic"]:
            limit = bounds(inner["bounds"])
            parts.append(parameter["name"] + (f": {limit}" if limit else ""))
        elif kind == "lifetime":
            parts.append(parameter["name"])
        elif kind == "const":
            parts.append(f"const {parameter['name']}: {typed(inner['type'])}")
    for predicate in value["where_predicates"]:
        kind, inner = next(iter(predicate.items()))
        if kind == "bound_predicate":
            conditions.append(f"{typed(inner['type'])}: {bounds(inner['bounds'])}")
        else:
            conditions.append(json.dumps(inner))
    return (f"<{commas(parts)}>" if parts else "", f" where {commas(conditions)}" if conditions else "")


def listed(number, within, name=None):
    """The lines of an item, and of all that it has."""
    found = item(number)
    if not found or is_hidden(found):
        return
    kind, inner = next(iter(found["inner"].items()))
    name = "::".join(filter(None, [within, name or found["name"]]))
    if kind in ("struct", "enum", "function") and "```" not in (found["docs"] or ""):
        bare.add(name)
    parameters, conditions = generics(inner["generics"]) if isinstance(inner, dict) and "generics" in inner else ("", "")
    match kind:
        case "use":
            if item(inner["id"]) and not inner["is_glob"]:
                yield from listed(inner["id"], within, inner["name"])
        case "module":
            yield f"mod {name}"
            for each in inner["items"]:
                yield from listed(each, name)
        case "function":
            yield f"{'const ' if inner['header']['is_const'] else ''}fn {name}{parameters}{signature(inner['sig'])}{conditions}"
        case "struct":
            yield f"struct {name}{parameters}{conditions}{exhaustive(found)}"
            shape = inner["kind"]
            shape = shape.get("plain", {}).get("fields") or shape.get("tuple") if isinstance(shape, dict) else None
            for each in shape or []:
                yield from listed(each, name)
        case "enum":
            yield f"enum {name}{parameters}{conditions}{exhaustive(found)}"
            for each in inner["variants"]:
                yield from listed(each, name)
        case "variant":
            shape = inner["kind"]
            if isinstance(shape, str):
                yield f"variant {name}"
            elif "tuple" in shape:
                fields = (typed(item(each)["inner"]["struct_field"]) for each in shape["tuple"])
                yield f"variant {name}({commas(fields)})"
            else:
                fields = (item(each) for each in shape["struct"]["fields"])
                fields = (f"{each['name']}: {typed(each['inner']['struct_field'])}" for each in fields)
                yield f"variant {name} {{ {commas(fields)} }}"
        case "struct_field":
            yield f"field {name}: {typed(inner)}"
        case "constant":
            yield f"const {name}: {typed(inner['type'])}"
        case "assoc_const":
            yield f"const {name}: {typed(inner['type'])}"
        case "static":
            yield f"static {name}: {typed(inner['type'])}"
        case "type_alias":
            yield f"type {name}{parameters} = {typed(inner['type'])}"
        case "assoc_type":
            yield f"type {name}{parameters}" + (f": {bounds(inner['bounds'])}" if inner["bounds"] else "")
        case "trait":
            yield f"trait {name}{parameters}{': ' if inner['bounds'] else ''}{bounds(inner['bounds'])}{conditions}"
            for each in inner["items"]:
                yield from listed(each, name)
        case "macro" | "proc_macro":
            yield f"macro {name}"
        case _:
            raise ValueError(f"an item of another kind: {kind}")
    for each in inner.get("impls", []) if isinstance(inner, dict) and kind in ("struct", "enum") else []:
        block = item(each)
        implemented = block and block["inner"]["impl"]
        if not block or implemented["is_synthetic"] or implemented["blanket_impl"]:
            continue
        if implemented["trait"] and implemented["trait"]["path"] in OF_COMPILER:
            continue
        if implemented["trait"]:
            yield f"impl {path(implemented['trait'])} for {name}"
        elif not is_hidden(block):
            for method in implemented["items"]:
                yield from listed(method, name)


def is_hidden(found):
    return any("doc(hidden)" in str(attribute) for attribute in found["attrs"])


def exhaustive(found):
    return " (non-exhaustive)" if any("non_exhaustive" in str(attribute) for attribute in found["attrs"]) else ""


bare = set()
print(*sorted(set(listed(document["root"], ""))), sep="\n")
if bare:
    sys.exit(f"without an example: {commas(sorted(bare))}")
