#!/usr/bin/env python3
"""Whether a password is in a list of leaked ones, from a Bloom filter of their SHA-1 hashes.

    passwords.py load URL KEY --error E --capacity N --file hashes.txt --state load.state
    passwords.py check URL KEY

The list has a hash a line in hexadecimal, with or without a count behind it (HASH:COUNT), as such lists are
handed out; with --plain it has the passwords themselves. The filter holds the 20 bytes of each hash. A load
that was interrupted goes on when it is started again with the same --state.

`check` asks for a password without showing it, or with --stdin takes each line of the standard input for one,
and never prints one. The filter says "leaked" of a password that is not in the list at most at its error rate,
and never says "not leaked" of one that is.

exit codes: 0  everything is loaded; no password is leaked
            1  an item did not fit; some password is (probably) leaked
            2  it could not run
            130  interrupted with Ctrl-C
"""

import argparse
import binascii
import getpass
import hashlib
import os
import sys

import migrate
from migrate import Side, Trouble

HASH_SIZE = hashlib.sha1().digest_size
# Passwords in a command that asks.
BATCH = 1000


def main():
    return migrate.run(parse_arguments())


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="{load,check}")

    load = commands.add_parser("load", help="put a list into a filter")
    migrate.add_load_arguments(load)
    load.add_argument("--plain", action="store_true", help="the lines are passwords, not hashes")
    load.set_defaults(run=load_list)

    check = commands.add_parser("check", help="ask for passwords")
    check.add_argument("target", metavar="URL", help="e.g. redis://127.0.0.1:6379/0")
    check.add_argument("key", metavar="KEY", type=os.fsencode, help="the filter")
    check.add_argument("--stdin", action="store_true", help="check every line of the standard input")
    check.set_defaults(run=check_passwords)

    options = parser.parse_args()
    if options.run is load_list:
        migrate.check_load_arguments(load, options)
    return options


def load_list(options):
    return migrate.load_items(options, item_of_password if options.plain else item_of_hash)


def item_of_hash(line):
    """The bytes of a hash; None for an empty line."""
    text = line.partition(b":")[0].strip()
    if not text:
        return None
    try:
        digest = binascii.unhexlify(text)
    except binascii.Error:
        digest = b""
    if len(digest) != HASH_SIZE:
        # Without the line: it may be a password.
        raise Trouble(f"a line of {len(line)} bytes is no SHA-1 hash; --plain is for a list of passwords")
    return digest


def item_of_password(line):
    line = line.removesuffix(b"\r")
    return hash_of(line) if line else None


def hash_of(password):
    # What the lists are made of; nothing is kept secret by it.
    return hashlib.sha1(password, usedforsecurity=False).digest()


def check_passwords(options):
    server = Side("server", options.target)
    # A filter that is not there would call every password safe.
    if not server.call("EXISTS", options.key):
        raise Trouble(f"there is no {migrate.shown(options.key)}")
    is_packed = server.offers("BF.EXISTSPACKED", options.key, "LINES", b"")
    are_leaked = are_leaked_packed if is_packed else are_leaked_unpacked
    if not options.stdin:
        leaked = are_leaked(server, options.key, [getpass.getpass().encode()])[0]
        print("probably leaked" if leaked else "not leaked")
        return int(leaked)

    passwords = [line.removesuffix(b"\r") for line in sys.stdin.buffer.read().split(b"\n")]
    if not passwords[-1]:
        passwords.pop()
    numbers = []
    for start in range(0, len(passwords), BATCH):
        answers = are_leaked(server, options.key, passwords[start : start + BATCH])
        numbers += [start + at for at, leaked in enumerate(answers, 1) if leaked]
    for number in numbers:
        print(f"line {number}: probably leaked")
    print(f"{len(numbers):,} of {len(passwords):,} passwords are probably leaked")
    return int(bool(numbers))


def are_leaked_packed(server, key, passwords):
    hashes = b"".join(map(hash_of, passwords))
    bitmap = server.call("BF.EXISTSPACKED", key, "WIDTH", HASH_SIZE, hashes)
    # The first answer is the highest bit of the first byte.
    return [bool(bitmap[at // 8] << at % 8 & 0x80) for at in range(len(passwords))]


def are_leaked_unpacked(server, key, passwords):
    return [bool(answer) for answer in server.call("BF.MEXISTS", key, *map(hash_of, passwords))]


if __name__ == "__main__":
    sys.exit(main())
