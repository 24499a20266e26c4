"""The program `libbloom`: filters in files and servers, by their command line."""

from __future__ import annotations

import argparse
import errno
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from importlib import import_module
from itertools import chain, compress
from pathlib import Path
from typing import Any, NoReturn

from . import Bloom, Filter, FullError, MissingError, UnsureError, __version__, plan
from ._native import capacity_for, unseen
from ._terminal import ROOM, Bar, Messages, Refused, Trouble, in_bytes, opened, output, printable, say, shown, whole

LOCAL = "redis://127.0.0.1:6379"
EXIT_CODES = """\
exit codes:
  0    yes: all was done, and all items were found
  1    no: query: some items were not found; uniq: no line was new; passwords check: a password is (probably) leaked;
       migrate copy: some filters were not copied, each of which is named; load: an item did not fit
  2    an error, in one line
  130  interrupted with Ctrl-C
"""
COPY = """\
The source may have RedisBloom, valkey-bloom or this module, and goes on answering. All databases are copied, each to the
one of its number; a URL with a number means that one. With --state an interrupted run goes on where it stopped, and a
later one with --replace (and --delete) brings the target up to date. So: copy while everything runs; stop the writers;
copy again; switch. docs/python.md has more.
"""
ITEMS = """\
A list has an item a line, byte for byte. Lines end with LF or CR LF, which the last one may lack; an empty line is an
empty item. A UTF-8 byte order mark at the start is no part of it. With --null each item ends with a NUL byte instead;
without it a list with NUL bytes in its first part is refused. gzip, bzip2 and xz (from Python 3.14 on also zstd)
are unpacked; whatever else a file holds is taken as bytes.
"""
LOAD = """\
With --state an interrupted run goes on where it stopped, when it is started again in the same way.
"""
QUERY = "Print the items that are found; - (or none) for those of the standard input."
QUERY_MORE = "Items of a pipe are answered as they come.\n\n" + ITEMS
UNIQ = """\
A line that was not seen before is taken for seen, and lost, at most at the error rate. With --state lines of earlier runs
count as seen; it is written when all lines are.

"""
PULL = """\
An RDB file is a server's dump.rdb, or the backup that a cloud gives. KEY may be left out if it has only one filter.
"""
SHARD_LOAD = """\
With --state a run that ended in any way goes on where it was, when it is started again in the same way. With --replicas
no item is lost by a failover to one of these replicas. A node that fails over or moves its slots is waited for.
"""
PASSWORDS = """\
The list has a hash a line in hexadecimal, with or without a count behind it (HASH:COUNT). The filter holds the 20 bytes
of each hash. Lists are read as by `libbloom migrate load`.
""" + LOAD
CHECK = """\
Asks for a password without showing it, or with --stdin reads each line of the standard input as one. No password is ever
printed. The filter says "leaked" of a password that is not in the list at most at its error rate, and never says "not
leaked" of one that is.
"""


def items_of(name: str, words: argparse.Namespace, is_live: bool = False) -> Iterator[list[bytes]]:
    """The items of a file, or of the standard input, in parts."""
    with opened(name, words.separator, is_live) as file:
        yield from file.parts()


# Names of the standard input as a filter, and of the standard output.
STDIN, STDOUT = ("-", "/dev/stdin"), ("-", "/dev/stdout")


def loaded(name: str) -> Filter:
    """The filter of a file, or of the standard input for `-`."""
    is_input = name in STDIN
    if is_input and sys.stdin is None:
        raise Trouble("there is no standard input")
    try:
        return Filter.load("/dev/stdin" if is_input else name)
    except OSError as error:
        raise Trouble(f"{shown(name)}: {error.strerror or error}") from None


class Output:
    """Where a filter goes: a file, or the standard output for `-`. What can go wrong is found out before the work, as far
    as it can be."""

    def __init__(self, path: str, read: tuple[str, ...] = (), name: str | None = None) -> None:
        """`read`: files that are read, and must stay. `name`: for messages, if it is not the path."""
        self.path, self.name = path, shown(name or path)
        is_output = path in STDOUT
        if is_output and sys.stdout is None:
            raise Trouble("there is no standard output")
        try:
            # None if there is no such file yet.
            self.status = os.fstat(output().fileno()) if is_output else status_of(path)
            is_file = self.status is not None and stat.S_ISREG(self.status.st_mode)
            if not is_output:
                self.try_file(is_file)
        except OSError as error:
            raise Trouble(f"{self.name}: {error.strerror or error}") from None
        # Also by another name, such as /dev/fd/1: nothing else may be written there.
        self.is_stream = is_output or self.is_written_by(sys.stdout)
        for one in read if is_file else ():
            if self.is_same(os.fstat(sys.stdin.fileno()) if one == "-" and sys.stdin is not None else status_of(one)):
                raise Trouble(f"{self.name} is read, and the filter would replace it")

    def is_same(self, status: os.stat_result | None) -> bool:
        return self.status is not None and status is not None and os.path.samestat(self.status, status)

    def is_written_by(self, stream: Any) -> bool:
        return stream is not None and self.is_same(os.fstat(stream.fileno()))

    def try_file(self, is_file: bool) -> None:
        """Raises the error of the system if the file cannot be written."""
        if self.status is not None and not os.access(self.path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if self.status is not None and stat.S_ISDIR(self.status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        folder = os.path.dirname(os.path.realpath(self.path))
        # Open files have no folder where a new one could be made.
        if (self.status is None or is_file) and not folder.startswith(("/proc/", "/dev/fd")):
            tempfile.TemporaryFile(dir=folder).close()

    def save(self, made: Filter, said: str) -> None:
        """Saves a filter, and says what it is, but never where the filter goes."""
        try:
            made.save(output().buffer if self.is_stream else self.path)
        except OSError as error:
            raise Trouble(f"{self.name}: {error.strerror or error}") from None
        stream = sys.stderr if self.is_stream else sys.stdout
        if stream is not None and not self.is_written_by(stream):
            print(f"{self.name}: {said}", file=stream)


def status_of(name: str) -> os.stat_result | None:
    """What the system says about a file; None if there is none."""
    return os.stat(name) if os.path.exists(name) else None


# What may end a number: 10M are ten million.
UNITS = {"K": 3, "M": 6, "G": 9, "B": 9, "T": 12}
NUMBER = re.compile(r"(\d[\d_]*(?:\.\d+)?(?:E\+?\d{1,2})?)([KMGBT]?)", re.ASCII)
MOST = (1 << 64) - 1


def number(text: str, least: int = 1, most: int = MOST) -> int:
    """A whole number, also as 1e9, 10M or 1_000_000."""
    if parts := NUMBER.fullmatch(text.upper()):
        value = Decimal(parts[1]).scaleb(UNITS.get(parts[2], 0))
        if value == value.to_integral_value() and least <= value <= most:
            return int(value)
    limit = "2^64 - 1, such as 1000000, 1e6 or 1M" if most == MOST else most
    raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} to {limit}")


count = partial(number, least=0)


def rate(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no error rate, such as 0.01") from None


def options_of(words: argparse.Namespace) -> dict[str, Any]:
    names = ("fixed", "growing", "expansion", "layout", "window", "slices")
    return {name: getattr(words, name) for name in names}


def client_of(url: str) -> Any:
    from ._server import Server

    return Server("server", url).client


def run_plan(words: argparse.Namespace) -> int:
    rows = [f"{'items':>20} {'bytes':>20} {'bits an item':>13} {'layers':>7} {'error rate':>12}"]
    for items in [words.capacity, *([words.items] if words.items else [])]:
        stage = plan(words.capacity, words.error_rate, items=items, **options_of(words))
        if stage is None:
            raise Trouble(f"a filter of these options cannot hold {items:,} items")
        size, layers, rate = stage
        rows.append(f"{items:>20,} {size:>20,} {8 * size / items:>13.2f} {layers:>7,} {rate:>12.3g}")
    print("\n".join(rows), file=output())
    return 0


def run_build(words: argparse.Namespace) -> int:
    to = Output(words.output, tuple(words.files))
    is_open = words.capacity is None
    if is_open and (words.window is not None or words.layout == "valkey"):
        raise Trouble("--capacity must say how many items come: such a filter cannot be shrunk afterwards")
    capacity = words.capacity
    if is_open:
        shape = dict(fixed=words.fixed, growing=words.growing, layout=words.layout)
        capacity = capacity_for(ROOM, words.error_rate, **shape)
    try:
        made = Filter(capacity, words.error_rate, seed=words.seed, refresh=words.refresh, **options_of(words))
    except MemoryError as error:
        hint = f" (for a list of unknown length, {in_bytes(ROOM)} are needed: --capacity takes less)" if is_open else ""
        raise Trouble(f"{error}{hint}") from None
    read = new = 0
    with Bar() as bar:
        for name in words.files:
            for some in items_of(name, words):
                new += made.update(some)
                read += len(some)
                bar(read)
    if is_open:
        made.shrink()
    said = f"{new:,} of {read:,} items were new, {made.size_in_bytes:,} bytes, {made.layers:,} layers"
    to.save(made, said)
    return 0


def run_shrink(words: argparse.Namespace) -> int:
    if words.output is not None:
        to = Output(words.output)
    elif words.filter in STDIN:
        to = Output("-")
    else:
        # An open file, such as /dev/fd/3, is replaced where it is.
        path = os.path.realpath(words.filter)
        if os.path.exists(words.filter) and not os.path.isfile(path):
            raise Trouble(f"{shown(words.filter)} is no file that can be replaced: -o FILTER says where the filter goes")
        to = Output(path, name=words.filter)
    made = loaded(words.filter)
    freed = made.shrink(words.capacity)
    figures = f"{len(made):,} items, {made.size_in_bytes:,} bytes"
    if freed or words.output is not None or to.is_stream:
        to.save(made, f"{figures}, {freed:,} less than before")
    else:
        print(f"{to.name}: {figures}, which is as small as it can be")
    return 0


def run_query(words: argparse.Namespace) -> int:
    if words.filter == "-" and "-" in (words.items or "-"):
        raise Trouble("the standard input cannot be both the filter and the items")
    return print_found(words, loaded(words.filter))


def print_found(words: argparse.Namespace, made: Any) -> int:
    written = None if words.quiet else output().buffer
    are_all_found = True
    asked = (items_of("-", words, True) if item == "-" else [[os.fsencode(item)]] for item in words.items or "-")
    for some in chain.from_iterable(asked):
        found = made.contains_many(some)
        are_all_found = are_all_found and all(found)
        if written is not None:
            printed = [item for item, is_found in zip(some, found) if not is_found] if words.invert else compress(some, found)
            written.write(b"".join([item + words.separator for item in printed]))
            written.flush()
    return 0 if are_all_found else 1


def run_uniq(words: argparse.Namespace) -> int:
    state, new, passed = words.state, 0, 0
    is_there = state is not None and os.path.exists(state)
    if state is not None:
        # What can go wrong with it is found out before the work.
        Output(state, tuple(words.files))
    made = loaded(state) if is_there else Filter(words.capacity, words.error_rate, growing=True)
    with Bar(unit=in_bytes) as bar:
        bar.is_shown = bar.is_shown and not output().isatty()
        for name in words.files or ["-"]:
            with opened(name, words.separator, is_live=True) as file:
                for block in file.blocks():
                    count, lines = unseen(made, block, words.separator[0])
                    new += count
                    if not words.count:
                        sys.stdout.buffer.write(lines)
                        sys.stdout.buffer.flush()
                    bar(passed + file.position, f"; {new:,} new lines")
                passed += file.position
    if words.count:
        print(new, flush=True)
    # Last of all: what was not written counts as new the next time.
    if state is not None and (new or not is_there):
        made.save(state)
    return 0 if new else 1


def run_info(words: argparse.Namespace) -> int:
    made = loaded(words.filter)
    names = "capacity error_rate estimated_error_rate size_in_bytes fill_ratio layers exceptions expansion fixed growing seed"
    print(f"items: {len(made)}", file=output())
    for name in [*names.split(), "layout", "window"]:
        value = getattr(made, name)
        print(f"{name.replace('_', ' ')}: {'none' if value is None else value}")
    return 0


def run_push(words: argparse.Namespace) -> int:
    made = loaded(words.filter)
    try:
        made.push(client_of(words.url), words.key)
    except (ValueError, MissingError) as error:
        # The package shows the key as an object of Python's.
        raise Trouble(str(error).replace(repr(words.key), shown(words.key))) from None
    print(f"{shown(words.key)}: {len(made):,} items, {made.size_in_bytes:,} bytes")
    return 0


def is_rdb(name: str) -> bool:
    if not os.path.isfile(name):
        return False
    with open(name, "rb") as file:
        return file.read(9).startswith((b"REDIS0", b"VALKEY0"))


def run_pull(words: argparse.Namespace) -> int:
    file, key = words.file, words.key
    if file is None and words.url == LOCAL and is_rdb(key):
        file, key = os.fsdecode(key), None
    to = Output(words.output, () if file is None else (file,))
    if file is None:
        made = Bloom(client_of(words.url), key).pull()
    else:
        try:
            made = Filter.from_rdb(file, key, db=words.db)
        except LookupError as error:
            raise Trouble(error) from None
    to.save(made, f"{len(made):,} items, {made.size_in_bytes:,} bytes")
    return 0


def run_load(module: str, function: str, words: argparse.Namespace) -> int:
    described = [words.error_rate, words.capacity, words.expansion, words.layout]
    if words.add and (words.fixed or any(value is not None for value in described)):
        raise Trouble("--add takes the filter as it is: no --error-rate, --capacity or other properties")
    if not words.add and words.error_rate is None:
        raise Trouble("--error-rate is needed to make the filter, or --add to use one that is there")
    try:
        return called(module, function, words)
    except Refused as refusal:
        complain(refusal)
        return 1


def called(module: str, function: str, words: argparse.Namespace) -> Any:
    """Calls a function of a module that needs redis-py."""
    return getattr(import_module(f"libbloom.{module}"), function)(words)


def later(module: str, function: str) -> Any:
    return partial(called, module, function)


def run_shard_query(words: argparse.Namespace) -> int:
    return print_found(words, called("_shard", "opened_filter", words))


class Parser(argparse.ArgumentParser):
    """Reports wrong arguments in one line, as all other errors."""

    is_mixing = False

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {printable(os.fsencode(without_passwords(message)))}; see {self.prog} --help\n")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        if status == 0 and sys.stdout is not None:
            # The help or the version, of which it is an error if it cannot be written.
            sys.stdout.flush()
        super().exit(status, message)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Lets options stand between names also where one of the names may be left out."""
        words, rest = super().parse_known_args(args, namespace)
        # Only a single command can be read so, and one without "--", which this would misunderstand.
        if self.is_mixing or not rest or self.get_default("run") is None or "--" in args:
            return words, rest
        self.is_mixing = True
        try:
            return self.parse_known_intermixed_args(args)
        finally:
            self.is_mixing = False


Argument = tuple[tuple[str, ...], dict[str, Any]]


def argument(*names: str, **how: Any) -> Argument:
    return names, how


def flag(name: str, text: str, **how: Any) -> Argument:
    return (name,), {"action": "store_true", "help": text, **how}


LAYOUTS = ["blocked", "classic", "valkey"]
FILTER = argument("filter", help="a file; - for standard input")
OUTPUT = argument("-o", "--output", required=True, metavar="FILTER", help="a file; - for standard output")
FILES = argument("files", nargs="+", metavar="FILE", help="- for standard input")
NULL = flag("--null", "items end with NUL bytes, not with lines", dest="separator", action="store_const", const=b"\0", default=b"\n")
KEY = argument("key", metavar="KEY", type=os.fsencode, help="the filter")
TARGET = argument("target", metavar="URL", help="a server, or any of a cluster: redis://:password@host:6379/0")
URL = argument("--url", default=LOCAL, help="a server, or any of a cluster, as redis-py names it (default: %(default)s)")
STATE = argument("--state", type=Path, metavar="FILE", help="remember there how far it is, and go on from there")
RATE = argument("--error-rate", type=rate, default=0.01, metavar="RATE", help="rate of false positives (default: 0.01)")
SHAPE = [
    RATE,
    flag("--fixed", "never grow"),
    flag("--growing", "expect to outgrow the capacity by far"),
    argument("--expansion", type=partial(number, most=32768), metavar="N", help="growth of each layer (default: 2)"),
    argument("--layout", default="blocked", choices=LAYOUTS),
    argument("--window", type=number, metavar="SECONDS", help="forget items after so many seconds"),
    argument("--slices", type=partial(number, least=2, most=64), metavar="N", help="steps of a window (default: 8)"),
]
SEEDED = [
    *SHAPE,
    argument("--seed", type=count, metavar="N", help="filters of one seed can be united"),
    flag("--refresh", "an item that comes again stays in a window"),
]
ASKED = [
    argument("items", nargs="*", metavar="ITEM"),
    argument("-v", "--invert", action="store_true", help="print those that are not found"),
    argument("-q", "--quiet", action="store_true", help="print nothing"),
    NULL,
]
LOADED = [
    TARGET,
    argument("key", metavar="KEY", type=os.fsencode, help="the filter to make and fill"),
    argument("--error-rate", type=rate, metavar="RATE", help="rate of false positives, such as 0.01"),
    argument("--capacity", type=number, metavar="N", help="items to come (default: it is shrunk to those that came)"),
    argument("--expansion", type=number, metavar="N", help="how many times larger each layer is"),
    flag("--fixed", "never grow: refuse items when it is full"),
    argument("--layout", choices=LAYOUTS, help="else as the server is configured"),
    flag("--add", "add to a filter that is there, instead of making one"),
    argument("--file", default="-", metavar="FILE", help="the list; - for standard input (default)"),
    NULL,
    argument("--batch", type=number, default=1000, metavar="N", help="items in a command, at most (default: %(default)s)"),
    STATE,
]
SHARDED = [
    argument("--items", type=number, required=True, metavar="N", help="different items that will come"),
    argument("--shards", type=number, metavar="N", help="number of keys (default: by the filter's size)"),
    *SEEDED,
]


def parser() -> argparse.ArgumentParser:
    def command(under: Any, name: str, run: Any, text: str, *arguments: Argument, more: str = "") -> Any:
        described = dict(description=f"{text}\n\n{more}", epilog=EXIT_CODES, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser = under.add_parser(name, help=text, **described)
        for names, how in arguments:
            parser.add_argument(*names, **how)
        if run is not None:
            parser.set_defaults(run=run)
        return parser

    def group(name: str, text: str) -> Any:
        return command(commands, name, None, text).add_subparsers(required=True)

    text = "Bloom filters in files and servers."
    program = Parser("libbloom", description=text, epilog=EXIT_CODES, formatter_class=argparse.RawDescriptionHelpFormatter)
    program.add_argument("--version", action="version", version=__version__)
    commands = program.add_subparsers(required=True, metavar="COMMAND")

    capacity = argument("capacity", type=number)
    items = argument("--items", type=number, metavar="N", help="also once it has grown to so many items")
    command(commands, "plan", run_plan, "Say what a filter takes, without making it.", capacity, items, *SHAPE)
    capacity = argument("--capacity", type=number, metavar="N", help="items to come (default: it is shrunk to those that came)")
    command(commands, "build", run_build, "Make a filter of lists of items.", FILES, OUTPUT, capacity, NULL, *SEEDED, more=ITEMS)
    to = argument("-o", "--output", metavar="FILTER", help="a file; - for standard output (default: the same file)")
    capacity = argument("--capacity", type=number, metavar="N", help="items that it keeps room for, in all")
    command(commands, "shrink", run_shrink, "Make a filter as small as its items allow.", FILTER, to, capacity)
    command(commands, "query", run_query, QUERY, FILTER, *ASKED, more=QUERY_MORE)
    files = argument("files", nargs="*", metavar="FILE", help="- for standard input (default)")
    kept = argument("--state", metavar="FILTER", help="a file with the lines of earlier runs, which is made or replaced")
    counted = flag("--count", "print only how many lines there are")
    rated = argument("--error-rate", type=rate, default=1e-6, metavar="RATE", help="share of lines that are lost (default: 1e-6)")
    sized = argument("--capacity", type=number, default=10**7, metavar="N", help="lines to come (default: 1e7; it grows)")
    text = "Print each line that was not seen before."
    command(commands, "uniq", run_uniq, text, files, kept, counted, rated, sized, NULL, more=UNIQ + ITEMS)
    command(commands, "info", run_info, "Print a filter's figures.", FILTER)
    command(commands, "push", run_push, "Make a key of a server the filter of a file.", FILTER, KEY, URL)
    file = argument("file", nargs="?", metavar="RDB_FILE")
    db = argument("--db", type=count, metavar="N", help="the database of an RDB_FILE, if several have the key")
    command(commands, "pull", run_pull, "Save a filter of a server, or of an RDB file.", file, KEY, db, OUTPUT, URL, more=PULL)

    ways = group("migrate", "Move filters to a server, from another one or from a list of items.")
    copy = command(
        *(ways, "copy", later("_migrate", "copy_filters"), "Copy the filters of a server, bit for bit."),
        argument("source", metavar="SOURCE_URL", help="a server, or any of a cluster: redis://:password@host:6379/0"),
        argument("target", metavar="TARGET_URL", help="where the filters go"),
        argument("--db", type=count, metavar="N", help="only this database (default: all, or the one that SOURCE_URL names)"),
        NULL,
        flag("--replace", "replace filters that the target has, and their expiries"),
        flag("--delete", "delete copies of an earlier run whose filter the source has no more"),
        STATE,
        argument("--verify", type=number, nargs="?", const=1, metavar="N", help="read every (N-th) copy back, and compare it"),
        argument("--attempts", type=number, default=5, metavar="N", help="tries, if a filter changes meanwhile (default: 5)"),
        more=COPY,
    )
    which = copy.add_mutually_exclusive_group()
    which.add_argument("--match", metavar="PATTERN", help="only keys that match, as in SCAN's MATCH")
    which.add_argument("--keys", metavar="FILE", help="these keys, one a line; - for standard input")
    text = "Make a filter of a list of items, byte for byte."
    command(ways, "load", partial(run_load, "_load", "load_items"), text, *LOADED, more=ITEMS + "\n" + LOAD)

    ways = group("shard", "Keep one filter in many keys of a cluster.")
    name = argument("name", help="of the filter")
    nodes = argument("--nodes", type=number, default=3, metavar="N", help="primaries (default: %(default)s)")
    command(ways, "plan", later("_shard", "plan"), "Say what it takes, without a server.", name, nodes, *SHARDED)
    command(ways, "create", later("_shard", "create"), "Make a filter of many keys.", name, URL, *SHARDED)
    many = argument("--processes", type=number, default=os.cpu_count(), metavar="N", help="that add (default: %(default)s)")
    sure = argument("--replicas", type=count, default=0, metavar="N", help="wait until so many have each item (default: 0)")
    load, text, more = later("_shard", "load"), "Add the items of lists.", ITEMS + "\n" + SHARD_LOAD
    command(ways, "load", load, text, name, FILES, URL, NULL, many, STATE, sure, more=more)
    command(ways, "query", run_shard_query, QUERY, name, URL, *ASKED, more=QUERY_MORE)
    command(ways, "status", later("_shard", "status"), "Show how full it is, where it is, and what is wrong.", name, URL)
    command(ways, "drop", later("_shard", "drop"), "Delete a filter, all of its keys.", name, URL)

    ways = group("passwords", "Tell whether passwords are in a list of leaked ones.")
    plain = flag("--plain", "the lines are passwords, not hashes")
    text = "Put a list of leaked passwords into a filter of a server."
    command(ways, "load", partial(run_load, "_passwords", "load_list"), text, *LOADED, plain, more=PASSWORDS)
    every = flag("--stdin", "check every line of the standard input")
    check, text = later("_passwords", "check_passwords"), "Tell whether passwords are (probably) leaked."
    command(ways, "check", check, text, TARGET, KEY, every, NULL, more=CHECK)
    return program


def complain(text: object) -> None:
    say(f"libbloom: {without_passwords(str(text))}")


def without_passwords(text: str) -> str:
    """A message without what may be the user and the password of a URL, which is up to its last @; also of one whose
    beginning is misspelt."""
    before, scheme, after = text.partition("://")
    _, at, host = after.rpartition("@")
    if at:
        text = f"{before}{scheme}***@{host}"
    return re.sub(r"[^\s'\"]+", lambda word: without_login(word[0]), text)


def without_login(word: str) -> str:
    """A word without what stands between its last / before a colon and its last @."""
    login, at, host = word.rpartition("@")
    name, colon, _ = login.partition(":")
    folder, slash, _ = name.rpartition("/")
    return f"{folder}{slash}***@{host}" if at and colon else word


def main(arguments: list[str] | None = None) -> int:
    sys.stdout, sys.stderr = whole(sys.stdout), whole(sys.stderr, Messages)  # type: ignore[assignment]
    try:
        words = parser().parse_args(arguments)
        code = words.run(words)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        pass
    except KeyboardInterrupt:
        complain("interrupted")
        return 130
    except Exception as error:
        complain(said(error))
    finally:
        leave()
    return 2


def leave() -> None:
    """Drops what cannot be written any more, of which the interpreter would complain when it ends."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def said(error: Exception) -> str:
    """The line for an error. (A traceback would end with exit code 1, which means "no".)"""
    if isinstance(error, MemoryError) and not str(error):
        return "there is not enough memory"
    if isinstance(error, OSError) and isinstance(error.filename, (str, bytes, os.PathLike)):
        text = f"{shown(os.fspath(error.filename))}: {error.strerror}"
    else:
        text = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
        of_server = type(error).__module__.split(".")[0] in ("redis", "valkey")
        ours = (Trouble, FullError, MissingError, UnsureError)
        if not of_server and not isinstance(error, (*ours, OSError, ValueError, OverflowError, MemoryError)):
            # Nobody's but the program's own.
            text = f"{type(error).__name__}: {text}"
    return text.strip()


if __name__ == "__main__":
    sys.exit(main())
