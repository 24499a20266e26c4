"""Input and output of programs: files of items, keys in messages, and a line that says how far they are."""

from __future__ import annotations

import codecs
import io
import json
import os
import select
import stat
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from ._native import replace

READ_SIZE = 1 << 20
# An item may have as many bytes as a server takes in one argument.
LONGEST = 1 << 29
# What an xz file may ask for; `xz -9` needs 65 MiB.
XZ_MEMORY = 1 << 28
# Bytes of a filter for a list of unknown length. It is shrunk at the end; what no item touched took no memory.
ROOM = 256 << 20


class Trouble(Exception):
    """An error that ends the program, as one line for its user."""


class Refused(Trouble):
    """An item did not fit into a filter. This has an exit code of its own."""


Packing = tuple[str, Callable[[], Any]]
# What packed files begin with, and what unpacks them. Not every Python has all of these; zstd is there from 3.14 on.
BZIP2: Packing = ("bzip2", lambda: import_module("bz2").BZ2Decompressor())
PACKED: dict[bytes, Packing] = {
    b"\x1f\x8b": ("gzip", lambda: zlib.decompressobj(wbits=31)),
    b"\xfd7zXZ\0": ("xz", lambda: import_module("lzma").LZMADecompressor(memlimit=XZ_MEMORY)),
    b"\x28\xb5\x2f\xfd": ("zstd", lambda: import_module("compression.zstd").ZstdDecompressor()),
    **{b"BZh%d" % level + block: BZIP2 for level in range(1, 10) for block in (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")},
}


def packing_of(head: bytes) -> Packing | None:
    return next((packing for magic, packing in PACKED.items() if head.startswith(magic)), None)


def announced(blocks: Iterator[bytes]) -> bytes:
    """So many of the next bytes that they tell how all are packed. A line of text is never waited for."""
    head = b""
    while any(len(head) < len(magic) and magic.startswith(head) for magic in (codecs.BOM_UTF8, *PACKED)):
        if not (block := next(blocks, b"")):
            break
        head += block
    return head


def unpacked(blocks: Iterator[bytes], packing: Packing, name: str) -> Iterator[bytes]:
    """What is in packed blocks. Another packed list may follow, and zeros up to the end of a tape's block."""
    kind, new = packing
    unpacker: Any = None
    for block in blocks:
        while True:
            try:
                if unpacker is None:
                    if not (block := block.lstrip(b"\0")):
                        break
                    unpacker = new()
                data = unpacker.decompress(block, READ_SIZE)
            except ImportError:
                raise Trouble(f"{name} is packed with {kind}, which this Python cannot unpack: pipe it from `{kind} -dc`") from None
            except MemoryError:
                raise
            except Exception as error:
                # Such as the limit of memory for xz.
                why = f"this {kind} data cannot be unpacked here: {error}; `{kind} -dc` may unpack it, or say more"
                raise Trouble(f"{name}: {why}") from None
            # zlib gives back what it has not read; the others keep it.
            block = getattr(unpacker, "unconsumed_tail", b"")
            if data:
                yield data
            if unpacker.eof:
                block, unpacker = unpacker.unused_data, None
            elif not block and getattr(unpacker, "needs_input", True):
                break
    if unpacker is not None:
        raise Trouble(f"{name}: the {kind} data is cut off")


def printable(text: bytes) -> str:
    """Any bytes, such as a message with keys and names of files in it, for any terminal."""
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}" for byte in text)


def shown(key: bytes | str) -> str:
    """A key, or the name of a file, for messages."""
    return printable(os.fsencode(key)) or '""'


def in_items(number: float) -> str:
    return f"{number:,.0f}"


def in_bytes(number: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if number < 1024:
            return f"{number:,.0f} {unit}"
        number /= 1024
    return f"{number:,.1f} GiB"


class Waiting(io.FileIO):
    """A file that waits where another program has set that reads and writes do not."""

    def read(self, size: int = -1) -> bytes:
        while (block := super().read(size)) is None:
            select.select([self], [], [])
        return block

    def write(self, data: Any) -> int:
        while (count := super().write(data)) is None:
            select.select([], [self], [])
        return count


class Messages(Waiting):
    """A file for messages. What cannot be written is dropped: nobody could be told, and the work goes on."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def whole(stream: TextIO | None, kind: type[Waiting] = Waiting) -> TextIO | None:
    """A standard stream that writes all of a text, or fails. Python's own may write a part of it without a word: where it
    has no buffer (PYTHONUNBUFFERED), or writes do not wait."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    stream.flush()
    is_prompt = stream.line_buffering or stream.write_through
    buffer = io.BufferedWriter(kind(stream.fileno(), "wb", closefd=False))
    # A file's name is printed whatever bytes it has.
    return io.TextIOWrapper(buffer, stream.encoding, "backslashreplace", line_buffering=is_prompt)


def output() -> TextIO:
    """The standard output, for what a program is started to say."""
    if sys.stdout is None:
        raise Trouble("the standard output is closed")
    return sys.stdout


def say(text: str) -> None:
    """Prints a line on standard error. If that is closed it goes nowhere; `print` would put it on the standard output."""
    if sys.stderr is not None:
        print(printable(os.fsencode(text)), file=sys.stderr)


class Bar:
    """A line on a terminal that says how far a long call is; nothing where standard error is no terminal."""

    INTERVAL = 0.1

    def __init__(self, total: int | None = None, unit: Callable[[float], str] = in_items) -> None:
        self.total, self.unit = total, unit
        self.is_shown = sys.stderr is not None and sys.stderr.isatty()
        self.begin = self.drawn = time.monotonic()
        self.done, self.more = 0, ""

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: Any) -> None:
        self.draw("\n")

    def __call__(self, done: int, more: str = "") -> None:
        """Shows that so much is done. `more` stands at the end of the line."""
        self.done, self.more = done, more
        if time.monotonic() - self.drawn >= self.INTERVAL:
            self.draw()

    def draw(self, end: str = "") -> None:
        if not self.is_shown or not self.done:
            return
        self.drawn = time.monotonic()
        share = f" of {self.unit(self.total)} ({min(100 * self.done // self.total, 100)} %)" if self.total else ""
        rate = self.unit(self.done / max(self.drawn - self.begin, 1e-6)) + " items" * (self.unit is in_items)
        try:
            columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80
        except OSError:
            columns = 80
        # A line that fills the last column would go on in the next one.
        line = f"{self.unit(self.done)}{share}, {rate} a second{self.more}"[: columns - 1]
        print(f"\r{line}\033[K", end=end, file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """A line of its own on standard error, above the bar."""
        if self.is_shown:
            print("\r\033[K", end="", file=sys.stderr)
        say(text)
        self.draw()


class Input:
    """A list of items, in a file or the standard input. docs/python.md has the rule for what is an item."""

    def __init__(self, raw: io.FileIO, name: str, separator: bytes, is_live: bool) -> None:
        self.raw, self.name, self.separator, self.is_live = raw, name, separator, is_live
        status = os.fstat(raw.fileno())
        # None if the size of the input is not known.
        self.size = status.st_size if stat.S_ISREG(status.st_mode) else None
        # Bytes that were taken from the file.
        self.position = 0
        blocks = self.taken()
        head = announced(blocks)
        if packing := packing_of(head):
            blocks = unpacked(chain([head], blocks), packing, name)
            head = announced(blocks)
            if inner := packing_of(head):
                raise Trouble(f"{name} is packed twice, as {inner[0]} in {packing[0]}: unpack it once")
        self.left = chain([head.removeprefix(codecs.BOM_UTF8)], blocks)
        first = self.read()
        if separator != b"\0" and b"\0" in first:
            what = f"its byte {first.index(0) + 1:,} is NUL, which no text has (UTF-16 has, and archives and databases)"
            raise Trouble(f"{name} is no list of an item a line: {what}; --null is for items that end with NUL")
        self.left = chain([first], self.left)

    def taken(self) -> Iterator[bytes]:
        """The file as it is, in blocks as they come."""
        try:
            while block := self.raw.read(READ_SIZE):
                self.position += len(block)
                yield block
        except OSError as error:
            raise Trouble(f"{self.name}: {error.strerror or error}") from None

    def read(self, size: int = READ_SIZE) -> bytes:
        """The next bytes: so many or some more unless the list ends, or where answers are waited for what there is."""
        parts, length = [], 0
        for block in self.left:
            parts.append(block)
            length += len(block)
            if length >= size or self.is_live and block:
                break
        return b"".join(parts)

    def skip(self, size: int) -> None:
        """Passes over so many bytes."""
        for block in self.left:
            if len(block) >= size:
                self.left = chain([block[size:]], self.left)
                return
            size -= len(block)
        raise Trouble(f"{self.name} ends before the place that the state file holds")

    def blocks(self, size: int = READ_SIZE) -> Iterator[bytes]:
        """The list in blocks of whole items, of about so many bytes."""
        # The begin of an item whose end has not come yet.
        begin: list[bytes] = []
        length = 0
        while block := self.read(size):
            end = block.rfind(self.separator) + 1
            if end:
                whole = b"".join([*begin, memoryview(block)[:end]])
                begin, length = [], 0
            begin.append(block[end:])
            length += len(block) - end
            if end:
                yield whole
            if length > LONGEST:
                raise Trouble(f"{self.name}: an item has more than {in_bytes(LONGEST)}: this is no list of an item a line")
        if last := b"".join(begin):
            yield last

    def parts(self) -> Iterator[list[bytes]]:
        """The items, in lists."""
        for block in self.blocks():
            is_whole = block.endswith(self.separator)
            if self.separator == b"\n" and b"\r" in block:
                # Only a line without a line feed ends in the other.
                block = block.replace(b"\r\n", b"\n").removesuffix(b"\r")
            items = block.split(self.separator)
            yield items[:-1] if is_whole else items


def state_of(path: Path | None) -> bytes | None:
    """What a state file holds; None if there is none yet."""
    try:
        if path is None or not path.exists():
            return None
        if path.is_file() or path.is_dir():
            return path.read_bytes()
        raise Trouble(f"{path} is no file, and cannot hold a state")
    except OSError as error:
        raise Trouble(f"{path}: {error.strerror or error}") from None


class LoadState:
    """How far a load is, by its `figures`, in the file of --state if there is one, beside what tells it from others."""

    figures: Callable[[], dict[str, Any]]

    # Seconds between two writes of the file.
    INTERVAL = 0.2
    # What it may be the state of, if not of this load.
    OTHERS = "another load, {}, not {}; name another file"

    def __init__(self, path: Path | None, what: dict[str, Any]) -> None:
        self.path, self.what = path, what
        self.saved = time.monotonic()

    def read(self) -> dict[str, Any] | None:
        """What an earlier run saved; None if there was none."""
        if (old := state_of(self.path)) is None:
            return None
        try:
            state = json.loads(old)
            figures = {word: state.pop(word) for word in self.figures()}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise self.damaged(error) from None
        if state != self.what:
            raise Trouble(f"{self.path} is the state of {self.OTHERS.format(state, self.what)}")
        return figures

    def damaged(self, why: object) -> Trouble:
        return Trouble(f"{self.path} is no state file of a load ({why})")

    def save(self) -> None:
        if self.path is not None:
            replace(self.path, json.dumps({**self.what, **self.figures()}).encode() + b"\n")
        # Afterwards: a slow disk must not slow the load down.
        self.saved = time.monotonic()

    def save_if_due(self) -> None:
        if time.monotonic() - self.saved > self.INTERVAL:
            self.save()


@contextmanager
def opened(name: str, separator: bytes = b"\n", is_live: bool = False) -> Iterator[Input]:
    """Opens a list of items, or the standard input for `-`. `is_live`: each item is waited for."""
    try:
        if name != "-":
            raw = Waiting(name)
        elif sys.stdin is None:
            raise Trouble("there is no standard input")
        else:
            raw = Waiting(os.dup(sys.stdin.fileno()))
    except OSError as error:
        raise Trouble(f"{shown(name)}: {error.strerror or error}") from None
    with raw:
        yield Input(raw, "the standard input" if name == "-" else shown(name), separator, is_live)
