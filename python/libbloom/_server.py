"""A server or a cluster, for the program `libbloom`: its filters, and errors in one line."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from . import _answers, _words
from ._answers import is_missing, is_unknown
from ._native import Filter, FormatError, scandump
from ._words import fields
from ._terminal import Trouble, shown

try:
    import redis
    from redis.backoff import NoBackoff
    from redis.cluster import RedisCluster
    from redis.exceptions import (
        BusyLoadingError,
        InvalidResponse,
        NoPermissionError,
        ReadOnlyError,
        RedisClusterException,
        ResponseError,
    )
    from redis.retry import Retry
except ImportError:
    raise Trouble("redis-py is missing: pip install 'libbloom[redis]'") from None

# RedisBloom's and this module's type, and that of filters in valkey-bloom's layout.
TYPE_NAMES = [kind for kind in _words.TYPES if kind != b"none"]
# The beginning of this module's own headers, before the format version. A classic filter's begins with its item count.
MAGIC = b"BLOOM\0\0"
VALKEY_MAGIC = MAGIC + b"\2"
# Seconds to wait for a connection, with the handshake of TLS and a first answer; and for each other answer. Some take long,
# as when RENAME replaces a large value.
CONNECT_TIMEOUT = 10
ANSWER_TIMEOUT = 300
# Seconds between two attempts to reach a server, or all of a cluster.
PAUSE = 0.5
READ_SIZE = 1 << 20
# Commands that are under way at once.
PIPELINE = 10
# A URL: its user and password, its place, its database if that is no path of a socket, its query, and what is left out.
KINDS = ("redis://", "rediss://", "unix://")
URL = re.compile(
    r"(?:rediss?://(?:[^@/?#]*@)?(?:[^]@/?#:[]*|\[[0-9a-fA-F:.%]*\])(?::(?P<port>[^@/?#]*))?(?:/(?P<db>[^@?#]*))?"
    r"|unix://(?:[^@/?#]*@)?[^?#]*)(?:\?(?P<query>[^#@]*))?(?P<rest>#[^@]*)?",
    re.DOTALL,
)
# What names a port and a database in it. A server says itself which databases it has.
PORT, DATABASE = re.compile("[0-9]{1,5}"), re.compile("[0-9]{1,10}")
# A key that does not exist, for commands that are only tried.
NOBODY = b"{libbloom}"


class NotCopied(Exception):
    """Why one filter was not copied. The run goes on with the next one."""


class State(NamedTuple):
    """What to compare to see whether a filter has changed."""

    # The header for chunks. It has the number of items, the exceptions and, for a blocked filter, the number of set
    # bits: whatever was added or excepted shows in it.
    header: bytes
    # The set bits of a classic filter: BF.MERGE can add bits without changing the number of items, which it estimates.
    # None if the header has the set bits, or the server does not tell them.
    bits_set: int | None

    def is_alike(self, other: State) -> bool:
        """Whether the states are equal; the set bits count only if both servers tell them."""
        return self.header == other.header and (None in (self.bits_set, other.bits_set) or self == other)


def cluster(url: str, settings: dict[str, Any], deadline: float) -> Any:
    """The client of a cluster. It asks a node of its own choice, which may be one that a replica is about to replace."""
    return waited_for(lambda: RedisCluster.from_url(url, **settings), deadline)


def waited_for(ask: Callable[[], Any], deadline: float) -> Any:
    """Asks again until there is an answer, or the deadline has passed. A refusal is an answer."""
    while True:
        try:
            return ask()
        except (redis.ConnectionError, redis.TimeoutError) as error:
            if is_refusal(error) or time.monotonic() >= deadline:
                raise
            time.sleep(PAUSE)


def is_refusal(error: Exception) -> bool:
    """Whether a server answered with this error, and not because it only begins to run."""
    return _answers.is_answer(error) and not isinstance(error, BusyLoadingError)


def check_url(role: str, url: str) -> None:
    """Raises an error for a URL that would be understood in another way than it was meant. It shows nothing of the URL,
    because a password may be anywhere in it."""
    parts = URL.fullmatch(url)
    if parts is None:
        kinds = "Redis URL must specify one of redis://, rediss:// (TLS) and unix://"
        escapes = (
            "the URL is not understood: in a user and a password write special characters as %2F for /, %23 for #, "
            "%3F for ?, %40 for @, %3A for : and %25 for %"
        )
        raise Trouble(f"{role}: {escapes if url.startswith(KINDS) else kinds}")
    port = parts["port"]
    if port is not None and not (PORT.fullmatch(port) and 0 < int(port) < 1 << 16):
        raise Trouble(f"{role}: the port of the URL is no number from 1 to 65535")
    if parts["rest"]:
        raise Trouble(f"{role}: the URL has a #, and what follows it would be left out: write %23 for it")
    numbers = parse_qs(parts["query"] or "", keep_blank_values=True).get("db", []) + [parts["db"]] * bool(parts["db"])
    if not all(map(DATABASE.fullmatch, numbers)) or len(set(map(int, numbers))) > 1:
        raise Trouble(
            f"{role}: the database of the URL is not one number: write redis://host:6379/3 or unix:///path?db=3 for database 3"
        )


class Server:
    """A server or a cluster, and its part in what is done. It has redis-py's client, to which nothing is decoded."""

    def __init__(self, role: str, url: str, patience: float = 0, answer_timeout: float = ANSWER_TIMEOUT, db: int | None = None):
        """`patience`: seconds for which a server, or a node of its cluster, is asked again while it does not answer.
        `answer_timeout`: seconds that an answer may take. `db`: the database, whatever the URL says."""
        self.role, self.is_valkey_bloom = role, False
        # No second try of a command whose answer was lost: a header cannot be loaded twice, and an item
        # that was added would count as known.
        settings: dict[str, Any] = {
            "protocol": 2,
            "socket_connect_timeout": CONNECT_TIMEOUT,
            "socket_timeout": CONNECT_TIMEOUT,
            "socket_read_size": READ_SIZE,
            "retry": Retry(NoBackoff(), 0),
        }
        check_url(role, url)
        try:
            self.client: Any = redis.Redis.from_url(url, **settings)
        except ValueError as error:
            # An option behind the question mark, whose value redis-py does not show.
            raise Trouble(f"{role}: {error}") from None
        place = self.client.connection_pool.connection_kwargs
        self.names_db = "db" in place
        if db is not None:
            place["db"] = db
        self.db = place.get("db") or 0
        self.address = place.get("path") or f"{place.get('host', 'localhost')}:{place.get('port', 6379)}"
        self.address += f"/{self.db}"
        deadline = time.monotonic() + patience
        with self.reachable():
            self.meet(url, patience, deadline)
            settings["socket_timeout"] = place["socket_timeout"] = answer_timeout
            self.client.connection_pool.disconnect()
            if self.is_cluster():
                self.client = cluster(url, settings, deadline)

    def meet(self, url: str, patience: float, deadline: float) -> None:
        """Asks for a first answer."""
        try:
            waited_for(self.client.ping, deadline)
        except (redis.ConnectionError, redis.TimeoutError) as error:
            if patience and not is_refusal(error):
                hint = "--url may name any other server of the cluster"
                raise Trouble(f"{self}: no answer for {patience:.0f} seconds ({error}): {hint}") from None
            if not isinstance(error, redis.TimeoutError):
                raise
            hint = ", or its port is not for TLS, then it is redis://" if url.startswith("rediss:") else ""
            raise Trouble(f"{self}: no answer for {CONNECT_TIMEOUT} seconds: the address is wrong or it hangs{hint}") from None
        except InvalidResponse as error:
            hint = ", or its port is for TLS, then it is rediss://" if url.startswith("redis:") else ""
            raise Trouble(f"{self}: this is no server of Redis or Valkey{hint} ({error})") from None
        except ResponseError as error:
            # There is no such database.
            raise Trouble(f"{self}: {error}") from None
        except TypeError as error:
            raise Trouble(f"{self}: redis-py does not know an option of the URL ({error})") from None

    def __str__(self) -> str:
        return f"{self.role} {self.address}"

    @contextmanager
    def reachable(self) -> Iterator[None]:
        """Names the server in what goes wrong with the connection."""
        try:
            yield
        except (redis.ConnectionError, redis.TimeoutError, InvalidResponse, RedisClusterException) as error:
            raise Trouble(f"{self}: {error}") from error

    def is_cluster(self) -> bool:
        try:
            return self.client.info("cluster").get("cluster_enabled") == 1
        except ResponseError:
            return False

    def identity(self) -> Any:
        """A value by which two databases can be told apart; None if the user may not query it."""
        if self.is_of_cluster:
            return sorted(node.name for node in self.client.get_nodes())
        try:
            with self.reachable():
                return self.client.info("server").get("run_id"), self.db
        except ResponseError:
            return None

    def databases(self) -> set[int] | None:
        """The numbers of the databases that have keys; None if the user may not query them."""
        try:
            with self.reachable():
                if self.is_of_cluster:
                    answers = [self.client.info("keyspace", target_nodes=node) for node in self.client.get_primaries()]
                else:
                    answers = [self.client.info("keyspace")]
        except ResponseError:
            return None
        return {int(name[2:]) for answer in answers for name in answer if re.fullmatch(r"db\d+", name)}

    @property
    def is_of_cluster(self) -> bool:
        """Whether this is a cluster, of which the client has database 0 only."""
        return isinstance(self.client, RedisCluster)

    def require(self, command: str) -> None:
        """Raises an error unless the server has `command`."""
        if is_unknown(self.error(command, NOBODY), command):
            raise Trouble(
                f"{_answers.lacks(self, command)} (or RedisBloom, or valkey-bloom from 1.0 on as the source of a copy)"
            )

    def require_source(self) -> None:
        """Finds out how filters are read here. Only valkey-bloom has BF.LOAD and no chunks."""
        has_chunks = not is_unknown(self.error("BF.SCANDUMP", NOBODY), "BF.SCANDUMP")
        self.is_valkey_bloom = not has_chunks and not is_unknown(self.error("BF.LOAD", NOBODY), "BF.LOAD")
        if not self.is_valkey_bloom:
            self.require("BF.SCANDUMP")

    def require_filter(self, key: bytes) -> None:
        """Raises an error unless the key holds a filter. A missing key would answer no to every query."""
        kind = self.call("TYPE", key)
        if kind == b"none":
            raise Trouble(f"there is no {shown(key)}")
        if kind not in TYPE_NAMES:
            raise Trouble(f"{shown(key)} is a {shown(kind)}, and no filter")

    def offers(self, *words: Any) -> bool:
        """Whether there is such a command, and the user may run it. It is run, so it must change nothing."""
        error = self.error(*words)
        return not is_unknown(error, words[0]) and not isinstance(error, NoPermissionError)

    def error(self, *words: Any) -> Exception | None:
        """The error with which the server refuses a command, or None."""
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
                # The answer of Valkey for a type that it does not know; Redis returns no keys.
                if not _answers.is_text(why, f"unknown type name '{kind.decode()}'"):
                    raise
        return found

    def chunks(self, key: bytes) -> Iterator[tuple[int, bytes]]:
        """Each iterator and data of BF.SCANDUMP, the header first."""
        ask, position = self._scandump(key), 0
        while ask is not None:
            following, data = ask(position)
            if following == 0:
                return
            if following <= position:
                raise NotCopied(f"{self}: BF.SCANDUMP goes back from {position} to {following}")
            yield following, data
            position = following

    def _scandump(self, key: bytes) -> Callable[[int], Any] | None:
        """What answers as BF.SCANDUMP does. valkey-bloom has no such command: there the filter comes out of DUMP. None if it
        is gone."""
        if not self.is_valkey_bloom:
            return lambda position: self.call("BF.SCANDUMP", key, position)
        payload = self.call("DUMP", key)
        return None if payload is None else partial(scandump, filter_of(payload))

    def state(self, key: bytes) -> State | None:
        """The state of a filter; None where there is none any more."""
        try:
            if self.is_valkey_bloom:
                # BF.CARD is an error if the key holds no filter; DUMP returns any value. valkey-bloom changes a filter
                # only by items that it counts, and a new filter of the same name has another seed.
                self.call("BF.CARD", key)
            ask = self._scandump(key)
            if ask is None:
                return None
            header = ask(0)[1]
            if header.startswith(MAGIC):
                return State(header, None)
            try:
                return State(header, self.full(key)["Bits set"])
            except (ResponseError, KeyError):
                # A RedisBloom, which does not tell the set bits.
                return State(header, None)
        except ResponseError as error:
            if is_missing(error):
                return None
            raise

    def full(self, key: bytes) -> dict[str, Any]:
        return fields(self.call("BF.INFO", key, "FULL"))

    def items(self, key: bytes) -> int:
        return fields(self.call("BF.INFO", key)).get("Number of items inserted", 0)

    def left(self, key: bytes) -> int | None:
        """Milliseconds until a key expires; -1 if it never does, None if it is gone."""
        left = self.call("PTTL", key)
        return None if left == -2 else left


def filter_of(payload: bytes) -> Filter:
    """The filter in what DUMP of valkey-bloom gave."""
    try:
        return Filter.from_bytes(payload)
    except FormatError as error:
        raise NotCopied(f"DUMP gives what is no filter of valkey-bloom 1 ({error})") from None
