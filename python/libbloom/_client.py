"""`Bloom` and `AsyncBloom`: a filter in a server, with its commands as methods."""

from __future__ import annotations

import operator
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from . import _answers, _words
from ._answers import MAYBE_NEW, Count, Maybe, MissingError, UnsureError
from ._cluster import AsyncLinks, Call, Links, delivered, run
from ._native import Filter, size_of_header
from ._words import Command, encoded
from ._terminal import Bar

Item = str | bytes | bytearray | memoryview
Progress = Callable[[int], None]
# Items in each command that lists its items.
LISTED = 1000
# Seconds for which a server that does not answer is tried again.
PATIENCE = 5.0
# Milliseconds after which a half pushed filter expires, if the program that pushes it has ended.
LEFT_OVER = 600_000

# What may be sent twice: an answer can be lost. An error is returned as it came, without the place in the script.
CREATE = """
if redis.call('EXISTS', KEYS[1]) == 0 then
    local made = redis.pcall('BF.LOADCHUNK', KEYS[1], 1, ARGV[1])
    if made.err then return made end
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""
FINISH = """
local type = redis.call('TYPE', KEYS[2]).ok
if type ~= 'none' and type ~= 'MBbloom--' and type ~= 'bloomfltr' then
    return redis.error_reply('WRONGTYPE the key holds ' .. type .. ', which is no filter')
end
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local left = redis.call('PTTL', KEYS[2])
if left >= 0 then
    redis.call('PEXPIRE', KEYS[1], math.max(left, 1))
else
    redis.call('PERSIST', KEYS[1])
end
redis.call('RENAME', KEYS[1], KEYS[2])
return 1
"""
COPY = """
local made = redis.pcall('COPY', KEYS[1], KEYS[2])
if type(made) == 'table' then return made end
return redis.call('PEXPIRE', KEYS[2], ARGV[1])
"""


@dataclass(frozen=True)
class Layer:
    """A layer of a filter in a server."""

    layout: str
    capacity: int
    items: int
    bytes: int
    bits_set: int
    probes: int
    lines: int | None
    error_rate: float
    opens: int | None = None
    closes: int | None = None


@dataclass(frozen=True)
class Info:
    """The figures of a filter in a server."""

    capacity: int
    size_in_bytes: int
    layers: int
    items: int
    expansion: int | None
    error_rate: float
    layout: str
    seed: str | None
    bits_set: int
    fill_ratio: float
    estimated_error_rate: float
    exceptions: int
    window: int | None
    slices: int | None
    refresh: bool | None
    newest_layers: tuple[Layer, ...]


def _text(value: Any) -> str | None:
    return None if value is None else encoded(value).decode()


def _int(value: Any) -> int | None:
    return None if value is None else int(value)


def _layer(reply: Any) -> Layer:
    it = _words.fields(reply)
    return Layer(
        layout=_text(it["Layout"]) or "",
        capacity=int(it["Capacity"]),
        items=int(it["Items"]),
        bytes=int(it["Bytes"]),
        bits_set=int(it["Bits set"]),
        probes=int(it["Probes"]),
        lines=_int(it["Lines"]),
        error_rate=float(it["Error rate"]),
        opens=_int(it.get("Opens")),
        closes=_int(it.get("Closes")),
    )


def _info(reply: Any) -> Info:
    it = _words.fields(reply)
    refresh = it.get("Refresh")
    return Info(
        capacity=int(it["Capacity"]),
        size_in_bytes=int(it["Size"]),
        layers=int(it["Number of filters"]),
        items=int(it["Number of items inserted"]),
        expansion=_int(it["Expansion rate"]),
        error_rate=float(it["Error rate"]),
        layout=_text(it["Layout"]) or "",
        seed=_text(it["Seed"]),
        bits_set=int(it["Bits set"]),
        fill_ratio=float(it["Fill ratio"]),
        estimated_error_rate=float(it["Estimated error rate"]),
        exceptions=int(it["Exceptions"]),
        window=_int(it.get("Window")),
        slices=_int(it.get("Slices")),
        refresh=None if refresh is None else bool(refresh),
        newest_layers=tuple(map(_layer, it["Layers"])),
    )


def whole(value: Any) -> Any:
    """A number as a whole one, also 1e6 or one of numpy, as `Filter` takes it. None and texts as they are."""
    if value is None or isinstance(value, (str, bytes)):
        return value
    if not hasattr(value, "is_integer"):
        return int(operator.index(value))
    if not value.is_integer():
        raise ValueError(f"{value} is no whole number")
    return int(value)


def words_of(
    fixed: bool = False,
    growing: bool = False,
    expansion: int | None = None,
    seed: int | None = None,
    layout: str | None = None,
    window: int | None = None,
    slices: int | None = None,
    refresh: bool = False,
) -> list[Any]:
    """The options of `Filter` as words of the commands."""
    words: list[Any] = []
    for word, value in [
        ("EXPANSION", expansion),
        ("WINDOW", window),
        ("SLICES", slices),
        ("SEED", seed),
        ("LAYOUT", layout),
    ]:
        if value is not None:
            words += (word, whole(value))
    return words + [word for word, is_set in [("NONSCALING", fixed), ("GROWING", growing), ("REFRESH", refresh)] if is_set]


@contextmanager
def progress_of(name: str, items: Any, progress: Progress | None) -> Iterator[Progress]:
    """The function to call with the number of items that are done: the caller's, or a bar if there is a terminal."""
    if progress is not None or sys.stderr is None or not sys.stderr.isatty():
        yield progress or (lambda done: None)
        return
    total = getattr(items, "size", None) if _words.is_array(items) else None
    if total is None and hasattr(items, "__len__"):
        total = len(items)
    with Bar(name, total) as bar:
        yield bar


def in_array(items: Any, answers: list[Any]) -> Any:
    """Answers in the form of the items: an array for a numpy array, but for one of str or objects; otherwise a list."""
    if not _words.is_array(items) or items.dtype.kind in _words.TEXTS:
        return answers
    import numpy

    return numpy.array(answers, dtype=bool)


class Caller:
    """Delivers commands, for the classes that have a client."""

    _links: type[Links] = Links

    def __init__(self, client: Any, patience: float, replicas: int = 0) -> None:
        self.client = client
        self.patience = patience
        self.replicas = whole(replicas)

    async def _deliver(self, calls: list[Call], **how: bool) -> list[Any]:
        """The replies to commands; raises the first error among them. How they are delivered, `delivered` says."""
        await self._tried(*calls, **how)
        for call in calls:
            if call.error is not None:
                raise self._raised(call, call.error) from None
        return [call.reply for call in calls]

    async def _tried(self, *calls: Call, **how: bool) -> None:
        """Delivers commands; the caller looks at their errors."""
        await delivered(self._links(self.client), list(calls), self.patience, replicas=self.replicas, **how)

    def _raised(self, call: Call, error: Exception) -> Exception:
        """The error to raise for a server's error."""
        raise NotImplementedError

    async def _added(self, call: Call) -> bool | Maybe:
        """The answer to a command that adds an item."""
        [[reply]] = await self._deliver([call], adds=True)
        if isinstance(reply, Exception):
            raise self._raised(call, reply) from None
        return bool(reply) or (MAYBE_NEW if call.is_unsure else False)


def answers_of(call: Call, count: int, adds: bool) -> list[Any]:
    """The answers to packed items."""
    answers: list[Any] = _words.bits(call.reply, count)
    return [answer or MAYBE_NEW for answer in answers] if adds and call.is_unsure else answers


class _Key(Caller):
    """The steps of each method, for both classes."""

    def __init__(
        self,
        client: Any,
        key: Item,
        *,
        capacity: int | None = None,
        error_rate: float | None = None,
        fixed: bool = False,
        growing: bool = False,
        expansion: int | None = None,
        seed: int | None = None,
        layout: str | None = None,
        window: int | None = None,
        slices: int | None = None,
        refresh: bool = False,
        create: bool = True,
        patience: float = PATIENCE,
    ) -> None:
        super().__init__(client, patience)
        self.key = key
        self._name = encoded(key)
        capacity = whole(capacity)
        error_rate = None if error_rate is None else float(error_rate)
        self._size = (error_rate, capacity)
        words = words_of(fixed, growing, expansion, seed, layout, window, slices, refresh)
        self._reserve = tuple(words)
        if capacity is not None:
            words += ("CAPACITY", capacity)
        if error_rate is not None:
            words += ("ERROR", error_rate)
        if not create:
            words.append("NOCREATE")
        self._options = tuple(words)

    def __repr__(self) -> str:
        return f"<libbloom.{type(self).__name__} {self.key!r}>"

    def _raised(self, call: Call, error: Exception) -> Exception:
        if _answers.is_missing(error):
            return _answers.reworded(error, f"not found: there is no filter {call.key.decode(errors='replace')!r}")
        return _answers.of_filter(error, call.command[0])

    def _call(self, name: str, *words: Any) -> Call:
        return Call(self._name, name, self._name, *words)

    async def _one(self, name: str, *words: Any, **how: bool) -> Any:
        [reply] = await self._deliver([self._call(name, *words)], **how)
        return reply

    async def _add(self, item: Item) -> bool | Maybe:
        return await self._added(self._call("BF.INSERT", *self._options, "ITEMS", encoded(item)))

    async def _contains(self, item: Item) -> bool:
        return bool(await self._one("BF.EXISTS", encoded(item)))

    async def _reserved(self, exist_ok: bool) -> None:
        if None in self._size:
            raise ValueError("a filter is made for a capacity and an error_rate")
        end = ("NX",) if exist_ok else ()
        call = self._call("BF.RESERVE", *self._size, *self._reserve, *end)
        try:
            await self._deliver([call], changes=True)
        except Exception as error:
            if call.is_unsure and _answers.is_text(error, "item exists"):
                # Not this error: it would say that another program has made the filter.
                raise UnsureError(f"{self.key!r} exists, and the first answer was lost: it may be new or not") from None
            raise

    async def _update(self, items: Any, progress: Progress | None) -> Count:
        count = Count(0)

        def take(number: int, call: Call) -> None:
            nonlocal count
            count = count.plus(call.counted(number))

        await self._packed(("BF.ADDPACKED", *self._options), items, take, progress, ("COUNT",))
        return count

    async def _add_many(self, items: Any, progress: Progress | None) -> Any:
        return await self._answers(("BF.ADDPACKED", *self._options), items, progress)

    async def _contains_many(self, items: Any, progress: Progress | None) -> Any:
        return await self._answers(("BF.EXISTSPACKED",), items, progress)

    async def _answers(self, before: Command, items: Any, progress: Progress | None) -> Any:
        answers: list[Any] = []

        def take(number: int, call: Call) -> None:
            answers.extend(answers_of(call, number, before[0] == "BF.ADDPACKED"))

        await self._packed(before, items, take, progress)
        return in_array(items, answers)

    async def _packed(
        self, before: Command, items: Any, take: Callable[[int, Call], None], progress: Progress | None, last: Command = ()
    ) -> None:
        """Sends items in pieces, some of them at once; `take` gets the number of items and the call of each."""
        under_way: list[tuple[int, Call]] = []
        done = 0

        async def flush() -> None:
            nonlocal done
            await self._deliver([call for _, call in under_way], adds=before[0] == "BF.ADDPACKED")
            for number, call in under_way:
                take(number, call)
                done += number
            show(done)
            under_way.clear()

        with progress_of(str(self.key), items, progress) as show:
            for number, words in _words.pieces(items):
                under_way.append((number, self._call(*before, *words[:-1], *last, words[-1])))
                if len(under_way) == _words.DEPTH:
                    await flush()
            if under_way:
                await flush()

    async def _except(self, items: Iterable[Item]) -> Count:
        every = [encoded(item) for item in _words.flat(items)]
        excepted = Count(0)
        for begin in range(0, len(every), LISTED):
            call = self._call("BF.EXCEPT", *every[begin : begin + LISTED])
            [reply] = await self._deliver([call], changes=True)
            number = sum(map(bool, reply))
            excepted = excepted.plus(Count(number, (len(reply) - number) * call.is_unsure))
        return excepted

    async def _merge(self, others: tuple[Any, ...], error_rate: float | None, replace: bool) -> None:
        names = [other._name if isinstance(other, _Key) else encoded(other) for other in others]
        rate = () if error_rate is None else ("ERROR", float(error_rate))
        if names:
            await self._one("BF.MERGE", len(names), *names, *rate, *["OVERRIDE"] * replace, changes=True, once=replace)

    async def _shrink(self, capacity: float | None) -> int:
        room = () if capacity is None else ("CAPACITY", whole(capacity))
        return int(await self._one("BF.SHRINK", *room, once=True))

    async def _figures(self) -> Info:
        return _info(await self._one("BF.INFO", "FULL"))

    async def _push(self, filter: Filter) -> None:
        kind = encoded(await self._one("TYPE"))
        if kind not in _words.TYPES:
            raise ValueError(f"the key {self.key!r} holds {kind.decode()}, which is no filter")
        chunks = filter.chunks()
        async with self._draft() as draft:
            await self._loaded(Call(draft, "EVAL", CREATE, 1, draft, chunks[0][1], LEFT_OVER), filter)
            for iterator, data in chunks[1:]:
                expire = Call(draft, "PEXPIRE", draft, LEFT_OVER)
                await self._loaded(Call(draft, "BF.LOADCHUNK", draft, iterator, data), filter, expire)
            await self._finished(Call(draft, "EVAL", FINISH, 2, draft, self._name), chunks)

    @asynccontextmanager
    async def _draft(self) -> AsyncIterator[bytes]:
        """A temporary name for a filter, which is removed after an error."""
        draft = _words.temporary(self._name)
        try:
            yield draft
        except GeneratorExit:
            # The event loop has ended: nothing more can be sent.
            raise
        except BaseException:
            await self._removed(draft)
            raise

    async def _loaded(self, call: Call, filter: Filter, *others: Call) -> None:
        await self._tried(call, *others)
        if _answers.is_unknown(call.error, "BF.LOADCHUNK"):
            raise _answers.reworded(call.error, _answers.lacks("the server", "BF.LOADCHUNK")) from None
        if _answers.is_bad_header(call.error) and call.command[0] == "EVAL" and filter.layout != "classic":
            raise _answers.reworded(call.error, _answers.unreadable("the server", filter.layout, call.error)) from None
        if _answers.is_missing(call.error):
            raise self._vanished() from None
        if call.error is not None:
            raise self._raised(call, call.error) from None

    def _vanished(self) -> MissingError:
        return MissingError(f"what was pushed of {self.key!r} is gone: the server evicted it, was flushed or lost its data")

    async def _finished(self, call: Call, chunks: list[tuple[int, bytes]]) -> None:
        """Gives what was pushed its name."""
        [is_renamed] = await self._deliver([call], changes=True)
        if is_renamed:
            return
        if not call.is_unsure:
            raise self._vanished()
        # The answer to the first attempt was lost. If that was carried out, the key has the chunks.
        with _answers.despite_the_client():
            if await self._dumped(self._name) == chunks:
                return
        raise UnsureError(f"the last answer was lost: {self.key!r} may have been replaced, and has changed since; push it again")

    async def _removed(self, draft: bytes) -> None:
        """Cleaning up after an error goes as far as it can."""
        with _answers.despite_the_client():
            await delivered(self._links(self.client), [Call(draft, "UNLINK", draft)], 0)

    async def _dumped(self, key: bytes) -> list[tuple[int, bytes]]:
        chunks: list[tuple[int, bytes]] = []
        iterator = left = 0
        while True:
            [(following, data)] = await self._deliver([Call(key, "BF.SCANDUMP", key, iterator)])
            if following == 0:
                return chunks
            chunks.append((following, data))
            left = left - len(data) if iterator else size_of_header(data)
            # No filter has such chunks, unless it changed meanwhile. A server could send them for ever.
            if following <= iterator or not data or left < 0:
                return chunks
            iterator = following

    async def _bits_set(self) -> Any:
        """The set bits, as far as the server tells: a merge of classic filters may not show in their header."""
        call = self._call("BF.INFO", "FULL")
        await self._tried(call)
        return None if call.error is not None else _words.fields(call.reply).get("Bits set")

    async def _pull(self) -> Filter:
        before = await self._bits_set()
        chunks = await self._dumped(self._name)
        [_, header] = await self._one("BF.SCANDUMP", 0)
        if not chunks or header != chunks[0][1] or before != await self._bits_set():
            # The filter changed while it was read. A copy of it does not change.
            async with self._draft() as draft:
                copy = Call(draft, "EVAL", COPY, 2, self._name, draft, LEFT_OVER)
                await self._tried(copy)
                if copy.error is not None:
                    why = f"{self.key!r} changes while it is pulled, and cannot be copied in the server ({copy.error})"
                    raise _answers.reworded(copy.error, why) from None
                chunks = await self._dumped(draft)
                await self._removed(draft)
        return Filter.from_chunks(chunks)


class Bloom(_Key):
    """A filter in a server, under a key, by a client of redis-py or valkey-py, single or cluster.

    The first item that is added makes it, with the options that were given; else with the server's own. A filter that
    is there stays as it is. The options are those of `Filter`, and `create=False`: then an add to a filter that is not
    there is an error, where it would make an empty one that has forgotten everything.

    patience: seconds for which a server is tried again that does not answer, loads or fails over. Where that could have
    another outcome than a single try, the answer says so (`MAYBE_NEW`, `Count.maybe`) or there is none (`UnsureError`).
    """

    def reserve(self, *, exist_ok: bool = False) -> None:
        """Makes the filter, empty. If it is there this is an error, or nothing with `exist_ok`."""
        run(self._reserved(exist_ok))

    def add(self, item: Item) -> bool | Maybe:
        """Adds an item. True if it was not in the filter before; MAYBE_NEW, which is as true, where the answer to a first
        attempt was lost."""
        return run(self._add(item))

    def add_many(self, items: Iterable[Item] | Any, *, progress: Progress | None = None) -> Any:
        """Adds all items, and says of each whether it was new, as `add` does: a list, or for a numpy array an array of
        bool, in which MAYBE_NEW is True."""
        return run(self._add_many(items, progress))

    def __contains__(self, item: Item) -> bool:
        return run(self._contains(item))

    def contains(self, item: Item) -> bool:
        """Whether an item is in the filter."""
        return item in self

    def update(self, items: Iterable[Item] | Any, *, progress: Progress | None = None) -> Count:
        """Adds all items of an iterable, or of a numpy array (each element's bytes), and counts those that were new.
        `progress` is called with the number of items that were sent; without it a terminal shows a bar."""
        return run(self._update(items, progress))

    def contains_many(self, items: Iterable[Item] | Any, *, progress: Progress | None = None) -> Any:
        """Whether each item is in the filter, in their order: a list of bool, or for a numpy array an array of bool."""
        return run(self._contains_many(items, progress))

    def except_(self, items: Iterable[Item]) -> Count:
        """Takes items out, until they are added again, and counts those that were there."""
        return run(self._except(items))

    def merge(self, *others: Bloom | Item, error_rate: float | None = None, replace: bool = False) -> None:
        """Adds all items of other filters, or keys, of the same server; in a cluster, of the same slot. With `replace`
        the filter is made of theirs alone, in one moment."""
        run(self._merge(others, error_rate, replace))

    def reset(self) -> None:
        """Takes all items out. Parameters stay."""
        run(self._one("BF.RESET", once=True))

    def shrink(self, capacity: float | None = None) -> int:
        """Makes the filter as small as its items allow, with room for `capacity` items in all, if that is given. Returns
        the bytes that were given back. Raises ResponseError for a filter with a window, or of valkey-bloom's layout."""
        return run(self._shrink(capacity))

    def card(self) -> int:
        """How many items are in the filter."""
        return run(self._one("BF.CARD"))

    def __len__(self) -> int:
        return self.card()

    def __bool__(self) -> bool:
        return True

    def info(self) -> Info:
        """The figures of the filter."""
        return run(self._figures())

    def push(self, filter: Filter) -> None:
        """Makes the key the filter that is given. See `Filter.push`."""
        run(self._push(filter))

    def pull(self) -> Filter:
        """The filter of the key. See `Filter.pull`."""
        return run(self._pull())


class AsyncBloom(_Key):
    """`Bloom` for the asyncio clients of redis-py and valkey-py: every method is awaited, `contains` stands for `in`
    and `card` for `len`."""

    _links = AsyncLinks

    async def reserve(self, *, exist_ok: bool = False) -> None:
        """Makes the filter, empty. If it is there this is an error, or nothing with `exist_ok`."""
        await self._reserved(exist_ok)

    async def add(self, item: Item) -> bool | Maybe:
        """Adds an item. True if it was not in the filter before; MAYBE_NEW, which is as true, where the answer to a first
        attempt was lost."""
        return await self._add(item)

    async def add_many(self, items: Iterable[Item] | Any, *, progress: Progress | None = None) -> Any:
        """Adds all items, and says of each whether it was new, as `add` does: a list, or for a numpy array an array of
        bool, in which MAYBE_NEW is True."""
        return await self._add_many(items, progress)

    async def contains(self, item: Item) -> bool:
        """Whether an item is in the filter."""
        return await self._contains(item)

    async def update(self, items: Iterable[Item] | Any, *, progress: Progress | None = None) -> Count:
        """Adds all items of an iterable, or of a numpy array (each element's bytes), and counts those that were new."""
        return await self._update(items, progress)

    async def contains_many(self, items: Iterable[Item] | Any, *, progress: Progress | None = None) -> Any:
        """Whether each item is in the filter, in their order: a list of bool, or for a numpy array an array of bool."""
        return await self._contains_many(items, progress)

    async def except_(self, items: Iterable[Item]) -> Count:
        """Takes items out, until they are added again, and counts those that were there."""
        return await self._except(items)

    async def merge(self, *others: AsyncBloom | Item, error_rate: float | None = None, replace: bool = False) -> None:
        """Adds all items of other filters, or keys, of the same server; in a cluster, of the same slot. With `replace`
        the filter is made of theirs alone, in one moment."""
        await self._merge(others, error_rate, replace)

    async def reset(self) -> None:
        """Takes all items out. Parameters stay."""
        await self._one("BF.RESET", once=True)

    async def shrink(self, capacity: float | None = None) -> int:
        """Makes the filter as small as its items allow, with room for `capacity` items in all, if that is given. Returns
        the bytes that were given back. Raises ResponseError for a filter with a window, or of valkey-bloom's layout."""
        return await self._shrink(capacity)

    async def card(self) -> int:
        """How many items are in the filter."""
        return await self._one("BF.CARD")

    async def info(self) -> Info:
        """The figures of the filter."""
        return await self._figures()

    async def push(self, filter: Filter) -> None:
        """Makes the key the filter that is given. See `Filter.push`."""
        await self._push(filter)

    async def pull(self) -> Filter:
        """The filter of the key. See `Filter.pull`."""
        return await self._pull()


def push(self: Filter, client: Any, key: Item) -> None:
    """Makes a key of a server this filter, whole: its chunks go under another name first, which expires if the push is
    interrupted. An expiry of the key stays. A key that holds no filter raises ValueError, or the server's error."""
    Bloom(client, key).push(self)


def pull(cls: type[Filter], client: Any, key: Item) -> Filter:
    """The filter of a key of a server. If it changes meanwhile, the server makes a copy, which is read instead."""
    return Bloom(client, key).pull()
