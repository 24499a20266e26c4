"""The load: redis-benchmark where throughput is measured, and a sender of known items where they have to be known.

Both send the same items, `http://example.com/p/` and twelve digits.
"""

import socket
import struct
import subprocess
import time

import hiredis
import numpy

from servers import KEY

DRAWN = b"__rand_int__"  # redis-benchmark replaces it by 12 digits
ITEM = b"http://example.com/p/" + DRAWN
# All packed items have 30 bytes.
SHORT_ITEM = b"http://ex.com/item" + DRAWN
# What follows the key of a packed command, and each item in its data.
FORMS = {
    "LINES": (["LINES"], SHORT_ITEM + b"\n"),
    "WIDTH": (["WIDTH", str(len(SHORT_ITEM))], SHORT_ITEM),
    "PREFIXED": (["PREFIXED"], struct.pack("<I", len(SHORT_ITEM)) + SHORT_ITEM),
}
# Items that are sent before the replies to those before them are read.
AHEAD = 20_000
# Of short commands, whose server is to have as many at a time as redis-benchmark would send.
AT_ONCE = 160
FOUR_DIGITS = numpy.frombuffer(b"".join(b"%04d" % number for number in range(10_000)), numpy.uint8).reshape(-1, 4)


# ---- Drawn items ---------------------------------------------------------------------------------


def draw(server, command, items, width=1, pipeline=1, clients=2, distinct=None, wait=True, form=None):
    """redis-benchmark sends `items` items, each drawn from `distinct`; gives items a second.

    With a `form` they are packed, or where the server has no such command sent as other batches are.
    """
    requests = max(items // width, 1)
    words, data = [ITEM.decode()] * width, b""
    if form:
        # "plain": the same items, not packed.
        words, item = FORMS.get(form, ([], b""))
        packed = command.replace("bf.m", "bf.") + "packed"
        if item and server.knows(packed):
            if b"\0" in item:
                # redis-benchmark finds no word behind a zero.
                return draw_packed(server, [packed, KEY, *words], item, items, width, distinct or items)
            # An argument has 128 KiB at most: longer ones come from the standard input.
            command, data = packed, item * width
        else:
            words = [SHORT_ITEM.decode()] * width
    benchmark = subprocess.Popen(
        [server.options.benchmark, "-p", str(server.port), "-n", str(requests), "-r", str(distinct or items)]
        + ["-P", str(pipeline), "-c", str(clients), "--csv", *(["-x"] if data else []), command, KEY, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    if not wait:
        benchmark.stdin.close()
        return benchmark
    lines = benchmark.communicate(data)[0].decode().split("\n")
    figures = [line for line in lines if line.startswith('"') and not line.startswith('"test"')]
    return float(figures[-1].split('","')[1]) * width


def draw_packed(server, command, item, items, width, distinct):
    """Sends commands by this program, which makes all of them before it sends the first."""
    numbers = numpy.random.default_rng().integers(distinct, size=max(items // width, 1) * width)
    parts = [packed_command(command, item, some) for some in numpy.split(numbers, len(numbers) // width)]
    with Connection(server) as connection:
        begin = time.perf_counter()
        for part in parts:
            connection.send(part, 1)
        connection.finish()
        return items / (time.perf_counter() - begin)


# ---- Known items ---------------------------------------------------------------------------------


class Connection:
    """Commands that are ready to be sent, in a pipeline. Sums up the integers of the replies."""

    def __init__(self, server):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=600)
        self.reader = hiredis.Reader()
        self.due = self.total = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, commands, replies):
        """The replies to what was sent before are read after that, so that the server always has something to do."""
        self.socket.sendall(commands)
        self.read(self.due)
        self.due = replies

    def read(self, replies):
        while replies:
            reply = self.reader.gets()
            if reply is False:
                data = self.socket.recv(1 << 20)
                if not data:
                    raise ConnectionError("the server has closed the connection")
                self.reader.feed(data)
                continue
            if isinstance(reply, hiredis.ReplyError):
                raise reply
            if isinstance(reply, list):
                self.total += sum(reply)
            elif isinstance(reply, int):
                self.total += reply
            replies -= 1

    def waits(self, command, numbers, width):
        """Sends one command at a time; gives the nanoseconds until each has its reply."""
        found = []
        for data, _ in batches(command, numbers, width, ahead=width):
            begin = time.perf_counter_ns()
            self.socket.sendall(data)
            self.read(1)
            found.append(time.perf_counter_ns() - begin)
        return found

    def finish(self):
        """The sum of all integers that came."""
        self.read(self.due)
        self.due = 0
        return self.total


def send(server, command, numbers, width=1000):
    """Sends the items of these numbers, `width` in a command; gives how many were answered with 1.

    `command`: its words up to the items.
    """
    return send_to_all({"": server}, command, numbers, width)[""]


def send_to_all(servers, command, numbers, width=1000, item=ITEM):
    """Sends commands to several servers, which work at the same time."""
    connections = {name: Connection(server) for name, server in servers.items()}
    try:
        for data, replies in batches(command, numbers, width, item):
            for connection in connections.values():
                connection.send(data, replies)
        return {name: connection.finish() for name, connection in connections.items()}
    finally:
        for connection in connections.values():
            connection.socket.close()


def batches(command, numbers, width=1000, item=ITEM, ahead=AHEAD):
    """The bytes of commands with these items, `ahead` items at a time, and how many commands they are."""
    for start in range(numbers.start, numbers.stop, ahead):
        some = numpy.arange(start, min(start + ahead, numbers.stop))
        full = len(some) // width * width
        for part, in_each in (some[:full], width), (some[full:], len(some) - full):
            if len(part):
                yield commands(command, part, in_each, item), len(part) // in_each


def packed_batches(command, numbers, item, width):
    """Yields packed commands, one at a time, each with the number 1."""
    for start in range(numbers.start, numbers.stop, width):
        yield packed_command(command, item, numpy.arange(start, min(start + width, numbers.stop))), 1


def commands(words, numbers, width, item):
    """The bytes of commands with so many items each, of which all are full."""
    head = b"".join([b"*%d\r\n" % (len(words) + width), *map(argument, words)])
    rows = numpy.empty((len(numbers) // width, len(head) + width * len(argument(item))), numpy.uint8)
    rows[:, : len(head)] = numpy.frombuffer(head, numpy.uint8)
    rows[:, len(head) :] = written(numbers, argument(item)).reshape(len(rows), -1)
    return rows.tobytes()


def keyed_batches(command, numbers, rest):
    """Yields the bytes of commands that each have a key of their own before the `rest` of their words, and how many
    they are."""
    head = b"*%d\r\n" % (2 + len(rest)) + argument(command)
    tail = b"".join(map(argument, rest))
    for start in range(numbers.start, numbers.stop, AT_ONCE):
        keys = written(numpy.arange(start, min(start + AT_ONCE, numbers.stop)), argument(ITEM))
        yield b"".join(head + key.tobytes() + tail for key in keys), len(keys)


def packed_command(words, item, numbers):
    """The bytes of a command whose last argument is all of these items."""
    data = written(numbers, item).tobytes()
    return b"".join([b"*%d\r\n" % (len(words) + 1), *map(argument, words), b"$%d\r\n" % len(data), data, b"\r\n"])


def written(numbers, item):
    """A row of bytes for each item, with its number in it."""
    rows = numpy.empty((len(numbers), len(item)), numpy.uint8)
    rows[:] = numpy.frombuffer(item, numpy.uint8)
    at = item.index(DRAWN)
    for fours in range(3):
        rows[:, at + 4 * fours : at + 4 * fours + 4] = FOUR_DIGITS[numbers // 10_000 ** (2 - fours) % 10_000]
    return rows


def bit_commands(words, positions, end=b""):
    """The bytes of commands that each name a bit: its position is written as short as it can be."""
    digits = 1 + sum(positions >= 10**power for power in range(1, 12))
    parts = []
    for length in numpy.unique(digits):
        some = positions[digits == length]
        head = b"".join([b"*%d\r\n" % (len(words) + 1 + bool(end)), *map(argument, words), b"$%d\r\n" % length])
        tail = b"\r\n" + end
        rows = numpy.empty((len(some), len(head) + length + len(tail)), numpy.uint8)
        rows[:] = numpy.frombuffer(head + b"0" * length + tail, numpy.uint8)
        for digit in range(length):
            rows[:, len(head) + digit] = some // 10 ** (length - 1 - digit) % 10 + ord("0")
        parts.append(rows.tobytes())
    return b"".join(parts)


def argument(word):
    word = word if isinstance(word, bytes) else str(word).encode()
    return b"$%d\r\n%b\r\n" % (len(word), word)

