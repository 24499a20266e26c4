#!/usr/bin/env python3
"""Questions for rows, with a Bloom filter in front of the table that learns from what it was wrong about.

The filter knows the ids of all rows, and keeps questions for absent ones from the table, but for the error rate:
these get through, and as often as they are asked. Here each gets through once. When the table has no such row,
its id becomes an exception of the filter (BF.EXCEPT): from then on the answer is no. When a row with this id is
written later, adding the id takes the exception back.

The ids are the URLs of a file, and every other one has a row. They are asked for as it happens on the web: few of
them all the time and most of them hardly ever, the n-th in the order of their lines in the file n times less often
than the first (Zipf's law). The same questions go to a guard as in guard.py and to one that excepts what it was
wrong about, and each answer is held against the rows. Before the last round some of the excepted ids get rows. The
exit code is 1 when an answer was wrong, or an absent row was looked up twice (2 when the script could not run at
all). It starts a server of its own on a free port of the loopback interface, and stops it at the end.

Like guard.py it needs redis-py alone, and no package of this project.
"""

import argparse
import collections
import itertools
import random
import sqlite3
import sys

import guard
import redis
import support
from support import Trouble

# Questions that come at once, such as the links of a page.
BATCH = 20
# Excepted ids that get a row after all.
LATE = 10


def main():
    options = parse_arguments()
    try:
        # Ids are text in the table, and URLs any bytes.
        lines = [url.decode("latin-1") for url in support.read_urls(options.urls)]
        if not lines:
            raise Trouble(f"no URLs in {options.urls}")
        with support.Server(options.server, options.module) as server:
            promises = compare(server.client(), lines, options)
    except (Trouble, OSError, redis.RedisError, sqlite3.Error) as trouble:
        print(f"misses.py: {trouble}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return promises.report()


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    support.add_urls_argument(parser, "ids")
    parser.add_argument("--rounds", type=support.positive, default=4, help="of questions (default: %(default)s)")
    parser.add_argument(
        "--questions", type=support.positive, default=50_000, help="in a round (default: %(default)s)"
    )
    parser.add_argument("--error", type=float, default=0.01, help="error rate (default: %(default)s)")
    support.add_server_arguments(parser)
    return parser.parse_args()


# ---- What a program of your own would use --------------------------------------------------------


class Keeper(guard.Guard):
    """Knows which ids may exist; what it was wrong about it does not say again."""

    def that_may_exist(self, names):
        """The names that may be present, each once. If the filter cannot be queried, all may be."""
        names = list(dict.fromkeys(names))
        try:
            # In one transaction, as in guard.Guard.may_exist.
            pipeline = self.client.pipeline(transaction=True)
            pipeline.execute_command("BF.MEXISTS", self.key, *names)
            pipeline.exists(self.key)
            found, is_there = pipeline.execute()
        except redis.RedisError:
            return names
        return [name for name, may in zip(names, found) if may] if is_there else names

    def learn(self, table, names):
        """Excepts those of the names that the table still does not have.

        An exception hides a row for good, so nobody may write it meanwhile: whoever adds an id does so within the
        transaction that writes the row, and this waits for it and then looks again.

        Nothing depends on it. If it fails, or there is no room for more exceptions, the same is asked again.
        """
        try:
            with table.writing():
                absent = [name for name in names if table.get(name) is None]
                if absent:
                    self.client.execute_command("BF.EXCEPT", self.key, *absent)
        except (redis.RedisError, sqlite3.OperationalError):
            pass


class Rows:
    """The table behind its filter."""

    def __init__(self, keeper, table, learns):
        self.keeper = keeper
        self.table = table
        self.learns = learns
        # How often each absent row was looked up.
        self.misses = collections.Counter()

    def get(self, names):
        """The rows that there are, by their ids."""
        rows, misses = {}, []
        for name in self.keeper.that_may_exist(names):
            text = self.table.get(name)
            if text is None:
                misses.append(name)
            else:
                rows[name] = text
        self.misses.update(misses)
        if misses and self.learns:
            self.keeper.learn(self.table, misses)
        return rows

    def put(self, name, text):
        """Adds the id within the transaction, before the row: see guard.Service.put."""
        with self.table.writing():
            self.keeper.add(name)
            self.table.put(name, text)


# ---- The questions -------------------------------------------------------------------------------


def stream(lines, count):
    """Yields rounds of so many questions without end: those ids most often that have most lines."""
    ids = [name for name, _ in collections.Counter(lines).most_common()]
    weights = list(itertools.accumulate(1 / rank for rank in range(1, len(ids) + 1)))
    chance = random.Random(42)
    while True:
        yield chance.choices(ids, cum_weights=weights, k=count)


def compare(client, lines, options):
    ids = list(dict.fromkeys(lines))
    exact = dict.fromkeys(ids[::2], "a row")
    both = {}
    for name, learns in {"plain": False, "learning": True}.items():
        table = guard.Products(":memory:")
        with table.writing():
            for id_, text in exact.items():
                table.put(id_, text)
        both[name] = Rows(Keeper(client, name), table, learns)
        both[name].keeper.fill(table.ids(), len(exact), options.error)
    plain, learning = both.values()
    size = size_of(client, learning)
    print(f"{len(ids):,} ids, of which {len(exact):,} have rows; {options.questions:,} questions a round")

    wrong, late = 0, []
    for number, questions in zip(range(1, options.rounds + 1), stream(lines, options.questions)):
        if number == options.rounds:
            late = write_late(both.values(), exact)
        before = [rows.misses.total() for rows in (plain, learning)]
        for some in support.batches(questions, BATCH):
            expected = {name: exact[name] for name in some if name in exact}
            wrong += sum(rows.get(some) != expected for rows in (plain, learning))
        misses = [rows.misses.total() - old for rows, old in zip((plain, learning), before)]
        print(f"round {number}: {misses[0]:,} absent rows were looked up, with exceptions {misses[1]:,}")

    promises = support.Promises()
    promises.add(wrong == 0, f"batches with a wrong answer: {wrong:,}")
    again = sum(count > 1 for count in learning.misses.values())
    promises.add(again == 0, f"absent rows looked up again with exceptions: {again:,}")
    found = learning.get(late)
    promises.add(len(found) == len(late), f"excepted ids that got a row and are found: {len(found):,} of {len(late):,}")
    more = size_of(client, learning) - size
    print(f"{plain.misses.total():,} lookups of absent rows became {learning.misses.total():,}")
    print(f"the filter takes {size:,} bytes, {len(learning.misses) - len(late):,} exceptions {more:,} more")
    return promises


def write_late(both, exact):
    """Rows for some of the ids that were excepted; gives their names."""
    names = [name for rows in both if rows.learns for name in rows.misses][:LATE]
    for name in names:
        exact[name] = "a late row"
        for rows in both:
            rows.put(name, exact[name])
    return names


def size_of(client, rows):
    """Bytes that the filter takes."""
    return client.bf().info(rows.keeper.key).size


if __name__ == "__main__":
    sys.exit(main())
