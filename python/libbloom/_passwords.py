"""`libbloom passwords`: whether a password is in a list of leaked ones, from a filter of their SHA-1 hashes."""

from __future__ import annotations

import argparse
import binascii
import getpass
import hashlib
import os
import warnings

from . import _load
from ._server import Server
from ._terminal import Trouble, opened

HASH_SIZE = hashlib.sha1().digest_size
# Passwords in a command.
BATCH = 1000


def load_list(options: argparse.Namespace) -> int:
    return _load.load_items(options, (lambda lines: hash_of) if options.plain else Hashes)


class Hashes:
    """Converts the lines of a list, which are counted."""

    def __init__(self, lines: int) -> None:
        self.lines = lines

    def __call__(self, line: bytes) -> bytes | None:
        """The bytes of a hash; None for an empty line."""
        self.lines += 1
        text = line.partition(b":")[0].strip()
        if not text:
            return None
        try:
            digest = binascii.unhexlify(text)
        except binascii.Error:
            digest = b""
        if len(digest) != HASH_SIZE:
            # The error does not show the line, which may be a password.
            raise Trouble(f"line {self.lines:,}, of {len(line)} bytes, is no SHA-1 hash; --plain is for a list of passwords")
        return digest


def hash_of(password: bytes) -> bytes:
    # The hash that the lists are made of. It need not keep anything secret.
    return hashlib.sha1(password, usedforsecurity=False).digest()


def check_passwords(options: argparse.Namespace) -> int:
    server = Server("server", options.target)
    server.require("BF.EXISTS")
    server.require_filter(options.key)
    if not options.stdin:
        leaked = are_leaked(server, options.key, [asked_password()])[0]
        server.require_filter(options.key)
        print("probably leaked" if leaked else "not leaked")
        return int(leaked)

    total, numbers = 0, []
    with opened("-", options.separator) as file:
        for passwords in file.parts():
            for some in _load.batches(passwords, BATCH):
                answers = are_leaked(server, options.key, some)
                numbers += [total + at for at, leaked in enumerate(answers, 1) if leaked]
                total += len(some)
    # If it is gone by now, it may have been gone before, and have denied every password.
    server.require_filter(options.key)
    for number in numbers:
        print(f"line {number}: probably leaked")
    print(f"{len(numbers):,} of {total:,} passwords are probably leaked")
    return int(bool(numbers))


def asked_password() -> bytes:
    """A line that is typed at a terminal and not shown there."""
    with warnings.catch_warnings():
        # Without a terminal getpass would only warn, and read a line that everybody can see.
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            return os.fsencode(getpass.getpass())
        except (EOFError, getpass.GetPassWarning):
            raise Trouble("no password was typed in; --stdin reads each line of the standard input as one") from None


def are_leaked(server: Server, key: bytes, passwords: list[bytes]) -> list[bool]:
    return [bool(answer) for answer in server.call("BF.MEXISTS", key, *map(hash_of, passwords))]
