"""`libbloom migrate load` and `libbloom passwords load`: a filter in a server is made of a list of items."""

from __future__ import annotations

import argparse
import hashlib
import itertools
import math
import re
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import _answers
from ._client import words_of
from ._native import capacity_for
from ._server import PIPELINE, ResponseError, Server
from ._words import encoded, fields
from ._terminal import ROOM, Bar, Input, LoadState, Refused, Trouble, in_bytes, opened, shown

# Bytes of items in a command that adds, unless one item has more; a server takes 512 MB in one argument.
BATCH_BYTES = 1 << 20
# An error of BF.ADDPACKED, which says how many items were added before it, if any.
REFUSED = re.compile(r"(.*?)(?: after (\d+) items)?", re.DOTALL)

# Converts a line to an item; None if the line is skipped.
ToItem = Callable[[bytes], bytes | None]


def load_items(options: argparse.Namespace, convert: Callable[[int], ToItem] | None = None) -> int:
    """`convert`: what converts the lines, of which an earlier run has loaded so many."""
    target = Server("target", options.target)
    target.require("BF.MADD")
    is_open = options.capacity is None and not options.add
    with opened(options.file, options.separator) as file:
        place = Place(options, target)
        place.before = prepare(target, place, options)
        parts = file.parts()
        rest = place.skip(parts)
        loader = Loader(target, place, file, convert and convert(place.lines), options)
        try:
            loader.run(itertools.chain([rest], parts))
        finally:
            place.save()
        if is_open and loader.refusal is None:
            target.call("BF.SHRINK", options.key)
    return loader.report()


def prepare(target: Server, place: Place, options: argparse.Namespace) -> int:
    """Makes the filter unless it is there, and returns the number of its items."""
    key = shown(options.key)
    exists = target.call("EXISTS", options.key)
    if not options.add and not place.is_resumed:
        if exists:
            raise Trouble(f"{key} exists; --add adds to it, and --state lets an interrupted run go on")
        described = words_of({"expansion": options.expansion, "layout": options.layout, "fixed": options.fixed})
        capacity, hint = options.capacity, ""
        if capacity is None:
            capacity = capacity_of_room(target, options, described)
            hint = f" (for a list of unknown length, {ROOM >> 20} MiB are needed: --capacity takes less)"
        words = ["BF.RESERVE", options.key, options.error_rate, capacity, *described]
        # Noted first: after a kill in between, the next run would take the filter for another program's.
        place.save()
        try:
            target.call(*words)
        except ResponseError as why:
            place.forget()
            raise Trouble(f"BF.RESERVE {key}: {why}{hint}") from None
    elif not exists:
        ending = f"; without {options.state} it would be loaded from the start" if place.is_resumed else ""
        raise Trouble(f"there is no {key}{ending}")
    try:
        items = target.items(options.key)
    except ResponseError as why:
        raise Trouble(f"{key}: {why}") from None
    if items < place.items and not forgets(target, options.key):
        raise Trouble(
            f"{key} has {items:,} items, and had {place.items:,} when {place.path} was saved: it was replaced, or the "
            "server has lost some; delete both, and load from the start"
        )
    return items


def capacity_of_room(target: Server, options: argparse.Namespace, described: list[Any]) -> int:
    """The capacity of the filter for a list of unknown length, which takes `ROOM` bytes until it is shrunk. What is not
    described, the server's configuration decides."""
    # A value is missing, so that nothing is shrunk.
    if not (target.offers("BF.SHRINK", options.key, "CAPACITY") and target.offers("BF.PLAN", 0.01, 1)):
        raise Trouble("--capacity is needed: the server has no BF.SHRINK and BF.PLAN, or forbids them")
    try:
        plan = fields(target.call("BF.PLAN", options.error_rate, 1, *described))
    except ResponseError as why:
        raise Trouble(f"BF.PLAN: {why}") from None
    layout = encoded(plan["Layout"]).decode()
    if layout == "valkey":
        raise Trouble("--capacity is needed: a filter of valkey-bloom's layout cannot be shrunk afterwards")
    return capacity_for(ROOM, options.error_rate, fixed=plan["Expansion rate"] is None, layout=layout)


def forgets(target: Server, key: bytes) -> bool:
    """Whether a filter may have fewer items than before, as one with a window or with exceptions has."""
    try:
        full = target.full(key)
    except ResponseError:
        # A RedisBloom, whose filters cannot lose items.
        return False
    return "Window" in full or bool(full.get("Exceptions"))


class Loader:
    """Adds the items, several commands at once, and counts."""

    def __init__(self, target: Server, place: Place, file: Input, to_item: ToItem | None, options: argparse.Namespace) -> None:
        self.target, self.place, self.file, self.to_item, self.options = target, place, file, to_item, options
        self.is_packed = takes_packed(target, options.key)
        self.known = 0
        # Why the items ended before their end, the number of those before, and whether one did not fit.
        self.refusal: str | None = None
        self.reached = 0
        self.is_no_room = False
        self.seconds = 0.0

    @property
    def new(self) -> int:
        return self.place.new

    def run(self, parts: Iterable[list[bytes]]) -> None:
        started = time.monotonic()
        at_once = PIPELINE * self.options.batch
        with Bar(self.file.size, in_bytes) as bar:
            for part in itertools.chain.from_iterable(batches(part, at_once) for part in parts):
                items = part if self.to_item is None else [item for item in map(self.to_item, part) if item is not None]
                some = list(batches(items, self.options.batch, BATCH_BYTES))
                (self.add_packed if self.is_packed else self.add_unpacked)(some)
                self.seconds = time.monotonic() - started
                if self.refusal is not None:
                    break
                self.place.advance(part)
                bar(self.file.position, f"; {self.new:,} new, {self.known:,} known, {self.rate():,.0f} items a second")

    def add_packed(self, some: list[list[bytes]]) -> None:
        commands = [("BF.ADDPACKED", self.options.key, *form, "COUNT", data) for form, data in map(packed, some)]
        # Items of commands that ended with an error, whose answer does not say how many of them were new.
        unclear = 0
        for items, answer in zip(some, self.target.pipeline(commands)):
            if isinstance(answer, Exception):
                [reason, items_in] = REFUSED.fullmatch(str(answer)).groups()  # type: ignore[union-attr]
                unclear += int(items_in or 0)
                self.refuse(answer, reason, unclear)
            else:
                self.place.new += answer
                self.known += len(items) - answer
        if unclear:
            new = self.target.items(self.options.key) - self.place.before - self.new
            # Other programs may add items, too.
            new = min(max(new, 0), unclear)
            self.place.new += new
            self.known += unclear - new

    def add_unpacked(self, some: list[list[bytes]]) -> None:
        for answers in self.target.pipeline([("BF.MADD", self.options.key, *items) for items in some]):
            # The answers of a filter that does not grow end with an error at the item that did not fit.
            for answer in answers if isinstance(answers, list) else [answers]:
                if isinstance(answer, Exception):
                    self.refuse(answer, str(answer))
                elif answer:
                    self.place.new += 1
                else:
                    self.known += 1

    def refuse(self, error: Exception, reason: str, unclear: int = 0) -> None:
        """Notes the first item that was refused. Commands that were sent along with it may add items behind it."""
        if self.refusal is None:
            self.refusal, self.is_no_room = reason, _answers.is_no_room(error)
            self.reached = self.new + self.known + unclear

    def rate(self) -> float:
        return (self.new + self.known) / max(self.seconds, 1e-9)

    def report(self) -> int:
        total = self.new + self.known
        figures = f"{self.new:,} new and {self.known:,} known (or taken for known)"
        print(f"{total:,} items, {figures}, in {self.seconds:.1f} s, {self.rate():,.0f} items/s")
        key, items = shown(self.options.key), self.target.items(self.options.key)
        print(f"{key} has {items:,} items")
        if self.refusal is not None:
            kind = Refused if self.is_no_room else Trouble
            behind = total - self.reached
            more = f" ({behind:,} items behind the first that was refused are in: they were on their way)" if behind else ""
            raise kind(f"stopped after item {self.reached:,} of this run: {self.refusal}{more}")
        before = self.place.before
        if items < before + self.new:
            raise Trouble(f"{key} had {before:,} items and got {self.new:,}: it was deleted or replaced meanwhile")
        return 0


def takes_packed(target: Server, key: bytes) -> bool:
    """Whether this filter's items are to be sent with BF.ADDPACKED."""
    if not target.offers("BF.ADDPACKED", key, "NOCREATE", "LINES", b""):
        return False
    # Filters in other layouts get words that a replica with RedisBloom or valkey-bloom knows.
    return encoded(target.full(key)["Layout"]) == b"blocked"


def packed(items: list[bytes]) -> tuple[tuple[Any, ...], bytes]:
    """Items packed in one run of bytes, after the words that say how they are packed."""
    if len({len(item) for item in items}) == 1 and items[0]:
        return ("WIDTH", len(items[0])), b"".join(items)
    data = b"\n".join(items) + b"\n"
    if data.count(b"\n") == len(items) and b"\r\n" not in data:
        return ("LINES",), data
    return ("PREFIXED",), b"".join([struct.pack("<I", len(item)) + item for item in items])


def batches(items: list[bytes], size: int, most_bytes: float = math.inf) -> Iterable[list[bytes]]:
    """Parts of at most so many items, and of at most so many bytes unless a single item has more."""
    for start in range(0, len(items), size):
        part = items[start : start + size]
        if len(part) > 1 and sum(map(len, part)) > most_bytes:
            yield from batches(part, len(part) // 2, most_bytes)
        else:
            yield part


class Place(LoadState):
    """How many lines of the input are in the filter, and how many items it had then.

    With the checksum of these lines, so that another input is noticed.
    """

    def __init__(self, options: argparse.Namespace, target: Server) -> None:
        self.separator = options.separator
        is_null = self.separator == b"\0"
        super().__init__(options.state, {"target": str(target.address), "key": options.key.decode("latin-1"), "null": is_null})
        self.lines = 0
        self.checksum = hashlib.sha256()
        # Items of the filter when the file was saved; when this run began; and those that it added.
        self.items = self.before = self.new = 0
        old = self.read()
        self.is_resumed = old is not None
        if old is not None:
            self.lines, self.items, self.wanted = old["lines"], old["items"], old["sha256"]
            if not (type(self.lines) is type(self.items) is int):
                raise self.damaged("lines and items are numbers")

    def figures(self) -> dict[str, Any]:
        return {"lines": self.lines, "items": self.before + self.new, "sha256": self.checksum.hexdigest()}

    def skip(self, parts: Iterator[list[bytes]]) -> list[bytes]:
        """Passes over the lines that an earlier run loaded. Returns what follows them in the last of these parts."""
        left, part = self.lines, []
        while left > 0:
            if not (part := next(parts, [])):
                raise Trouble(f"the input ends {left:,} lines before the place that {self.path} holds")
            passed, part = part[:left], part[left:]
            self.count(passed)
            left -= len(passed)
        if self.lines and self.checksum.hexdigest() != self.wanted:
            raise Trouble(f"the first {self.lines:,} lines are not those that {self.path} was saved after")
        return part

    def advance(self, part: list[bytes]) -> None:
        self.lines += len(part)
        self.count(part)
        self.save_if_due()

    def count(self, part: list[bytes]) -> None:
        self.checksum.update(self.separator.join(part) + self.separator)

    def forget(self) -> None:
        if self.path is not None:
            self.path.unlink()
