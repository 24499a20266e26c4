"""Delivers commands to a server, or to all nodes of a cluster at once, and sends those again that do not arrive.

The client, of redis-py or valkey-py, knows the nodes and their slots, has the connections, and reads the answers. Its own
calls and pipelines would not do: if the answer to a command is lost they send the command again, and the caller never
learns of it.

What talks to a server is a coroutine, also for clients without asyncio: their methods are not awaited, so that such a
coroutine never waits, and `run` completes it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ._answers import REDIRECTED, Count, UnsureError, code, despite_the_client, is_answer, is_exhausted, is_of_client
from ._words import Command

Result = TypeVar("Result")

ASKING: Command = ("ASKING",)
# Seconds between two attempts, at first and at most.
SHORTEST_PAUSE, LONGEST_PAUSE = 0.02, 1.0
# Milliseconds for which WAIT waits, less than a client's time limit for answers.
WAIT_TIME = 2000
# Classes of errors with which a node says that it did not carry out a command, and will later.
NOT_NOW = ("TryAgainError", "ClusterDownError", "MasterDownError", "BusyLoadingError", "ReadOnlyError")
# Codes of such errors without a class, in one client or both: a primary has too few replicas, or is one that has lost its
# primary, or has become one; or a script runs.
NOT_NOW_CODES = ("NOREPLICAS", "MASTERDOWN", "UNBLOCKED", "BUSY")


class Undelivered(Exception):
    """A command got no answer. The text is that of the client's error."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause) or type(cause).__name__)
        self.cause = cause


class Unsent(Undelivered):
    """The commands did not reach the node."""


class Lost(Undelivered):
    """The connection broke before the answer came: the command may have been carried out."""


class Unconfirmed(Exception):
    """The commands were carried out, and too few replicas have what they wrote."""


class Call:
    """A command for the node that has its key, and its outcome."""

    def __init__(self, key: bytes, *command: Any) -> None:
        self.key = key
        self.command: Command = command
        # The first answer that came, or the error that no other attempt would change.
        self.reply: Any = None
        self.error: Exception | None = None
        self.is_answered = False
        # Of a command that counts what it adds: how many of these the server certainly has. A primary that dies takes
        # what no replica confirmed with it. The next one may take some of the items for known by then.
        self.kept: Any = None
        self.answered_by: str | None = None
        # Whether it may have been carried out before the attempt that was answered.
        self.is_unsure = False
        # The node to which the cluster redirected it, and whether its slot is still moving there.
        self.place: tuple[str, int] | None = None
        self.is_asking = False

    def take(self, reply: Any, node: str | None = None) -> bool:
        """Takes a node's answer to an attempt. Returns whether there must be another attempt."""
        self.place, self.is_asking = None, False
        if not isinstance(reply, Exception):
            if reply or not self.is_answered or node != self.answered_by:
                self.kept, self.answered_by = reply, node
            if not self.is_answered:
                self.reply, self.is_answered = reply, True
            return False
        if is_redirection(reply):
            # A node that does not know the other one's address gives none.
            self.place = (reply.host, reply.port) if reply.host else None  # type: ignore[attr-defined]
            self.is_asking = type(reply).__name__ == "AskError"
        elif isinstance(reply, Lost):
            self.is_unsure |= not self.is_answered
        elif not is_passing(reply):
            self.error = reply
            return False
        return True

    def counted(self, items: int) -> Count:
        """How many of the items were new, for a command that counts them."""
        is_unsure = self.is_unsure or self.kept != self.reply
        return Count(self.kept, (items - self.kept) * is_unsure)


def is_redirection(error: Exception) -> bool:
    return type(error).__name__ in REDIRECTED


def is_passing(error: Exception) -> bool:
    """Whether another attempt may succeed."""
    if isinstance(error, (Unsent, Unconfirmed)) or type(error).__name__ in NOT_NOW:
        return True
    return code(error) in NOT_NOW_CODES


class Batch:
    """The calls of one attempt that go to one node, in one connection. If `replicas` is above 0, they end with a WAIT.

    WAIT confirms the last write of its connection. A call whose items are all known writes nothing, so a write of our own
    comes before the WAIT.
    """

    def __init__(self, node: Any, replicas: int) -> None:
        self.node = node
        self.replicas = replicas
        self.calls: list[Call] = []

    def commands(self) -> list[Command]:
        words = []
        for call in self.calls:
            words += [ASKING] * call.is_asking + [call.command]
        if self.replicas:
            fence = ("SET", self.calls[-1].key + b":wait", b"", "PX", WAIT_TIME)
            words += [ASKING] * self.calls[-1].is_asking + [fence, ("WAIT", self.replicas, WAIT_TIME)]
        return words

    def take(self, replies: list[Any]) -> list[tuple[Call, Exception]]:
        """Takes the answers to `commands`. Returns the calls that must be sent again, and why."""
        answers = iter([reply for command, reply in zip(self.commands(), replies) if command is not ASKING])
        answered = list(zip(self.calls, answers))
        again = [(call, reply) for call, reply in answered if call.take(reply, getattr(self.node, "name", None))]
        if self.replicas:
            fence, confirmed = answers
            why = self.unconfirmed(fence, confirmed)
            others = [call for call, reply in answered if not isinstance(reply, Exception)]
            again += [(call, why) for call in others if why is not None and call.take(why)]
        return again

    def unconfirmed(self, fence: Any, confirmed: Any) -> Exception | None:
        """Why these answers, to our own write and to WAIT, confirm nothing; None if they do."""
        for reply in (fence, confirmed):
            if isinstance(reply, Exception):
                # A redirection of our own write says nothing of where the other keys are.
                return Unconfirmed(str(reply)) if is_redirection(reply) else reply
        if confirmed < self.replicas:
            return Unconfirmed(f"{confirmed} of {self.replicas} replicas have confirmed")
        return None


async def delivered(
    links: Links,
    calls: list[Call],
    patience: float,
    *,
    adds: bool = False,
    changes: bool = False,
    once: bool = False,
    replicas: int = 0,
) -> None:
    """Delivers commands, in any order. Commands that do not arrive are sent again for `patience` seconds. Set `adds` if
    they add items: then a repeated call is marked as such, and with `replicas` repeated until so many have it. Set `changes`
    for others after which a filter is another one, and `once` if they would destroy what came after them: then none is sent
    again whose answer was lost."""
    await links.ready()
    left, pause, deadline = calls, 0.0, None
    while left:
        batches: dict[Any, Batch] = {}
        for call in left:
            node = links.node_of(call)
            name = getattr(node, "name", None)
            if name not in batches:
                batches[name] = Batch(node, replicas if adds else 0)
            batches[name].calls.append(call)
        replies = await links.exchange([(batch.node, batch.commands()) for batch in batches.values()])
        again = [failed for batch, some in zip(batches.values(), replies) for failed in batch.take(some)]
        if not links.is_cluster:
            # A client of a single server cannot follow.
            for call, why in again:
                call.error = why if is_redirection(why) else None
            again = [(call, why) for call, why in again if call.error is None]
        if not again:
            return
        left, why = [call for call, _ in again], again[-1][1]
        now = time.monotonic()
        deadline = deadline or now + patience
        if now >= deadline or once and any(call.is_unsure for call in left):
            raise given_up(left, why, adds, changes or once)
        if pause or not all(is_redirection(error) for _, error in again):
            await links.pause(pause or SHORTEST_PAUSE)
        pause = min(2 * pause or SHORTEST_PAUSE, LONGEST_PAUSE)
        if not all(call.is_asking for call in left):
            await links.refresh()


def given_up(calls: list[Call], why: Exception, adds: bool, changes: bool) -> BaseException:
    cause = why.cause if isinstance(why, Undelivered) else why
    if not (adds or changes) or not any(call.is_unsure or call.is_answered for call in calls):
        return cause
    if adds:
        text = "their items may have been added or not; adding them again is safe"
    else:
        text = f"{calls[0].command[0]} may have been carried out or not"
    unsure = UnsureError(f"{len(calls):,} commands were not answered or confirmed ({why}): {text}")
    unsure.__cause__ = cause
    return unsure


class Links:
    """The connections of a client to its nodes."""

    # Bytes of packed items in a command. For one key, commands that are under way at once; for many, commands and bytes.
    PIECE, DEPTH, AT_ONCE, MOST = 1 << 20, 4, 4096, 64 << 20
    IS_ASYNCIO = False

    def __init__(self, client: Any) -> None:
        self.client = client
        self.is_cluster = hasattr(client, "nodes_manager")

    @classmethod
    def check(cls, client: Any) -> None:
        """Raises TypeError for what is no client, or one of another kind."""
        if not hasattr(client, "execute_command"):
            raise TypeError(f"the client is one of redis-py or valkey-py, not {type(client).__name__}")
        if any(kind.__name__.endswith("Pipeline") for kind in type(client).__mro__):
            raise TypeError("a pipeline answers nothing until it is executed: pass the client that made it")
        if hasattr(client, "__aenter__") != cls.IS_ASYNCIO:
            kind, use = ("not one", "") if cls.IS_ASYNCIO else ("one", "Async")
            raise TypeError(f"the client is {kind} for asyncio: use {use}Bloom or {use}ShardedBloom")

    @staticmethod
    async def turn() -> None:
        """Lets other tasks run."""

    @staticmethod
    async def apart(call: Callable[..., Result], *arguments: Any) -> Result:
        """Calls what takes long, and lets other threads run meanwhile."""
        return call(*arguments)

    async def ready(self) -> None:
        """Has the client learn its nodes, which those of asyncio do not do when they are made."""

    def node_of(self, call: Call) -> Any:
        """The node for a call: the one it was redirected to, or the primary that has its slot; None if no node has it."""
        if not self.is_cluster:
            return self.client
        with despite_the_client():
            there = self.client.get_node(*call.place) if call.place else None
            return there or self.client.get_node_from_key(call.key)
        return None

    async def exchange(self, parts: list[tuple[Any, list[Command]]]) -> list[list[Any]]:
        """Sends commands to some nodes, then reads all answers."""
        links = [Link(self.client, node, commands) for node, commands in parts]
        try:
            for link in links:
                await link.send()
            return [await link.read() for link in links]
        finally:
            for link in links:
                await link.close()

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    async def refresh(self) -> None:
        """Has the client look again which node has which slot."""
        if self.is_cluster:
            # If it cannot, the next attempt will tell.
            with despite_the_client():
                await settled(self.client.nodes_manager.initialize())


class AsyncLinks(Links):
    """Those of an asyncio client. Between two steps of some milliseconds other tasks have their turn."""

    PIECE, DEPTH, AT_ONCE, MOST = 1 << 16, 4, 64, 4 << 20
    IS_ASYNCIO = True

    @staticmethod
    async def turn() -> None:
        await asyncio.sleep(0)

    @staticmethod
    async def apart(call: Callable[..., Result], *arguments: Any) -> Result:
        return await asyncio.to_thread(call, *arguments)

    async def ready(self) -> None:
        if self.is_cluster:
            await self.client.initialize()

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Link:
    """A connection to a node, for as long as some commands and their answers take."""

    def __init__(self, client: Any, node: Any, commands: list[Command]) -> None:
        self.pool = node if node is None else pool_of(client, node)
        self.commands = commands
        # If the connection breaks, its error stands for the answers that did not come.
        self.replies: list[Any] = []
        self.connection: Any = None

    async def send(self) -> None:
        if self.pool is None:
            return self.fail(Unsent(ConnectionError("no node has the slot")))
        try:
            self.connection = await settled(connection_of(self.pool))
            await settled(self.connection.connect())
        except Exception as error:
            if not is_of_client(error) or is_answer(error) and not is_passing(error) or is_exhausted(error):
                # A wrong password, or another refusal, after which there is no other attempt.
                raise
            return self.fail(Unsent(error))
        # If a word cannot be packed, nothing was sent.
        packed = self.connection.pack_commands(self.commands)
        try:
            await settled(self.connection.send_packed_command(packed))
        except Exception as error:
            if not is_of_client(error):
                raise
            await self.lose(error)

    async def read(self) -> list[Any]:
        while len(self.replies) < len(self.commands):
            try:
                self.replies.append(await settled(self.connection.read_response(disable_decoding=True)))
            except Exception as error:
                if not is_of_client(error):
                    raise
                if is_answer(error):
                    self.replies.append(error)
                else:
                    await self.lose(error)
        return self.replies

    async def lose(self, error: Exception) -> None:
        await settled(self.connection.disconnect())
        self.fail(Lost(error))

    def fail(self, error: Exception) -> None:
        self.replies += [error] * (len(self.commands) - len(self.replies))

    async def close(self) -> None:
        if self.connection is None:
            return
        if len(self.replies) < len(self.commands):
            # The next user of the connection would read these answers.
            await settled(self.connection.disconnect())
        if hasattr(self.pool, "release"):
            await settled(self.pool.release(self.connection))
        else:
            self.pool._free.append(self.connection)


def pool_of(client: Any, node: Any) -> Any:
    """What has the connections to a node. The nodes of asyncio's clients have their own."""
    if node is client:
        return client.connection_pool
    of_node = getattr(client, "get_redis_connection", None) or getattr(client, "get_valkey_connection", None)
    return of_node(node).connection_pool if of_node else node


def connection_of(pool: Any) -> Any:
    if hasattr(pool, "acquire_connection"):
        return pool.acquire_connection()
    try:
        return pool.get_connection()
    except TypeError:
        # Other versions want to know the command.
        return pool.get_connection("BF.INFO")


async def settled(result: Any) -> Any:
    """What a client's method gave; with asyncio it is awaited."""
    return await result if hasattr(result, "__await__") else result


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Completes what uses a client without asyncio."""
    try:
        work.send(None)
    except StopIteration as stop:
        return stop.value
    work.close()
    raise TypeError("this client waits in asyncio: use AsyncBloom or AsyncShardedBloom")
