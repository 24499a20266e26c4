"""`Bloom` and `AsyncBloom`: a filter in a server, with its commands as methods."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from . import _steps
from ._native import Filter
from ._steps import Command, Steps, encoded
from ._terminal import Bar

Item = str | bytes | bytearray | memoryview
Progress = Callable[[int], None]
# Items in each command that lists its items.
LISTED = 1000


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
    first_time: int | None = None
    last_time: int | None = None


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
        first_time=_int(it.get("First time")),
        last_time=_int(it.get("Last time")),
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


class _Key:
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
    ) -> None:
        self.client = client
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

    def _one(self, *command: Any) -> Steps:
        try:
            [reply] = yield [command]
        except Exception as error:
            if (ours := _steps.raised(error)) is not error:
                raise ours from None
            raise
        return reply

    def _add(self, item: Item) -> Steps:
        [reply] = yield from self._one("BF.INSERT", self._name, *self._options, "ITEMS", encoded(item))
        if isinstance(reply, Exception):
            raise _steps.raised(reply)
        return bool(reply)

    def _contains(self, item: Item) -> Steps:
        reply = yield from self._one("BF.EXISTS", self._name, encoded(item))
        return bool(reply)

    def _reserved(self, exist_ok: bool) -> Steps:
        if None in self._size:
            raise ValueError("a filter is made for a capacity and an error_rate")
        end = ("NX",) if exist_ok else ()
        yield from self._one("BF.RESERVE", self._name, *self._size, *self._reserve, *end)

    def _update(self, items: Any, progress: Progress | None) -> Steps:
        new = 0

        def take(_: int, reply: Any) -> None:
            nonlocal new
            new += reply

        yield from self._packed(("BF.ADDPACKED", self._name, *self._options), items, take, progress, True)
        return new

    def _add_many(self, items: Any, progress: Progress | None) -> Steps:
        return (yield from self._answers(("BF.ADDPACKED", self._name, *self._options), items, progress))

    def _contains_many(self, items: Any, progress: Progress | None) -> Steps:
        return (yield from self._answers(("BF.EXISTSPACKED", self._name), items, progress))

    def _answers(self, before: Command, items: Any, progress: Progress | None) -> Steps:
        answers: list[bool] = []

        def take(number: int, reply: bytes) -> None:
            answers.extend(_steps.bits(reply, number))

        yield from self._packed(before, items, take, progress, False)
        return in_array(items, answers)

    def _packed(self, before: Command, items: Any, take: Any, progress: Progress | None, count: bool) -> Steps:
        with progress_of(str(self.key), items, progress) as show:
            try:
                yield from _steps.packed(before, items, take, show, count)
            except Exception as error:
                if (ours := _steps.raised(error)) is not error:
                    raise ours from None
                raise

    def _except(self, items: Iterable[Item]) -> Steps:
        every = [encoded(item) for item in _steps.flat(items)]
        excepted = 0
        for begin in range(0, len(every), LISTED):
            reply = yield from self._one("BF.EXCEPT", self._name, *every[begin : begin + LISTED])
            excepted += sum(map(bool, reply))
        return excepted

    def _merge(self, others: tuple[Any, ...], error_rate: float | None, replace: bool) -> Steps:
        names = [other._name if isinstance(other, _Key) else encoded(other) for other in others]
        rate = () if error_rate is None else ("ERROR", error_rate)
        if names:
            yield from self._one("BF.MERGE", self._name, len(names), *names, *rate, *["OVERRIDE"] * replace)

    def _figures(self) -> Steps:
        return _info((yield from self._one("BF.INFO", self._name, "FULL")))


class Bloom(_Key):
    """A filter in a server, under a key, by a client of redis-py or valkey-py, single or cluster.

    The first item that is added makes it, with the options that were given; else with the server's own. A filter that
    is there stays as it is. The options are those of `Filter`, and `create=False`: then an add to a filter that is not
    there is an error, where it would make an empty one that has forgotten everything.
    """

    def _run(self, steps: Steps) -> Any:
        return _steps.run(self.client, steps)

    def reserve(self, *, exist_ok: bool = False) -> None:
        """Makes the filter, empty. If it is there this is an error, or nothing with `exist_ok`."""
        self._run(self._reserved(exist_ok))

    def add(self, item: Item) -> bool:
        """Adds an item. True if it was not in the filter before."""
        return self._run(self._add(item))

    def add_many(self, items: Iterable[Item] | Any, *, progress: Progress | None = None) -> Any:
        """Adds all items, and says of each whether it was new: a list of bool, or for a numpy array an array of bool."""
        return self._run(self._add_many(items, progress))

    def __contains__(self, item: Item) -> bool:
        return self._run(self._contains(item))

    def contains(self, item: Item) -> bool:
        """Whether an item is in the filter."""
        return item in self

    def update(self, items: Iterable[Item] | Any, *, progress: Progress | None = None) -> int:
        """Adds all items of an iterable, or of a numpy array (each element's bytes), and counts those that were new.
        `progress` is called with the number of items that were sent; without it a terminal shows a bar."""
        return self._run(self._update(items, progress))

    def contains_many(self, items: Iterable[Item] | Any, *, progress: Progress | None = None) -> Any:
        """Whether each item is in the filter, in their order: a list of bool, or for a numpy array an array of bool."""
        return self._run(self._contains_many(items, progress))

    def except_(self, items: Iterable[Item]) -> int:
        """Takes items out, until they are added again, and counts those that were there."""
        return self._run(self._except(items))

    def merge(self, *others: Bloom | Item, error_rate: float | None = None, replace: bool = False) -> None:
        """Adds all items of other filters, or keys, of the same server; in a cluster, of the same slot. With `replace`
        the filter is made of theirs alone, in one moment."""
        self._run(self._merge(others, error_rate, replace))

    def rotate(self) -> None:
        """Ends the newest slice of a window, and frees what has expired."""
        self._run(self._one("BF.ROTATE", self._name))

    def reset(self) -> None:
        """Takes all items out. Parameters stay."""
        self._run(self._one("BF.RESET", self._name))

    def card(self) -> int:
        """How many items are in the filter."""
        return self._run(self._one("BF.CARD", self._name))

    def __len__(self) -> int:
        return self.card()

    def __bool__(self) -> bool:
        return True

    def info(self) -> Info:
        """The figures of the filter."""
        return self._run(self._figures())

    def push(self, filter: Filter) -> None:
        """Makes the key the filter that is given. See `Filter.push`."""
        self._run(_steps.push(filter, self.key))

    def pull(self) -> Filter:
        """The filter of the key. See `Filter.pull`."""
        return self._run(_steps.pull(self.key))


class AsyncBloom(_Key):
    """`Bloom` for the asyncio clients of redis-py and valkey-py: every method is awaited, `contains` stands for `in`
    and `card` for `len`."""

    async def _run(self, steps: Steps) -> Any:
        return await _steps.run_async(self.client, steps)

    async def reserve(self, *, exist_ok: bool = False) -> None:
        """Makes the filter, empty. If it is there this is an error, or nothing with `exist_ok`."""
        await self._run(self._reserved(exist_ok))

    async def add(self, item: Item) -> bool:
        """Adds an item. True if it was not in the filter before."""
        return await self._run(self._add(item))

    async def add_many(self, items: Iterable[Item] | Any, *, progress: Progress | None = None) -> Any:
        """Adds all items, and says of each whether it was new: a list of bool, or for a numpy array an array of bool."""
        return await self._run(self._add_many(items, progress))

    async def contains(self, item: Item) -> bool:
        """Whether an item is in the filter."""
        return await self._run(self._contains(item))

    async def update(self, items: Iterable[Item] | Any, *, progress: Progress | None = None) -> int:
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
        """Ends the newest slice of a window, and frees what has expired."""
        await self._run(self._one("BF.ROTATE", self._name))

    async def reset(self) -> None:
        """Takes all items out. Parameters stay."""
        await self._run(self._one("BF.RESET", self._name))

    async def card(self) -> int:
        """How many items are in the filter."""
        return await self._run(self._one("BF.CARD", self._name))

    async def info(self) -> Info:
        """The figures of the filter."""
        return await self._run(self._figures())

    async def push(self, filter: Filter) -> None:
        """Makes the key the filter that is given. See `Filter.push`."""
        await self._run(_steps.push(filter, self.key))

    async def pull(self) -> Filter:
        """The filter of the key. See `Filter.pull`."""
        return await self._run(_steps.pull(self.key))


def push(self: Filter, client: Any, key: Item) -> None:
    """Makes a key of a server this filter, whole: its chunks go under another name first, which expires if the push is
    interrupted. An expiry of the key stays. A key that holds no filter raises ValueError, or the server's error."""
    _steps.run(client, _steps.push(self, key))


def pull(cls: type[Filter], client: Any, key: Item) -> Filter:
    """The filter of a key of a server. If it changes meanwhile, the server makes a copy, which is read instead."""
    return _steps.run(client, _steps.pull(key))
