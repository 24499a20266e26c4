#!/usr/bin/env python3
"""Moves Bloom filters to a server: from another server, bit for bit, or from a list of items.

    migrate.py copy SOURCE_URL TARGET_URL      every filter of a server, with BF.SCANDUMP (valkey-bloom: DUMP)
                                               and BF.LOADCHUNK
    migrate.py load TARGET_URL KEY --error E --capacity N --file items.gz
                                               a filter from its items, with BF.ADDPACKED or BF.MADD

The source of a copy may be a server with RedisBloom, valkey-bloom or this module, and it goes on answering.
Each filter is put together under a temporary name, checked, and renamed when it is whole, so that nobody meets
a half of it. It keeps its layout, since its bits do not tell its items. The temporary name is the filter's own,
in braces if it has none, and :bloom-migrate; that is in the same cluster slot. What a killed run leaves under
such a name is removed when it is started again.

With --state FILE an interrupted run goes on where it stopped when it is started again in the same way. For
a copy the file also remembers what each filter looked like: a later run with --replace copies those that
have changed since, and only those. So: copy while everything runs; stop the writers; copy again; switch.

Keys and items are bytes; nothing is decoded. Messages show unusual bytes of a key as \\xNN.

exit codes: 0  everything was done
            1  some filters were not copied, or an item did not fit; each is named with the reason
            2  it could not run: wrong arguments, a server out of reach or without the module, a state
               file of something else
            130  interrupted with Ctrl-C
"""

import argparse
import gzip
import hashlib
import io
import itertools
import json
import math
import os
import re
import stat
import struct
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.crc import key_slot
from redis.exceptions import RedisClusterException
from redis.retry import Retry
from tqdm import tqdm

# RedisBloom's and this module's type, and that of filters in valkey-bloom's layout.
TYPE_NAMES = [b"MBbloom--", b"bloomfltr"]
TEMPORARY = b":bloom-migrate"
# How this module's own headers start, with the format version next; a classic filter's starts with its item count.
MAGIC = b"BLOOM\0\0"
VALKEY_MAGIC = MAGIC + b"\4"
# What valkey-bloom keeps before the bits of a layer.
VALKEY_HEAD = struct.Struct("<BQI32s")
CHUNK_BYTES = 16 << 20
GZIP_MAGIC = b"\x1f\x8b"
# Seconds. An answer may take long (a large value that a RENAME replaces); no answer must not take for ever.
CONNECT_TIMEOUT = 10
ANSWER_TIMEOUT = 300
# Keys, or commands that add, that are on the way at once.
PIPELINE = 10
# Bytes of items in a command that adds, unless one item has more; a server takes 512 MB in one argument.
BATCH_BYTES = 1 << 20
READ_SIZE = 1 << 20


def main():
    return run(parse_arguments())


def run(options):
    """What the arguments ask for; gives the exit code."""
    try:
        return options.run(options)
    except (Trouble, OSError, redis.RedisError) as trouble:
        complain(trouble)
        return 2
    except KeyboardInterrupt:
        complain("interrupted")
        return 130


def complain(text):
    print(f"{Path(sys.argv[0]).name}: {text}", file=sys.stderr)


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="{copy,load}")

    copy = commands.add_parser("copy", help="filters of another server")
    copy.set_defaults(run=copy_filters)
    copy.add_argument("source", metavar="SOURCE_URL", help="e.g. redis://:password@old.example:6379/0")
    copy.add_argument("target", metavar="TARGET_URL", help="where the filters go")
    which = copy.add_mutually_exclusive_group()
    which.add_argument("--match", metavar="PATTERN", help="only keys that match, as in SCAN's MATCH")
    which.add_argument("--keys", metavar="FILE", help="these keys, one a line; - for standard input")
    copy.add_argument("--null", action="store_true", help="keys in FILE end in NUL bytes, not in newlines")
    copy.add_argument("--replace", action="store_true", help="replace filters that the target has already")
    copy.add_argument("--state", type=Path, metavar="FILE", help="remember finished keys there, and skip them")
    copy.add_argument(
        "--verify",
        type=positive,
        nargs="?",
        const=1,
        metavar="N",
        help="read every N-th copy back, before it is renamed, and compare each chunk's SHA-256 "
        "(without N: every copy)",
    )
    copy.add_argument(
        "--attempts",
        type=positive,
        default=5,
        metavar="N",
        help="how often a filter that changes while it is copied is tried (default: %(default)s)",
    )

    load = commands.add_parser("load", help="a list of items")
    add_load_arguments(load)

    options = parser.parse_args()
    if options.run is load_items:
        check_load_arguments(load, options)
    return options


def add_load_arguments(load):
    load.set_defaults(run=load_items)
    load.add_argument("target", metavar="TARGET_URL", help="e.g. redis://:password@new.example:6379/0")
    load.add_argument("key", metavar="KEY", type=os.fsencode, help="the filter to create and fill")
    load.add_argument("--error", metavar="E", help="error rate of the filter, e.g. 0.01")
    load.add_argument("--capacity", type=positive, metavar="N", help="items that it is made for")
    load.add_argument("--expansion", type=positive, metavar="N", help="growth of each further layer")
    load.add_argument("--nonscaling", action="store_true", help="a filter that refuses items when it is full")
    load.add_argument(
        "--layout", choices=["blocked", "classic", "valkey"], help="else as the target is configured"
    )
    load.add_argument("--add", action="store_true", help="add to a filter that is there, instead of creating one")
    load.add_argument(
        "--file",
        default="-",
        metavar="FILE",
        help="the items, one a line, plain or gzip; - for standard input (default). Empty lines are skipped",
    )
    load.add_argument(
        "--null", action="store_true", help="items end in NUL bytes, not in newlines; an empty one counts"
    )
    load.add_argument(
        "--batch", type=positive, default=1000, help="items in a command, at most (default: %(default)s)"
    )
    load.add_argument("--state", type=Path, metavar="FILE", help="remember there how many lines are in")


def check_load_arguments(load, options):
    described = [options.error, options.capacity, options.expansion, options.layout]
    if options.add and (options.nonscaling or any(value is not None for value in described)):
        load.error("--add takes the filter as it is: no --error, --capacity or other properties")
    if not options.add and (options.error is None or options.capacity is None):
        load.error("--error and --capacity are needed to create the filter, or --add to use one that is there")


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


class Trouble(Exception):
    """Something that ends the run."""


class NotCopied(Exception):
    """Why one filter was not copied; the others are."""


class Changed(NotCopied):
    """The source's filter changed while it was read."""


# ---- copy ----------------------------------------------------------------------------------------


def copy_filters(options):
    source = Side("source", options.source)
    target = Side("target", options.target)
    source.require_source()
    target.require("BF.LOADCHUNK")
    if source.identity() is not None and source.identity() == target.identity():
        raise Trouble(f"{source} and {target} are the same database")

    with Finished(options.state, source, target) as finished:
        keys = find_keys(source, options)
        sizes = sizes_of(source, keys)
        if not keys:
            print(f"no filters found: {source}")
        with tqdm(
            total=sum(sizes), unit="B", unit_scale=True, unit_divisor=1024, desc="copied", disable=None
        ) as bar:
            copier = Copier(source, target, finished, bar, options)
            for key, size in zip(keys, sizes):
                copier.take(key, size)
    return copier.report()


def find_keys(source, options):
    if options.keys is None:
        with source.reachable():
            found = [key for name in TYPE_NAMES for key in keys_of(source, options.match, name)]
            # A half of a filter that another run is copying, or was, to what is our source.
            return sorted({key for key in found if not key.endswith(TEMPORARY)})
    separator = b"\0" if options.null else b"\n"
    with open_input(options.keys) as file:
        return list(dict.fromkeys(key for key in pieces(file, separator) if key or options.null))


def keys_of(source, pattern, type_name):
    try:
        yield from source.client.scan_iter(match=pattern, count=1000, _type=type_name.decode())
    except redis.ResponseError as why:
        # Valkey's answer for a type that it has not; others give no keys.
        if "unknown type name" not in str(why):
            raise


def sizes_of(source, keys):
    """Bytes of each filter, for the progress bar; 0 where there is no filter, which is reported later."""
    sizes = []
    for some in batches(keys, 100 * PIPELINE):
        answers = source.pipeline([("BF.INFO", key) for key in some])
        sizes += [0 if isinstance(info, Exception) else pairs(info).get("Size", 0) for info in answers]
    return sizes


class Copier:
    """Copies filters one by one, and counts."""

    def __init__(self, source, target, finished, bar, options):
        self.source = source
        self.target = target
        self.finished = finished
        self.bar = bar
        self.options = options
        self.started = time.monotonic()
        self.copied = self.verified = self.skipped = self.failed = 0
        self.bytes = 0

    def take(self, key, size):
        """Copies a filter, unless an earlier run did and it has not changed since; reports a failure."""
        before = self.bytes
        try:
            state = self.source.state(key)
            if state is None:
                raise NotCopied("the source has no key of this name")
            if self.finished.has(key, state) and self.is_published(key):
                self.skipped += 1
            else:
                self.copy(key)
        except NotCopied as why:
            self.failed += 1
            self.say(f"not copied: {shown(key)}: {why}")
        except redis.ResponseError as why:
            self.failed += 1
            self.say(f"not copied: {shown(key)}: {wire_text(why)}")
        # The bar was promised the size that BF.INFO gives; what was moved is a little less, or several times it.
        self.bar.total += self.bytes - before - size
        self.bar.refresh()

    def copy(self, key):
        self.refuse_existing(key)
        temporary = temporary_name(key)
        is_noted = False
        try:
            for attempt in itertools.count(1):
                try:
                    state = self.transfer(key, temporary)
                    break
                except Changed as change:
                    if attempt == self.options.attempts:
                        raise NotCopied(
                            f"{change}, {attempt} times; stop its writers, or try when there are fewer"
                        ) from None
                    self.say(f"again: {shown(key)}: {change} (attempt {attempt} of {self.options.attempts})")
            # Noted before it gets its name, so that the next run does not take it for a stranger's filter.
            self.finished.add(key, state)
            is_noted = True
            self.publish(key, temporary)
        except Trouble:
            # Whether it got its name is unknown; the next run looks.
            if not is_noted:
                self.clear(temporary)
            raise
        except BaseException:
            self.finished.drop(key)
            self.clear(temporary)
            raise
        self.copied += 1

    def is_published(self, key):
        """Whether a copy that was noted as finished got its name, too."""
        return self.target.call("EXISTS", key) and not self.target.call("EXISTS", temporary_name(key))

    def refuse_existing(self, key):
        kind = self.target.call("TYPE", key)
        if kind not in (b"none", *TYPE_NAMES):
            raise NotCopied(f"the target has a {shown(kind)} under this name")
        if kind != b"none" and not self.options.replace:
            changed = ", an older state of it" if self.finished.knows(key) else ""
            raise NotCopied(f"the target has a filter under this name{changed}; --replace replaces it")

    def transfer(self, key, temporary):
        """Copies once, checked, under the temporary name; gives the state that was copied."""
        self.target.call("UNLINK", temporary)
        chunks = Chunks() if self.options.verify and self.copied % self.options.verify == 0 else None
        state = self.source.state(key)
        if state is None:
            raise NotCopied("it is gone from the source")
        header = None
        for following, data in self.source.chunks(key):
            if header is None:
                header = data
            self.put(key, temporary, state, header, following, data)
            if chunks is not None:
                chunks.add(following, data)
            self.bytes += len(data)
            self.bar.update(len(data))
        if header is None:
            raise NotCopied("the source gave no header")

        expected = self.source.figures(key)
        self.refuse_change(key, state)
        found = self.target.figures(temporary)
        for name in expected.keys() & found.keys():
            if expected[name] != found[name]:
                raise NotCopied(f"the copy's {name} is {found[name]}, the source's {expected[name]}")
        if chunks is not None:
            self.read_back(temporary, chunks)
        return state

    def put(self, key, temporary, state, header, following, data):
        try:
            self.target.call("BF.LOADCHUNK", temporary, following, data)
        except redis.ResponseError as why:
            # A filter that grew may give chunks that do not fit the header any more.
            self.refuse_change(key, state)
            if data is header and header.startswith(MAGIC) and "bad data" in str(why):
                layout = "valkey" if header.startswith(VALKEY_MAGIC) else "blocked"
                raise NotCopied(
                    f"the target cannot read the {layout} layout: only classic filters can go to RedisBloom. "
                    f"({wire_text(why)})"
                ) from None
            raise NotCopied(f"the target refused the chunk that ends at {following}: {wire_text(why)}") from None

    def refuse_change(self, key, state):
        now = self.source.state(key)
        if now is None:
            raise NotCopied("it is gone from the source")
        if now != state:
            raise Changed(f"it changed while it was copied, and has {self.source.items(key):,} items now")

    def read_back(self, temporary, chunks):
        again = Chunks()
        for following, data in self.target.chunks(temporary):
            again.add(following, data)
        difference = chunks.difference(again)
        if difference:
            raise NotCopied(f"read back from the target, {difference}")
        self.verified += 1

    def publish(self, key, temporary):
        """Gives the copy the filter's time to live and its name."""
        left = self.source.call("PTTL", key)
        if left == -2:
            raise NotCopied("it is gone from the source")
        if left >= 0:
            self.target.call("PEXPIRE", temporary, max(left, 1))
        if self.options.replace:
            self.target.call("RENAME", temporary, key)
        elif not self.target.call("RENAMENX", temporary, key):
            raise NotCopied("the target got a key of this name in the meantime")

    def clear(self, temporary):
        """As far as possible: the next run does it too."""
        try:
            self.target.call("UNLINK", temporary)
        except (Trouble, redis.RedisError):
            pass

    def say(self, text):
        self.bar.write(text, file=sys.stderr)

    def report(self):
        seconds = time.monotonic() - self.started
        verified = f" ({self.verified:,} read back)" if self.options.verify else ""
        print(
            f"filters copied: {self.copied:,}{verified}, by an earlier run: {self.skipped:,}, "
            f"not copied: {self.failed:,}; "
            f"{self.bytes:,} bytes in {seconds:.1f} s, {self.bytes / 2**20 / max(seconds, 1e-9):,.1f} MiB/s"
        )
        return 1 if self.failed else 0


class Chunks:
    """A filter's chunks, without their bytes: each one's iterator and checksum."""

    def __init__(self):
        self.list = []

    def add(self, following, data):
        self.list.append((following, hashlib.sha256(data).digest()))

    def difference(self, other):
        for ours, theirs in itertools.zip_longest(self.list, other.list):
            if ours != theirs:
                return f"the chunk that ends at {(ours or theirs)[0]} differs"
        return None


class Finished:
    """The keys that were copied, each with the checksum of the state that it had: in a file, if one is named.

    A line of JSON for the two servers, then one for each key, of which the last counts. A run that is killed
    while it writes leaves half a line at the end, which is dropped.
    """

    def __init__(self, path, source, target):
        self.path = path
        self.servers = {"source": str(source.address), "target": str(target.address)}
        self.headers = {}
        self.file = None

    def __enter__(self):
        if self.path is not None:
            old = self.path.read_bytes() if self.path.exists() else b""
            whole = old[: old.rfind(b"\n") + 1]
            self.read(whole)
            self.file = open(self.path, "ab")
            self.file.truncate(len(whole))
            if not whole:
                self.write(self.servers)
        return self

    def __exit__(self, *_):
        if self.file is not None:
            self.file.close()

    def read(self, text):
        try:
            first, *rest = [json.loads(line) for line in text.splitlines()] or [self.servers]
            self.headers = {line["key"].encode("latin-1"): line["header"] for line in rest}
        except (ValueError, TypeError, KeyError) as error:
            raise Trouble(f"{self.path} is no state file of a copy ({error})") from None
        if first != self.servers:
            raise Trouble(
                f"{self.path} is the state of another copy, {first}, not {self.servers}; name another file"
            )

    def write(self, line):
        self.file.write(json.dumps(line).encode() + b"\n")
        self.file.flush()
        os.fsync(self.file.fileno())

    def knows(self, key):
        return self.headers.get(key) is not None

    def has(self, key, state):
        return self.headers.get(key) == hashlib.sha256(state).hexdigest()

    def add(self, key, state):
        self.note(key, hashlib.sha256(state).hexdigest())

    def drop(self, key):
        if key in self.headers:
            self.note(key, None)

    def note(self, key, header):
        self.headers[key] = header
        if self.file is not None:
            self.write({"key": key.decode("latin-1"), "header": header})


def temporary_name(key):
    """A name for the copy in the making, in the same cluster slot as the key."""
    for name in (key + TEMPORARY, b"{" + key + b"}" + TEMPORARY):
        if key_slot(name) == key_slot(key):
            return name
    # Neither a tag of its own nor one that could be put around it, as in "a}b": some number has the slot.
    tags = (b"{%d}" % number for number in itertools.count())
    return next(tag for tag in tags if key_slot(tag) == key_slot(key)) + key + TEMPORARY


# ---- load ----------------------------------------------------------------------------------------


def load_items(options, to_item=None):
    """Loads what `to_item` makes of the lines; it gives None for one that is to be skipped."""
    to_item = to_item or (lambda line: line if line or options.null else None)
    target = Side("target", options.target)
    target.require("BF.MADD")
    separator = b"\0" if options.null else b"\n"
    with open_input(options.file) as file:
        place = Place(options, target, separator)
        before = prepare(target, place, options)
        lines = pieces(file, separator)
        place.skip(lines)
        loader = Loader(target, place, file, to_item, before, options)
        try:
            loader.run(lines)
        finally:
            place.save()
    return loader.report()


def prepare(target, place, options):
    """Makes the filter, or finds it, and gives its items."""
    key = shown(options.key)
    exists = target.call("EXISTS", options.key)
    if not options.add and not place.is_resumed:
        if exists:
            raise Trouble(f"{key} exists; --add adds to it, and --state lets an interrupted run go on")
        words = ["BF.RESERVE", options.key, options.error, options.capacity]
        words += ["EXPANSION", options.expansion] if options.expansion else []
        words += ["NONSCALING"] if options.nonscaling else []
        words += ["LAYOUT", options.layout.upper()] if options.layout else []
        # Noted before, so that a run that is killed in between does not meet its own filter as a stranger's.
        place.save()
        try:
            target.call(*words)
        except redis.ResponseError as why:
            place.forget()
            raise Trouble(f"BF.RESERVE {key}: {wire_text(why)}") from None
    elif not exists:
        ending = f"; without {options.state} it would be loaded from the start" if place.is_resumed else ""
        raise Trouble(f"there is no {key}{ending}")
    try:
        return target.items(options.key)
    except redis.ResponseError as why:
        raise Trouble(f"{key}: {wire_text(why)}") from None


class Loader:
    """Adds the items, several commands at once, and counts."""

    def __init__(self, target, place, file, to_item, before, options):
        self.target = target
        self.place = place
        self.file = file
        self.to_item = to_item
        self.before = before
        self.options = options
        self.is_packed = takes_packed(target, options.key)
        self.new = self.known = 0
        self.refusal = None
        self.seconds = 0.0

    def run(self, lines):
        started = time.monotonic()
        at_once = PIPELINE * self.options.batch
        with tqdm(
            total=self.file.size, unit="B", unit_scale=True, unit_divisor=1024, desc="read", disable=None
        ) as bar:
            bar.update(self.file.position())
            while self.refusal is None and (part := list(itertools.islice(lines, at_once))):
                self.add([item for item in map(self.to_item, part) if item is not None])
                if self.refusal is None:
                    self.place.advance(part)
                self.seconds = time.monotonic() - started
                bar.set_postfix_str(f"{self.new:,} new, {self.known:,} known, {self.rate():,.0f} items/s", False)
                bar.update(self.file.position() - bar.n)

    def add(self, items):
        some = list(batches(items, self.options.batch, BATCH_BYTES))
        if self.is_packed:
            self.add_packed(some)
        else:
            self.add_unpacked(some)

    def add_packed(self, some):
        commands = [("BF.ADDPACKED", self.options.key, *form, "COUNT", data) for form, data in map(packed, some)]
        # Items of commands that ended with an error, whose answer does not say how many of them were new.
        unclear = 0
        for items, answer in zip(some, self.target.pipeline(commands)):
            if isinstance(answer, Exception):
                reason, items_in = REFUSED.fullmatch(wire_text(answer)).groups()
                self.refusal = self.refusal or reason
                unclear += int(items_in or 0)
            else:
                self.new += answer
                self.known += len(items) - answer
        if unclear:
            new = self.target.items(self.options.key) - self.before - self.new
            # Others may add, too.
            new = min(max(new, 0), unclear)
            self.new += new
            self.known += unclear - new

    def add_unpacked(self, some):
        for answers in self.target.pipeline([("BF.MADD", self.options.key, *items) for items in some]):
            # A filter that does not grow answers up to the item that did not fit, and there with the error.
            for answer in answers if isinstance(answers, list) else [answers]:
                if isinstance(answer, Exception):
                    self.refusal = self.refusal or wire_text(answer)
                elif answer:
                    self.new += 1
                else:
                    self.known += 1

    def rate(self):
        return (self.new + self.known) / max(self.seconds, 1e-9)

    def report(self):
        total = self.new + self.known
        print(
            f"{total:,} items, {self.new:,} new and {self.known:,} known (or taken for known), "
            f"in {self.seconds:.1f} s, {self.rate():,.0f} items/s"
        )
        key = shown(self.options.key)
        items = self.target.items(self.options.key)
        print(f"{key} has {items:,} items")
        if self.refusal is not None:
            complain(f"stopped after item {total:,} of this run: {self.refusal}")
            return 1
        if items < self.before + self.new:
            raise Trouble(
                f"{key} had {self.before:,} items and got {self.new:,}: it was deleted or replaced meanwhile"
            )
        return 0


# An error of BF.ADDPACKED; where some items are in, it says how many.
REFUSED = re.compile(r"(.*?)(?: after (\d+) items)?", re.DOTALL)


def takes_packed(target, key):
    """Whether this filter's items are to be sent with BF.ADDPACKED."""
    if not target.offers("BF.ADDPACKED", key, "NOCREATE", "LINES", b""):
        return False
    # To others they go in words that a RedisBloom or valkey-bloom which follows as a replica knows.
    return pairs(target.call("BF.INFO", key, "FULL"))["Layout"] == b"blocked"


def packed(items):
    """Items in one run of bytes, and before it the words that say how they stand there."""
    if len({len(item) for item in items}) == 1 and items[0]:
        return ("WIDTH", len(items[0])), b"".join(items)
    data = b"\n".join(items) + b"\n"
    if data.count(b"\n") == len(items):
        return ("LINES",), data
    return ("PREFIXED",), b"".join([struct.pack("<I", len(item)) + item for item in items])


class Place:
    """How many lines of the input are in the filter: in a file, if one is named.

    With the checksum of these lines, so that another input is noticed.
    """

    # Seconds between two notes of the place.
    INTERVAL = 0.2

    def __init__(self, options, target, separator):
        self.path = options.state
        self.separator = separator
        self.what = {"target": str(target.address), "key": options.key.decode("latin-1"), "null": options.null}
        self.lines = 0
        self.checksum = hashlib.sha256()
        self.saved = time.monotonic()
        self.is_resumed = self.path is not None and self.path.exists()
        if self.is_resumed:
            self.read()

    def read(self):
        try:
            state = json.loads(self.path.read_bytes())
            self.lines, self.wanted = state.pop("lines"), state.pop("sha256")
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise Trouble(f"{self.path} is no state file of a load ({error})") from None
        if state != self.what:
            raise Trouble(f"{self.path} is the state of another load, {state}, not {self.what}; name another file")

    def skip(self, lines):
        """Passes over the lines that an earlier run loaded."""
        left = self.lines
        while left:
            part = list(itertools.islice(lines, min(left, 10_000)))
            if not part:
                raise Trouble(f"the input ends {left:,} lines before the place that {self.path} holds")
            self.count(part)
            left -= len(part)
        if self.lines and self.checksum.hexdigest() != self.wanted:
            raise Trouble(f"the first {self.lines:,} lines are not those that {self.path} was saved after")

    def advance(self, part):
        self.lines += len(part)
        self.count(part)
        if time.monotonic() - self.saved > self.INTERVAL:
            self.save()

    def count(self, part):
        self.checksum.update(self.separator.join(part) + self.separator)

    def save(self):
        self.saved = time.monotonic()
        if self.path is not None:
            state = {**self.what, "lines": self.lines, "sha256": self.checksum.hexdigest()}
            draft = self.path.with_name(self.path.name + ".new")
            draft.write_text(json.dumps(state) + "\n")
            draft.replace(self.path)

    def forget(self):
        if self.path is not None:
            self.path.unlink()


# ---- Servers -------------------------------------------------------------------------------------


class Side:
    """A server, or a cluster, at one end of the migration."""

    def __init__(self, role, url):
        self.role = role
        self.is_valkey_bloom = False
        # No second try of a command whose answer was lost: a header cannot be loaded twice, and an item
        # that was added would count as known.
        settings = {
            "protocol": 2,
            "socket_connect_timeout": CONNECT_TIMEOUT,
            "socket_timeout": ANSWER_TIMEOUT,
            "socket_read_size": READ_SIZE,
            "retry": Retry(NoBackoff(), 0),
        }
        try:
            self.client = redis.Redis.from_url(url, **settings)
        except ValueError as error:
            raise Trouble(f"{role}: {error}") from None
        place = self.client.connection_pool.connection_kwargs
        self.address = place.get("path") or f"{place.get('host', 'localhost')}:{place.get('port', 6379)}"
        self.address += f"/{place.get('db') or 0}"
        with self.reachable():
            self.client.ping()
            if self.is_cluster():
                self.client = RedisCluster.from_url(url, **settings)

    def __str__(self):
        return f"{self.role} {self.address}"

    @contextmanager
    def reachable(self):
        """Names the server in what goes wrong with the connection."""
        try:
            yield
        except (redis.ConnectionError, redis.TimeoutError, RedisClusterException) as error:
            raise Trouble(f"{self}: {error}") from error

    def is_cluster(self):
        try:
            return self.client.info("cluster").get("cluster_enabled") == 1
        except redis.ResponseError:
            return False

    def identity(self):
        """What tells one database from another, where the user may ask."""
        if isinstance(self.client, RedisCluster):
            return sorted(node.name for node in self.client.get_nodes())
        try:
            with self.reachable():
                return self.client.info("server").get("run_id"), self.address.rpartition("/")[2]
        except redis.ResponseError:
            return None

    def require(self, command):
        """A command without arguments is refused for their number, if there is such a command."""
        if is_unknown(self.error(command, b"{migrate.py}")):
            raise Trouble(
                f"{self} has no {command}: load the module there (or RedisBloom, or valkey-bloom from 1.0 on as "
                "the source of a copy)"
            )

    def require_source(self):
        """Finds out how filters are read here: valkey-bloom has no chunks, but BF.LOAD, which no other has alone."""
        self.is_valkey_bloom = is_unknown(self.error("BF.SCANDUMP", b"{migrate.py}")) and not is_unknown(
            self.error("BF.LOAD", b"{migrate.py}")
        )
        if not self.is_valkey_bloom:
            self.require("BF.SCANDUMP")

    def offers(self, *words):
        """Whether there is such a command, and the user may run it. It is run, so it must change nothing."""
        error = self.error(*words)
        return not is_unknown(error) and not isinstance(error, redis.exceptions.NoPermissionError)

    def error(self, *words):
        """What the server has against a command, or None."""
        try:
            with self.reachable():
                self.client.execute_command(*words)
        except redis.RedisError as error:
            return error
        return None

    def call(self, *words):
        with self.reachable():
            try:
                return self.client.execute_command(*words)
            except redis.ReadOnlyError as error:
                raise Trouble(f"{self}: {error}") from error

    def pipeline(self, commands):
        """The answers of several commands; an error is an answer."""
        pipeline = self.client.pipeline(transaction=False)
        for words in commands:
            pipeline.execute_command(*words)
        with self.reachable():
            return pipeline.execute(raise_on_error=False)

    def chunks(self, key):
        """Each (iterator, data) of BF.SCANDUMP, the header first."""
        if self.is_valkey_bloom:
            payload = self.call("DUMP", key)
            if payload is not None:
                yield from valkey_chunks(payload)
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

    def state(self, key):
        """Bytes that are others when the filter has changed; None where there is no filter any more.

        The header counts the items, and has the exceptions, so whatever was added or excepted shows in it. It also
        counts the set bits of a blocked filter. A classic one can get bits by BF.MERGE while its items, which are
        estimated then, stay as many; so its set bits are asked for, as far as the server knows them and allows it.
        """
        try:
            if self.is_valkey_bloom:
                return self.valkey_state(key)
            header = self.call("BF.SCANDUMP", key, 0)[1]
            if header.startswith(MAGIC):
                return header
            try:
                return header + b" %d" % pairs(self.call("BF.INFO", key, "FULL"))["Bits set"]
            except (redis.ResponseError, KeyError):
                # RedisBloom, which has no BF.MERGE.
                return header
        except redis.ResponseError as error:
            if "not found" in str(error):
                return None
            raise

    def valkey_state(self, key):
        """valkey-bloom never changes a filter but by an item that it counts; the seed tells a new one from an old."""
        # Asked first, because it knows what holds a filter; DUMP gives any value.
        self.call("BF.CARD", key)
        payload = self.call("DUMP", key)
        return None if payload is None else next(valkey_chunks(payload))[1]

    def items(self, key):
        return pairs(self.call("BF.INFO", key)).get("Number of items inserted", 0)

    def figures(self, key):
        """Everything that the server tells about a filter, as far as it knows the command and allows it."""
        figures = {f"BF.INFO {name}": value for name, value in pairs(self.call("BF.INFO", key)).items()}
        # Old versions of RedisBloom give a rate for filters that do not grow, too.
        if figures.get("BF.INFO Expansion rate") is None:
            figures.pop("BF.INFO Expansion rate", None)
        # By the server's own limit.
        figures.pop("BF.INFO Max scaled capacity", None)
        for command in ("BF.CARD", "BF.DEBUG"):
            try:
                answer = self.call(command, key)
                figures[command] = [line.decode() for line in answer] if isinstance(answer, list) else answer
            except redis.ResponseError:
                pass
        return figures


def pairs(answer):
    """A flat array of names and values, or a map, as a dict with text for names."""
    if isinstance(answer, list):
        answer = dict(zip(answer[::2], answer[1::2]))
    return {name.decode(): value for name, value in answer.items()}


def is_unknown(error):
    """Whether this is what a server, or redis-py's client of a cluster, says of a command that is not there."""
    text = str(error).lower()
    return "unknown command" in text or "doesn't exist" in text


def wire_text(error):
    """The server's words; the client takes off the ERR in front, and keeps every other code."""
    return str(error) or type(error).__name__


# ---- valkey-bloom's payloads ---------------------------------------------------------------------


def valkey_chunks(payload):
    """What BF.SCANDUMP would give for the filter of a payload of DUMP; docs/design.md has both formats.

    Unlike RESTORE, which takes no payload of a newer server, this works between all versions.
    """
    try:
        layers, header = unpack_filter(payload)
    except (IndexError, ValueError, struct.error) as error:
        raise NotCopied(f"DUMP gives what is no filter of valkey-bloom 1 ({error})") from None
    yield 1, header
    position = 1
    for bits in layers:
        for start in range(0, len(bits), CHUNK_BYTES):
            part = bits[start : start + CHUNK_BYTES]
            position += len(part)
            yield position, part


def unpack_filter(payload):
    """The bits of each layer, and a chunk header."""
    saved = Saved(payload)
    count, expansion, error, tightening = (saved.value() for _ in range(4))
    saved.value()  # Whether the seed is a random one, which the seed tells too.
    heads, layers, capacities = [], [], []
    for _ in range(count):
        layer = saved.value()
        heads.append(VALKEY_HEAD.unpack_from(layer))
        layers.append(layer[VALKEY_HEAD.size :])
        capacities.append(saved.value())
    items = [*capacities[:-1], saved.value()]
    header = VALKEY_MAGIC + struct.pack("<IIddI", 0, count, error, tightening, expansion) + heads[0][3]
    for capacity, number, bits in zip(capacities, items, layers):
        header += struct.pack("<QQQ", capacity, number, len(bits))
    return layers, header


class Saved:
    """The values that a module saved, out of a payload of DUMP."""

    # The payload's first byte, and the version in the last bits of the type's number.
    MODULE_TYPE, VERSION = 7, 1
    UNSIGNED, DOUBLE, STRING = 2, 4, 5
    COMPRESSED = 0xC3

    def __init__(self, payload):
        self.payload = memoryview(payload)
        self.at = 1
        version = self.number() & 1023
        if payload[0] != self.MODULE_TYPE or version != self.VERSION:
            raise ValueError(f"a value of type {payload[0]} and version {version}")

    def take(self, count):
        self.at += count
        return self.payload[self.at - count : self.at]

    def number(self):
        """1, 2, 5 or 9 bytes, by the first one."""
        first = self.take(1)[0]
        if first < 0x40:
            return first
        if first < 0x80:
            return (first & 0x3F) << 8 | self.take(1)[0]
        if first not in (0x80, 0x81):
            raise ValueError(f"a number that begins with {first:#x}")
        return int.from_bytes(self.take(4 if first == 0x80 else 8), "big")

    def value(self):
        kind = self.number()
        if kind == self.UNSIGNED:
            return self.number()
        if kind == self.DOUBLE:
            return struct.unpack("<d", self.take(8))[0]
        if kind != self.STRING:
            raise ValueError(f"a value of kind {kind}")
        if self.payload[self.at] != self.COMPRESSED:
            return bytes(self.take(self.number()))
        self.at += 1
        packed_bytes, length = self.number(), self.number()
        return decompressed(self.take(packed_bytes), length)


def decompressed(packed_bytes, length):
    """LZF: runs of bytes as they are, and references to bytes that were there before."""
    out, at = bytearray(), 0
    while at < len(packed_bytes):
        control = packed_bytes[at]
        at += 1
        if control < 32:
            out += packed_bytes[at : at + control + 1]
            at += control + 1
            continue
        count = control >> 5
        if count == 7:
            count += packed_bytes[at]
            at += 1
        start = len(out) - ((control & 31) << 8) - packed_bytes[at] - 1
        at += 1
        count += 2
        if not 0 <= start < len(out):
            raise ValueError("a reference to what is not there")
        # What is referred to may still be in the making: then it repeats.
        found = out[start : start + count]
        out += (found * (count // len(found) + 1))[:count]
    if len(out) != length:
        raise ValueError(f"{len(out)} bytes instead of {length}")
    return bytes(out)


# ---- Files ---------------------------------------------------------------------------------------


class Input:
    """A file, plain or gzip, or standard input, read in blocks."""

    def __init__(self, raw):
        self.raw = raw
        status = os.fstat(raw.fileno())
        self.size = status.st_size if stat.S_ISREG(status.st_mode) else None
        self.bytes = 0
        self.stream = gzip.GzipFile(fileobj=raw) if raw.peek(2).startswith(GZIP_MAGIC) else raw

    def read(self, size):
        try:
            block = self.stream.read(size)
        except EOFError as error:
            raise Trouble(f"the gzip input is cut off: {error}") from None
        self.bytes += len(block)
        return block

    def position(self):
        """In the file as it is stored where that has an end, else what came out of it."""
        return self.bytes if self.size is None else self.raw.tell()


@contextmanager
def open_input(name):
    if name == "-":
        yield Input(io.BufferedReader(sys.stdin.buffer.raw, READ_SIZE))
    else:
        with open(name, "rb") as raw:
            yield Input(raw)


def pieces(file, separator):
    """What stands between the separators; a separator at the end is optional."""
    rest = b""
    while block := file.read(READ_SIZE):
        *whole, rest = (rest + block).split(separator)
        yield from whole
    if rest:
        yield rest


def batches(items, size, most_bytes=math.inf):
    """Parts of at most so many items, and of at most so many bytes unless a single item has more."""
    for start in range(0, len(items), size):
        part = items[start : start + size]
        if len(part) > 1 and sum(map(len, part)) > most_bytes:
            yield from batches(part, len(part) // 2, most_bytes)
        else:
            yield part


def shown(key):
    """For messages: printable on any terminal."""
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}" for byte in key) or '""'


if __name__ == "__main__":
    sys.exit(main())
