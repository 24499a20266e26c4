"""Bloom filters that are the same bytes in a program, in a file and in a server.

>>> from libbloom import Filter
>>> seen = Filter(1_000_000, 0.001)
>>> seen.add("https://example.com/")
True
>>> "https://example.com/" in seen
True
"""

from . import _client
from ._answers import MAYBE_NEW, Count, Maybe, MissingError, UnsureError
from ._client import AsyncBloom, Bloom, Info, Layer
from ._native import Filter, FormatError, FullError, SeedError, __version__, plan
from ._sharded import AsyncShardedBloom, Shard, ShardedBloom, ShardedInfo

__all__ = [
    "AsyncBloom",
    "AsyncShardedBloom",
    "Bloom",
    "Count",
    "Filter",
    "FormatError",
    "FullError",
    "Info",
    "Layer",
    "MAYBE_NEW",
    "Maybe",
    "MissingError",
    "SeedError",
    "Shard",
    "ShardedBloom",
    "ShardedInfo",
    "UnsureError",
    "__version__",
    "plan",
]

# What needs a server is written in Python, and belongs to the one class.
setattr(Filter, "push", _client.push)
setattr(Filter, "pull", classmethod(_client.pull))
