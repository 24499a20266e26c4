"""Bloom filters that are the same bytes in a program, in a file and in a server.

>>> from libbloom import Filter
>>> seen = Filter(1_000_000, 0.001)
>>> seen.add("https://example.com/")
True
>>> "https://example.com/" in seen
True
"""

# Each module uses only those above it:
#
# _native     in Rust: Filter, and whatever must be fast
# _answers    what the answers of servers mean, and our own errors
# _words      what is sent: names of keys, items as words of commands
# _cluster    delivers commands to a server or a cluster, also when answers are lost
# _terminal   lists of items, state files, a bar on a terminal
# _client     Bloom and AsyncBloom: a filter in a server
# _sharded    ShardedBloom and AsyncShardedBloom: a filter over many keys of a cluster
# _server     a server for the program `libbloom`
# _load, _passwords, _migrate, _shard   its commands that need a server
# _program    its command line, and its other commands
from . import _client
from ._answers import MAYBE_NEW, Count, Maybe, MissingError, UnsureError
from ._client import AsyncBloom, Bloom, Info, Layer
from ._native import Filter, FormatError, FullError, SeedError, __version__, plan
from ._sharded import AsyncShardedBloom, Shard, ShardedBloom, ShardedInfo

__all__ = [
    "AsyncBloom", "AsyncShardedBloom", "Bloom", "Count", "Filter", "FormatError", "FullError", "Info", "Layer", "MAYBE_NEW",
    "Maybe", "MissingError", "SeedError", "Shard", "ShardedBloom", "ShardedInfo", "UnsureError", "__version__", "plan",
]

# What needs a server is written in Python, and belongs to the one class.
setattr(Filter, "push", _client.push)
setattr(Filter, "pull", classmethod(_client.pull))
