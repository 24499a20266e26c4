"""`ShardedBloom` and `AsyncShardedBloom`: one filter over many keys of a cluster. docs/sharding.md defines the layout."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any
from uuid import uuid4

from . import _answers, _words
from ._answers import Maybe, MissingError
from ._client import AsyncCalls, Caller, Calls, Sent, synchronous, whole, words_of
from ._cluster import Call, Links, run
from ._native import Filter, divide, plan
from ._words import Command, Item, encoded, fields

VERSION, HASH = 1, "BLAKE2b-512"
# How many standard deviations above the mean a shard has room for. The fullest of 4096 shards is above six of them four
# times in a million.
SIGMAS = 6
MOST_SHARDS = 65536
# Without a number of shards there are this many, or more of about this size.
FEWEST_SHARDS, SHARD_BYTES = 64, 16 << 20
# Bytes of packed items to each shard at once.
SHARE = 8 << 10

# Writes the description of the filter unless there is one, and returns the one that is there.
CLAIM = """
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('HSET', KEYS[1], unpack(ARGV)) end
return redis.call('HGETALL', KEYS[1])
"""

# Changes the state of this filter, and of no other that has its name since: to ready or, after a failure, to one that is
# being dropped; to that from any; and at last to gone. An answer may be lost, and the command sent again.
END = """
local state = redis.call('HGET', KEYS[1], 'state')
if (redis.call('HGET', KEYS[1], 'id') or '') ~= ARGV[1] then return 0 end
if ARGV[2] == 'gone' then return state and 0 or redis.call('UNLINK', KEYS[1]) end
if ARGV[2] == 'dropped' then return 1 + redis.call('HDEL', KEYS[1], 'state') end
if not state then return 0 end
if ARGV[2] == 'ready' then return 1 + redis.call('HSET', KEYS[1], 'state', 'ready') end
if state ~= 'creating' then return 0 end
return redis.call('HDEL', KEYS[1], 'state')
"""


@dataclass(frozen=True)
class Shard:
    """The figures of one shard."""

    key: bytes
    capacity: int
    items: int
    size_in_bytes: int
    layers: int


@dataclass(frozen=True)
class ShardedInfo:
    """The figures of a sharded filter. `capacity` is what it was created for; its shards have room for some more."""

    capacity: int
    error_rate: float
    options: dict[str, Any] = field(repr=False)
    shards: tuple[Shard, ...] = field(repr=False)

    @property
    def items(self) -> int:
        return sum(shard.items for shard in self.shards)

    @property
    def size_in_bytes(self) -> int:
        return sum(shard.size_in_bytes for shard in self.shards)


@dataclass(frozen=True)
class Layout:
    """The description of a sharded filter, which is stored in the hash NAME:{meta}."""

    name: bytes
    shards: int
    capacity: int
    error_rate: float
    shard_capacity: int
    # Options of `Filter`.
    options: dict[str, Any] = field(repr=False)
    # By this a filter differs from an earlier one of the same name and figures.
    id: str = field(default="", compare=False)

    @classmethod
    def planned(cls, name: bytes, items: float, error_rate: float, shards: int | None, options: dict[str, Any]) -> Layout:
        check_name(name)
        if not 1 <= items < math.inf:
            raise ValueError("items must be a number of 1 or more")
        capacity = math.ceil(items)
        options = {word: value for word, value in options.items() if value is not None}
        # Stored even if it is the default, because the servers' own defaults may differ.
        options = {"layout": "blocked", **({} if options.get("fixed") else {"expansion": 2}), **options}
        Filter(1, error_rate, **options)
        options = {word: bool(value) if word in FLAGS else whole(value) for word, value in options.items()}
        options = {word: value for word, value in options.items() if value is not False}
        if shards is None:
            [size, *_] = plan(capacity, error_rate, **size_options(options)) or (0,)
            shards = min(MOST_SHARDS, max(FEWEST_SHARDS, 1 << math.ceil(math.log2(max(size / SHARD_BYTES, 1)))))
        shards = whole(shards)
        check_shards(shards)
        made = cls(name, shards, capacity, error_rate, shard_capacity(capacity, shards), options)
        # What others could not read must not be stored.
        return cls.read(name, {word: str(value) for word, value in made.fields().items() if word in KINDS})

    @classmethod
    def of_fields(cls, name: bytes, reply: Any) -> tuple[Layout, str]:
        """Reads a stored description and its state. Anybody may have written it: an invalid one is a ValueError."""
        kept = described(name, reply)
        state = kept.pop("state", DROPPING)
        try:
            return cls.read(name, kept), state
        except ValueError as error:
            raise ValueError(f"{name.decode(errors='replace')}:{{meta}} is damaged: {error}") from None

    @classmethod
    def read(cls, name: bytes, kept: dict[str, str]) -> Layout:
        if missing := [word for word in FIGURES if word not in kept]:
            raise ValueError(f"it has no {missing[0]}")
        if unknown := [word for word in kept if word not in KINDS]:
            raise ValueError(f"it has a field {unknown[0]}, which this version does not know")
        read = {word: KINDS[word](value) for word, value in kept.items()}
        figures = {word: read.pop(word) for word in FIGURES}
        identity = read.pop("id", "")
        # Raises the errors of bad values.
        Filter(1, figures["error_rate"], **read)
        check_shards(figures["shards"])
        return cls(name, options=read, id=identity, **figures)

    @classmethod
    def to_drop(cls, name: bytes, reply: Any) -> Layout:
        """Reads what a drop needs of a stored description, whose other fields may be damaged."""
        kept, text = described(name, reply), name.decode(errors="replace")
        try:
            if "shards" not in kept:
                raise ValueError("it has no such field")
            shards = number(kept["shards"])
            check_shards(shards)
        except ValueError as error:
            by_hand = f"delete {text}:{{0}}:N and its other shards by hand, then {text}:{{meta}}"
            raise ValueError(f"{text}:{{meta}} does not say how many shards there are ({error}): {by_hand}") from None
        return cls(name, shards, 0, 0.0, 0, {}, kept.get("id", ""))

    def fields(self) -> dict[str, Any]:
        numbers = {"shards": self.shards, "capacity": self.capacity, "shard_capacity": self.shard_capacity}
        options = {word: int(value) if isinstance(value, bool) else value for word, value in self.options.items()}
        return {"version": VERSION, "hash": HASH, **numbers, "error_rate": repr(float(self.error_rate)), **options}

    @property
    def meta(self) -> bytes:
        return self.name + b":{meta}"

    def key(self, shard: int) -> bytes:
        """The key of a shard. The part in braces decides the slot."""
        return b"%b:{%d}:%d" % (self.name, shard, self.shards)

    def keys(self) -> list[bytes]:
        return [self.key(shard) for shard in range(self.shards)]

    def shard(self, item: bytes) -> int:
        return int.from_bytes(blake2b(item).digest()[:8], "big") % self.shards

    def shard_bytes(self) -> int:
        [size, *_] = plan(self.shard_capacity, self.error_rate, **size_options(self.options)) or (0,)
        return size

    def piece(self) -> int:
        """Bytes of packed items that are sent at once."""
        return min(max(SHARE * self.shards, Links.PIECE), Links.MOST)

    def reserve(self) -> Command:
        return (self.error_rate, self.shard_capacity, *words_of(self.options))


def described(name: bytes, reply: Any) -> dict[str, str]:
    """The fields of a stored description as texts, but for those that say what it is."""
    kept = {word: encoded(value) for word, value in fields(reply).items()}
    if kept.pop("version", b"") != b"%d" % VERSION or kept.pop("hash", b"") != HASH.encode():
        raise ValueError(f"{name.decode(errors='replace')} is no sharded filter of version {VERSION} with {HASH}")
    # An id is sent again, with the same bytes.
    return {word: value.decode(errors="surrogateescape" if word == "id" else "replace") for word, value in kept.items()}


def number(text: str) -> int:
    value = int(text)
    if not 0 <= value < 1 << 64:
        raise ValueError(f"{text} is out of range")
    return value


# The fields of a stored description, and how each is read: the figures of every filter, then the options.
FIGURES = ("shards", "capacity", "error_rate", "shard_capacity")
FLAGS = ("fixed", "growing", "refresh")
KINDS: dict[str, Any] = {
    **dict.fromkeys(("shards", "capacity", "shard_capacity", "expansion", "seed", "window", "slices"), number),
    **dict.fromkeys(FLAGS, lambda text: bool(number(text))),
    "error_rate": float,
    "layout": str,
    "id": str,
}
# A description without a state means this state, because deleting a field needs no memory.
DROPPING = "being dropped"


def check_shards(shards: int) -> None:
    if not 0 < shards <= MOST_SHARDS:
        raise ValueError(f"shards must be 1 to {MOST_SHARDS:,}, not {shards:,}")


def check_name(name: bytes) -> None:
    if b"{" in name:
        raise ValueError(f"{name.decode(errors='replace')!r}: the name of a sharded filter has no brace")


def deviation(items: int, shards: int) -> float:
    """The standard deviation of a shard's number of items, which is binomial."""
    return math.sqrt(items / shards * (1 - 1 / shards))


def shard_capacity(items: int, shards: int) -> int:
    """The capacity of a shard: its mean number of items, and room for deviations."""
    return max(1, math.ceil(items / shards + SIGMAS * deviation(items, shards)))


def size_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options that decide about a filter's size."""
    return {word: value for word, value in options.items() if word not in ("seed", "refresh")}


class _Sharded(Caller):
    """The steps of each method, for both classes."""

    def __init__(self, client: Any, name: Item, *, patience: float = 60.0, replicas: int = 0) -> None:
        super().__init__(client, patience, replicas)
        self.name, self._name = name, encoded(name)
        check_name(self._name)
        self._known: Layout | None = None

    def __repr__(self) -> str:
        return f"<libbloom.{type(self).__name__} {self.name!r}>"

    def _raised(self, call: Call, error: Exception) -> Exception:
        """The error of a shard, with its name."""
        if _answers.is_missing(error):
            return self._gone(call.key)
        return _answers.of_filter(error, call.command[0], f"{call.key.decode(errors='replace')}: ")

    def _gone(self, key: bytes) -> MissingError:
        # Perhaps the filter was dropped, and made anew with other shards.
        self._known = None
        return MissingError(f"there is no {key.decode(errors='replace')}, a shard of {self.name!r}: it is lost or dropped")

    async def _each(self, keys: list[bytes], name: str, *words: Any) -> list[Any]:
        """Runs a command for each key, several of them at once."""
        return await self._some([Call(key, name, key, *words) for key in keys])

    async def _some(self, calls: list[Call], adds: bool = False) -> list[Any]:
        replies: list[Any] = []
        for begin in range(0, len(calls), self._links.AT_ONCE):
            replies += await self._deliver(calls[begin : begin + self._links.AT_ONCE], adds=adds)
        return replies

    async def _stored(self) -> Any:
        [reply] = await self._each([self._name + b":{meta}"], "HGETALL")
        return reply

    async def _kept(self) -> tuple[Layout, str] | None:
        """The stored description and its state; None if there is none."""
        reply = await self._stored()
        return Layout.of_fields(self._name, reply) if reply else None

    async def _layout(self) -> Layout:
        if self._known is None:
            kept = await self._kept()
            if kept is None:
                raise MissingError(f"there is no sharded filter {self.name!r}")
            layout, state = kept
            if state != "ready":
                raise MissingError(f"{self.name!r} is not whole, it is {state}: create it again, or drop it")
            self._known = layout
        return self._known

    @classmethod
    async def _created(
        cls, client, name, items, error_rate, *, shards=None, exist_ok=False, patience=60.0, replicas=0, **options
    ) -> Any:
        planned = Layout.planned(encoded(name), items, error_rate, shards, options)
        sharded = cls(client, name, patience=patience, replicas=replicas)
        await sharded._create(planned, exist_ok)
        return sharded

    async def _create(self, planned: Layout, exist_ok: bool) -> None:
        kept = await self._kept()
        if kept is None:
            taken = await self._each(planned.keys(), "EXISTS")
            if any(taken):
                key = planned.key([bool(there) for there in taken].index(True))
                raise ValueError(
                    f"there is a key {key.decode(errors='replace')}, which is no shard of {self.name!r} yet: take another name, "
                    "or delete it if a creation left it that was killed while the filter was dropped"
                )
            kept = await self._claimed(planned, uuid4().hex, "state", "creating")
        layout, state = kept
        if layout != planned:
            # Without the figures: a seed is secret.
            ours, theirs = layout.fields(), planned.fields()
            others = [word for word in {**ours, **theirs} if ours.get(word) != theirs.get(word)]
            raise ValueError(f"{self.name!r} exists with another {' and '.join(others)}")
        if state == "ready" and not exist_ok:
            raise ValueError(f"{self.name!r} exists")
        if state not in ("ready", "creating"):
            raise ValueError(f"{self.name!r} is {state}; drop it first")
        if state == "creating":
            reserves = [Call(key, "BF.RESERVE", key, *layout.reserve(), "NX") for key in layout.keys()]
            try:
                await self._some(reserves)
            except Exception as error:
                if _answers.is_answer(error):
                    # A server refuses the options, or has no memory for its shards.
                    if await self._end(layout, "failed"):
                        await self._unlink(layout)
                    else:
                        await self._undo(layout, reserves)
                raise
            if not await self._end(layout, "ready"):
                await self._undo(layout, reserves)
                raise MissingError(f"{self.name!r} was dropped while it was created")
        self._known = layout

    async def _claimed(self, layout: Layout, identity: str, *state: str) -> tuple[Layout, str]:
        """The stored description and its state: this one, unless there was one."""
        words = [word for pair in layout.fields().items() for word in pair]
        [reply] = await self._deliver([Call(layout.meta, "EVAL", CLAIM, 1, layout.meta, *words, "id", identity, *state)])
        return Layout.of_fields(self._name, reply)

    async def _undo(self, layout: Layout, reserves: list[Call]) -> None:
        """Removes the shards that these commands made, of a filter that was dropped meanwhile, but for those that a filter
        which has its name by now takes for its own."""
        here = replace(layout, id=uuid4().hex)
        try:
            # While the name is being dropped nobody makes a filter of it.
            _, state = await self._claimed(here, here.id)
        except Exception as error:
            if not _answers.is_answer(error):
                raise
            # There is no memory for a description, of anybody.
            state = DROPPING
        if state == DROPPING:
            await self._each([call.key for call in reserves if call.reply or call.is_unsure], "UNLINK")
            await self._end(here, "gone")

    async def _end(self, layout: Layout, how: str) -> bool:
        identity = layout.id.encode(errors="surrogateescape")
        [done] = await self._deliver([Call(layout.meta, "EVAL", END, 1, layout.meta, identity, how)])
        return done > 0

    async def _drop(self) -> None:
        reply = await self._stored()
        if not reply:
            raise MissingError(f"there is no sharded filter {self.name!r}")
        self._known = None
        await self._unlink(Layout.to_drop(self._name, reply))

    async def _unlink(self, layout: Layout) -> None:
        if await self._end(layout, "dropped"):
            await self._each(layout.keys(), "UNLINK")
            await self._end(layout, "gone")

    async def _add(self, item: Item) -> bool | Maybe:
        layout = await self._layout()
        data = encoded(item)
        key = layout.key(layout.shard(data))
        return await self._added(Call(key, "BF.INSERT", key, "NOCREATE", "ITEMS", data))

    async def _contains(self, item: Item) -> bool:
        layout = await self._layout()
        data = encoded(item)
        key = layout.key(layout.shard(data))
        [reply] = await self._each([key], "BF.EXISTS", data)
        if not reply:
            await self._require([key])
        return bool(reply)

    async def _require(self, keys: list[bytes]) -> None:
        """A shard that is gone denies every item, as an empty one does."""
        replies = await self._each(keys, "EXISTS")
        for key, reply in zip(keys, replies):
            if not reply:
                raise self._gone(key)

    async def _divided(self, packed: Command, name: str, *last: Any) -> Sent:
        """Sends packed items to all their shards at once."""
        layout, adds = await self._layout(), name == "BF.ADDPACKED"
        shares, places = await self._links.apart(divide, layout.shards, *packed)
        calls = []
        for shard, count, data in shares:
            key = layout.key(shard)
            calls.append((count, Call(key, name, key, *["NOCREATE"] * adds, *packed[:-1], *last, data)))
        replies = await self._some([call for _, call in calls], adds)
        if not adds:
            await self._require([call.key for (_, call), reply in zip(calls, replies) if not any(reply)])
        return Sent(calls, adds, places, tuple(shard for shard, _, _ in shares))

    async def _sent(self, items: Any, name: str, *last: Any) -> AsyncIterator[Sent]:
        most = min((await self._layout()).piece(), self._links.MOST)
        form: Command = ()
        some, size = [], 0
        async for _, (*form, data) in self._pieces(items, min(most, self._links.PIECE)):
            some.append(data)
            size += len(data)
            if size >= most:
                yield await self._divided((*form, b"".join(some)), name, *last)
                some, size = [], 0
        if some:
            yield await self._divided((*form, b"".join(some)), name, *last)

    async def _figures(self) -> ShardedInfo:
        layout = await self._layout()
        keys = layout.keys()
        replies = await self._each(keys, "BF.INFO")
        shards = []
        for key, reply in zip(keys, replies):
            it = fields(reply)
            numbers = [int(it[name]) for name in ("Capacity", "Number of items inserted", "Size", "Number of filters")]
            shards.append(Shard(key, *numbers))
        return ShardedInfo(layout.capacity, layout.error_rate, layout.options, tuple(shards))

    async def _card(self) -> int:
        return (await self._figures()).items


class AsyncShardedBloom(_Sharded, AsyncCalls):
    """`ShardedBloom` for the asyncio clients of redis-py and valkey-py: every method is awaited, `contains` stands for
    `in` and `card` for `len`. Items may also come from an asynchronous iterable."""

    @classmethod
    async def create(cls, client: Any, name: Item, items: float, error_rate: float = 0.01, **options: Any) -> AsyncShardedBloom:
        """See `ShardedBloom.create`, which has the same options."""
        return await cls._created(client, name, items, error_rate, **options)

    async def info(self) -> ShardedInfo:
        """The figures of the filter, and of each shard."""
        return await self._figures()

    async def drop(self) -> None:
        """Deletes the filter. An interrupted drop goes on when it is repeated."""
        await self._drop()


class ShardedBloom(_Sharded, Calls):
    """One filter over many keys of a cluster, by a client of redis-py or valkey-py. `create` makes it once; then its name
    is enough anywhere.

    patience: seconds for which a node is tried again that does not answer, has moved its slots, or fails over.
    replicas: adds return when so many replicas have them; then no item is lost by a failover to one of these.
    """

    @classmethod
    def create(
        cls,
        client: Any,
        name: Item,
        items: float,
        error_rate: float = 0.01,
        *,
        shards: int | None = None,
        exist_ok: bool = False,
        patience: float = 60.0,
        replicas: int = 0,
        **options: Any,
    ) -> ShardedBloom:
        """Makes the filter, empty, for so many different items. `options` are those of `Filter`. A filter that exists is
        an error, or with `exist_ok` only one with other figures; two programs may create one together. An interrupted
        creation goes on when it is repeated."""
        how = {"shards": shards, "exist_ok": exist_ok, "patience": patience, "replicas": replicas}
        return run(cls._created(client, name, items, error_rate, **how, **options))

    info = synchronous(AsyncShardedBloom.info)
    drop = synchronous(AsyncShardedBloom.drop)
