"""Servers that tests start: with the module or without it, alone or as a cluster, and what tests ask of them.

The tests of the examples run with `make test-examples`; after `make build` by hand:

    .build/venv/bin/python -m unittest discover -s tests/examples

BLOOM_TEST_SERVER names another server than redis-server, BLOOM_TEST_MODULE another module. Every server is on
a free port of the loopback interface, with a directory of its own, and is stopped in any case.
"""

import contextlib
import functools
import os
import re
import shutil
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

PROJECT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(PROJECT / "examples"))

import redis  # noqa: E402
import support  # noqa: E402

PROGRAM = os.environ.get("BLOOM_TEST_SERVER", "redis-server")
MODULE = Path(os.environ.get("BLOOM_TEST_MODULE", PROJECT / "libbloom.so"))
URLS = PROJECT / "tests/fixtures/urls.txt.gz"
# Seconds until something that must happen has failed. Nothing is measured by it.
PATIENCE = 120
SLOTS = 16384
PRIMARIES = 3
# The nodes of a cluster talk to each other on another port, so far above their own.
BUS = 10_000
# Milliseconds until a node that does not answer is taken for dead: while nodes meet or one of them dies, and else.
SOON, LATE = 3_000, 60_000


class Server(support.Server):
    """A server with the module, empty or with a stored RDB file."""

    PATIENCE = PATIENCE

    def __init__(self, file=None):
        super().__init__(PROGRAM, MODULE)
        self.file = file

    def launch(self, port):
        if self.file is not None:
            shutil.copy(self.file, self.home / "dump.rdb")
        return super().launch(port)

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}/0"


class SeededServer(Server):
    """One whose filters have the same false positives in every run."""

    ARGUMENTS = ("bf-seed", "42")


class BareServer(Server):
    """A server without the module."""

    def launch(self, port):
        words = [PROGRAM, "--bind", "127.0.0.1", "--port", str(port), "--dir", str(self.home), "--save", ""]
        with open(self.home / "log", "wb") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < deadline:
            if "eady to accept connections" in self.log():
                return True
            time.sleep(0.02)
        return False


class Way(socketserver.ThreadingTCPServer):
    """A way to a server. What clients send goes through a function, and on as that gives it; so do the answers. What a
    function gives None for is cut off."""

    daemon_threads = True

    def __init__(self, server, passed, answered=bytes):
        super().__init__(("127.0.0.1", 0), Relay)
        self.behind = server
        self.passed = passed
        self.answered = answered

    @property
    def port(self):
        return self.server_address[1]

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.server_address[1]}/0"


class Relay(socketserver.BaseRequestHandler):
    """A connection on a way to a server."""

    def handle(self):
        # Either end may go first, or the server be away.
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.server.behind.port)) as server:
            back = threading.Thread(target=self.pass_on, args=(server, self.request, self.server.answered))
            back.start()
            self.pass_on(self.request, server, self.server.passed)
            back.join()

    def pass_on(self, source, target, change):
        """Passes on what comes, and that it ends."""
        with contextlib.suppress(OSError):
            try:
                while (block := source.recv(1 << 16)) and (changed := change(block)) is not None:
                    target.sendall(changed)
            finally:
                target.shutdown(socket.SHUT_WR)


class Node(support.Server):
    """A server that can be part of a cluster."""

    # A replica soon has what its primary has.
    ARGUMENTS = ("--cluster-enabled", "yes", "--cluster-node-timeout", f"{SOON}", "--repl-diskless-sync-delay", "0")
    PATIENCE = PATIENCE

    def __init__(self):
        super().__init__(PROGRAM, MODULE)

    def take_port(self):
        """One whose port for the bus is free, too."""
        while True:
            port = super().take_port()
            try:
                self.kept.enter_context(support.kept_port(port + BUS))
                return port
            except (OSError, OverflowError):
                pass  # The bus' port is taken, or above all ports.


class Cluster:
    """Three primaries with a third of the slots each, and as many replicas of each, stopped when the tests end."""

    def __init__(self, case, replicas=0):
        self.case = case
        self.nodes = []
        self.clients = []
        for _ in range(PRIMARIES * (1 + replicas)):
            self.start()
        self.join()
        for at in range(PRIMARIES, len(self.nodes)):
            self.replicate(at, at % PRIMARIES)
        self.take_for_dead_after(LATE)

    def start(self):
        """Starts a node that knows no others."""
        node = Node()
        node.__enter__()
        self.case.addClassCleanup(node.__exit__)
        self.nodes.append(node)
        self.clients.append(node.client())
        self.case.addClassCleanup(self.clients[-1].close)
        return node

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.nodes[0].port}"

    def join(self):
        for at, client in enumerate(self.clients[:PRIMARIES]):
            client.execute_command("CLUSTER SET-CONFIG-EPOCH", at + 1)
            slots = [slot for slot in range(SLOTS) if slot * PRIMARIES // SLOTS == at]
            client.execute_command("CLUSTER ADDSLOTS", *slots)
        for node in self.nodes[1:]:
            self.meet(node)
        self.wait_until(lambda: all(self.serves(client) for client in self.clients))

    def name(self, at):
        return self.clients[at].execute_command("CLUSTER MYID").decode()

    def meet(self, node):
        self.clients[0].execute_command("CLUSTER MEET", "127.0.0.1", node.port)

    def add_primary(self):
        """Adds a primary without slots, with a replica; returns the primary's index."""
        self.take_for_dead_after(SOON)
        for node in [self.start(), self.start()]:
            self.meet(node)
        self.wait_until(lambda: all(self.serves(client) for client in self.clients))
        at = len(self.nodes) - 2
        self.replicate(at + 1, at)
        self.take_for_dead_after(LATE)
        return at

    def take_for_dead_after(self, milliseconds):
        """Nodes meet faster when it is soon. On a busy machine a node that lives may be silent for as long."""
        for client in self.clients:
            client.config_set("cluster-node-timeout", milliseconds)

    def replicate(self, at, primary):
        """Makes a node a replica of another one."""
        client = self.clients[at]
        client.execute_command("CLUSTER REPLICATE", self.name(primary))
        self.wait_until(lambda: client.info("replication").get("master_link_status") == "up")

    @staticmethod
    def wait_until(condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                raise support.Trouble("the nodes do not make a cluster")
            time.sleep(0.02)

    def serves(self, client):
        info = client.execute_command("CLUSTER INFO")
        info = info if isinstance(info, dict) else dict(line.split(":") for line in info.decode().split())
        return info["cluster_state"] == "ok" and int(info["cluster_known_nodes"]) == len(self.nodes)

    def move_slot(self, slot, source, target, half_way):
        """Moves a slot with its keys; `half_way` is called when the keys have moved and the slot has not."""
        old, new = self.clients[source], self.clients[target]
        new.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", self.name(source))
        old.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", self.name(target))
        for key in old.execute_command("CLUSTER GETKEYSINSLOT", slot, 1000):
            moved = old.migrate("127.0.0.1", self.nodes[target].port, key, 0, PATIENCE * 1000)
            # What expires, as a mark of WAIT does, may be gone.
            assert moved in (b"OK", "OK", True) or not old.exists(key), moved
        half_way()
        for client in [new, old, *self.clients]:
            if client.info("replication")["role"] == "master":
                client.execute_command("CLUSTER SETSLOT", slot, "NODE", self.name(target))

    def migrate_slot(self, slot, source, target):
        """Moves a slot with its keys in one step, as Valkey 9 can; whether this server can."""
        old, new = self.clients[source], self.clients[target]
        try:
            old.execute_command("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", self.name(target))
        except redis.ResponseError as error:
            if not str(error).lower().startswith("unknown subcommand "):
                raise
            return False
        command = ("CLUSTER COUNTKEYSINSLOT", slot)
        keys = old.execute_command(*command)
        self.wait_until(lambda: not old.execute_command(*command) and new.execute_command(*command) >= keys)
        return True


@contextlib.contextmanager
def before(word, act):
    """Does something when the Python package is about to send the first command that has this word."""
    from libbloom._cluster import Links

    exchange, acted = Links.exchange, []

    async def watched(links, parts):
        if not acted and any(word in command for _, commands in parts for command in commands):
            acted.append(True)
            act()
        return await exchange(links, parts)

    with mock.patch.object(Links, "exchange", watched):
        yield
    assert acted, f"{word} was not sent"


def unused_port(case):
    """A port where nobody but a server of this test listens, until the test ends."""
    kept = contextlib.ExitStack()
    case.addCleanup(kept.close)
    return kept.enter_context(support.kept_port())


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="migrate-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.state = self.folder / "state"

    def start(self, server=None):
        """Starts a server that is stopped when the test ends; gives it and a client of it."""
        server = server or Server()
        server.__enter__()
        self.addCleanup(server.__exit__)
        client = server.client()
        self.addCleanup(client.close)
        return server, client

    def start_older(self, server):
        """A way to the server on which it has no packed commands."""
        return self.start_poorer(server, rb"BF\.\w+PACKED")

    def start_poorer(self, server, lacks):
        """A way to the server on which it has no such commands: they lose their names."""
        return self.open(server, functools.partial(re.sub, lacks, lambda name: b"x" * len(name[0])))

    def hold(self, server, when):
        """A way to the server on which nothing more comes to it as soon as something is so; and what releases it."""
        released = threading.Event()
        self.addCleanup(released.set)

        def passed(block):
            if not released.is_set() and when():
                released.wait()
            return block

        return self.open(server, passed), released.set

    def open_cutting(self, server, when_cut=lambda: None):
        """A way to the server, and a list of words. The first command that has the first of them is carried out, and the
        connection is cut instead of its answer, after a function has been called; then the next word counts."""
        words, is_due = [], threading.Event()

        def passed(block):
            if words and words[0] in block:
                words.pop(0)
                is_due.set()
            return block

        def answered(block):
            if is_due.is_set():
                is_due.clear()
                when_cut()
                return None
            return block

        return self.open(server, passed, answered), words

    def open(self, server, passed, answered=bytes):
        """A way to the server, until the test ends. What clients send goes through the function, and the answers through
        the other."""
        way = Way(server, passed, answered)
        serve = threading.Thread(target=functools.partial(way.serve_forever, poll_interval=0.05))
        serve.start()
        self.addCleanup(serve.join)
        self.addCleanup(way.server_close)
        self.addCleanup(way.shutdown)
        return way

    def calls(self, client, commands):
        """How often each of these commands was called, and forgets it."""
        stats = client.info("commandstats")
        client.config_resetstat()
        return {name: stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in commands}

    def wait_until(self, condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), deadline, "waited in vain")

    def assert_members(self, client, key, items):
        for some in support.batches(items, 1000):
            self.assertEqual(sum(client.execute_command("BF.MEXISTS", key, *some)), len(some), key)
