"""examples/guard.py, tried as its users would: the service over HTTP, its table in SQLite, a server with the module.

Run it with `make test-examples`; servers.py tells how to run it by hand. The questions that reach the
database are counted by SQLite itself.
"""

import json
import re
import sqlite3
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from wsgiref.util import setup_testing_defaults

from servers import PATIENCE, PROJECT, Case, SeededServer

import support  # noqa: E402
import guard  # noqa: E402

ROWS = 2000
ABSENT = 6000
ERROR = 0.01


class GuardCase(Case):
    def setUp(self):
        super().setUp()
        self.server, self.client = self.start(SeededServer())
        self.database = self.folder / "shop.db"
        self.names = [f"product-{number}" for number in range(ROWS)]

    def make_table(self):
        with sqlite3.connect(self.database) as connection:
            connection.execute(guard.TABLE)
            rows = [(name, f"name of {name}") for name in self.names]
            connection.executemany("INSERT INTO products VALUES (?, ?)", rows)
        connection.close()

    def words(self, command, *arguments):
        script = [sys.executable, str(PROJECT / "examples/guard.py"), command]
        return [*script, "--database", str(self.database), "--url", self.server.url, *map(str, arguments)]

    def fill(self, *arguments, exit_code=0):
        done = subprocess.run(self.words("fill", *arguments), capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        return done.stdout + done.stderr


class ServiceTest(GuardCase):
    """In this process, so that SQLite can be listened to."""

    def setUp(self):
        super().setUp()
        self.make_table()
        self.table = guard.Products(self.database)
        self.addCleanup(self.table.connection.close)
        self.queries = []
        self.table.connection.set_trace_callback(self.queries.append)
        client = guard.connect(self.server.url, PATIENCE)
        self.addCleanup(client.close)
        self.guard = guard.Guard(client, "ids")
        self.service = guard.Service(self.guard, self.table)

    def ask(self, name, method="GET"):
        request = {"PATH_INFO": f"/products/{name}", "REQUEST_METHOD": method}
        setup_testing_defaults(request)
        statuses = []
        body = b"".join(self.service(request, lambda status, _: statuses.append(status)))
        return int(statuses[0][:3]), json.loads(body)

    def absent(self):
        return [f"absent-{number}" for number in range(ABSENT)]

    def test_absent_ids_reach_the_database_at_the_error_rate_only(self):
        self.guard.fill(self.table.ids(), ROWS, ERROR)
        self.queries.clear()
        for name in self.absent():
            self.assertEqual(self.ask(name)[0], 404)
        chance = support.SLACK * (ERROR * (1 - ERROR) * ABSENT) ** 0.5
        self.assertLessEqual(len(self.queries), ERROR * ABSENT + chance)
        # A filter that lets nothing through at all is no filter.
        self.assertGreater(len(self.queries), 0)
        self.assertEqual(self.service.figures["reached the database"], len(self.queries))
        self.assertEqual(self.service.figures["questions"], ABSENT)

        self.queries.clear()
        for name in self.names:
            self.assertEqual(self.ask(name), (200, {"id": name, "name": f"name of {name}"}))
        self.assertEqual(len(self.queries), ROWS)

    def test_a_filter_that_is_missing_or_away_hides_nothing(self):
        """A filter that was deleted, or a server that is down, must not turn rows into 404s."""
        self.assertEqual(self.ask(self.names[0])[0], 200)
        self.assertEqual(self.ask("absent")[0], 404)
        self.assertEqual(len(self.queries), 2)
        self.guard.fill(self.table.ids(), ROWS, ERROR)
        self.client.flushall()
        self.assertEqual(self.ask(self.names[0])[0], 200)
        self.server.stop()
        self.assertEqual(self.ask(self.names[0])[0], 200)
        self.assertEqual(self.ask("new", "PUT")[0], 503)
        self.assertIsNone(self.table.get("new"))

    def test_a_row_that_is_written_while_the_filter_is_filled_is_found(self):
        """The new filter reads the table while others write to it: a row lost there would be lost to readers."""
        self.guard.fill(self.table.ids(), ROWS, ERROR)

        def ids():
            for at, name in enumerate(list(self.table.ids())):
                if at % 500 == 0:
                    self.assertEqual(self.ask(f"late-{at}", "PUT")[0], 200)
                yield name

        self.guard.fill(ids(), 2 * ROWS, ERROR)
        self.assertFalse(self.client.exists(self.guard.draft))
        for at in range(0, ROWS, 500):
            self.assertEqual(self.ask(f"late-{at}")[0], 200)
        # Without a filter, none is made of a single row: it would hide all the others.
        self.client.flushall()
        self.assertEqual(self.ask("first", "PUT")[0], 200)
        self.assertEqual(self.client.dbsize(), 0)
        self.assertEqual(self.ask(self.names[0])[0], 200)


    def test_a_fill_that_begins_within_a_write_does_not_lose_it(self):
        """The id is added, then a new filter is begun and reads the table, then the row is committed."""
        self.guard.fill(self.table.ids(), ROWS, ERROR)

        def fill():
            table = guard.Products(self.database)
            table.connection.execute(f"PRAGMA busy_timeout = {1000 * PATIENCE}")
            self.guard.fill(table.ids(), ROWS, 1e-9)
            table.connection.close()

        with ThreadPoolExecutor() as pool:
            with self.table.writing():
                self.guard.add("late")
                filling = pool.submit(fill)
                while not self.client.exists(self.guard.draft):
                    self.assertFalse(filling.done(), "the fill did not wait")
                # Time for the fill to get as far as it can without the lock.
                time.sleep(0.2)
                self.assertEqual(self.client.bf().card(self.guard.draft), 0)
                self.table.put("late", "name")
            filling.result(PATIENCE)
        self.assertEqual(self.ask("late"), (200, {"id": "late", "name": "name"}))
        self.assertEqual(self.client.bf().card("ids"), ROWS + 1)

    def test_a_row_that_the_filter_does_not_take_is_not_written(self):
        """A row in the table alone would be lost to readers."""
        self.client.set("ids", "no filter")
        self.assertEqual(self.ask("new", "PUT")[0], 503)
        self.assertIsNone(self.table.get("new"))

    def test_a_table_that_somebody_else_writes_to_answers_as_unavailable(self):
        """A write would end in a broken reply, and readers would wait for a fill."""
        self.guard.fill(self.table.ids(), ROWS, 0.001)
        self.table.connection.execute("PRAGMA busy_timeout = 10")
        other = sqlite3.connect(self.database)
        self.addCleanup(other.close)
        other.execute("BEGIN IMMEDIATE")
        self.assertEqual(self.ask("new", "PUT")[0], 503)
        self.assertEqual(self.ask(self.names[0])[0], 200)
        other.rollback()
        self.assertEqual(self.ask("new", "PUT")[0], 200)
        # A reader that takes its time, as a fill does, keeps nobody from writing.
        ids = self.table.ids()
        next(ids)
        other.execute("INSERT INTO products VALUES ('other', 'written meanwhile')")
        other.commit()
        self.assertEqual(len(list(ids)), ROWS)

    def test_the_filter_is_asked_in_one_transaction(self):
        """A filter that is made between two questions would be there, and would have found nothing."""
        self.guard.fill(self.table.ids(), ROWS, ERROR)
        self.client.config_resetstat()
        self.assertTrue(self.guard.may_exist(self.names[0]))
        calls = {name: told["calls"] for name, told in self.client.info("commandstats").items()}
        asked = ["cmdstat_multi", "cmdstat_bf.exists", "cmdstat_exists", "cmdstat_exec"]
        self.assertEqual([calls[name] for name in asked], [1, 1, 1, 1])


class ScriptTest(GuardCase):
    """The command line, and HTTP."""

    def ask(self, path, **named):
        try:
            with urllib.request.urlopen(urllib.request.Request(self.address + path, **named)) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as answer:
            with answer:
                return answer.code, json.load(answer)

    def serve(self):
        words = self.words("serve", "--port", 0, "--patience", PATIENCE)
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.address = process.stdout.readline().strip().removesuffix("/products/")
        self.assertRegex(self.address, r"^http://127\.0\.0\.1:\d+$")

    def test_fill_and_serve(self):
        self.make_table()
        self.assertIn("products:ids: 2,000 ids, made for 3,000", self.fill("--error", 1e-9))
        self.serve()
        self.assertEqual(self.ask("/products/product-7"), (200, {"id": "product-7", "name": "name of product-7"}))
        self.assertEqual(self.ask("/products/absent")[0], 404)
        figures = {"questions": 2, "reached the database": 1, "found": 1}
        self.assertEqual(self.ask("/figures"), (200, figures))
        self.assertEqual(self.ask("/products/%C3%BC/x", data="ü".encode(), method="PUT")[0], 200)
        self.assertEqual(self.ask("/products/%C3%BC/x"), (200, {"id": "ü/x", "name": "ü"}))
        self.assertEqual(self.ask("/elsewhere")[0], 404)
        self.assertEqual(self.ask("/products/a", method="DELETE")[0], 405)

    def test_what_cannot_run_says_why(self):
        self.make_table()
        self.client.execute_command("BF.RESERVE", "{products:ids}:new", 0.01, 100)
        text = self.fill(exit_code=2)
        self.assertIn("guard.py: {products:ids}:new: item exists (another fill? if it was killed: --replace)", text)
        self.assertRegex(self.fill("--replace", "--error", 1e-9), re.escape("2,000 ids"))
        self.server.stop()
        self.assertIn("guard.py: a server with the module is needed, which --url names: Error", self.fill(exit_code=2))


if __name__ == "__main__":
    unittest.main()
