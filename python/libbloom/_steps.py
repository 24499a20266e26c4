"""What is sent to a server, without a connection: names of keys, items as words of commands, and the replies read.

The methods that talk to a server are generators of steps, which `_cluster.run` and `run_async` drive.
"""

from __future__ import annotations

import binascii
import os
from collections.abc import Generator, Iterable, Iterator
from typing import Any

Command = tuple[Any, ...]
Steps = Generator[tuple[Any, ...], Any, Any]

# Bytes of packed items in a command, and the number of commands that are under way at once.
PIECE, DEPTH = 1 << 20, 4
TYPES = (b"none", b"MBbloom--", b"bloomfltr")


def encoded(word: str | bytes) -> bytes:
    if isinstance(word, str):
        return word.encode()
    if isinstance(word, bytes):
        return word
    raise TypeError(f"items and keys are str or bytes, not {type(word).__name__}")


def slot(key: bytes) -> int:
    """The slot of a key in a cluster."""
    begin = key.find(b"{")
    end = key.find(b"}", begin + 1) if begin >= 0 else -1
    return binascii.crc_hqx(key[begin + 1 : end] if end > begin + 1 else key, 0) % 16384


def beside(key: bytes, end: bytes) -> bytes:
    """A name that ends in `end` and is in the slot of `key`."""
    for name in (key + end, b"{" + key + b"}" + end):
        if slot(name) == slot(key):
            return name
    # The key has braces that no tag can repeat, as in "a}b". One number in 16,384 is in its slot.
    number = 0
    while slot(b"{%d}" % number) != slot(key):
        number += 1
    return b"{%d}" % number + key + end


def temporary(key: bytes) -> bytes:
    """A name that is not in use, in the slot of the key."""
    return beside(key, b":libbloom:" + os.urandom(8).hex().encode())


def is_array(items: Any) -> bool:
    return hasattr(items, "dtype") and hasattr(items, "tobytes")


def pieces(items: Any, most: int = PIECE) -> Iterator[tuple[int, Command]]:
    """Items as words for packed commands, of about so many bytes: how many there are, and the words."""
    if isinstance(items, (str, bytes, bytearray)):
        raise TypeError("items are an iterable of str or bytes: for one item there is add()")
    if is_array(items):
        items = items.ravel()
        width = items.dtype.itemsize
        if items.dtype.kind not in "SUO" and width:
            count = max(1, most // width)
            for begin in range(0, len(items), count):
                some = items[begin : begin + count]
                yield len(some), ("WIDTH", width, some.tobytes())
            return
        items = items.tolist() if width else [b""] * len(items)
    some, size = [], 0
    for item in items:
        data = encoded(item)
        some += (len(data).to_bytes(4, "little"), data)
        size += 4 + len(data)
        if size >= most:
            yield len(some) // 2, ("PREFIXED", b"".join(some))
            some, size = [], 0
    if some:
        yield len(some) // 2, ("PREFIXED", b"".join(some))


def bits(bitmap: bytes, count: int) -> list[bool]:
    """The first bits of a bitmap, the highest of each byte first."""
    if len(bitmap) != (count + 7) // 8:
        raise ValueError(f"the server's answer to {count:,} items has {len(bitmap):,} bytes")
    number = int.from_bytes(bitmap, "big") | 1 << 8 * len(bitmap)
    return [bit == "1" for bit in bin(number)[3 : 3 + count]]


def fields(reply: Any) -> dict[str, Any]:
    """A map of RESP3, or a flat array of RESP2, with names as str."""
    pairs: Iterable[tuple[Any, Any]] = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2])
    return {encoded(name).decode(): value for name, value in pairs}
