"""`libbloom shard`: a filter over many keys of a cluster, by the command line."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import stat
import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import cycle
from multiprocessing.connection import Connection
from typing import Any

from ._answers import Count
from ._client import FLAGS, VALUES
from ._cluster import Call, Links, run
from ._server import Server
from ._sharded import Layout, Shard, ShardedBloom, deviation
from ._terminal import Bar, LoadState, Trouble, in_bytes, opened, shown
from ._words import Command, pieces, slot

SLOTS = 16384
# A shard is named from this share of its capacity on, and a node from so many times the average on.
FULL, LOPSIDED = 0.95, 1.2
# Seconds for which a node that does not answer is waited for.
PATIENCE = 60.0


def client_of(words: argparse.Namespace) -> Any:
    return Server("server", words.url, PATIENCE, PATIENCE).client


def opened_filter(words: argparse.Namespace, replicas: int = 0) -> ShardedBloom:
    return ShardedBloom(client_of(words), words.name, patience=PATIENCE, replicas=replicas)


def options_of(words: argparse.Namespace) -> dict[str, Any]:
    """The options of this filter."""
    return {name: getattr(words, name) for name in (*VALUES, *FLAGS)}


def create(words: argparse.Namespace) -> int:
    client, options = client_of(words), options_of(words)
    made = ShardedBloom.create(client, words.name, words.items, words.error_rate, shards=words.shards, **options)
    info = made.info()
    print(f"{shown(words.name)}: {len(info.shards):,} shards for {info.capacity:,} items, {info.size_in_bytes:,} bytes")
    return 0


def drop(words: argparse.Namespace) -> int:
    opened_filter(words).drop()
    return 0


def plan(words: argparse.Namespace) -> int:
    name, options = os.fsencode(words.name), options_of(words)
    layout = Layout.planned(name, words.items, words.error_rate, words.shards, options)
    size = layout.shard_bytes()
    total = size * layout.shards
    mean, sigma = layout.capacity / layout.shards, deviation(layout.capacity, layout.shards)
    fullest = max(shards_of_nodes(layout, words.nodes))
    print(
        f"items in a shard: {mean:,.0f} on average, deviation {sigma:,.0f}, reserved for {layout.shard_capacity:,}\n"
        f"bytes of a shard: {size:,}\n"
        f"bytes of all {layout.shards:,}: {total:,}, {8 * total / layout.capacity:.2f} bits an item\n"
        f"memory of all: {in_bytes(total)}, with a replica of each {in_bytes(2 * total)}\n"
        f"memory of each of {words.nodes} primaries: {in_bytes(total / words.nodes)} on average, at most "
        f"{in_bytes(fullest * size)} ({fullest:,} shards), twice that for saves under load"
    )
    return 0


def shards_of_nodes(layout: Layout, nodes: int) -> list[int]:
    """How many shards each node has, if each has a range of as many slots."""
    numbers = [0] * nodes
    for key in layout.keys():
        numbers[slot(key) * nodes // SLOTS] += 1
    return numbers


def status(words: argparse.Namespace) -> int:
    sharded = opened_filter(words)
    info, links = sharded.info(), Links(sharded.client)
    of_node: dict[str, list[Shard]] = defaultdict(list)
    figures_of: dict[str, dict[str, Any]] = {}
    for shard in info.shards:
        node = links.node_of(Call(shard.key))
        name = getattr(node, "name", "server")
        if name not in of_node:
            figures_of[name] = sharded.client.info(**{"target_nodes": node} if links.is_cluster else {})
        of_node[name].append(shard)
    print(
        f"{shown(words.name)}: {info.items:,} items in {len(info.shards):,} shards, made for {info.capacity:,} at "
        f"{info.error_rate:g}; {in_bytes(info.size_in_bytes)}"
    )
    print(f"{'node':<24} {'shards':>7} {'items':>18} {'filters':>11} {'memory':>11} {'of':>11} {'replicas':>8}")
    sizes = {name: sum(shard.size_in_bytes for shard in shards) for name, shards in of_node.items()}
    warnings = filling(info.shards) if "window" not in info.options else []
    for name, shards in sorted(of_node.items()):
        figures = figures_of[name]
        limit, replicas = figures["maxmemory"], figures["connected_slaves"]
        print(
            f"{name:<24} {len(shards):>7,} {sum(shard.items for shard in shards):>18,} {in_bytes(sizes[name]):>11} "
            f"{in_bytes(figures['used_memory']):>11} {in_bytes(limit) if limit else 'no limit':>11} {replicas:>8}"
        )
        if not replicas:
            warnings.append(f"{name} has no replica: its shards are lost with it")
        if sizes[name] > LOPSIDED * info.size_in_bytes / len(of_node):
            warnings.append(f"{name} has {sizes[name] / (info.size_in_bytes / len(of_node)):.1f} times the average: move slots")
    for warning in warnings:
        print(f"warning: {warning}")
    return 0


def filling(shards: tuple[Shard, ...]) -> list[str]:
    """Warnings about shards that are full, or nearly full."""
    warnings = []
    if grown := [shard for shard in shards if shard.layers > 1]:
        warnings.append(f"{len(grown):,} shards have grown: they need more memory and time than planned")
    near = [shard for shard in shards if shard.layers == 1 and shard.items >= FULL * shard.capacity]
    if near:
        worst = max(near, key=lambda shard: shard.items / shard.capacity)
        share = 100 * worst.items / worst.capacity
        name = worst.key.decode(errors="replace")
        warnings.append(f"{len(near):,} shards are nearly full, and more items make them grow; {name} is {share:.0f} % full")
    return warnings


def load(words: argparse.Namespace) -> int:
    sharded = opened_filter(words)
    layout = run(sharded._layout())
    place = Place(words, layout)
    place.check(sharded)
    with Bar(place.size, in_bytes) as bar:
        try:
            loader = Loader(place, words, bar)
            loader.run(layout.piece())
        except (EOFError, ConnectionError):
            raise Trouble("a process of the load has ended before its time") from None
        finally:
            for process in multiprocessing.active_children():
                process.terminate()
            place.save()
    return loader.report(sharded)


class Place(LoadState):
    """How far the files are in the filter. What comes behind may be in, too, and is added again by a run that goes on."""

    OTHERS = "another load, or a file has changed: {}, not {}"

    def __init__(self, words: argparse.Namespace, layout: Layout) -> None:
        path, files, is_null = words.state, words.files, words.separator == b"\0"
        what = {"name": layout.name.decode("latin-1"), "id": layout.id, "shards": layout.shards, "null": is_null}
        super().__init__(path, {**what, "files": [identity(name) for name in files]})
        self.files = files
        sizes = [size for _, size, _ in self.what["files"]]
        for name, size in zip(files, sizes):
            if path is not None and size is None:
                name = "the standard input" if name == "-" else name
                raise Trouble(f"{name} cannot be read again: --state needs files")
        # None if the size of the input is not known.
        self.size = None if None in sizes else sum(sizes)
        self.forgets = "window" in layout.options
        # The file, and the offset in its unpacked bytes up to which all items are in the filter; and the
        # number of items so far.
        self.file = self.offset = self.items = 0
        self.new = Count(0)
        if (old := self.read()) is not None:
            figures = list(old.values())
            if any(type(figure) is not int or figure < 0 for figure in figures) or old["file"] >= len(files):
                raise self.damaged(figures)
            self.file, self.offset, self.items = old["file"], old["offset"], old["items"]
            self.new = Count(old["new"], old["maybe"])

    def figures(self) -> dict[str, Any]:
        at = {"file": self.file, "offset": self.offset}
        return {**at, "items": self.items, "new": int(self.new), "maybe": self.new.maybe}

    def check(self, sharded: ShardedBloom) -> None:
        """A filter that has lost items must be loaded from the start."""
        if self.new and not self.forgets and (items := len(sharded)) < self.new:
            raise Trouble(
                f"{self.what['name']} has {items:,} items, and got {int(self.new):,} before {self.path} was saved: it was made "
                "anew, or a server has lost some; delete the file, and load from the start"
            )

    def advance(self, file: int, offset: int, items: int, new: Count) -> None:
        """Notes that all is in up to this place in a file."""
        self.file, self.offset = file, offset
        self.items += items
        self.new = self.new.plus(new)
        self.save_if_due()


def identity(name: str) -> list[Any]:
    """A value by which to see whether a file is another one, or has changed."""
    if name == "-":
        return [name, None, None]
    try:
        status = os.stat(name)
    except OSError as error:
        raise Trouble(f"{name}: {error.strerror or error}") from None
    if not stat.S_ISREG(status.st_mode):
        return [name, None, None]
    return [os.path.abspath(name), status.st_size, status.st_mtime_ns]


def work(pipe: Connection, words: dict[str, Any], is_null: bool) -> None:
    """What a process does: adds the blocks that come through a pipe, and answers each. It ends with the first process."""
    # Ctrl-C goes to all processes of a terminal. The first one ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sharded = cache(lambda: opened_filter(argparse.Namespace(**words), words["replicas"]))
    with suppress(EOFError, BrokenPipeError):
        while True:
            pipe.send(add(sharded, pipe.recv_bytes(), is_null))


def add(sharded: Callable[[], ShardedBloom], block: bytes, is_null: bool) -> tuple[int, int, int, str | None]:
    """Adds a block of items: how many there were, how many of them were new or may have been, and the error."""
    packed: Command = ("LINES", block)
    if is_null:
        [(_, packed)] = pieces(block.removesuffix(b"\0").split(b"\0"), sys.maxsize)
    try:
        sent = run(sharded()._divided(packed, "BF.ADDPACKED", "COUNT"))
    except Exception as error:
        return 0, 0, 0, str(error) or type(error).__name__
    new = sent.new()
    return sent.items, int(new), new.maybe, None


class Loader:
    """Gives blocks to processes, and keeps the place up to which all of them are in."""

    def __init__(self, place: Place, words: argparse.Namespace, bar: Bar) -> None:
        self.place, self.words, self.bar = place, words, bar
        self.before = place.items
        self.begin = time.monotonic()
        self.pipes = [self.worker() for _ in range(words.processes)]
        # Blocks that are under way, in their order: the place behind each, and where its outcome comes from.
        self.order: deque[tuple[int, int, Connection]] = deque()
        # Bytes of the files before the one that is read.
        self.passed = 0

    def worker(self) -> Connection:
        """The pipe to a new process that adds blocks."""
        context = multiprocessing.get_context("spawn")
        pipe, its_end = context.Pipe()
        words = {name: getattr(self.words, name) for name in ("url", "name", "replicas")}
        context.Process(target=work, args=(its_end, words, self.words.separator == b"\0")).start()
        its_end.close()
        return pipe

    def run(self, size: int) -> None:
        first, separator = self.place.file, self.words.separator
        # Each has one block at a time, so that the oldest block is with the process that is next.
        pipes = cycle(self.pipes)
        for number, name in enumerate(self.place.files):
            if number >= first:
                with opened(name, separator) as file:
                    offset = self.place.offset if number == first else 0
                    file.skip(offset)
                    for block in file.blocks(size):
                        offset += len(block)
                        self.take(self.passed + file.position, len(self.pipes) - 1)
                        pipe = next(pipes)
                        self.order.append((number, offset, pipe))
                        pipe.send_bytes(block)
            self.passed += self.place.what["files"][number][1] or 0
        self.take(self.passed, 0)

    def take(self, position: int, most: int) -> None:
        """Waits until at most so many blocks are under way."""
        while len(self.order) > most:
            number, offset, pipe = self.order.popleft()
            items, new, maybe, error = pipe.recv()
            if error is not None:
                raise Trouble(error)
            self.place.advance(number, offset, items, Count(new, maybe))
            self.bar(position, f"; {self.place.items:,} items, {self.rate():,.0f} a second")

    def rate(self) -> float:
        return (self.place.items - self.before) / max(time.monotonic() - self.begin, 1e-9)

    def report(self, sharded: ShardedBloom) -> int:
        new = self.place.new
        seconds, loaded = time.monotonic() - self.begin, self.place.items - self.before
        unsure = f"; {new.maybe:,} more may have been new, for a connection broke or a node failed over" if new.maybe else ""
        resumed = "; what a killed run added last counts as known" if self.before else ""
        print(f"{self.place.items:,} items, {int(new):,} new{unsure}{resumed}")
        print(f"{loaded:,} items in {seconds:.1f} s, {self.rate():,.0f} a second")
        info = sharded.info()
        print(f"{self.place.what['name']} has {info.items:,} items")
        for warning in filling(info.shards) if not self.place.forgets else []:
            print(f"warning: {warning}")
        return 0
