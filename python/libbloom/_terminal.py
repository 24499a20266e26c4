"""Input and output of programs: files of items, keys in messages, and a progress bar."""

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from ._native import replace

READ_SIZE = 1 << 20
# Bytes of a packed file that are read at once.
PACKED_SIZE = 1 << 16
# An item may have as many bytes as a server takes in one argument.
LONGEST = 1 << 29
# What an xz file may ask for; `xz -9` needs 65 MiB.
XZ_MEMORY = 1 << 28
# The error of the standard library for a file that needs more.
XZ_REFUSED = "Memory usage limit exceeded"
# Bytes of a filter for a list of unknown length. It is shrunk at the end; what no item touched took no memory.
ROOM = 256 << 20


class Trouble(Exception):
    """An error that ends the program, as one line for its user."""


@dataclass(frozen=True)
class Packing:
    """A way to pack files that lists are read from: its name, what unpacks it, and a program that does so too."""

    name: str
    new: Callable[[], Any]
    program: str


def _bzip2() -> Any:
    import bz2

    return bz2.BZ2Decompressor()


def _xz() -> Any:
    import lzma

    return lzma.LZMADecompressor(lzma.FORMAT_XZ, XZ_MEMORY)


def _zstd() -> Any:
    # From Python 3.14 on.
    from compression import zstd

    return zstd.ZstdDecompressor()


BZIP2, ZSTD = Packing("bzip2", _bzip2, "bzip2 -dc"), Packing("zstd", _zstd, "zstd -dc")
# What packed files begin with.
PACKED = {
    b"\x1f\x8b": Packing("gzip", lambda: zlib.decompressobj(wbits=31), "gzip -dc"),
    b"\xfd7zXZ\0": Packing("xz", _xz, "xz -dc"),
    b"\x28\xb5\x2f\xfd": ZSTD,
    **{bytes([first]) + b"\x2a\x4d\x18": ZSTD for first in range(0x50, 0x60)},
    **{b"BZh%d" % level + block: BZIP2 for level in range(1, 10) for block in (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")},
}
UNPACK = "not a list: {} unpacks it".format
# What other files begin with, that somebody may take for a list, and what they are.
REFUSED = {
    codecs.BOM_UTF32_LE: "UTF-32 text: convert it with iconv to UTF-8",
    codecs.BOM_UTF32_BE: "UTF-32 text: convert it with iconv to UTF-8",
    codecs.BOM_UTF16_LE: "UTF-16 text: convert it with iconv to UTF-8",
    codecs.BOM_UTF16_BE: "UTF-16 text: convert it with iconv to UTF-8",
    b"PK\3\4": "a zip archive, " + UNPACK("`unzip -p`"),
    b"PK\5\6": "an empty zip archive, not a list",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive, " + UNPACK("`7z e -so`"),
    b"Rar!\x1a\7": "a rar archive, " + UNPACK("`unrar p -inul`"),
    b"\x04\x22\x4d\x18": "packed with lz4: pipe it from `lz4 -dc`",
    b"\x02\x21\x4c\x18": "packed with lz4: pipe it from `lz4 -dc`",
    b"LZIP\1": "packed with lzip: pipe it from `lzip -dc`",
    b"\x89LZO\0\r\n\x1a\n": "packed with lzop: pipe it from `lzop -dc`",
    b"\x1f\x9d": "packed with compress: pipe it from `gzip -dc`",
    b"]\0\0": "packed with lzma: pipe it from `xz -dc`",
    b"\xff\6\0\0sNaPpY": "packed with snappy, not a list",
    b"PAR1\x15": "a Parquet file, not a list: write one of its columns as text",
    b"Obj\1": "an Avro file, not a list: write one of its fields as text",
    b"ARROW1\0\0": "an Arrow file, not a list: write one of its columns as text",
    b"\x89HDF\r\n\x1a\n": "an HDF5 file, not a list",
    b"\x93NUMPY": "an array of numpy, not a list: Filter.update takes it",
    b"\x80\2": "a pickle, not a list",
    b"\x80\3": "a pickle, not a list",
    b"\x80\4\x95": "a pickle, not a list",
    b"\x80\5\x95": "a pickle, not a list",
    b"SQLite format 3\0": "a database of SQLite, not a list: write one of its columns as text",
    b"REDIS00": "an RDB file, not a list",
    b"\x89BLOOM\r\n": "a filter, not a list of items",
    b"\x7fELF": "a program, not a list",
    b"MZ\x90\0": "a program, not a list",
    b"\xcf\xfa\xed\xfe": "a program, not a list",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "an Office file, not a list",
    b"%PDF-": "a PDF file, not a list",
    b"\x89PNG\r\n\x1a\n": "an image, not a list",
    b"\xff\xd8\xff": "an image, not a list",
}
# The mark of a tar archive, and where it stands.
TAR, TAR_AT = b"ustar", 257


def packing_of(head: bytes) -> Packing | None:
    return next((packing for magic, packing in PACKED.items() if head.startswith(magic)), None)


def is_undecided(head: bytes) -> bool:
    """Whether more bytes could tell that this is no plain list. A line of text is never waited for."""
    if any(len(head) < len(magic) and magic.startswith(head) for magic in (codecs.BOM_UTF8, *PACKED, *REFUSED)):
        return True
    return b"\0" in head and b"\n" not in head and len(head) < TAR_AT + len(TAR)


def shown(key: bytes) -> str:
    """A key for messages, printable on any terminal."""
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}" for byte in key) or '""'


def in_items(number: float) -> str:
    return f"{number:,.0f}"


def in_bytes(number: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if number < 1024:
            return f"{number:,.0f} {unit}"
        number /= 1024
    return f"{number:,.1f} GiB"


class Whole(io.FileIO):
    """A file that waits where another program has set that writes do not."""

    def write(self, data: Any) -> int:
        while (count := super().write(data)) is None:
            select.select([], [self], [])
        return count


class Messages(Whole):
    """A file for messages. What cannot be written is dropped: nobody could be told, and the work goes on."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def whole(stream: TextIO | None, kind: type[Whole] = Whole) -> TextIO | None:
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
        print(text, file=sys.stderr)


class Bar:
    """A line on a terminal that says how far a long call is; nothing where standard error is no terminal."""

    INTERVAL = 0.1

    def __init__(self, what: str, total: int | None, unit: Callable[[float], str] = in_items) -> None:
        self.what, self.total, self.unit = what, total, unit
        self.is_shown = sys.stderr is not None and sys.stderr.isatty()
        self.begin = self.drawn = time.monotonic()
        self.done = 0
        self.more = ""

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: Any) -> None:
        self.end()

    def __call__(self, done: int, more: str = "") -> None:
        """Shows that so much is done. `more` stands at the end of the line."""
        self.done, self.more = done, more
        if time.monotonic() - self.drawn >= self.INTERVAL or done == self.total:
            self.draw()

    def draw(self) -> None:
        if not self.is_shown:
            return
        self.drawn = time.monotonic()
        rate = self.unit(self.done / max(self.drawn - self.begin, 1e-6)) + " items" * (self.unit is in_items)
        share = f" of {self.unit(self.total)} ({min(100 * self.done // self.total, 100)} %)" if self.total else ""
        sys.stderr.write(f"\r{self.what}: {self.unit(self.done)}{share}, {rate} a second{self.more}\033[K")
        sys.stderr.flush()

    def say(self, text: str) -> None:
        """A line of its own on standard error, above the bar."""
        say(f"\r\033[K{text}" if self.is_shown else text)
        if self.done:
            self.draw()

    def end(self) -> None:
        if self.is_shown and self.done:
            self.draw()
            sys.stderr.write("\n")


class Input:
    """A list of items, in a file or the standard input. docs/python.md has the rule for what is an item."""

    def __init__(self, raw: io.FileIO, name: str, separator: bytes, is_live: bool) -> None:
        self.raw, self.name, self.separator, self.is_live = raw, name, separator, is_live
        status = os.fstat(raw.fileno())
        # None if the size of the input is not known.
        self.size = status.st_size if stat.S_ISREG(status.st_mode) else None
        # Bytes that were taken from the file, and bytes of the list that were read.
        self.taken = self.bytes = 0
        self.has_ended = False
        # What unpacks the list, and what it has not seen yet.
        self.packing: Packing | None = None
        self.unpacker: Any = None
        self.packed = b""
        self.head = self.begin()

    def begin(self) -> bytes:
        """Finds out how the list is packed. Returns its first bytes."""
        head = self.announced()
        self.packing = packing_of(head)
        if self.packing is not None:
            self.unpacker, self.packed, self.has_ended = self.new_unpacker(), head, False
            head = self.announced()
            if inner := packing_of(head):
                raise Trouble(f"{self.name} is packed twice, as {inner.name} in {self.packing.name}: unpack it once")
        for magic, what in REFUSED.items():
            if head.startswith(magic):
                raise Trouble(f"{self.name} is {what}")
        if head[TAR_AT:].startswith(TAR):
            raise Trouble(f"{self.name} is a tar archive, not a list: `tar -xOf` writes the files in it")
        # Each second byte of Latin letters is 0.
        start = head[:256]
        if self.separator != b"\0" and len(start) >= 4 and any(start[0::2]) != any(start[1::2]):
            raise Trouble(f"{self.name} is UTF-16 or UTF-32 text, it seems: convert it with iconv to UTF-8")
        return head.removeprefix(codecs.BOM_UTF8)

    def announced(self) -> bytes:
        """So many of the first bytes that they tell what the file is."""
        head = b""
        while is_undecided(head) and (more := self.more(READ_SIZE)):
            head += more
        return head

    def new_unpacker(self) -> Any:
        assert self.packing is not None
        try:
            return self.packing.new()
        except ImportError:
            name, program = self.packing.name, self.packing.program
            raise Trouble(f"{self.name} is packed with {name}, which this Python cannot unpack: pipe it from `{program}`") from None

    def take(self, size: int) -> bytes:
        """The next bytes of the file, as soon as there are any; none at its end."""
        try:
            while (block := self.raw.read(size)) is None:
                # Another program has set the pipe so that reads do not wait.
                select.select([self.raw], [], [])
        except OSError as error:
            raise Trouble(f"{self.name}: {error.strerror or error}") from None
        self.taken += len(block)
        return block

    def more(self, size: int) -> bytes:
        """The next bytes of the list, at most so many; none at its end."""
        block = b"" if self.has_ended else self.take(size) if self.packing is None else self.unpacked(size)
        self.has_ended = not block
        return block

    def unpacked(self, size: int) -> bytes:
        assert self.packing is not None
        name = self.packing.name
        is_cut = False
        while not is_cut:
            if self.unpacker.eof:
                # Another packed list may follow, and zeros up to the end of a block.
                self.packed = self.unpacker.unused_data.lstrip(b"\0")
                while not self.packed:
                    if not (block := self.take(PACKED_SIZE)):
                        return b""
                    self.packed = block.lstrip(b"\0")
                self.unpacker = self.new_unpacker()
            if not self.packed and getattr(self.unpacker, "needs_input", True):
                self.packed = self.take(PACKED_SIZE)
                is_cut = not self.packed
            try:
                block = self.unpacker.decompress(self.packed, size)
            except MemoryError:
                raise
            except Exception as error:
                if str(error) == XZ_REFUSED:
                    raise Trouble(
                        f"{self.name}: to unpack this {name} data takes more than {in_bytes(XZ_MEMORY)}, which is the limit: "
                        f"pipe it from `{self.packing.program}`"
                    ) from None
                raise Trouble(f"{self.name}: this {name} data cannot be unpacked: {error}") from None
            self.packed = getattr(self.unpacker, "unconsumed_tail", b"")
            if block:
                return block
            is_cut = is_cut and not self.unpacker.eof
        raise Trouble(f"{self.name}: the {name} data is cut off")

    def read(self, size: int = READ_SIZE) -> bytes:
        """The next bytes of the list: so many unless it ends, or where answers are waited for what there is."""
        first, self.head = self.head[:size], self.head[size:]
        parts, length = [first] if first else [], len(first)
        while length < size and not (self.is_live and length and not self.is_waiting()):
            if not (block := self.more(size - length)):
                break
            parts.append(block)
            length += len(block)
        self.bytes += length
        return b"".join(parts)

    def is_waiting(self) -> bool:
        """Whether more can be read at once."""
        return bool(self.packed or select.select([self.raw], [], [], 0)[0])

    def position(self) -> int:
        """The position in the stored file if its size is known, otherwise the bytes that came out of it."""
        return self.bytes if self.size is None else self.taken

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
    """How far a load is, in the file of --state if there is one, beside what tells this load from others."""

    # Seconds between two writes of the file.
    INTERVAL = 0.2
    # What it may be the state of, if not of this load.
    OTHERS = "another load, {}, not {}; name another file"

    def __init__(self, path: Path | None, what: dict[str, Any]) -> None:
        self.path, self.what = path, what
        self.saved = time.monotonic()

    def figures(self) -> dict[str, Any]:
        """What is saved."""
        raise NotImplementedError

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
            raw = io.FileIO(name)
        elif sys.stdin is None:
            raise Trouble("there is no standard input")
        else:
            name, raw = "the standard input", io.FileIO(os.dup(sys.stdin.fileno()))
    except OSError as error:
        raise Trouble(f"{name}: {error.strerror or error}") from None
    with raw:
        yield Input(raw, name, separator, is_live)
