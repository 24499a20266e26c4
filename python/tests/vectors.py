"""Writes core/vectors: what any reader or writer of `.bloom` files can be checked with. docs/file.md describes them.

    python vectors.py FOLDER

The files in core/vectors are for ever: a change of them is a change of the format. New ones may be added.
"""

import base64
import json
import sys
from pathlib import Path

from libbloom import Filter

# Of filters with a window: when the first item is added, the time between two items, and the time of the answers after
# the last one, in seconds.
FIRST, STEP, AFTER = 1_790_000_000, 30, 600
FOLDER = Path(__file__).resolve().parents[2] / "core/vectors"
PROBES = 2000


def numbered(prefix, count):
    return [f"{prefix}{number}".encode() for number in range(count)]


def of_length(length):
    """Bytes of every value, in another order for each length."""
    return bytes((index * (2 * length + 1) + length) % 256 for index in range(length))


# name: (parameters, items, items that are taken out afterwards)
VECTORS = {
    "empty": (dict(capacity=1000, error_rate=0.001, seed=1), [], []),
    "one": (dict(capacity=1, error_rate=0.01, seed=42), [b"item"], []),
    "rate-0.25": (dict(capacity=100, error_rate=0.25, seed=2), numbered("item ", 100), []),
    "rate-1e-6": (dict(capacity=100, error_rate=1e-6, seed=3), numbered("item ", 100), []),
    "rate-1e-30": (dict(capacity=20, error_rate=1e-30, seed=4), numbered("item ", 20), []),
    # XXH3 has a way of its own for each of some ranges of lengths.
    "lengths": (
        dict(capacity=400, error_rate=1e-4, seed=2**64 - 1),
        [of_length(length) for length in [*range(0, 260), 511, 512, 513, 1023, 1024, 1025, 1088, 2049]],
        [],
    ),
    "grown": (dict(capacity=10, error_rate=0.02, seed=5, expansion=3), numbered("item ", 300), []),
    "growing": (dict(capacity=10, error_rate=0.02, seed=6, growing=True), numbered("item ", 150), []),
    "fixed": (dict(capacity=50, error_rate=0.05, seed=7, fixed=True), numbered("item ", 40), []),
    "exceptions": (
        dict(capacity=100, error_rate=0.1, seed=8),
        numbered("item ", 100),
        [b"item 3", b"item 50", b"probe 1"],
    ),
    "classic": (dict(capacity=40, error_rate=0.05, layout="classic"), numbered("item ", 200), []),
    "classic-fixed": (dict(capacity=60, error_rate=0.05, layout="classic", fixed=True), numbered("item ", 50), []),
    "classic-lengths": (
        dict(capacity=60, error_rate=0.01, layout="classic"),
        [of_length(length) for length in [*range(0, 40), 255, 256, 257, 1025]],
        [],
    ),
    "valkey": (dict(capacity=40, error_rate=0.05, layout="valkey", seed=9), numbered("item ", 200), []),
    "valkey-fixed": (
        dict(capacity=60, error_rate=0.05, layout="valkey", seed=2**64 - 1, fixed=True),
        numbered("item ", 50),
        [],
    ),
    "valkey-lengths": (
        dict(capacity=60, error_rate=0.01, layout="valkey", seed=0),
        [of_length(length) for length in [*range(0, 40), 255, 256, 257, 1025]],
        [],
    ),
    # Twice as long as its window, with more items in a slice than were expected.
    "window": (dict(capacity=40, error_rate=0.05, seed=10, window=3600, slices=4), numbered("item ", 250), []),
    # Slices of several layers.
    "window-burst": (dict(capacity=4, error_rate=0.05, seed=12, window=3600, slices=2), numbered("item ", 100), []),
    "window-refresh": (
        dict(capacity=40, error_rate=0.05, seed=11, window=1800, refresh=True),
        numbered("item ", 30) + numbered("item ", 20) * 6,
        [],
    ),
}


def vector(parameters, items, excepted):
    made = Filter(**parameters)
    has_window = "window" in parameters
    time = {}
    if has_window:
        time = {"first": 1000 * FIRST, "step": 1000 * STEP, "now": 1000 * (FIRST + STEP * (len(items) - 1) + AFTER)}
    for number, item in enumerate(items):
        made.add(item, now=FIRST + STEP * number if has_window else None)
    now = time["now"] / 1000 if has_window else None
    if excepted:
        made.except_(excepted)
    probes = numbered("probe ", PROBES)
    return {
        "parameters": parameters,
        **({"time": time} if has_window else {}),
        "items": [item.hex() for item in items],
        "excepted": [item.hex() for item in excepted],
        "items_found": sum(made.contains_many(items, now=now)),
        "probes": {"prefix": "probe ", "count": PROBES},
        "probes_found": [number for number, found in enumerate(made.contains_many(probes, now=now)) if found],
        "file": base64.b64encode(bytes(made)).decode(),
    }


def text(name):
    return json.dumps(vector(*VECTORS[name]), indent=1) + "\n"


if __name__ == "__main__":
    for name in VECTORS:
        Path(sys.argv[1], f"{name}.json").write_text(text(name))
