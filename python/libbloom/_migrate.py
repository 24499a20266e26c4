"""`libbloom migrate copy`: the filters of one server go to another, bit for bit."""

from __future__ import annotations

import argparse
import hashlib
import itertools
import sqlite3
import time
from pathlib import Path
from typing import Any

from . import _answers, _words
from ._server import MAGIC, TYPE_NAMES, VALKEY_MAGIC, NotCopied, ResponseError, Server, State, redis
from ._terminal import Bar, Trouble, in_bytes, opened, shown, state_of

# The end of the temporary name of a copy that is being made.
TEMPORARY = b":bloom-migrate"
# Milliseconds by which two servers may differ in one expiry: their clocks run differently, and messages take time.
EXPIRY_SLACK = 2000


class Changed(NotCopied):
    """The source's filter changed while it was read."""


def copy_filters(options: argparse.Namespace) -> int:
    source = Server("source", options.source, db=options.db)
    target = Server("target", options.target)
    source.require_source()
    target.require("BF.LOADCHUNK")
    refuse_same(source, target)
    with Finished(options.state, source, target) as finished, Bar(unit=in_bytes) as bar:
        copier = Copier(finished, bar, options)
        pairs = []
        for one in databases(source, copier):
            keys = find_keys(one, options)
            if not keys and one.db not in {source.db} | finished.databases():
                continue
            try:
                other = place_for(one, target, options)
            except NotCopied as why:
                copier.leave_out(one.db, str(why), len(keys))
                continue
            refuse_same(one, other)
            pairs.append((one, other, keys))
        if not any(keys for _, _, keys in pairs):
            print(f"no filters found: {source}")
        for one, other, keys in pairs:
            copier.switch_to(one, other)
            for key in keys:
                copier.reported(copier.bring, key)
            for key in finished.others(keys):
                # Copied by an earlier run, and not looked for by this one: it may be gone.
                copier.reported(copier.bring_other, key)
    return copier.report()


def refuse_same(source: Server, target: Server) -> None:
    if source.identity() is not None and source.identity() == target.identity():
        raise Trouble(f"{source} and {target} are the same database")


def databases(source: Server, copier: Copier) -> list[Server]:
    """The databases to copy. Those that are left out though nobody said so are named."""
    options = copier.options
    if options.db is not None or options.keys is not None:
        return [source]
    there = source.databases()
    if there is None:
        copier.leave_out(None, "the user may not run INFO, which tells them; --db copies one, and looks for no others")
        return [source]
    others = sorted((there | copier.finished.databases()) - {source.db})
    if source.is_of_cluster:
        for number in others:
            copier.leave_out(number, "of a cluster only database 0 is copied")
        return [source]
    opened_others = [Server("source", options.source, db=number) for number in others]
    for other in opened_others:
        other.require_source()
    if not source.names_db:
        return [source, *opened_others]
    for other in opened_others:
        if filters := len(find_keys(other, options)):
            why = f"the source's URL names {source.db}; without a number all are copied, and --db looks for no others"
            copier.leave_out(other.db, why, filters)
    return [source]


def place_for(source: Server, target: Server, options: argparse.Namespace) -> Server:
    """The target's database for one of the source."""
    if target.db == source.db or target.names_db and (source.names_db or source.db == 0 or options.db is not None):
        return target
    if target.names_db:
        raise NotCopied(f"the target's URL names {target.db}; without a number each goes to its own, and --db copies one")
    if target.is_of_cluster:
        raise NotCopied("the target is a cluster, where only database 0 is written to")
    try:
        return Server("target", options.target, db=source.db)
    except Trouble as trouble:
        raise NotCopied(str(trouble)) from None


def find_keys(source: Server, options: argparse.Namespace) -> list[bytes]:
    if options.keys is None:
        return sorted(source.keys(options.match))
    with opened(options.keys, options.separator) as file:
        return list(dict.fromkeys(key for keys in file.parts() for key in keys if key or options.separator == b"\0"))


class Copier:
    """Copies filters one by one, and counts what it did."""

    source: Server
    target: Server

    def __init__(self, finished: Finished, bar: Bar, options: argparse.Namespace) -> None:
        self.finished = finished
        self.bar = bar
        self.options = options
        self.started = time.monotonic()
        self.copied = self.verified = self.skipped = self.expiries = self.deleted = self.failed = 0
        self.bytes = 0

    def switch_to(self, source: Server, target: Server) -> None:
        """Copies from this database to that one from now on."""
        self.source, self.target, self.finished.db = source, target, source.db

    def leave_out(self, db: int | None, why: str, filters: int | None = None) -> None:
        """Names a database, or all others, that nobody copies."""
        which = "other databases" if db is None else f"database {db}"
        self.failed += filters or 1
        self.bar.say(f"not copied: {which}{f' ({filters:,} filters)' if filters else ''}: {why}")

    def reported(self, bring: Any, key: bytes) -> None:
        """Brings the target up to date with a filter of the source; reports a failure."""
        try:
            bring(key)
        except (NotCopied, ResponseError) as why:
            self.failed += 1
            self.bar.say(f"not copied: {shown(key)}: {why}")

    def bring(self, key: bytes) -> None:
        if key.endswith(TEMPORARY):
            # Or of a filter that the copy of another one would replace.
            raise NotCopied("this is the name of an unfinished copy: delete what a killed run left, or rename the filter")
        state = self.source.state(key)
        if state is None:
            self.follow_deletion(key)
        elif self.finished.has(key, state) and self.is_published(key):
            self.follow_expiry(key, state)
        else:
            self.copy(key)

    def bring_other(self, key: bytes) -> None:
        if self.source.state(key) is None:
            self.follow_deletion(key)

    def follow_deletion(self, key: bytes) -> None:
        """The source has no such filter, and the target may have the copy of an earlier run."""
        if not self.finished.known(key):
            raise NotCopied("the source has no key of this name")
        kind = self.target.call("TYPE", key)
        left = self.target.left(key)
        # A filter that expired at the source is about to expire here.
        if kind in TYPE_NAMES and left is not None and not 0 <= left <= EXPIRY_SLACK:
            if not self.options.delete:
                raise NotCopied("the source no longer has it, and the target has the copy; --delete deletes that too")
            state = self.target.state(key)
            if state is None or not self.finished.has(key, state):
                raise NotCopied("the source no longer has it, and the target's has changed since it was copied")
            self.target.call("UNLINK", key)
            self.deleted += 1
        self.finished.drop(key)

    def follow_expiry(self, key: bytes, state: State) -> None:
        """For a filter that has not changed since an earlier run copied it; its copy or its expiry may have."""
        there = self.target.state(key)
        if there is None or not there.is_alike(state):
            raise NotCopied("the target's has changed since it was copied; delete it there to have it copied again")
        left, left_there = self.source.left(key), self.target.left(key)
        if left is None or left_there is None:
            raise NotCopied("it has just expired")
        # -1 means for ever, which differs from any time.
        if (left < 0) != (left_there < 0) or abs(left - left_there) > EXPIRY_SLACK:
            if not self.options.replace:
                raise NotCopied(f"it {self.expires(left)} now, the copy {self.expires(left_there)}; --replace changes that")
            self.expire(key, left)
            self.expiries += 1
        self.skipped += 1

    @staticmethod
    def expires(left: int) -> str:
        return "never expires" if left < 0 else f"expires in {left // 1000:,} s"

    def expire(self, key: bytes, left: int) -> None:
        if left < 0:
            self.target.call("PERSIST", key)
        else:
            self.target.call("PEXPIRE", key, max(left, 1))

    def copy(self, key: bytes) -> None:
        self.refuse_existing(key)
        temporary = _words.beside(key, TEMPORARY)
        is_noted = False
        try:
            for attempt in itertools.count(1):
                try:
                    state = self.transfer(key, temporary)
                    break
                except Changed as change:
                    if attempt == self.options.attempts:
                        raise NotCopied(f"{change}, {attempt} times; stop its writers, or try when there are fewer") from None
                    self.bar.say(f"again: {shown(key)}: {change} (attempt {attempt} of {self.options.attempts})")
            # Noted before the copy gets its name: otherwise the next run would take it for another
            # program's filter.
            self.finished.add(key, state)
            is_noted = True
            self.publish(key, temporary)
        except Trouble:
            # Whether the copy got its name is unknown; the next run finds out.
            if not is_noted:
                self.clear(temporary)
            raise
        except BaseException:
            self.finished.drop(key)
            self.clear(temporary)
            raise
        self.copied += 1

    def is_published(self, key: bytes) -> bool:
        """Whether a copy that was noted as finished got its name, too."""
        temporary = _words.beside(key, TEMPORARY)
        return bool(self.target.call("EXISTS", key)) and not self.target.call("EXISTS", temporary)

    def refuse_existing(self, key: bytes) -> None:
        kind = self.target.call("TYPE", key)
        if kind not in (b"none", *TYPE_NAMES):
            raise NotCopied(f"the target has a {shown(kind)} under this name")
        if kind != b"none" and not self.options.replace:
            changed = ", an older state of it" if self.finished.known(key) else ""
            raise NotCopied(f"the target has a filter under this name{changed}; --replace replaces it")

    def transfer(self, key: bytes, temporary: bytes) -> State:
        """Copies once, checked, under the temporary name; gives the state that was copied."""
        self.target.call("UNLINK", temporary)
        # A checksum in place of each chunk, if they are to be compared.
        sums = [] if self.options.verify and self.copied % self.options.verify == 0 else None
        state = self.source.state(key)
        if state is None:
            raise NotCopied("it is gone from the source")
        header = None
        for following, data in self.source.chunks(key):
            if header is None:
                header = data
            self.put(key, temporary, state, header, following, data)
            if sums is not None:
                sums.append((following, hashlib.sha256(data).digest()))
            self.bytes += len(data)
            self.bar(self.bytes, f"; {self.copied:,} filters")
        if header is None:
            raise NotCopied("the source gave no header")

        self.refuse_change(key, state)
        found = self.target.state(temporary)
        if found is None or not found.is_alike(state):
            raise NotCopied("the copy's header, or its number of set bits, is not the source's")
        if sums is not None:
            self.read_back(temporary, sums)
        return state

    def put(self, key: bytes, temporary: bytes, state: State, header: bytes, following: int, data: bytes) -> None:
        try:
            self.target.call("BF.LOADCHUNK", temporary, following, data)
        except ResponseError as why:
            # A filter that grew may give chunks that do not fit the header any more.
            self.refuse_change(key, state)
            if data is header and header.startswith(MAGIC) and _answers.is_bad_header(why):
                layout = "valkey" if header.startswith(VALKEY_MAGIC) else "blocked"
                raise NotCopied(_answers.unreadable("the target", layout, why)) from None
            raise NotCopied(f"the target refused the chunk that ends at {following}: {why}") from None

    def refuse_change(self, key: bytes, state: State) -> None:
        now = self.source.state(key)
        if now is None:
            raise NotCopied("it is gone from the source")
        if now != state:
            raise Changed(f"it changed while it was copied, and has {self.source.items(key):,} items now")

    def read_back(self, temporary: bytes, sums: list[tuple[int, bytes]]) -> None:
        again = ((following, hashlib.sha256(data).digest()) for following, data in self.target.chunks(temporary))
        for ours, theirs in itertools.zip_longest(sums, again):
            if ours != theirs:
                raise NotCopied(f"read back from the target, the chunk that ends at {(ours or theirs)[0]} differs")
        self.verified += 1

    def publish(self, key: bytes, temporary: bytes) -> None:
        """Gives the copy the filter's time to live and its name."""
        left = self.source.left(key)
        if left is None:
            raise NotCopied("it is gone from the source")
        if left >= 0:
            self.expire(temporary, left)
        if self.options.replace:
            self.target.call("RENAME", temporary, key)
        elif not self.target.call("RENAMENX", temporary, key):
            raise NotCopied("the target got a key of this name in the meantime")

    def clear(self, temporary: bytes) -> None:
        """Deletes the unfinished copy, if possible. Otherwise the next run does."""
        try:
            self.target.call("UNLINK", temporary)
        except (Trouble, redis.RedisError):
            pass

    def report(self) -> int:
        seconds = time.monotonic() - self.started
        verified = f" ({self.verified:,} read back)" if self.options.verify else ""
        expiries = f" ({self.expiries:,} with another expiry now)" if self.expiries else ""
        deleted = f", deleted: {self.deleted:,}" if self.options.delete else ""
        earlier = f"by an earlier run: {self.skipped:,}{expiries}{deleted}"
        speed = f"{self.bytes:,} bytes in {seconds:.1f} s, {self.bytes / 2**20 / max(seconds, 1e-9):,.1f} MiB/s"
        print(f"filters copied: {self.copied:,}{verified}, {earlier}, not copied: {self.failed:,}; {speed}")
        return 1 if self.failed else 0


TABLES = """
CREATE TABLE IF NOT EXISTS servers (source TEXT, target TEXT);
CREATE TABLE IF NOT EXISTS copies (db INTEGER, key BLOB, header BLOB, bits_set INTEGER, PRIMARY KEY (db, key));
"""


class Finished:
    """The keys that were copied, each with the state that it had: in a file of SQLite, if one is named."""

    def __init__(self, path: Path | None, source: Server, target: Server) -> None:
        # The source's database that is copied.
        self.db = source.db
        servers = (str(source.address), str(target.address))
        if state_of(path) is None and path is not None:
            # With an error of the system, if it cannot be.
            path.touch()
        try:
            # Each change is on the disk when its call returns.
            self.store = sqlite3.connect(path or ":memory:", isolation_level=None)
            self.store.executescript(TABLES)
            known = self.store.execute("SELECT source, target FROM servers").fetchone()
        except sqlite3.Error as error:
            raise Trouble(f"{path} is no state file of a copy ({error})") from None
        if known is None:
            self.store.execute("INSERT INTO servers VALUES (?, ?)", servers)
        elif known != servers:
            raise Trouble(f"{path} is the state of another copy, {known}, not {servers}; name another file")

    def __enter__(self) -> Finished:
        return self

    def __exit__(self, *_: Any) -> None:
        self.store.close()

    def others(self, keys: list[bytes]) -> list[bytes]:
        """The noted keys that are not among these."""
        noted = {key for (key,) in self.store.execute("SELECT key FROM copies WHERE db = ?", (self.db,))}
        return sorted(noted.difference(keys))

    def databases(self) -> set[int]:
        """The source's databases of which keys are noted."""
        return {db for (db,) in self.store.execute("SELECT DISTINCT db FROM copies")}

    def known(self, key: bytes) -> State | None:
        """The state that was copied, with a checksum in place of the header."""
        found = self.store.execute("SELECT header, bits_set FROM copies WHERE db = ? AND key = ?", (self.db, key)).fetchone()
        return State(*found) if found else None

    def has(self, key: bytes, state: State) -> bool:
        """Whether a filter, or its copy, is in the state that was copied."""
        known = self.known(key)
        return known is not None and known.is_alike(summed(state))

    def add(self, key: bytes, state: State) -> None:
        self.store.execute("REPLACE INTO copies VALUES (?, ?, ?, ?)", (self.db, key, *summed(state)))

    def drop(self, key: bytes) -> None:
        self.store.execute("DELETE FROM copies WHERE db = ? AND key = ?", (self.db, key))


def summed(state: State) -> State:
    """A state with a checksum in place of the header."""
    return state._replace(header=hashlib.sha256(state.header).digest())
