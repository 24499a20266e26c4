"""`Bloom` and `AsyncBloom`: a filter in a server, with its commands as methods."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from . import _answers, _cluster, _steps
from ._answers import MAYBE_NEW, Count, Maybe, MissingError, UnsureError
from ._cluster import Call
from ._native import Filter
from ._steps import Command, Steps, encoded
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
    it = _steps.fields(reply)
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
    it = _steps.fields(reply)
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
    """A number as a whole one, also 1e6."""
    if not hasattr(value, "is_integer"):
        return value
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
    if progress is not None or not sys.stderr.isatty():
        yield progress or (lambda done: None)
        return
    total = getattr(items, "size", None) if _steps.is_array(items) else None
    if total is None and hasattr(items, "__len__"):
        total = len(items)
    with Bar(name, total) as bar:
        yield bar


def in_array(items: Any, answers: list[Any]) -> Any:
    """Answers in the form of the items: an array for a numpy array, but for one of str or objects; otherwise a list."""
    if not _steps.is_array(items) or items.dtype.kind in _steps.TEXTS:
        return answers
    import numpy

    return numpy.array(answers, dtype=bool)


class Caller:
    """Delivers commands, for the classes that have a client."""

    def __init__(self, client: Any, patience: float, replicas: int = 0) -> None:
        self.client = client
        self.patience = patience
        self.replicas = replicas

    def _deliver(self, calls: list[Call], **how: bool) -> Steps:
        """The replies to commands; raises the first error among them. How they are delivered, `delivered` says."""
        yield from _cluster.delivered(self.client, calls, self.patience, replicas=self.replicas, **how)
        for call in calls:
            if call.error is not None:
                raise self._raised(call, call.error) from None
        return [call.reply for call in calls]

    def _raised(self, call: Call, error: Exception) -> Exception:
        """The error to raise for a server's error."""
        raise NotImplementedError

    def _added(self, call: Call) -> Steps:
        """The answer to a command that adds an item."""
        [[reply]] = yield from self._deliver([call], adds=True)
        if isinstance(reply, Exception):
            raise self._raised(call, reply) from None
        return bool(reply) or (MAYBE_NEW if call.is_unsure else False)


def answers_of(call: Call, count: int, adds: bool) -> list[Any]:
    """The answers to packed items."""
    answers: list[Any] = _steps.bits(call.reply, count)
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
            return _answers.told(error, f"not found: there is no filter {call.key.decode(errors='replace')!r}")
        return _answers.of_filter(error, call.command[0])

    def _call(self, name: str, *words: Any) -> Call:
        return Call(self._name, name, self._name, *words)

    def _one(self, name: str, *words: Any, **how: bool) -> Steps:
        [reply] = yield from self._deliver([self._call(name, *words)], **how)
        return reply

    def _add(self, item: Item) -> Steps:
        return self._added(self._call("BF.INSERT", *self._options, "ITEMS", encoded(item)))

    def _contains(self, item: Item) -> Steps:
        return bool((yield from self._one("BF.EXISTS", encoded(item))))

    def _reserved(self, exist_ok: bool) -> Steps:
        if None in self._size:
            raise ValueError("a filter is made for a capacity and an error_rate")
        end = ("NX",) if exist_ok else ()
        call = self._call("BF.RESERVE", *self._size, *self._reserve, *end)
        try:
            yield from self._deliver([call], changes=True)
        except Exception as error:
            if call.is_unsure and _answers.is_text(error, "item exists"):
                # Not this error: it would say that another program has made the filter.
                raise UnsureError(f"{self.key!r} exists, and the first answer was lost: it may be new or not") from None
            raise

    def _update(self, items: Any, progress: Progress | None) -> Steps:
        count = Count(0)

        def take(number: int, call: Call) -> None:
            nonlocal count
            count = count.plus(call.counted(number))

        yield from self._packed(("BF.ADDPACKED", *self._options), items, take, progress, ("COUNT",))
        return count

    def _add_many(self, items: Any, progress: Progress | None) -> Steps:
        return self._answers(("BF.ADDPACKED", *self._options), items, progress)

    def _contains_many(self, items: Any, progress: Progress | None) -> Steps:
        return self._answers(("BF.EXISTSPACKED",), items, progress)

    def _answers(self, before: Command, items: Any, progress: Progress | None) -> Steps:
        answers: list[Any] = []

        def take(number: int, call: Call) -> None:
            answers.extend(answers_of(call, number, before[0] == "BF.ADDPACKED"))

        yield from self._packed(before, items, take, progress)
        return in_array(items, answers)

    def _packed(
        self, before: Command, items: Any, take: Callable[[int, Call], None], progress: Progress | None, last: Command = ()
    ) -> Steps:
        """Sends items in pieces, some of them at once; `take` gets the number of items and the call of each."""
        under_way: list[tuple[int, Call]] = []
        done = 0

        def flush() -> Steps:
            nonlocal done
            yield from self._deliver([call for _, call in under_way], adds=before[0] == "BF.ADDPACKED")
            for number, call in under_way:
                take(number, call)
                done += number
            show(done)
            under_way.clear()

        with progress_of(str(self.key), items, progress) as show:
            for number, words in _steps.pieces(items):
                under_way.append((number, self._call(*before, *words[:-1], *last, words[-1])))
                if len(under_way) == _steps.DEPTH:
                    yield from flush()
            if under_way:
                yield from flush()

    def _except(self, items: Iterable[Item]) -> Steps:
        every = [encoded(item) for item in _steps.flat(items)]
        excepted = Count(0)
        for begin in range(0, len(every), LISTED):
            call = self._call("BF.EXCEPT", *every[begin : begin + LISTED])
            [reply] = yield from self._deliver([call], changes=True)
            number = sum(map(bool, reply))
            excepted = excepted.plus(Count(number, (len(reply) - number) * call.is_unsure))
        return excepted

    def _merge(self, others: tuple[Any, ...], error_rate: float | None, replace: bool) -> Steps:
        names = [other._name if isinstance(other, _Key) else encoded(other) for other in others]
        rate = () if error_rate is None else ("ERROR", error_rate)
        if names:
            yield from self._one("BF.MERGE", len(names), *names, *rate, *["OVERRIDE"] * replace, changes=True, once=replace)

    def _shrink(self, capacity: float | None) -> Steps:
        room = () if capacity is None else ("CAPACITY", whole(capacity))
        return int((yield from self._one("BF.SHRINK", *room, once=True)))

    def _figures(self) -> Steps:
        return _info((yield from self._one("BF.INFO", "FULL")))

    def _push(self, filter: Filter) -> Steps:
        kind = encoded((yield from self._one("TYPE")))
        if kind not in _steps.TYPES:
            raise ValueError(f"the key {self.key!r} holds {kind.decode()}, which is no filter")
        draft = _steps.temporary(self._name)
        chunks = filter.chunks()
        try:
            yield from self._loaded(Call(draft, "EVAL", CREATE, 1, draft, chunks[0][1], LEFT_OVER), filter)
            for iterator, data in chunks[1:]:
                expire = Call(draft, "PEXPIRE", draft, LEFT_OVER)
                yield from self._loaded(Call(draft, "BF.LOADCHUNK", draft, iterator, data), filter, expire)
            yield from self._finished(Call(draft, "EVAL", FINISH, 2, draft, self._name), chunks)
        except GeneratorExit:
            raise
        except BaseException:
            yield from self._removed(draft)
            raise

    def _loaded(self, call: Call, filter: Filter, *others: Call) -> Steps:
        yield from _cluster.delivered(self.client, [call, *others], self.patience)
        if _answers.is_unknown(call.error, "BF.LOADCHUNK"):
            raise _answers.told(call.error, _answers.lacks("the server", "BF.LOADCHUNK")) from None
        if _answers.is_bad_header(call.error) and call.command[0] == "EVAL" and filter.layout != "classic":
            raise _answers.told(call.error, _answers.unreadable("the server", filter.layout, call.error)) from None
        if _answers.is_missing(call.error):
            raise self._vanished() from None
        if call.error is not None:
            raise self._raised(call, call.error) from None

    def _vanished(self) -> MissingError:
        return MissingError(f"what was pushed of {self.key!r} is gone: the server evicted it, was flushed or lost its data")

    def _finished(self, call: Call, chunks: list[tuple[int, bytes]]) -> Steps:
        """Gives what was pushed its name."""
        [is_renamed] = yield from self._deliver([call], changes=True)
        if is_renamed:
            return
        if not call.is_unsure:
            raise self._vanished()
        # The answer to the first attempt was lost. If that was carried out, the key has the chunks.
        with suppress(Exception):
            if (yield from self._dumped(self._name)) == chunks:
                return
        raise UnsureError(f"the last answer was lost: {self.key!r} may have been replaced, and has changed since; push it again")

    def _removed(self, draft: bytes) -> Steps:
        """Cleaning up after an error goes as far as it can."""
        with suppress(Exception):
            yield from _cluster.delivered(self.client, [Call(draft, "UNLINK", draft)], 0)

    def _dumped(self, key: bytes) -> Steps:
        chunks: list[tuple[int, bytes]] = []
        iterator = 0
        while True:
            [(iterator, data)] = yield from self._deliver([Call(key, "BF.SCANDUMP", key, iterator)])
            if iterator == 0:
                return chunks
            chunks.append((iterator, data))

    def _bits_set(self) -> Steps:
        """The set bits, as far as the server tells: a merge of classic filters may not show in their header."""
        call = self._call("BF.INFO", "FULL")
        yield from _cluster.delivered(self.client, [call], self.patience)
        return None if call.error is not None else _steps.fields(call.reply).get("Bits set")

    def _pull(self) -> Steps:
        before = yield from self._bits_set()
        chunks = yield from self._dumped(self._name)
        [_, header] = yield from self._one("BF.SCANDUMP", 0)
        if not chunks or header != chunks[0][1] or before != (yield from self._bits_set()):
            # The filter changed while it was read. A copy of it does not change.
            draft = _steps.temporary(self._name)
            try:
                copy = Call(draft, "EVAL", COPY, 2, self._name, draft, LEFT_OVER)
                yield from _cluster.delivered(self.client, [copy], self.patience)
                if copy.error is not None:
                    why = f"{self.key!r} changes while it is pulled, and cannot be copied in the server ({copy.error})"
                    raise _answers.told(copy.error, why) from None
                chunks = yield from self._dumped(draft)
            except GeneratorExit:
                raise
            except BaseException:
                yield from self._removed(draft)
                raise
            yield from self._removed(draft)
        return Filter.from_chunks(chunks)


class Bloom(_Key):
    """A filter in a server, under a key, by a client of redis-py or valkey-py, single or cluster.

    The first item that is added makes it, with the options that were given; else with the server's own. A filter that
    is there stays as it is. The options are those of `Filter`, and `create=False`: then an add to a filter that is not
    there is an error, where it would make an empty one that has forgotten everything.

    patience: seconds for which a server is tried again that does not answer, loads or fails over. Where that could have
    another outcome than a single try, the answer says so (`MAYBE_NEW`, `Count.maybe`) or there is none (`UnsureError`).
    """

    def _run(self, steps: Steps) -> Any:
        return _cluster.run(self.client, steps)

    def reserve(self, *, exist_ok: bool = False) -> None:
        """Makes the filter, empty. If it is there this is an error, or nothing with `exist_ok`."""
        self._run(self._reserved(exist_ok))

    def add(self, item: Item) -> bool | Maybe:
        """Adds an item. True if it was not in the filter before; MAYBE_NEW, which is as true, where the answer to a first
        attempt was lost."""
        return self._run(self._add(item))

    def add_many(self, items: Iterable[Item] | Any, *, progress: Progress | None = None) -> Any:
        """Adds all items, and says of each whether it was new, as `add` does: a list, or for a numpy array an array of
        bool, in which MAYBE_NEW is True."""
        return self._run(self._add_many(items, progress))

    def __contains__(self, item: Item) -> bool:
        return self._run(self._contains(item))

    def contains(self, item: Item) -> bool:
        """Whether an item is in the filter."""
        return item in self

    def update(self, items: Iterable[Item] | Any, *, progress: Progress | None = None) -> Count:
        """Adds all items of an iterable, or of a numpy array (each element's bytes), and counts those that were new.
        `progress` is called with the number of items that were sent; without it a terminal shows a bar."""
        return self._run(self._update(items, progress))

    def contains_many(self, items: Iterable[Item] | Any, *, progress: Progress | None = None) -> Any:
        """Whether each item is in the filter, in their order: a list of bool, or for a numpy array an array of bool."""
        return self._run(self._contains_many(items, progress))

    def except_(self, items: Iterable[Item]) -> Count:
        """Takes items out, until they are added again, and counts those that were there."""
        return self._run(self._except(items))

    def merge(self, *others: Bloom | Item, error_rate: float | None = None, replace: bool = False) -> None:
        """Adds all items of other filters, or keys, of the same server; in a cluster, of the same slot. With `replace`
        the filter is made of theirs alone, in one moment."""
        self._run(self._merge(others, error_rate, replace))

    def rotate(self) -> None:
        """Closes the newest slice of a window, and frees what has expired."""
        self._run(self._one("BF.ROTATE", changes=True))

    def reset(self) -> None:
        """Takes all items out. Parameters stay."""
        self._run(self._one("BF.RESET", once=True))

    def shrink(self, capacity: float | None = None) -> int:
        """Makes the filter as small as its items allow, with room for `capacity` items in all, if that is given. Returns
        the bytes that were given back. Raises ResponseError for a filter with a window, or of valkey-bloom's layout."""
        return self._run(self._shrink(capacity))

    def card(self) -> int:
        """How many items are in the filter."""
        return self._run(self._one("BF.CARD"))

    def __len__(self) -> int:
        return self.card()

    def __bool__(self) -> bool:
        return True

    def info(self) -> Info:
        """The figures of the filter."""
        return self._run(self._figures())

    def push(self, filter: Filter) -> None:
        """Makes the key the filter that is given. See `Filter.push`."""
        self._run(self._push(filter))

    def pull(self) -> Filter:
        """The filter of the key. See `Filter.pull`."""
        return self._run(self._pull())


class AsyncBloom(_Key):
    """`Bloom` for the asyncio clients of redis-py and valkey-py: every method is awaited, `contains` stands for `in`
    and `card` for `len`."""

    async def _run(self, steps: Steps) -> Any:
        return await _cluster.run_async(self.client, steps)

    async def reserve(self, *, exist_ok: bool = False) -> None:
        """Makes the filter, empty. If it is there this is an error, or nothing with `exist_ok`."""
        await self._run(self._reserved(exist_ok))

    async def add(self, item: Item) -> bool | Maybe:
        """Adds an item. True if it was not in the filter before; MAYBE_NEW, which is as true, where the answer to a first
        attempt was lost."""
        return await self._run(self._add(item))

    async def add_many(self, items: Iterable[Item] | Any, *, progress: Progress | None = None) -> Any:
        """Adds all items, and says of each whether it was new, as `add` does: a list, or for a numpy array an array of
        bool, in which MAYBE_NEW is True."""
        return await self._run(self._add_many(items, progress))

    async def contains(self, item: Item) -> bool:
        """Whether an item is in the filter."""
        return await self._run(self._contains(item))

    async def update(self, items: Iterable[Item] | Any, *, progress: Progress | None = None) -> Count:
        """Adds all items of an iterable, or of a numpy array (each element's bytes), and counts those that were new."""
        return await self._run(self._update(items, progress))

    async def contains_many(self, items: Iterable[Item] | Any, *, progress: Progress | None = None) -> Any:
        """Whether each item is in the filter, in their order: a list of bool, or for a numpy array an array of bool."""
        return await self._run(self._contains_many(items, progress))

    async def except_(self, items: Iterable[Item]) -> int:
        """Takes items out, until they are added again, and counts those that were there."""
        return await self._run(self._except(items))

    async def merge(self, *others: AsyncBloom | Item, error_rate: float | None = None, replace: bool = False) -> None:
        """Adds all items of other filters, or keys, of the same server; in a cluster, of the same slot. With `replace`
        the filter is made of theirs alone, in one moment."""
        await self._run(self._merge(others, error_rate, replace))

    async def rotate(self) -> None:
        """Closes the newest slice of a window, and frees what has expired."""
        await self._run(self._one("BF.ROTATE", changes=True))

    async def reset(self) -> None:
        """Takes all items out. Parameters stay."""
        await self._run(self._one("BF.RESET", once=True))

    async def shrink(self, capacity: float | None = None) -> int:
        """Makes the filter as small as its items allow, with room for `capacity` items in all, if that is given. Returns
        the bytes that were given back. Raises ResponseError for a filter with a window, or of valkey-bloom's layout."""
        return await self._run(self._shrink(capacity))

    async def card(self) -> int:
        """How many items are in the filter."""
        return await self._run(self._one("BF.CARD"))

    async def info(self) -> Info:
        """The figures of the filter."""
        return await self._run(self._figures())

    async def push(self, filter: Filter) -> None:
        """Makes the key the filter that is given. See `Filter.push`."""
        await self._run(self._push(filter))

    async def pull(self) -> Filter:
        """The filter of the key. See `Filter.pull`."""
        return await self._run(self._pull())


def push(self: Filter, client: Any, key: Item) -> None:
    """Makes a key of a server this filter, whole: its chunks go under another name first, which expires if the push is
    interrupted. An expiry of the key stays. A key that holds no filter raises ValueError, or the server's error."""
    Bloom(client, key).push(self)


def pull(cls: type[Filter], client: Any, key: Item) -> Filter:
    """The filter of a key of a server. If it changes meanwhile, the server makes a copy, which is read instead."""
    return Bloom(client, key).pull()
