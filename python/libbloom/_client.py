"""`Bloom` and `AsyncBloom`: a filter in a server, with its commands as methods."""

from __future__ import annotations

import operator
from array import array
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, fields
from functools import wraps
from itertools import chain
from typing import Any, Concatenate, ParamSpec, overload

from . import _answers, _words
from ._answers import MAYBE_NEW, Count, Maybe, MissingError, UnsureError
from ._cluster import AsyncLinks, Call, Links, Result, delivered, run
from ._native import Filter, size_of_header
from ._words import Array, Command, Item, Items, encoded
from ._terminal import Bar

P = ParamSpec("P")
AnyItems = Iterable[Item] | AsyncIterable[Item]
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
    seed: str | None = field(repr=False)
    bits_set: int
    fill_ratio: float
    estimated_error_rate: float
    exceptions: int
    window: int | None
    slices: int | None
    refresh: bool | None
    newest_layers: tuple[Layer, ...] = field(repr=False)


# How figures of BF.INFO are called that have another name here.
RENAMED = {
    "size_in_bytes": "size",
    "layers": "number_of_filters",
    "items": "number_of_items_inserted",
    "expansion": "expansion_rate",
    "newest_layers": "layers",
}
KINDS: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "float": float,
    "bool": bool,
    "str": lambda value: encoded(value).decode(),
    "tuple[Layer, ...]": lambda layers: tuple(figures(Layer, layer) for layer in layers),
}


def figures(kind: Any, reply: Any, renamed: dict[str, str] = {}) -> Any:
    """The figures of a reply, as a dataclass has them."""
    it = {name.lower().replace(" ", "_"): value for name, value in _words.fields(reply).items()}
    made = {}
    for one in fields(kind):
        type_name, _, optional = str(one.type).partition(" | ")
        value = it.get(renamed.get(one.name, one.name))
        made[one.name] = None if optional and value is None else KINDS[type_name](value)
    return kind(**made)


def whole(value: Any) -> Any:
    """A number as a whole one, also 1e6 or one of numpy, as `Filter` takes it. None and texts as they are."""
    if value is None or isinstance(value, (str, bytes)):
        return value
    if not hasattr(value, "is_integer"):
        return int(operator.index(value))
    if not value.is_integer():
        raise ValueError(f"{value} is no whole number")
    return int(value)


# Options of `Filter` that are words of the commands with a value, and those without one.
VALUES = ("expansion", "window", "slices", "seed", "layout")
FLAGS = {"fixed": "NONSCALING", "growing": "GROWING", "refresh": "REFRESH"}


def words_of(options: dict[str, Any]) -> list[Any]:
    """The options of `Filter` as words of the commands."""
    words: list[Any] = []
    for name in VALUES:
        if (value := options.get(name)) is not None:
            words += (name.upper(), whole(value))
    return words + [word for name, word in FLAGS.items() if options.get(name)]


@contextmanager
def progress_of(items: Any, progress: Progress | None) -> Iterator[Progress]:
    """The function to call with the number of items that are done: the caller's, or a bar if there is a terminal."""
    if progress is not None:
        yield progress
        return
    with Bar(len(items) if hasattr(items, "__len__") else None) as bar:
        yield bar


def joined(parts: list[list[Any]], is_array: bool) -> Any:
    """Answers in the form of the items: an array for an array, but for one of texts or objects; otherwise a list."""
    if not is_array:
        return list(chain.from_iterable(parts))
    import numpy

    return numpy.concatenate([numpy.empty(0, dtype=bool), *[numpy.array(part, dtype=bool) for part in parts]])


@dataclass(frozen=True)
class Sent:
    """Packed items that were sent, and the number of those in each call."""

    calls: list[tuple[int, Call]]
    adds: bool
    # Where each item went, in their order, if not from call to call: the numbers that `targets` has of the calls.
    places: bytes | None = None
    targets: tuple[int, ...] = ()

    @property
    def items(self) -> int:
        return sum(count for count, _ in self.calls)

    def new(self) -> Count:
        """How many items were new, where the commands counted them."""
        new = Count(0)
        for count, call in self.calls:
            new = new.plus(call.counted(count))
        return new

    def answers(self) -> list[bool | Maybe]:
        """The answer to each item, in their order."""
        parts: list[list[bool | Maybe]] = []
        for count, call in self.calls:
            some: list[Any] = _words.bits(call.reply, count)
            parts.append([answer or MAYBE_NEW for answer in some] if self.adds and call.is_unsure else some)
        if self.places is None:
            return list(chain.from_iterable(parts))
        of_target = dict(zip(self.targets, map(iter, parts)))
        return [next(of_target[target]) for target in array("I", self.places)]


class Caller:
    """Delivers commands, for the classes that have a client. They say what an error is (`_raised`), send one item (`_add`,
    `_contains`) and packed ones (`_sent`)."""

    _links: type[Links] = Links

    def __init__(self, client: Any, patience: float, replicas: int = 0) -> None:
        self._links.check(client)
        self.client, self.patience, self.replicas = client, patience, whole(replicas)

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

    async def _added(self, call: Call) -> bool | Maybe:
        """The answer to a command that adds an item."""
        [[reply]] = await self._deliver([call], adds=True)
        if isinstance(reply, Exception):
            raise self._raised(call, reply) from None
        return bool(reply) or (MAYBE_NEW if call.is_unsure else False)


    async def _pieces(self, items: Any, most: int) -> AsyncIterator[tuple[int, Command]]:
        """Items as words for packed commands, of about so many bytes. Between two, other tasks have their turn."""
        if not hasattr(items, "__aiter__"):
            for piece in _words.pieces(items, most):
                yield piece
                await self._links.turn()
            return
        async for begin, some in gathered(items, most):
            for piece in _words.pieces(some, most, begin):
                yield piece
            await self._links.turn()

    async def _answers(self, items: Any, progress: Progress | None, name: str) -> Any:
        items, parts, done = _words.flat(items), [], 0
        with progress_of(items, progress) as show:
            async for sent in self._sent(items, name):
                parts.append(await self._links.apart(sent.answers))
                done += sent.items
                show(done)
        return await self._links.apart(joined, parts, _words.is_array(items))


async def gathered(items: AsyncIterable[Any], most: int) -> AsyncIterator[tuple[int, list[Any]]]:
    """What comes from an asynchronous iterable, in lists, and how many came before each."""
    begin, some, size = 0, [], 0
    async for item in items:
        # An iterable may give one buffer again and again, with other bytes in it.
        some.append(encoded(item) if isinstance(item, (bytearray, memoryview)) else item)
        size += len(item) if hasattr(item, "__len__") else 0
        if len(some) == LISTED or size >= most:
            yield begin, some
            begin, some, size = begin + len(some), [], 0
    if some:
        yield begin, some


class AsyncCalls(Caller):
    """The calls of a filter that a server has, or many keys of a cluster, for asyncio."""

    _links = AsyncLinks

    async def add(self, item: Item) -> bool | Maybe:
        """Adds an item. True if it was not in the filter before; MAYBE_NEW, which is as true, where the answer to a first
        attempt was lost."""
        return await self._add(item)

    @overload
    async def add_many(self, items: Array, *, progress: Progress | None = None) -> Any: ...
    @overload
    async def add_many(self, items: AnyItems, *, progress: Progress | None = None) -> list[bool | Maybe]: ...
    async def add_many(self, items: Array | AnyItems, *, progress: Progress | None = None) -> Any:
        """Adds all items, and says of each whether it was new. See `Bloom.add_many`."""
        return await self._answers(items, progress, "BF.ADDPACKED")

    async def contains(self, item: Item) -> bool:
        """Whether an item is in the filter."""
        return await self._contains(item)

    async def update(self, items: Array | AnyItems, *, progress: Progress | None = None) -> Count:
        """Adds all items, and counts those that were new. See `Bloom.update`."""
        count, done = Count(0), 0
        items = _words.flat(items)
        with progress_of(items, progress) as show:
            async for sent in self._sent(items, "BF.ADDPACKED", "COUNT"):
                count = count.plus(sent.new())
                done += sent.items
                show(done)
        return count

    @overload
    async def contains_many(self, items: Array, *, progress: Progress | None = None) -> Any: ...
    @overload
    async def contains_many(self, items: AnyItems, *, progress: Progress | None = None) -> list[bool]: ...
    async def contains_many(self, items: Array | AnyItems, *, progress: Progress | None = None) -> Any:
        """Whether each item is in the filter, in their order: a list of bool, or for a numpy array an array of bool."""
        return await self._answers(items, progress, "BF.EXISTSPACKED")

    async def card(self) -> int:
        """How many items are in the filter."""
        return await self._card()


def synchronous(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, Result]]) -> Callable[Concatenate[Any, P], Result]:
    """A method for clients without asyncio, of one that is awaited."""

    @wraps(method)
    def call(self: Any, /, *words: P.args, **how: P.kwargs) -> Result:
        return run(method(self, *words, **how))

    return call


class Calls(Caller):
    """`AsyncCalls` without asyncio."""

    add = synchronous(AsyncCalls.add)
    contains = synchronous(AsyncCalls.contains)
    card = __len__ = synchronous(AsyncCalls.card)

    @overload
    def add_many(self, items: Array, *, progress: Progress | None = None) -> Any: ...
    @overload
    def add_many(self, items: Iterable[Item], *, progress: Progress | None = None) -> list[bool | Maybe]: ...
    def add_many(self, items: Items, *, progress: Progress | None = None) -> Any:
        """Adds all items, and says of each whether it was new, as `add` does: a list, or for a numpy array an array of
        bool, in which MAYBE_NEW is True."""
        return run(self._answers(items, progress, "BF.ADDPACKED"))

    def update(self, items: Items, *, progress: Progress | None = None) -> Count:
        """Adds all items of an iterable, or of a numpy array (each element's bytes), and counts those that were new.
        `progress` is called with the number of items that were sent; without it a terminal shows a bar."""
        return run(AsyncCalls.update(self, items, progress=progress))  # type: ignore[arg-type]

    @overload
    def contains_many(self, items: Array, *, progress: Progress | None = None) -> Any: ...
    @overload
    def contains_many(self, items: Iterable[Item], *, progress: Progress | None = None) -> list[bool]: ...
    def contains_many(self, items: Items, *, progress: Progress | None = None) -> Any:
        """Whether each item is in the filter, in their order: a list of bool, or for a numpy array an array of bool."""
        return run(self._answers(items, progress, "BF.EXISTSPACKED"))

    def __contains__(self, item: Item) -> bool:
        return self.contains(item)

    def __bool__(self) -> bool:
        return True


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
        self.key, self._name = key, encoded(key)
        capacity = whole(capacity)
        error_rate = None if error_rate is None else float(error_rate)
        self._size = (error_rate, capacity)
        options = {"expansion": expansion, "window": window, "slices": slices, "seed": seed, "layout": layout}
        words = words_of({**options, "fixed": fixed, "growing": growing, "refresh": refresh})
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

    async def _sent(self, items: Any, name: str, *last: Any) -> AsyncIterator[Sent]:
        adds, links, under_way = name == "BF.ADDPACKED", self._links, []
        async for number, words in self._pieces(items, links.PIECE):
            under_way.append((number, self._call(name, *self._options * adds, *words[:-1], *last, words[-1])))
            if len(under_way) == links.DEPTH:
                await self._deliver([call for _, call in under_way], adds=adds)
                yield Sent(under_way, adds)
                under_way = []
        if under_way:
            await self._deliver([call for _, call in under_way], adds=adds)
            yield Sent(under_way, adds)

    async def _card(self) -> int:
        return int(await self._one("BF.CARD"))

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
        """The set bits, as far as the server tells: a classic filter that was made anew may have the old header."""
        call = self._call("BF.INFO", "FULL")
        await self._tried(call)
        return None if call.error is not None else _words.fields(call.reply).get("Bits set")


class AsyncBloom(_Key, AsyncCalls):
    """`Bloom` for the asyncio clients of redis-py and valkey-py: every method is awaited, `contains` stands for `in`
    and `card` for `len`. Items may also come from an asynchronous iterable. Long calls let other tasks run."""

    async def reserve(self, *, exist_ok: bool = False) -> None:
        """Makes the filter, empty. If it is there this is an error, or nothing with `exist_ok`."""
        if None in self._size:
            raise ValueError("a filter is made for a capacity and an error_rate")
        call = self._call("BF.RESERVE", *self._size, *self._reserve, *["NX"] * exist_ok)
        try:
            await self._deliver([call], changes=True)
        except Exception as error:
            if call.is_unsure and _answers.is_text(error, "item exists"):
                # Not this error: it would say that another program has made the filter.
                raise UnsureError(f"{self.key!r} exists, and the first answer was lost: it may be new or not") from None
            raise

    async def except_(self, items: Array | AnyItems) -> Count:
        """Takes items out, until they are added again, and counts those that were there."""
        if isinstance(items, AsyncIterable):
            every = [encoded(item) async for item in items]
        else:
            some: Any = _words.flat(items)
            every = [encoded(item.tobytes() if _words.is_array(some) else item) for item in some]
        excepted = Count(0)
        for begin in range(0, len(every), LISTED):
            call = self._call("BF.EXCEPT", *every[begin : begin + LISTED])
            [reply] = await self._deliver([call], changes=True)
            number = sum(map(bool, reply))
            excepted = excepted.plus(Count(number, (len(reply) - number) * call.is_unsure))
        return excepted

    async def merge(self, *others: _Key | Item, error_rate: float | None = None, replace: bool = False) -> None:
        """Adds all items of other filters, or keys, of the same server; in a cluster, of the same slot. With `replace`
        the filter is made of theirs alone, in one moment."""
        names = [other._name if isinstance(other, _Key) else encoded(other) for other in others]
        rate = () if error_rate is None else ("ERROR", float(error_rate))
        if names:
            await self._one("BF.MERGE", len(names), *names, *rate, *["OVERRIDE"] * replace, changes=True, once=replace)

    async def reset(self) -> None:
        """Takes all items out. Parameters stay."""
        await self._one("BF.RESET", once=True)

    async def shrink(self, capacity: float | None = None) -> int:
        """Makes the filter as small as its items allow, with room for `capacity` items in all, if that is given. Returns
        the bytes that were given back. Raises ResponseError for a filter with a window, or of valkey-bloom's layout."""
        room = () if capacity is None else ("CAPACITY", whole(capacity))
        return int(await self._one("BF.SHRINK", *room, once=True))

    async def info(self) -> Info:
        """The figures of the filter."""
        return figures(Info, await self._one("BF.INFO", "FULL"), RENAMED)

    async def push(self, filter: Filter) -> None:
        """Makes the key the filter that is given. See `Filter.push`."""
        kind = encoded(await self._one("TYPE"))
        if kind not in _words.TYPES:
            raise ValueError(f"the key {self.key!r} holds {kind.decode()}, which is no filter")
        chunks = await self._links.apart(filter.chunks)
        async with self._draft() as draft:
            await self._loaded(Call(draft, "EVAL", CREATE, 1, draft, chunks[0][1], LEFT_OVER), filter)
            for iterator, data in chunks[1:]:
                expire = Call(draft, "PEXPIRE", draft, LEFT_OVER)
                await self._loaded(Call(draft, "BF.LOADCHUNK", draft, iterator, data), filter, expire)
            await self._finished(Call(draft, "EVAL", FINISH, 2, draft, self._name), chunks)

    async def pull(self) -> Filter:
        """The filter of the key. See `Filter.pull`."""
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
        return await self._links.apart(Filter.from_chunks, chunks)


class Bloom(_Key, Calls):
    """A filter in a server, under a key, by a client of redis-py or valkey-py, single or cluster.

    The first item that is added makes it, with the options that were given; else with the server's own. A filter that
    is there stays as it is. The options are those of `Filter`, and `create=False`: then an add to a filter that is not
    there is an error, where it would make an empty one that has forgotten everything.

    patience: seconds for which a server is tried again that does not answer, loads or fails over. Where that could have
    another outcome than a single try, the answer says so (`MAYBE_NEW`, `Count.maybe`) or there is none (`UnsureError`).
    """

    reserve = synchronous(AsyncBloom.reserve)
    except_ = synchronous(AsyncBloom.except_)
    merge = synchronous(AsyncBloom.merge)
    reset = synchronous(AsyncBloom.reset)
    shrink = synchronous(AsyncBloom.shrink)
    info = synchronous(AsyncBloom.info)
    push = synchronous(AsyncBloom.push)
    pull = synchronous(AsyncBloom.pull)


def push(self: Filter, client: Any, key: Item) -> None:
    """Makes a key of a server this filter, whole: its chunks go under another name first, which expires if the push is
    interrupted. An expiry of the key stays. A key that holds no filter raises ValueError, or the server's error."""
    Bloom(client, key).push(self)


def pull(cls: type[Filter], client: Any, key: Item) -> Filter:
    """The filter of a key of a server. If it changes meanwhile, the server makes a copy, which is read instead."""
    return Bloom(client, key).pull()
