"""The native half: see `libbloom.Filter`."""

import os
from collections.abc import Iterable
from typing import Any, BinaryIO, final, overload

from ._words import Array, Item, Items

__version__: str

class FormatError(ValueError):
    """The bytes, or the file, are no whole filter."""

class FullError(Exception):
    """The filter is full, and may not grow."""

class SeedError(ValueError):
    """The filters have different seeds, so that their bits mean different items."""

def plan(
    capacity: float,
    error_rate: float = 0.01,
    *,
    items: float | None = None,
    fixed: bool = False,
    growing: bool = False,
    expansion: int | None = None,
    layout: str = "blocked",
    window: int | None = None,
    slices: int | None = None,
) -> tuple[int, int, float] | None:
    """The size of a filter that counts `items` (default: its capacity), without making it: its bytes, its layers, and
    its error rate when the newest layer is full. None if it cannot hold so many items."""

# For the package alone; src/ describes them.
def replace(path: str | os.PathLike[str], data: bytes) -> None: ...
def scandump(filter: Filter, iterator: int) -> tuple[int, bytes]: ...
def capacity_for(
    bytes: float, error_rate: float, *, fixed: bool = False, growing: bool = False, layout: str = "blocked"
) -> int: ...
def size_of_header(header: bytes) -> int: ...
def unseen(filter: Filter, block: bytes, end: int) -> tuple[int, bytes]: ...
def divide(shards: int, form: str, *words: Any) -> tuple[list[tuple[int, int, bytes]], bytes]: ...

@final
class Filter:
    """A Bloom filter: a set of str or bytes that says "not there" for certain, and "there" with a small chance of
    being wrong.

    It is made for `capacity` items, and answers queries for absent items wrongly with the probability `error_rate` at
    most. When it is full it grows, and keeps that rate. A str and its UTF-8 bytes are one item; a bytearray or a
    memoryview is the bytes that it has now.

    >>> seen = Filter(1_000_000, 0.001)
    >>> seen.add("https://example.com/")
    True
    >>> "https://example.com/" in seen
    True

    fixed: it never grows, and raises FullError instead.
    growing: it is expected to outgrow its capacity by far, and shares its rate out for that.
    expansion: each further layer is for so many times as many items (1 to 32768; default 2).
    seed: filters with the same one can be united. Without it, all filters of a process share a random one.
    layout: "blocked", this project's own; "classic", RedisBloom's; "valkey", valkey-bloom's.
    window: items expire after so many seconds (1 to 2^32 - 1).
    slices: the window forgets in so many steps (2 to 64; default 8).
    refresh: an item that is added again to a window is remembered for a whole window from then on.
    """

    def __new__(
        cls,
        capacity: float,
        error_rate: float = 0.01,
        *,
        fixed: bool = False,
        growing: bool = False,
        expansion: int | None = None,
        seed: int | None = None,
        layout: str = "blocked",
        window: int | None = None,
        slices: int | None = None,
        refresh: bool = False,
    ) -> Filter: ...
    def add(self, item: Item, *, now: float | None = None) -> bool:
        """Adds an item. True if it was not in the filter before. In a window it is added at `now`, in seconds of the
        Unix clock; other filters take no notice of `now`."""

    def update(self, items: Items, *, threads: int = 1, now: float | None = None) -> int:
        """Adds all items of an iterable, or of a numpy array (each element's bytes, little-endian), and counts those that
        were new. Other threads run meanwhile. With `threads` above 1, items are read in one thread and added in
        another, with the same result."""

    @overload
    def contains_many(self, items: Array, *, threads: int = 1, now: float | None = None) -> Any: ...
    @overload
    def contains_many(self, items: Iterable[Item], *, threads: int = 1, now: float | None = None) -> list[bool]:
        """Whether each item is in the filter, in the order of the items: a list of bool, or for a numpy array an array
        of bool. Other threads run meanwhile."""

    def except_(self, items: Items) -> int:
        """Takes items out, until they are added again, and counts those that were there. No other answer changes."""

    def merge(self, *others: Filter, error_rate: float | None = None) -> bool:
        """Adds all items of other filters, of any size. True if that changed anything. Layers of one shape are united if
        all their items fit into one layer. Others stay layers of their own, whose error rates add up: if they need more
        than the filter's, its `error_rate` becomes that much, unless one is given."""

    def copy(self) -> Filter:
        """An equal filter with memory of its own."""

    def shrink(self, capacity: float | None = None) -> int:
        """Makes the filter as small as its items allow, with room for `capacity` items in all, if that is given. Returns
        the bytes that were given back. Raises ValueError for a filter with a window, or of valkey-bloom's layout."""

    def clear(self) -> None:
        """Takes all items out. Parameters stay."""

    def save(self, path: str | bytes | os.PathLike[Any] | BinaryIO) -> None:
        """Writes the filter, as it is at this moment, to a file, which gets its name when it is complete and on the
        disk, or to a file object that is open for bytes. A new file is readable for its owner only; one that was there
        keeps its permissions. Other threads can add meanwhile: the first one to do so copies the filter, which takes its
        memory a second time until the file is written."""

    @classmethod
    def load(cls, path: str | bytes | os.PathLike[Any] | BinaryIO, *, max_bytes: float | None = None) -> Filter:
        """Reads a filter that `save` wrote, from a file or to the end of a file object that is open for bytes. Raises
        FormatError for anything but a whole file, and MemoryError where the filter would need more than `max_bytes`."""

    @classmethod
    def open(cls, path: str | bytes | os.PathLike[Any]) -> Filter:
        """Maps a file that `save` wrote. The filter answers at once, and processes that open a file share its memory. It
        cannot be changed; a copy of it can. Its header is checked, and that no byte is missing; the bits are not: `load`
        does that. Whoever cuts or changes the file in place, in place of `save`, may end the process."""

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview, *, max_bytes: float | None = None) -> Filter:
        """Reads what `bytes(filter)` returned, which are the bytes of a file, or what DUMP of a server returned."""

    @classmethod
    def from_rdb(
        cls,
        path: str | bytes | os.PathLike[Any],
        key: str | bytes | None = None,
        *,
        db: int | None = None,
        max_bytes: int | None = None,
    ) -> Filter:
        """The filter of a key of an RDB file, which SAVE wrote, or a cloud as a backup. Without `key` and `db` it must be
        the only one that fits: LookupError names what else is there. Raises FormatError for anything but a whole file, and
        MemoryError where the filter would need more than `max_bytes`."""

    def chunks(self) -> list[tuple[int, bytes]]:
        """The filter as arguments of BF.LOADCHUNK: an iterator and data for each call. The header comes first."""

    @classmethod
    def from_chunks(cls, chunks: list[tuple[int, bytes]]) -> Filter:
        """Makes a filter of the chunks that BF.SCANDUMP or `chunks` returned, in their order. Raises FormatError if they
        are not all chunks of one filter."""

    def push(self, client: Any, key: str | bytes) -> None:
        """Makes a key of a server this filter, whole: its chunks go under another name first, which expires if the push
        is interrupted. An expiry of the key stays. A key that holds no filter raises ValueError, or the server's
        error."""

    @classmethod
    def pull(cls, client: Any, key: str | bytes) -> Filter:
        """The filter of a key of a server. If it changes meanwhile, the server makes a copy, which is read instead."""

    @property
    def capacity(self) -> int:
        """Items that the layers are made for; of a window, the items that are expected in it."""

    @property
    def error_rate(self) -> float:
        """The probability that a query for an absent item is answered wrongly, at most."""

    @property
    def estimated_error_rate(self) -> float:
        """The probability that a query for an absent item is answered wrongly now, with the items that are in the
        filter."""

    @property
    def size_in_bytes(self) -> int:
        """Bytes of the filter. In a large filter only the pages that were written to take memory."""

    @property
    def fill_ratio(self) -> float:
        """The share of the bits that is set."""

    @property
    def layers(self) -> int:
        """The number of layers: 1, and one more each time the filter grew."""

    @property
    def exceptions(self) -> int:
        """Items that were taken out by `except_`."""

    @property
    def expansion(self) -> int | None:
        """The capacity of a new layer divided by that of the layer before it; None if the filter never grows."""
    @property
    def fixed(self) -> bool:
        """Whether the filter never grows."""
    @property
    def growing(self) -> bool:
        """Whether the filter is expected to outgrow its capacity by far."""
    @property
    def seed(self) -> int | None:
        """The seed of the hash; None in the layouts "classic", which has none, and "valkey", whose seeds are no
        numbers."""
    @property
    def layout(self) -> str:
        """The layout: "blocked", "classic" or "valkey"."""
    @property
    def window(self) -> int | None:
        """The window in seconds; None if items never expire."""
    def __contains__(self, item: Item) -> bool: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __or__(self, other: Filter) -> Filter: ...
    def __ior__(self, other: Filter) -> Filter: ...
    def __and__(self, other: Filter) -> Filter: ...
    def __eq__(self, other: object) -> bool: ...
    def __copy__(self) -> Filter: ...
    def __deepcopy__(self, memo: Any) -> Filter: ...
    def __bytes__(self) -> bytes: ...
