#!/usr/bin/env python3
"""A consumer that handles each event once a day, by a Bloom filter with a window; an exact table checks it.

A source delivers events, the same ones again and again, in bursts and on later days. An event is handled if
it was not handled in the last 24 hours: the filter is told of it first, and answers 1 for one that it does
not have. On the way the consumer is started anew, and gets again what it had not acknowledged; and the
primary dies, its replica takes over, and the consumer goes on there.

The events are the lines of a file of URLs. Each day all of them come in their order, beginning somewhere
else each time. The days of the stream pass in seconds, so the consumer says by its own clock when it adds
(BF.INSERT … AT). One that lives in real time leaves that out, and may use BF.ADD.

It needs redis-py alone, and no package of this project: WAIT counts for the connection that added, so both are
sent in one pipeline.

The script keeps the time of each handling beside the filter. Its exit code is 1 when an event was handled
again too early, or too many were skipped that were due (2 when it could not run at all). It starts two
servers of its own on free ports of the loopback interface, and stops them at the end.
"""

import argparse
import random
import sys
import time
from contextlib import ExitStack

import redis
import support
from support import Trouble

DAY, MINUTE = 86_400_000, 60_000  # milliseconds
SLICES = 8
# When the stream begins, in milliseconds of the Unix clock: 1 January 2026.
BEGIN = 1_767_225_600_000
# Minutes that the source delivers again to a consumer that was started anew.
UNACKNOWLEDGED = 5
# Milliseconds until the replica must have what was added.
PATIENCE = 60_000


def main():
    options = parse_arguments()
    try:
        urls = support.read_urls(options.urls)
        if not urls:
            raise Trouble(f"no URLs in {options.urls}")
        with Pair(options.server, options.module) as pair:
            promises = consume(pair, urls, options)
    except (Trouble, OSError, redis.RedisError) as trouble:
        print(f"once.py: {trouble}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return promises.report()


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    support.add_urls_argument(parser, "events")
    parser.add_argument("--days", type=support.positive, default=4, help="of the stream (default: %(default)s)")
    parser.add_argument("--error", type=float, default=0.01, help="error rate (default: %(default)s)")
    parser.add_argument(
        "--capacity",
        type=support.positive,
        default=30_000,
        help="different events a day (default: %(default)s)",
    )
    parser.add_argument("--key", default="events:handled", help="of the filter (default: %(default)s)")
    support.add_server_arguments(parser)
    return parser.parse_args()


# ---- What a program of your own would use --------------------------------------------------------


class Once:
    """Tells which events were not there in the last 24 hours."""

    def __init__(self, client, key):
        self.client = client
        self.key = key

    def create(self, error_rate, capacity):
        """Makes the filter, unless another consumer did."""
        words = ["WINDOW", DAY // 1000, "SLICES", SLICES, "NX"]
        self.client.execute_command("BF.RESERVE", self.key, error_rate, capacity, *words)

    def take(self, events, now=None):
        """The events to be handled, each once however often it is given.

        They count as handled from here on: whoever dies before the work is done leaves it undone. (To do it
        first, and add then, would be to do it twice after the same death.) A replica has them too when this
        returns, or else its successor would take them again; NOCREATE, since an empty filter would let
        everything pass.
        """
        at = [] if now is None else ["AT", now]
        pipeline = self.client.pipeline(transaction=False)
        pipeline.execute_command("BF.INSERT", self.key, "NOCREATE", *at, "ITEMS", *events)
        pipeline.execute_command("WAIT", 1, PATIENCE)
        answers, replicas = pipeline.execute()
        if replicas < 1:
            raise Trouble("no replica took over what was added")
        return [bool(answer) for answer in answers]


# ---- The stream ----------------------------------------------------------------------------------


def stream(urls, days):
    """Yields the time of each minute, and what comes in it."""
    places = random.Random(42)
    minutes = DAY // MINUTE
    for day in range(days):
        start = places.randrange(len(urls))
        of_day = urls[start:] + urls[:start]
        for minute in range(minutes):
            some = of_day[len(urls) * minute // minutes : len(urls) * (minute + 1) // minutes]
            if some:
                yield BEGIN + day * DAY + minute * MINUTE, some


def consume(pair, urls, options):
    consumer = Once(pair.client, options.key)
    consumer.create(options.error, options.capacity)
    table, recent = Table(), []
    total = options.days * DAY
    restart, failover = BEGIN + total * 3 // 8, BEGIN + total * 5 // 8
    for now, events in stream(urls, options.days):
        if restart and now >= restart:
            consumer, restart = Once(pair.connect(), options.key), None
            again = [event for some in recent for event in some]
            minutes = len(recent)
            print(f"the consumer was started anew, and gets {len(again):,} events of {minutes} minutes again")
            events = again + events
        if failover and now >= failover:
            pair.fail_over()
            consumer, failover = Once(pair.client, options.key), None
            print("the primary died, and its replica took its place")
        for event, is_new in zip(events, consumer.take(events, now)):
            table.note(event, is_new, now)
        recent = [*recent, events][-UNACKNOWLEDGED:]
    return table.report(pair, options)


class Table:
    """When each event was handled: what a filter is there to spare."""

    def __init__(self):
        self.handled = {}
        # Those that were due and skipped, with the time. One that comes again soon is the same mistake.
        self.missed = {}
        self.events = self.due = self.wrongly_skipped = self.late = self.too_early = self.repeated = 0

    def note(self, event, is_new, now):
        self.events += 1
        age = now - self.handled.get(event, -DAY)
        if age < DAY:
            self.repeated += 1
            self.too_early += is_new
        elif age < DAY + DAY // SLICES:
            # It may be forgotten by now.
            self.late += not is_new
        elif is_new or now - self.missed.get(event, -DAY) >= DAY:
            self.due += 1
            if not is_new:
                self.wrongly_skipped += 1
                self.missed[event] = now
        if is_new:
            self.handled[event] = now

    def report(self, pair, options):
        promises = support.Promises()
        different = self.handled.keys() | self.missed.keys()
        print(f"{self.events:,} events in {options.days} days, {len(different):,} different ones")
        promises.add(
            self.too_early == 0,
            f"handled again within a day: {self.too_early:,} of {self.repeated:,} that came again",
        )
        promises.add_rate("skipped though they were due", self.wrongly_skipped, self.due, options.error)
        share = self.late / self.events
        print(f"skipped up to {24 // SLICES} hours longer than a day: {self.late:,} ({share:.2%})")
        size = pair.client.bf().info(options.key).size
        print(f"the filter takes {size:,} bytes, the different events have {sum(map(len, different)):,}")
        return promises


# ---- The servers ---------------------------------------------------------------------------------


class ReplicatedServer(support.Server):
    """A replica of this one need not wait for others that might come."""

    ARGUMENTS = ("--repl-diskless-sync-delay", "0")


class Pair:
    """A primary and its replica."""

    def __init__(self, program, module):
        self.servers = [ReplicatedServer(program, module) for _ in range(2)]

    def __enter__(self):
        with ExitStack() as stack:
            for server in self.servers:
                stack.enter_context(server)
            self.follow()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def connect(self):
        """A new client of the primary."""
        self.client = self.servers[0].client()
        return self.client

    def follow(self):
        """Makes the second server the replica of the first one."""
        primary, replica = self.servers
        self.connect()
        with replica.client() as client:
            client.replicaof("127.0.0.1", primary.port)
            deadline = time.monotonic() + primary.PATIENCE
            while client.info("replication")["master_link_status"] != "up":
                if time.monotonic() > deadline:
                    raise Trouble(f"the replica does not follow:\n{replica.log()}")
                time.sleep(0.02)

    def fail_over(self):
        """The primary dies, and comes back as the replica of the one that took its place."""
        primary, replica = self.servers
        primary.process.kill()
        primary.stop()
        with replica.client() as client:
            client.replicaof("NO", "ONE")
        self.servers.reverse()
        primary.start()
        self.follow()


if __name__ == "__main__":
    sys.exit(main())
