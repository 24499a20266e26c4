"""Sends commands to a server, or to the nodes of a cluster all at once, and repeats those that do not arrive.

`delivered` needs no connection: it is a generator that yields the name and the arguments of a method of `Links`, and gets
the result. `run` and `run_async` drive it, with any client of redis-py or valkey-py. The clients' own calls and pipelines
would not do: if the answer to a command is lost they send the command again, and the caller never learns of it.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from ._answers import REDIRECTED, Count, UnsureError, code, is_answer
from ._steps import Command, Steps, slot

# Commands for a node.
Round = tuple[Any, list[Command]]

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
        self.slot = slot(key)
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
        name = type(reply).__name__
        if name in REDIRECTED:
            # A node that does not know the other one's address gives none.
            self.place = (reply.host, reply.port) if reply.host else None  # type: ignore[attr-defined]
            self.is_asking = name == "AskError"
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


def is_passing(error: Exception) -> bool:
    """Whether another attempt may succeed."""
    if isinstance(error, (Unsent, Unconfirmed)) or type(error).__name__ in NOT_NOW:
        return True
    return code(error) in NOT_NOW_CODES


class Party:
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
                return Unconfirmed(str(reply)) if type(reply).__name__ in REDIRECTED else reply
        if confirmed < self.replicas:
            return Unconfirmed(f"{confirmed} of {self.replicas} replicas have confirmed")
        return None


def delivered(
    client: Any,
    calls: list[Call],
    patience: float,
    *,
    adds: bool = False,
    changes: bool = False,
    once: bool = False,
    replicas: int = 0,
) -> Steps:
    """Delivers commands, in any order. Commands that do not arrive are sent again for `patience` seconds. Set `adds` if
    they add items: then a repeated call is marked as such, and with `replicas` repeated until so many have it. Set `changes`
    for others after which a filter is another one, and `once` if they would destroy what came after them: then none is sent
    again whose answer was lost."""
    left, pause, deadline = calls, 0.0, None
    while left:
        parties: dict[Any, Party] = {}
        for call in left:
            node = node_of(client, call)
            name = getattr(node, "name", None)
            parties.setdefault(name, Party(node, replicas if adds else 0)).calls.append(call)
        replies = yield "exchange", [(party.node, party.commands()) for party in parties.values()]
        again = [failed for party, some in zip(parties.values(), replies) for failed in party.take(some)]
        if not hasattr(client, "nodes_manager"):
            # A client of a single server cannot follow.
            for call, why in again:
                call.error = why if type(why).__name__ in REDIRECTED else None
            again = [(call, why) for call, why in again if call.error is None]
        if not again:
            return
        left, why = [call for call, _ in again], again[-1][1]
        now = time.monotonic()
        deadline = deadline or now + patience
        if now >= deadline or once and any(call.is_unsure for call in left):
            raise given_up(left, why, adds, changes or once)
        are_redirected = all(type(error).__name__ in REDIRECTED for _, error in again)
        if pause or not are_redirected:
            yield "pause", pause or SHORTEST_PAUSE
        pause = min(2 * pause or SHORTEST_PAUSE, LONGEST_PAUSE)
        if not all(call.is_asking for call in left):
            yield ("refresh",)


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


def node_of(client: Any, call: Call) -> Any:
    """The node for a call: the one it was redirected to, or the primary that has its slot; None if no node has it."""
    if not hasattr(client, "nodes_manager"):
        return client
    try:
        there = client.get_node(*call.place) if call.place else None
        return there or client.nodes_manager.get_node_from_slot(call.slot)
    except Exception:
        # Each client has an error of its own for this.
        return None


def unsent(error: Exception) -> Unsent:
    """The error of a connection that was not made. After a wrong password, or another refusal, there is no other attempt."""
    if is_answer(error) and not is_passing(error):
        raise error
    return Unsent(error)


def client_of(client: Any, node: Any) -> Any:
    """The client of one node, of a client that is not asyncio's."""
    if node is client:
        return client
    of_node = getattr(client, "get_redis_connection", None) or client.get_valkey_connection
    return of_node(node)


def of_pool(pool: Any) -> Any:
    """A connection of the client's; for asyncio an awaitable one."""
    try:
        return pool.get_connection()
    except TypeError:
        # Other versions want to know the command.
        return pool.get_connection("BF.INFO")


class Link:
    """A connection to a node, for as long as some commands and their answers take."""

    def __init__(self, client: Any, node: Any, commands: list[Command]) -> None:
        self.commands = commands
        self.replies: list[Any] = []
        self.connection: Any = None
        if node is None:
            return self.fail(Unsent(ConnectionError("no node has the slot")))
        self.pool = client_of(client, node).connection_pool
        try:
            self.connection = of_pool(self.pool)
        except Exception as error:
            self.fail(unsent(error))

    def fail(self, error: Exception) -> None:
        self.replies += [error] * (len(self.commands) - len(self.replies))

    def send(self) -> None:
        if self.connection is None:
            return
        packed = self.connection.pack_commands(self.commands)
        try:
            self.connection.send_packed_command(packed)
        except Exception as error:
            self.connection.disconnect()
            self.fail(Lost(error))

    def read(self) -> list[Any]:
        while len(self.replies) < len(self.commands):
            try:
                self.replies.append(self.connection.read_response(disable_decoding=True))
            except Exception as error:
                if is_answer(error):
                    self.replies.append(error)
                else:
                    self.connection.disconnect()
                    self.fail(Lost(error))
        return self.replies

    def close(self) -> None:
        if self.connection is not None:
            if len(self.replies) < len(self.commands):
                # The next user of the connection would read these answers.
                self.connection.disconnect()
            self.pool.release(self.connection)


class Links:
    """Does what `delivered` yields, with a client."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def exchange(self, rounds: list[Round]) -> list[list[Any]]:
        """Sends all commands, then reads all answers."""
        links: list[Link] = []
        try:
            for node, commands in rounds:
                links.append(Link(self.client, node, commands))
                links[-1].send()
            return [link.read() for link in links]
        finally:
            for link in links:
                link.close()

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def refresh(self) -> None:
        """Has the client look again which node has which slot."""
        if hasattr(self.client, "nodes_manager"):
            try:
                self.client.nodes_manager.initialize()
            except Exception:
                # The next attempt will tell.
                pass


class AsyncLink:
    """`Link` for asyncio."""

    def __init__(self, client: Any, node: Any, commands: list[Command]) -> None:
        self.node = node
        self.pool = client.connection_pool if node is client else None
        self.commands = commands
        self.replies: list[Any] = []
        self.connection: Any = None

    def fail(self, error: Exception) -> None:
        self.replies += [error] * (len(self.commands) - len(self.replies))

    async def open(self) -> None:
        if self.node is None:
            return self.fail(Unsent(ConnectionError("no node has the slot")))
        try:
            self.connection = self.node.acquire_connection() if self.pool is None else await of_pool(self.pool)
            await self.connection.connect()
        except Exception as error:
            self.fail(unsent(error))

    async def exchange(self) -> list[Any]:
        try:
            await self.open()
            if not self.replies:
                await self.send()
            while len(self.replies) < len(self.commands):
                await self.read()
            return self.replies
        finally:
            await self.close()

    async def send(self) -> None:
        packed = self.connection.pack_commands(self.commands)
        try:
            await self.connection.send_packed_command(packed)
        except Exception as error:
            await self.connection.disconnect()
            self.fail(Lost(error))

    async def read(self) -> None:
        try:
            self.replies.append(await self.connection.read_response(disable_decoding=True))
        except Exception as error:
            if is_answer(error):
                self.replies.append(error)
            else:
                await self.connection.disconnect()
                self.fail(Lost(error))

    async def close(self) -> None:
        if self.connection is None:
            return
        if len(self.replies) < len(self.commands):
            await self.connection.disconnect()
        if self.pool is not None:
            await self.pool.release(self.connection)
        elif hasattr(self.node, "release"):
            self.node.release(self.connection)
        else:
            self.node._free.append(self.connection)


class AsyncLinks:
    """`Links` for asyncio."""

    def __init__(self, client: Any) -> None:
        self.client = client

    async def exchange(self, rounds: list[Round]) -> list[list[Any]]:
        return await asyncio.gather(*(AsyncLink(self.client, *round).exchange() for round in rounds))

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def refresh(self) -> None:
        if hasattr(self.client, "nodes_manager"):
            try:
                await self.client.nodes_manager.initialize()
            except Exception:
                pass


def run(client: Any, steps: Steps) -> Any:
    """Drives `steps` with a client. They are told of an error, so that they can clean up."""
    links, result, error = Links(client), None, None
    while True:
        try:
            name, *words = steps.send(result) if error is None else steps.throw(error)
        except StopIteration as stop:
            return stop.value
        try:
            result, error = getattr(links, name)(*words), None
        except BaseException as raised:
            result, error = None, raised


async def run_async(client: Any, steps: Steps) -> Any:
    """Drives `steps` with an asyncio client."""
    links, result, error = AsyncLinks(client), None, None
    if hasattr(client, "nodes_manager"):
        await client.initialize()
    while True:
        try:
            name, *words = steps.send(result) if error is None else steps.throw(error)
        except StopIteration as stop:
            return stop.value
        try:
            result, error = await getattr(links, name)(*words), None
        except BaseException as raised:
            result, error = None, raised
