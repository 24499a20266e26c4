"""What to send to a server, without a connection: generators that yield lists of commands and get their replies.

`run` and `run_async` drive them on any client of redis-py or valkey-py, single or cluster. Our commands
have a space after their names: so these clients do not find the name in their tables, and do not convert the reply. They
send the name without the space. Replies are bytes, whatever `decode_responses` says.
"""

from __future__ import annotations

import binascii
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

from ._native import Filter, FullError

Command = tuple[Any, ...]
Steps = Generator[list[Command], list[Any], Any]

RAW: dict[str, Any] = {"NEVER_DECODE": []}
# Milliseconds after which a half pushed filter expires, if the program that pushes it has ended.
LEFT_OVER = 600_000
# Bytes of packed items in a command, and the number of commands that are under way at once.
PIECE, DEPTH = 1 << 20, 4
# Arrays of numpy that hold objects of Python's, or texts.
TEXTS = "UOT"
TYPES = (b"none", b"MBbloom--", b"bloomfltr")

CREATE = """
redis.call('BF.LOADCHUNK', KEYS[1], 1, ARGV[1])
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""
FINISH = """
local type = redis.call('TYPE', KEYS[2]).ok
if type ~= 'none' and type ~= 'MBbloom--' and type ~= 'bloomfltr' then
    return redis.error_reply('WRONGTYPE the key holds ' .. type .. ', which is no filter')
end
local left = redis.call('PTTL', KEYS[2])
if left >= 0 then
    redis.call('PEXPIRE', KEYS[1], math.max(left, 1))
else
    redis.call('PERSIST', KEYS[1])
end
return redis.call('RENAME', KEYS[1], KEYS[2])
"""
COPY = """
redis.call('COPY', KEYS[1], KEYS[2])
return redis.call('PEXPIRE', KEYS[2], ARGV[1])
"""


def _raw(name: str) -> str:
    """The name of a command in the form for which clients do not convert the reply."""
    return name + " " if name.startswith("BF.") else name


def run(client: Any, steps: Steps) -> Any:
    """Drives `steps` with a client."""
    replies: Any = None
    while True:
        try:
            commands = steps.send(replies)
        except StopIteration as stop:
            return stop.value
        try:
            if len(commands) == 1:
                replies = [client.execute_command(_raw(commands[0][0]), *commands[0][1:], **RAW)]
            else:
                pipeline = client.pipeline(transaction=False)
                for name, *words in commands:
                    pipeline.execute_command(_raw(name), *words, **RAW)
                replies = pipeline.execute()
        except BaseException as error:
            commands = _thrown(steps, error)
            # Cleaning up after an error goes as far as it can.
            while commands:
                try:
                    for name, *words in commands:
                        client.execute_command(_raw(name), *words, **RAW)
                except Exception:
                    pass
                commands = _thrown(steps, error)
            raise


async def run_async(client: Any, steps: Steps) -> Any:
    """Drives `steps` with an asyncio client."""
    replies: Any = None
    while True:
        try:
            commands = steps.send(replies)
        except StopIteration as stop:
            return stop.value
        try:
            if len(commands) == 1:
                replies = [await client.execute_command(_raw(commands[0][0]), *commands[0][1:], **RAW)]
            else:
                pipeline = client.pipeline(transaction=False)
                for name, *words in commands:
                    pipeline.execute_command(_raw(name), *words, **RAW)
                replies = await pipeline.execute()
        except BaseException as error:
            commands = _thrown(steps, error)
            while commands:
                try:
                    for name, *words in commands:
                        await client.execute_command(_raw(name), *words, **RAW)
                except Exception:
                    pass
                commands = _thrown(steps, error)
            raise


def _thrown(steps: Steps, error: BaseException) -> list[Command]:
    """The commands that `steps` still yields after an error, to clean up; none if it ends with the error."""
    try:
        return steps.throw(error)
    except StopIteration:
        return []
    except BaseException as raised:
        if raised is not error:
            raise
        return []


def encoded(word: str | bytes | bytearray | memoryview) -> bytes:
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


def push(filter: Filter, key: str | bytes) -> Steps:
    name = encoded(key)
    [kind] = yield [("TYPE", name)]
    if encoded(kind) not in TYPES:
        raise ValueError(f"the key {key!r} holds {encoded(kind).decode()}, which is no filter")
    other = temporary(name)
    chunks = filter.chunks()
    try:
        yield [("EVAL", CREATE, 1, other, chunks[0][1], LEFT_OVER)]
        for iterator, data in chunks[1:]:
            yield [("BF.LOADCHUNK", other, iterator, data), ("PEXPIRE", other, LEFT_OVER)]
        yield [("EVAL", FINISH, 2, other, name)]
    except GeneratorExit:
        raise
    except BaseException:
        yield [("UNLINK", other)]
        raise


def _dumped(key: bytes) -> Steps:
    chunks: list[tuple[int, bytes]] = []
    iterator = 0
    while True:
        [(iterator, data)] = yield [("BF.SCANDUMP", key, iterator)]
        if iterator == 0:
            return chunks
        chunks.append((iterator, data))


def pull(key: str | bytes) -> Steps:
    name = encoded(key)
    chunks = yield from _dumped(name)
    [(_, header)] = yield [("BF.SCANDUMP", name, 0)]
    if header != chunks[0][1]:
        # The filter changed while it was read. A copy of it does not change.
        other = temporary(name)
        try:
            yield [("EVAL", COPY, 2, name, other, LEFT_OVER)]
            chunks = yield from _dumped(other)
        except GeneratorExit:
            raise
        except BaseException:
            yield [("UNLINK", other)]
            raise
        yield [("UNLINK", other)]
    return Filter.from_chunks(chunks)


def is_array(items: Any) -> bool:
    """Whether it is a numpy array."""
    return hasattr(items, "dtype") and hasattr(items, "tobytes")


def flat(items: Any) -> Any:
    """A numpy array of which each element's bytes are an item, in one dimension and little-endian. One of texts or
    objects as a list of them, and anything else as it is."""
    if isinstance(items, (str, bytes, bytearray, memoryview)):
        raise TypeError("items are an iterable of str or bytes: for one item there is add()")
    if hasattr(items, "columns"):
        raise TypeError("a table has no items, but its columns have: pass one of them")
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
        return array.tolist()
    # The bytes of a time depend on its unit. Records and long doubles may have bytes that nobody set.
    if form.kind not in "biufcSV" or form.names is not None or form.char in "gG":
        raise TypeError(f"elements of type {form} are no items: convert them to numbers or to text")
    if form.itemsize == 0:
        return [b""] * len(array)
    if form.kind in "fc":
        # 0.0 and -0.0 are equal.
        array = array + 0
    return array.astype(form.newbyteorder("<"), copy=False)


def pieces(items: Any, most: int = PIECE) -> Iterator[tuple[int, Command]]:
    """Items as words for packed commands, of about so many bytes: how many there are, and the words."""
    items = flat(items)
    if is_array(items):
        width = items.dtype.itemsize
        if items.dtype.kind != "S":
            count = max(1, most // width)
            for begin in range(0, len(items), count):
                some = items[begin : begin + count]
                yield len(some), ("WIDTH", width, some.tobytes())
            return
        items = items.tolist()
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


def packed(
    before: Command, items: Any, take: Callable[[int, Any], None], progress: Callable[[int], None], count: bool
) -> Steps:
    """Sends items in pieces, some of them at once; `take` gets the number of items and the reply of each."""
    last = ("COUNT",) if count else ()
    under_way: list[tuple[int, Command]] = []
    done = 0

    def flush() -> Steps:
        nonlocal done
        replies = yield [(*before, *words[:-1], *last, words[-1]) for _, words in under_way]
        for (number, _), reply in zip(under_way, replies):
            take(number, reply)
            done += number
        progress(done)
        under_way.clear()

    for piece in pieces(items):
        under_way.append(piece)
        if len(under_way) == DEPTH:
            yield from flush()
    if under_way:
        yield from flush()


def bits(bitmap: bytes, count: int) -> list[bool]:
    """The first bits of a bitmap, the highest of each byte first."""
    number = int.from_bytes(bitmap, "big") | 1 << 8 * len(bitmap)
    return [bit == "1" for bit in bin(number)[3 : 3 + count]]


def raised(error: BaseException) -> BaseException:
    """The error to raise for a server's error: FullError for a full filter, otherwise the error itself."""
    return FullError(str(error)) if "full" in str(error) else error


def fields(reply: Any) -> dict[str, Any]:
    """A map of RESP3, or a flat array of RESP2, with names as str."""
    pairs: Iterable[tuple[Any, Any]] = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2])
    return {encoded(name).decode(): value for name, value in pairs}
