"""A server, or a cluster, as the program `libbloom` meets it: its filters, and what it says when something is wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from . import _steps, _valkey
from ._steps import fields
from ._terminal import Trouble, shown

try:
    import redis
    from redis.backoff import NoBackoff
    from redis.cluster import RedisCluster
    from redis.exceptions import NoPermissionError, ReadOnlyError, RedisClusterException, ResponseError
    from redis.retry import Retry
except ImportError:
    raise Trouble("redis-py is missing: pip install 'libbloom[redis]'") from None

# RedisBloom's and this module's type, and that of filters in valkey-bloom's layout.
TYPE_NAMES = [kind for kind in _steps.TYPES if kind != b"none"]
# How this module's own headers start, with the format version next; a classic filter's starts with its item count.
MAGIC = b"BLOOM\0\0"
# Seconds. An answer may take long (a large value that a RENAME replaces); no answer must not take for ever.
CONNECT_TIMEOUT = 10
ANSWER_TIMEOUT = 300
# Between two attempts to reach all of a cluster.
PAUSE = 0.5
READ_SIZE = 1 << 20
# Commands that are on the way at once.
PIPELINE = 10
# Nobody's key, for commands that are only tried.
NOBODY = b"{libbloom}"


class NotCopied(Exception):
    """Why one filter was not copied; the others are."""


class State(NamedTuple):
    """What is different when a filter has changed."""

    # It counts the items, and has the exceptions, so whatever was added or excepted shows in it; of a blocked filter
    # also the set bits.
    header: bytes
    # A classic filter can get bits by BF.MERGE while its items, which are estimated then, stay as many. None where the
    # header says it, or the server does not.
    bits_set: int | None

    def is_alike(self, other: State) -> bool:
        """Whether it is the state of a copy, whose server may not know the set bits."""
        return self.header == other.header and (None in (self.bits_set, other.bits_set) or self == other)


def cluster(url: str, settings: dict[str, Any], deadline: float) -> Any:
    """The client of a cluster. It asks a node of its own choice, which may be one that a replica is about to replace."""
    while True:
        try:
            return RedisCluster.from_url(url, **settings)
        except (redis.ConnectionError, redis.TimeoutError):
            if time.monotonic() >= deadline:
                raise
            time.sleep(PAUSE)


class Server:
    """A server or a cluster, and its part in what is done. It has redis-py's client, to which nothing is decoded."""

    def __init__(self, role: str, url: str, patience: float = 0.0, answer_timeout: float = ANSWER_TIMEOUT) -> None:
        """`patience`: seconds for which a cluster is tried again while a node of it does not answer.
        `answer_timeout`: seconds that an answer may take."""
        self.role = role
        self.is_valkey_bloom = False
        # No second try of a command whose answer was lost: a header cannot be loaded twice, and an item
        # that was added would count as known.
        settings: dict[str, Any] = {
            "protocol": 2,
            "socket_connect_timeout": CONNECT_TIMEOUT,
            "socket_timeout": answer_timeout,
            "socket_read_size": READ_SIZE,
            "retry": Retry(NoBackoff(), 0),
        }
        try:
            self.client: Any = redis.Redis.from_url(url, **settings)
        except ValueError as error:
            raise Trouble(f"{role}: {error}") from None
        place = self.client.connection_pool.connection_kwargs
        self.address = place.get("path") or f"{place.get('host', 'localhost')}:{place.get('port', 6379)}"
        self.address += f"/{place.get('db') or 0}"
        with self.reachable():
            self.client.ping()
            if self.is_cluster():
                self.client = cluster(url, settings, time.monotonic() + patience)

    def __str__(self) -> str:
        return f"{self.role} {self.address}"

    @contextmanager
    def reachable(self) -> Iterator[None]:
        """Names the server in what goes wrong with the connection."""
        try:
            yield
        except (redis.ConnectionError, redis.TimeoutError, RedisClusterException) as error:
            raise Trouble(f"{self}: {error}") from error

    def is_cluster(self) -> bool:
        try:
            return self.client.info("cluster").get("cluster_enabled") == 1
        except ResponseError:
            return False

    def identity(self) -> Any:
        """What tells one database from another, where the user may ask."""
        if isinstance(self.client, RedisCluster):
            return sorted(node.name for node in self.client.get_nodes())
        try:
            with self.reachable():
                return self.client.info("server").get("run_id"), self.address.rpartition("/")[2]
        except ResponseError:
            return None

    def require(self, command: str) -> None:
        """A command without arguments is refused for their number, if there is such a command."""
        if is_unknown(self.error(command, NOBODY)):
            raise Trouble(
                f"{self} has no {command}: load the module there (or RedisBloom, or valkey-bloom from 1.0 on as "
                "the source of a copy)"
            )

    def require_source(self) -> None:
        """Finds out how filters are read here: valkey-bloom has no chunks, but BF.LOAD, which no other has alone."""
        has_chunks = not is_unknown(self.error("BF.SCANDUMP", NOBODY))
        self.is_valkey_bloom = not has_chunks and not is_unknown(self.error("BF.LOAD", NOBODY))
        if not self.is_valkey_bloom:
            self.require("BF.SCANDUMP")

    def require_filter(self, key: bytes) -> None:
        """Refuses a key that holds no filter: one that is not there would answer no to everything."""
        kind = self.call("TYPE", key)
        if kind == b"none":
            raise Trouble(f"there is no {shown(key)}")
        if kind not in TYPE_NAMES:
            raise Trouble(f"{shown(key)} is a {shown(kind)}, and no filter")

    def offers(self, *words: Any) -> bool:
        """Whether there is such a command, and the user may run it. It is run, so it must change nothing."""
        error = self.error(*words)
        return not is_unknown(error) and not isinstance(error, NoPermissionError)

    def error(self, *words: Any) -> Exception | None:
        """What the server has against a command, or None."""
        try:
            with self.reachable():
                self.client.execute_command(*words)
        except redis.RedisError as error:
            return error
        return None

    def call(self, *words: Any) -> Any:
        with self.reachable():
            try:
                return self.client.execute_command(*words)
            except ReadOnlyError as error:
                raise Trouble(f"{self}: {error}") from error

    def pipeline(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        """The answers of several commands; an error is an answer."""
        pipeline = self.client.pipeline(transaction=False)
        for words in commands:
            pipeline.execute_command(*words)
        with self.reachable():
            return pipeline.execute(raise_on_error=False)

    def keys(self, pattern: str | None) -> set[bytes]:
        """The keys of all filters whose names match."""
        found: set[bytes] = set()
        for kind in TYPE_NAMES:
            try:
                with self.reachable():
                    found.update(self.client.scan_iter(match=pattern, count=1000, _type=kind.decode()))
            except ResponseError as why:
                # Valkey's answer for a type that it has not; others give no keys.
                if "unknown type name" not in str(why):
                    raise
        return found

    def sizes(self, keys: list[bytes]) -> list[int]:
        """Bytes of each filter, for a bar; 0 where there is no filter, which is found out later."""
        sizes = []
        for begin in range(0, len(keys), 100 * PIPELINE):
            answers = self.pipeline([("BF.INFO", key) for key in keys[begin : begin + 100 * PIPELINE]])
            sizes += [0 if isinstance(info, Exception) else fields(info).get("Size", 0) for info in answers]
        return sizes

    def chunks(self, key: bytes) -> Iterator[tuple[int, bytes]]:
        """Each iterator and data of BF.SCANDUMP, the header first."""
        if self.is_valkey_bloom:
            payload = self.call("DUMP", key)
            if payload is not None:
                yield from self._dumped(payload)
            return
        position = 0
        while True:
            following, data = self.call("BF.SCANDUMP", key, position)
            if following == 0:
                return
            if following <= position:
                raise NotCopied(f"{self}: BF.SCANDUMP goes back from {position} to {following}")
            yield following, data
            position = following

    @staticmethod
    def _dumped(payload: bytes) -> Iterator[tuple[int, bytes]]:
        try:
            yield from _valkey.chunks(payload)
        except _valkey.NoFilter as error:
            raise NotCopied(f"DUMP gives what is no filter of valkey-bloom 1 ({error})") from None

    def state(self, key: bytes) -> State | None:
        """The state of a filter; None where there is none any more."""
        try:
            if self.is_valkey_bloom:
                # Asked first, because it knows what holds a filter; DUMP gives any value. valkey-bloom never changes a
                # filter but by an item that it counts; the seed tells a new one from an old.
                self.call("BF.CARD", key)
                payload = self.call("DUMP", key)
                return None if payload is None else State(next(self._dumped(payload))[1], None)
            header = self.call("BF.SCANDUMP", key, 0)[1]
            if header.startswith(MAGIC):
                return State(header, None)
            try:
                return State(header, self.full(key)["Bits set"])
            except (ResponseError, KeyError):
                # RedisBloom, which has no BF.MERGE.
                return State(header, None)
        except ResponseError as error:
            if "not found" in str(error):
                return None
            raise

    def full(self, key: bytes) -> dict[str, Any]:
        return fields(self.call("BF.INFO", key, "FULL"))

    def items(self, key: bytes) -> int:
        return fields(self.call("BF.INFO", key)).get("Number of items inserted", 0)

    def figures(self, key: bytes) -> dict[str, Any]:
        """Everything that the server tells about a filter, as far as it knows the command and allows it."""
        figures = {f"BF.INFO {name}": value for name, value in fields(self.call("BF.INFO", key)).items()}
        # Old versions of RedisBloom give a rate for filters that do not grow, too.
        if figures.get("BF.INFO Expansion rate") is None:
            figures.pop("BF.INFO Expansion rate", None)
        # By the server's own limit.
        figures.pop("BF.INFO Max scaled capacity", None)
        for command in ("BF.CARD", "BF.DEBUG"):
            try:
                answer = self.call(command, key)
                figures[command] = [line.decode() for line in answer] if isinstance(answer, list) else answer
            except ResponseError:
                pass
        return figures

    def left(self, key: bytes) -> int | None:
        """Milliseconds until a key expires; -1 where it never does, None where it is gone."""
        left = self.call("PTTL", key)
        return None if left == -2 else left


def is_unknown(error: Exception | None) -> bool:
    """Whether this is what a server, or redis-py's client of a cluster, says of a command that is not there."""
    text = str(error).lower()
    return "unknown command" in text or "doesn't exist" in text


def wire_text(error: Exception) -> str:
    """The server's words; the client takes off the ERR in front, and keeps every other code."""
    return str(error) or type(error).__name__
