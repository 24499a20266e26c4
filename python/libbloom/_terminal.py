"""Input and output of programs: files of items, keys in messages, and a progress bar."""

from __future__ import annotations

import gzip
import io
import os
import stat
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

GZIP_MAGIC = b"\x1f\x8b"
READ_SIZE = 1 << 20


class Trouble(Exception):
    """An error that ends the program, as one line for its user."""


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
        print(f"\r\033[K{text}" if self.is_shown else text, file=sys.stderr)
        if self.done:
            self.draw()

    def end(self) -> None:
        if self.is_shown and self.done:
            self.draw()
            sys.stderr.write("\n")


class Input:
    """A file, plain or gzip, or the standard input, read in blocks."""

    def __init__(self, raw: io.BufferedReader, name: str) -> None:
        self.raw, self.name = raw, name
        status = os.fstat(raw.fileno())
        # None if the size of the input is not known.
        self.size = status.st_size if stat.S_ISREG(status.st_mode) else None
        self.bytes = 0
        self.stream: Any = gzip.GzipFile(fileobj=raw) if raw.peek(2).startswith(GZIP_MAGIC) else raw

    def read(self, size: int = READ_SIZE) -> bytes:
        try:
            block = self.stream.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise Trouble(f"{self.name}: the gzip input is cut off or damaged: {error}") from None
        except OSError as error:
            raise Trouble(f"{self.name}: {error.strerror or error}") from None
        self.bytes += len(block)
        return block

    def position(self) -> int:
        """The position in the stored file if its size is known, otherwise the bytes that came out of it."""
        return self.bytes if self.size is None else self.raw.tell()

    def parts(self, separator: bytes) -> Iterator[list[bytes]]:
        """The items between separators, in lists; a separator at the end is optional."""
        rest = b""
        while block := self.read():
            *whole, rest = (rest + block).split(separator)
            yield whole
        if rest:
            yield [rest]

    def pieces(self, separator: bytes) -> Iterator[bytes]:
        """The items between separators; a separator at the end is optional."""
        for part in self.parts(separator):
            yield from part


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


@contextmanager
def opened(name: str) -> Iterator[Input]:
    """Opens a file, or the standard input for `-`."""
    if name == "-":
        if sys.stdin is None:
            raise Trouble("there is no standard input")
        yield Input(io.BufferedReader(io.FileIO(os.dup(sys.stdin.fileno())), READ_SIZE), "standard input")
        return
    try:
        raw = open(name, "rb")
    except OSError as error:
        raise Trouble(f"{name}: {error.strerror or error}") from None
    with raw:
        yield Input(raw, name)
