"""Writes python/vectors: what a client of sharded filters in any language can be checked with. docs/sharding.md
describes them.

    python sharded_vectors.py FOLDER

The files in python/vectors are for ever: a change of them is a change of the layout. New ones may be added.
"""

import json
import sys
from pathlib import Path

from libbloom._sharded import Layout

from vectors import numbered, of_length

FOLDER = Path(__file__).resolve().parents[1] / "vectors"
# BLAKE2b has blocks of 128 bytes.
ITEMS = [b"", "Zürich".encode(), *map(of_length, [1, 8, 127, 128, 129, 255, 256, 257, 1000]), *numbered("item ", 30)]

# name: the arguments of ShardedBloom.create
FILTERS = {
    "one": dict(items=1000, error_rate=0.01, shards=1),
    "seven": dict(items=10**6, error_rate=0.001, shards=7, fixed=True, seed=42),
    "by-size": dict(items=10**10, error_rate=0.001, shards=None),
    "window": dict(items=10**7, error_rate=1e-6, shards=4096, window=86400, slices=4, refresh=True),
    "most": dict(items=10**12, error_rate=0.25, shards=65536, growing=True, expansion=4),
    "classic": dict(items=5, error_rate=0.05, shards=1000, layout="classic"),
}


def vector(name):
    arguments = dict(FILTERS[name])
    named = {word: arguments.pop(word) for word in ("items", "error_rate", "shards")}
    layout = Layout.planned(name.encode(), *named.values(), arguments)
    return {
        "name": name,
        "create": FILTERS[name],
        "meta_key": layout.meta.decode(),
        "meta": {word: str(value) for word, value in layout.fields().items()},
        "reserve": [str(word) for word in layout.reserve()],
        "items": [
            {"item": item.hex(), "shard": layout.shard(item), "key": layout.key(layout.shard(item)).decode()}
            for item in ITEMS
        ],
    }


def text(name):
    return json.dumps(vector(name), indent=1) + "\n"


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILTERS:
        (folder / f"{name}.json").write_text(text(name))
