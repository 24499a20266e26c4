#!/usr/bin/env python3
"""A web service over a table, with a Bloom filter in front that keeps questions for absent rows from the table.

    guard.py fill --database shop.db         all ids of the table go into the filter
    guard.py serve --database shop.db        http://127.0.0.1:8000/products/ID

A cache does not help against questions for ids that do not exist: each one misses it and reaches the database.
The filter has all ids that do exist. It says no to an absent one, but for the error rate, and never to one that
is there.

    GET /products/ID     the row, or 404
    PUT /products/ID     writes a row; the body is its name
    GET /figures         how many questions there were, and how many of them reached the database

When the server with the filter is away, or the filter is missing, every question goes to the database: the
service is slower then, and not wrong.

`fill` needs the server. Of packages it needs redis-py alone, and no package of this project: the filter is asked in a transaction.
"""

import argparse
import itertools
import json
import sqlite3
import sys
from contextlib import contextmanager
from wsgiref.simple_server import WSGIRequestHandler, make_server

import redis
import support
from redis.backoff import NoBackoff
from redis.retry import Retry
from support import Trouble, require_filters

BATCH = 1000
TABLE = "CREATE TABLE IF NOT EXISTS products (id TEXT PRIMARY KEY, name TEXT NOT NULL)"


def main():
    options = parse_arguments()
    try:
        guard = Guard(connect(options.url, options.patience), options.key)
        table = Products(options.database)
        return options.run(guard, table, options)
    except redis.ConnectionError as error:
        print(f"guard.py: a server with the module is needed, which --url names: {error}", file=sys.stderr)
        return 2
    except (Trouble, OSError, redis.RedisError, sqlite3.Error) as trouble:
        print(f"guard.py: {trouble}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--database", required=True, help="a file of SQLite's; the table is made if need be")
    common.add_argument("--url", default="redis://127.0.0.1:6379/0", help="(default: %(default)s)")
    common.add_argument("--key", default="products:ids", help="of the filter (default: %(default)s)")
    commands = parser.add_subparsers(required=True, metavar="{fill,serve}")

    fill_parser = commands.add_parser("fill", parents=[common], help="make the filter, or make it anew")
    fill_parser.add_argument("--error", type=float, default=0.001, help="error rate (default: %(default)s)")
    fill_parser.add_argument("--replace", action="store_true", help="remove what a killed fill has left")
    # The answer to a large batch may take its time.
    fill_parser.set_defaults(run=fill, patience=60.0)

    serve_parser = commands.add_parser("serve", parents=[common], help="answer questions")
    serve_parser.add_argument("--port", type=port, default=8000, help="0 takes a free one (default: %(default)s)")
    serve_parser.add_argument(
        "--patience", type=seconds, default=0.1, help="seconds to wait for the filter (default: %(default)s)"
    )
    serve_parser.set_defaults(run=serve)
    return parser.parse_args()


def port(text):
    number = int(text)
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is not a port")
    return number


def seconds(text):
    number = float(text)
    if not 0 < number < 1e6:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds")
    return number


def connect(url, patience):
    """A client that gives up after so many seconds, without a second try: there is the database to be asked."""
    retry = Retry(NoBackoff(), 0)
    return support.connect(url, socket_timeout=patience, socket_connect_timeout=patience, retry=retry)


# ---- The filter ----------------------------------------------------------------------------------


class Guard:
    """Knows which ids may exist."""

    def __init__(self, client, key):
        self.client = client
        self.key = key
        # In the same slot of a cluster, so that it can be renamed.
        self.draft = f"{{{key}}}:new"

    def may_exist(self, name):
        """False for an id that is certainly absent. A filter that cannot be asked knows nothing."""
        try:
            # A missing filter finds nothing, and must not be taken at its word. A transaction, since a filter that
            # comes between the two questions would be there, and would not have been asked.
            pipeline = self.client.pipeline(transaction=True)
            pipeline.execute_command("BF.EXISTS", self.key, name)
            pipeline.exists(self.key)
            found, is_there = pipeline.execute()
        except redis.RedisError:
            return True
        return bool(found) or not is_there

    def add(self, name):
        """Into one that is being made, then into the filter that answers; a missing one is not created.

        In this order, since the first may take the place of the second at any time.
        """
        pipeline = self.client.pipeline(transaction=False)
        for key in (self.draft, self.key):
            pipeline.execute_command("BF.INSERT", key, "NOCREATE", "ITEMS", name)
        for answer in pipeline.execute(raise_on_error=False):
            if isinstance(answer, Exception) and str(answer) != "not found":
                raise answer

    def fill(self, names, count, error_rate):
        """A new filter of all ids takes the place of the old one, which answers meanwhile.

        `names` is iterated when the new filter is there: an id that is written later comes by `add`. One that was
        added before must be among them, so `names` has to wait for whoever has added an id and not yet committed.
        """
        require_filters(self.client, self.key)
        try:
            self.client.execute_command("BF.RESERVE", self.draft, error_rate, count)
        except redis.ResponseError as error:
            advice = " (another fill? if it was killed: --replace)" if str(error) == "item exists" else ""
            raise Trouble(f"{self.draft}: {error}{advice}") from None
        names = iter(names)
        while some := list(itertools.islice(names, BATCH)):
            self.client.execute_command("BF.INSERT", self.draft, "NOCREATE", "ITEMS", *some)
        self.client.rename(self.draft, self.key)


def fill(guard, table, options):
    if options.replace:
        require_filters(guard.client, guard.draft)
        guard.client.unlink(guard.draft)
    # Half as many again: rows that come later need no further layer.
    count = max(1000, table.count() * 3 // 2)
    guard.fill(table.ids(), count, options.error)
    print(f"{guard.key}: {guard.client.bf().card(guard.key):,} ids, made for {count:,}")
    return 0


# ---- The table -----------------------------------------------------------------------------------


class Products:
    """Rows of names by id, in SQLite."""

    def __init__(self, file):
        self.connection = sqlite3.connect(file)
        self.connection.execute("PRAGMA journal_mode = WAL")  # a fill, which reads for long, keeps nobody from writing
        self.connection.execute(TABLE)

    def get(self, name):
        row = self.connection.execute("SELECT name FROM products WHERE id = ?", (name,)).fetchone()
        return row and row[0]

    @contextmanager
    def writing(self):
        """A transaction, which nobody else has at the same time; it is undone when it ends by an exception."""
        with self.connection:
            self.connection.execute("BEGIN IMMEDIATE")
            yield

    def put(self, name, text):
        """To be called while `writing`."""
        self.connection.execute("INSERT OR REPLACE INTO products VALUES (?, ?)", (name, text))

    def ids(self):
        """All ids, read when whoever is writing now has ended."""
        with self.writing():
            pass
        for (name,) in self.connection.execute("SELECT id FROM products"):
            yield name

    def count(self):
        return self.connection.execute("SELECT count(*) FROM products").fetchone()[0]


# ---- The service ---------------------------------------------------------------------------------


class Service:
    """The WSGI application."""

    def __init__(self, guard, table):
        self.guard = guard
        self.table = table
        self.figures = {"questions": 0, "reached the database": 0, "found": 0}

    def __call__(self, request, start_response):
        status, body = self.answer(request)
        content = json.dumps(body).encode() + b"\n"
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(content)))]
        start_response(status, headers)
        return [content]

    def answer(self, request):
        # WSGI gives the bytes of a path as Latin-1.
        path = request["PATH_INFO"].encode("latin-1").decode(errors="replace")
        name = path.removeprefix("/products/")
        method = request["REQUEST_METHOD"]
        if method == "GET" and path == "/figures":
            return "200 OK", self.figures
        if name == path or not name:
            return "404 Not Found", {"error": "no such path"}
        if method == "GET":
            return self.get(name)
        if method == "PUT":
            body = request["wsgi.input"].read(int(request.get("CONTENT_LENGTH") or 0))
            return self.put(name, body.decode(errors="replace"))
        return "405 Method Not Allowed", {"error": "GET or PUT"}

    def get(self, name):
        self.figures["questions"] += 1
        text = None
        if self.guard.may_exist(name):
            self.figures["reached the database"] += 1
            text = self.table.get(name)
        if text is None:
            return "404 Not Found", {"error": "no such product"}
        self.figures["found"] += 1
        return "200 OK", {"id": name, "name": text}

    def put(self, name, text):
        """Adds the id to the filter first: a row that the filter misses would be lost to readers.

        What is added for nothing, because the commit failed, costs one question. Within the transaction, so that
        a fill either has made its new filter when the id is added, or waits and reads the row.
        """
        try:
            with self.table.writing():
                self.guard.add(name)
                self.table.put(name, text)
        except redis.RedisError as error:
            return "503 Service Unavailable", {"error": f"the filter cannot be written to: {error}"}
        except sqlite3.OperationalError as error:
            return "503 Service Unavailable", {"error": f"the table cannot be written to: {error}"}
        return "200 OK", {"id": name, "name": text}


def serve(guard, table, options):
    try:
        require_filters(guard.client, guard.key)
    except redis.ConnectionError:
        pass  # The server may come later.
    with make_server("127.0.0.1", options.port, Service(guard, table), handler_class=QuietHandler) as server:
        print(f"http://127.0.0.1:{server.server_port}/products/", flush=True)
        server.serve_forever()


class QuietHandler(WSGIRequestHandler):
    def log_request(self, *_):
        pass


if __name__ == "__main__":
    sys.exit(main())
