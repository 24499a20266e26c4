"""What the answers of servers mean. An error is recognised by its class and by the whole text that the server sends: a key, a
user, a host or a path can contain any word."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from ._native import FullError

# A full filter, of this module, RedisBloom or valkey-bloom; for packed items with the number of those that fitted.
FULL = re.compile(
    r"(?:non scaling filter is full"
    r"|the filter is full: a further layer would have an error rate of 0, or too large a capacity)"
    r"(?: after \d+ items)?"
)
# A filter that would need more than a limit allows.
NO_ROOM = re.compile(
    r"(?:Insufficient memory to grow filter|the filter would have more than \d+ layers: .*)(?: after \d+ items)?"
)
# Classes of redis-py and valkey-py for answers that they derive from ConnectionError.
ANSWERS = ("BusyLoadingError", "AuthenticationError", "AuthenticationWrongNumberOfArgsError", "AuthorizationError")
# Classes, or codes where a client has no class, with which a node of a cluster names another one.
REDIRECTED = ("MovedError", "AskError")
REDIRECTING_CODES = ("MOVED", "ASK")

AnyError = TypeVar("AnyError", bound=BaseException)


class UnsureError(Exception):
    """The connection broke before the answer came, or too few replicas confirmed the items: the change may have been made or
    not. Adding items again is safe."""


class MissingError(LookupError):
    """There is no such filter, or a part of it is gone: it was deleted or evicted, or a server lost its data."""


class Maybe(enum.Enum):
    """The class of MAYBE_NEW, which counts as true."""

    NEW = "maybe new"

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return "MAYBE_NEW"


# The item is in the filter, and may have been new: the answer to its first attempt was lost.
MAYBE_NEW = Maybe.NEW


class Count(int):
    """A number of items. Up to `maybe` others may belong to it too: the first answer to them was lost."""

    maybe: int

    def __new__(cls, certain: int, maybe: int = 0) -> Count:
        count = super().__new__(cls, certain)
        count.maybe = maybe
        return count

    def plus(self, other: Count) -> Count:
        return Count(self + other, self.maybe + other.maybe)


def is_answer(error: BaseException) -> bool:
    """Whether a server answered with this error. Otherwise something is wrong with the connection."""
    names = [kind.__name__ for kind in type(error).__mro__]
    return "ResponseError" in names or any(name in ANSWERS for name in names)


def is_of_client(error: BaseException) -> bool:
    """Whether a client raised this error, or the system. Others are the program's own, such as that of a signal handler, or
    of a value that cannot be sent: the caller gets them."""
    if type(error).__name__ == "DataError":
        return False
    modules = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return isinstance(error, (OSError, EOFError)) or not modules.isdisjoint(("redis", "valkey"))


def is_exhausted(error: BaseException) -> bool:
    """Whether all connections of the client's pool are in use. They are the program's own, and would not come back while it
    waits for one. Some versions of the clients have no class for this."""
    texts = ("Too many connections", "No connection available.")
    return type(error).__name__ == "MaxConnectionsError" or str(error) in texts


@contextmanager
def despite_the_client() -> Iterator[None]:
    """Goes on after an error of the client."""
    try:
        yield
    except Exception as error:
        if not is_of_client(error):
            raise


def code(error: BaseException) -> str:
    """The first word of a server's answer: the code of the error, where the clients have no class for it."""
    return str(error).split(" ")[0] if is_answer(error) else ""


def is_text(error: BaseException | None, text: str) -> bool:
    """Whether a server answered with an error of exactly this text. The clients remove the code ERR, and no other."""
    return error is not None and is_answer(error) and str(error) == text


def is_full(error: BaseException) -> bool:
    """Whether a filter takes no more items."""
    return is_answer(error) and bool(FULL.fullmatch(str(error)))


def is_no_room(error: BaseException) -> bool:
    """Whether an item did not fit, in the filter or the memory."""
    is_short = type(error).__name__ == "OutOfMemoryError" or code(error) == "OOM"
    return is_full(error) or is_short or is_answer(error) and bool(NO_ROOM.fullmatch(str(error)))


def is_missing(error: BaseException | None) -> bool:
    """Whether a BF command did not find its key."""
    return is_text(error, "not found")


def is_bad_header(error: BaseException | None) -> bool:
    """Whether BF.LOADCHUNK did not take a header."""
    return is_text(error, "received bad data")


def is_unknown(error: BaseException | None, name: str) -> bool:
    """Whether a server, a script in it, or redis-py's client of a cluster does not know a command."""
    if error is None:
        return False
    # A name is quoted, and what was sent with it follows.
    by_server = re.compile(r"unknown command ['`]|(@user_script: ?\d+: )?Unknown (Redis )?command called from script$", re.I)
    by_client = f"{name} command doesn't exist in Redis commands"
    text = str(error)
    return text == by_client or is_answer(error) and bool(by_server.match(text))


def reworded(error: AnyError, text: str) -> AnyError:
    """The error with another text. Some classes of the clients can only be made of the server's own."""
    error.args = (text,)
    return error


def of_filter(error: Exception, name: str, where: str = "") -> Exception:
    """The error to raise for a command's error: FullError for a full filter; else the same one, so that it says what helps.
    `where` stands before its text."""
    if is_full(error):
        return FullError(where + str(error))
    if is_unknown(error, name):
        return reworded(error, where + lacks("the server", name))
    if type(error).__name__ in REDIRECTED or code(error) in REDIRECTING_CODES:
        why = f"{where}the key is in another node of a cluster ({error}): RedisCluster or ValkeyCluster would find it"
        return reworded(error, why)
    return reworded(error, where + str(error)) if where else error


def lacks(server: object, name: str) -> str:
    return f"{server} has no {name}: load the module there"


def unreadable(server: object, layout: str, error: BaseException) -> str:
    """Why a server refuses the header of a filter that is not classic."""
    return f"{server} cannot read the {layout} layout: only classic filters can go to RedisBloom. ({error})"
