"""What is sent to a server, without a connection: names of keys, items as words of commands, and the replies read."""

from __future__ import annotations

import binascii
import os
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Protocol

Item = str | bytes | bytearray | memoryview
Command = tuple[Any, ...]

# Texts of an array that become objects of Python's at once.
TEXTS_AT_ONCE = 1000
# Arrays of numpy that hold objects of Python's, or texts.
TEXTS = "UOT"
TYPES = (b"none", b"MBbloom--", b"bloomfltr")


class Array(Protocol):
    """A numpy array, or a column of pandas, polars or pyarrow."""

    def __array__(self, *args: Any, **kwargs: Any) -> Any: ...


Items = Iterable[Item] | Array


def encoded(word: Item) -> bytes:
    if isinstance(word, bytes):
        return word
    if isinstance(word, str):
        return word.encode()
    if isinstance(word, bytearray):
        return bytes(word)
    if isinstance(word, memoryview):
        if word.format not in ("B", "b", "c"):
            raise TypeError("a memoryview as an item must be of bytes: use .cast('B')")
        return word.tobytes()
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
    """Whether it is a numpy array."""
    return hasattr(items, "dtype") and hasattr(items, "tobytes")


def flat(items: Any) -> Any:
    """An array of which each element's bytes are an item, in one dimension and little-endian. One of texts or objects as
    an iterable of them, and anything else as it is."""
    if isinstance(items, (str, bytes, bytearray, memoryview)):
        raise TypeError("items are an iterable of str or bytes: for one item there is add()")
    if hasattr(items, "columns"):
        raise TypeError("a table has no items, but its columns have: pass one of them")
    if hasattr(items, "to_numpy"):
        items = column(items)
    if not is_array(items):
        return items
    import numpy

    if numpy.ma.is_masked(items):
        raise ValueError("some elements of the array are masked: pass array.compressed()")
    array = numpy.asarray(items)
    if array.ndim == 0:
        raise TypeError("an array of items has a dimension: for one item there is add()")
    array, form = array.ravel(), array.dtype
    if form.kind in TEXTS:
        return texts(array)
    # The bytes of a time depend on its unit. Records and long doubles may have bytes that nobody set.
    if form.kind not in "biufcSV" or form.names is not None or form.char in "gG":
        raise TypeError(f"elements of type {form} are no items: convert them to numbers or to text")
    if form.itemsize == 0:
        raise ValueError(f"the elements of the array, of type {form.str}, have no bytes")
    return array.astype(form.newbyteorder("<"), copy=False)


def column(items: Any) -> Any:
    """A column of pandas, polars or pyarrow as an array. It may lack elements, for which these put other values."""
    import numpy

    lacks = numpy.asarray(items.isna() if hasattr(items, "isna") else items.is_null())
    if lacks.any():
        raise ValueError(f"the column has no value at position {lacks.argmax()}: drop such elements, or fill them in")
    return numpy.asarray(items)


def texts(array: Any) -> Iterator[Any]:
    """The elements of an array as objects of Python's."""
    parts = (array[begin : begin + TEXTS_AT_ONCE].tolist() for begin in range(0, len(array), TEXTS_AT_ONCE))
    return chain.from_iterable(parts)


def pieces(items: Any, most: int, begin: int = 0) -> Iterator[tuple[int, Command]]:
    """Items as words for packed commands, of about so many bytes: how many there are, and the words. `begin`: how many
    came before them."""
    items = flat(items)
    if is_array(items):
        width = items.dtype.itemsize
        if items.dtype.kind != "S":
            count = max(1, most // width)
            for begin in range(0, len(items), count):
                some = items[begin : begin + count]
                yield len(some), ("WIDTH", width, some.tobytes())
            return
        items = texts(items)
    some, size = [], 0
    for position, item in enumerate(items, begin):
        try:
            data = encoded(item)
        except TypeError as error:
            raise TypeError(f"{error} (at position {position})") from None
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
    return {encoded(name).decode(errors="replace"): value for name, value in pairs}
