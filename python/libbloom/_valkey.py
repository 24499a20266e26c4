"""Reads the DUMP payloads of valkey-bloom, which cannot return filters as chunks.

Unlike RESTORE, which refuses payloads of newer servers, this works between all versions. The format of the payload is
the server's for values of modules; that of the filter is valkey-bloom's version 1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

# The beginning of this module's header for a filter in valkey-bloom's layout.
MAGIC = b"BLOOM\0\0\2"
# The head before the bits of a layer.
HEAD = struct.Struct("<BQI32s")
CHUNK_BYTES = 16 << 20


class NoFilter(ValueError):
    """The payload is no filter of valkey-bloom 1."""


def chunks(payload: bytes) -> Iterator[tuple[int, bytes]]:
    """The chunks that BF.SCANDUMP of this module would return for the filter in a payload."""
    try:
        layers, header = _unpacked(payload)
    except (IndexError, ValueError, struct.error) as error:
        raise NoFilter(str(error)) from None
    yield 1, header
    position = 1
    for bits in layers:
        for start in range(0, len(bits), CHUNK_BYTES):
            part = bits[start : start + CHUNK_BYTES]
            position += len(part)
            yield position, part


def _unpacked(payload: bytes) -> tuple[list[bytes], bytes]:
    """The bits of each layer, and a chunk header."""
    saved = Saved(payload)
    count, expansion, error, tightening = (saved.value() for _ in range(4))
    saved.value()  # Whether the seed is a random one, which the seed tells too.
    heads, layers, capacities = [], [], []
    for _ in range(count):
        layer = saved.value()
        heads.append(HEAD.unpack_from(layer))
        layers.append(layer[HEAD.size :])
        capacities.append(saved.value())
    items = [*capacities[:-1], saved.value()]
    header = MAGIC + struct.pack("<IIddI", 0, count, error, tightening, expansion) + heads[0][3]
    for capacity, number, bits in zip(capacities, items, layers):
        header += struct.pack("<QQQ", capacity, number, len(bits))
    return layers, header


class Saved:
    """The values that a module saved, out of a payload of DUMP."""

    # The first byte of a payload, and the encoding version in the lowest bits of the type's number.
    MODULE_TYPE, VERSION = 7, 1
    UNSIGNED, DOUBLE, STRING = 2, 4, 5
    COMPRESSED = 0xC3

    def __init__(self, payload: bytes) -> None:
        self.payload = memoryview(payload)
        self.at = 1
        version = self.number() & 1023
        if payload[0] != self.MODULE_TYPE or version != self.VERSION:
            raise ValueError(f"a value of type {payload[0]} and version {version}")

    def take(self, count: int) -> memoryview:
        self.at += count
        return self.payload[self.at - count : self.at]

    def number(self) -> int:
        """Reads a number of 1, 2, 5 or 9 bytes, as the first byte says."""
        first = self.take(1)[0]
        if first < 0x40:
            return first
        if first < 0x80:
            return (first & 0x3F) << 8 | self.take(1)[0]
        if first not in (0x80, 0x81):
            raise ValueError(f"a number that begins with {first:#x}")
        return int.from_bytes(self.take(4 if first == 0x80 else 8), "big")

    def value(self) -> Any:
        kind = self.number()
        if kind == self.UNSIGNED:
            return self.number()
        if kind == self.DOUBLE:
            return struct.unpack("<d", self.take(8))[0]
        if kind != self.STRING:
            raise ValueError(f"a value of kind {kind}")
        if self.payload[self.at] != self.COMPRESSED:
            return bytes(self.take(self.number()))
        self.at += 1
        packed_bytes, length = self.number(), self.number()
        return decompressed(self.take(packed_bytes), length)


def decompressed(packed_bytes: memoryview, length: int) -> bytes:
    """Decompresses LZF: runs of bytes, and references to bytes that came before."""
    out, at = bytearray(), 0
    while at < len(packed_bytes):
        control = packed_bytes[at]
        at += 1
        if control < 32:
            out += packed_bytes[at : at + control + 1]
            at += control + 1
            continue
        count = control >> 5
        if count == 7:
            count += packed_bytes[at]
            at += 1
        start = len(out) - ((control & 31) << 8) - packed_bytes[at] - 1
        at += 1
        count += 2
        if not 0 <= start < len(out):
            raise ValueError("a reference to what is not there")
        # A reference may reach into the bytes that it makes: then they repeat.
        found = out[start : start + count]
        out += (found * (count // len(found) + 1))[:count]
    if len(out) != length:
        raise ValueError(f"{len(out)} bytes instead of {length}")
    return bytes(out)
