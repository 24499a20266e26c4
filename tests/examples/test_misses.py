"""examples/misses.py, tried as its users would: a real stream of questions, its table in SQLite.

Run it with `make test-examples`; servers.py tells how to run it by hand. The questions that reach the
table are counted by SQLite itself.
"""

import re
import sqlite3
import subprocess
import sys
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from servers import MODULE, PATIENCE, PROGRAM, PROJECT, Case

import guard  # noqa: E402
import misses  # noqa: E402

ROWS = 500
ABSENT = 3000
# A loose filter has many false positives.
ERROR = 0.1


def number(pattern, text):
    """The whole number that stands where the pattern has its group."""
    return int(re.search(pattern, text)[1].replace(",", ""))


class ScriptTest(unittest.TestCase):
    def run_script(self, *arguments):
        words = [sys.executable, str(PROJECT / "examples/misses.py"), "--server", PROGRAM, *map(str, arguments)]
        return subprocess.run(words, capture_output=True, text=True, timeout=2 * PATIENCE)

    def test_each_absent_row_is_looked_up_once(self):
        """Whoever builds on the example would hide rows, or gain nothing."""
        done = self.run_script("--module", MODULE)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        text = done.stdout
        self.assertIn("30,089 ids, of which 15,045 have rows; 50,000 questions a round", text)
        lookups = re.findall(r"round \d: ([\d,]+) absent rows were looked up, with exceptions ([\d,]+)", text)
        plain, learning = ([int(count.replace(",", "")) for count in counts] for counts in zip(*lookups))
        self.assertEqual(len(plain), 4)
        for before, after in zip(plain, learning):
            self.assertLessEqual(after, before)
        self.assertLess(sum(learning), sum(plain))
        self.assertIn(f"{sum(plain):,} lookups of absent rows became {sum(learning):,}", text)
        late = number(r"that got a row and are found: ([\d,]+) of", text)
        self.assertEqual(late, min(sum(learning[:-1]), misses.LATE))
        self.assertIn(f"{sum(learning) - late:,} exceptions", text)
        self.assertIn("3 promises kept, 0 broken", text)

    def test_what_cannot_run_says_why(self):
        done = self.run_script("--module", "missing.so")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("misses.py: there is no missing.so", done.stderr)


class KeeperTest(Case):
    """The classes that a program would use."""

    def setUp(self):
        super().setUp()
        self.server, self.client = self.start()
        self.database = self.folder / "shop.db"
        self.table = self.open_table()
        with self.table.writing():
            for at in range(ROWS):
                self.table.put(f"row-{at}", "text")
        client = guard.connect(self.server.url, PATIENCE)
        self.addCleanup(client.close)
        self.rows = misses.Rows(misses.Keeper(client, "ids"), self.table, True)
        self.rows.keeper.fill(self.table.ids(), ROWS, ERROR)
        self.queries = []
        self.table.connection.set_trace_callback(self.queries.append)

    def open_table(self):
        table = guard.Products(self.database)
        self.addCleanup(table.connection.close)
        return table

    def lookups(self):
        """How many rows were read since the last time."""
        count = sum(query.startswith("SELECT name") for query in self.queries)
        self.queries.clear()
        return count

    def absent(self):
        return [f"absent-{at}" for at in range(ABSENT)]

    def one_miss(self):
        """An absent id that the filter takes for one of a row."""
        return self.rows.keeper.that_may_exist(self.absent())[0]

    def test_an_absent_row_is_looked_up_once(self):
        self.assertEqual(self.rows.get(self.absent()), {})
        # Once outside of the transaction, and once in it.
        count = len(self.rows.misses)
        self.assertEqual(self.lookups(), 2 * count)
        self.assertGreater(count, 0)
        self.assertLess(count, 2 * ERROR * ABSENT)
        self.assertEqual(self.rows.get(self.absent()), {})
        self.assertEqual(self.lookups(), 0)

    def test_a_row_that_is_written_later_is_found(self):
        name = self.one_miss()
        self.rows.get([name])
        self.assertEqual(self.rows.keeper.that_may_exist([name]), [])
        self.rows.put(name, "late")
        self.assertEqual(self.rows.get([name]), {name: "late"})
        everything = [f"row-{at}" for at in range(ROWS)]
        self.assertEqual(len(self.rows.get(everything)), ROWS)

    def test_a_row_that_is_being_written_is_not_excepted(self):
        """The id of the row was added before the table was asked: an exception would hide the row for good."""
        name = self.one_miss()
        other = self.open_table_elsewhere()
        with ThreadPoolExecutor() as pool:
            with self.table.writing():
                self.rows.keeper.add(name)
                # Another service does not see the row yet.
                learning = pool.submit(other, name)
                time.sleep(0.2)
                self.assertFalse(learning.done(), "it did not wait")
                self.table.put(name, "just written")
            self.assertEqual(learning.result(PATIENCE), {})
        self.assertEqual(self.rows.get([name]), {name: "just written"})

    def open_table_elsewhere(self):
        """Opens the table and the filter as another service; returns the function that asks it."""

        def ask(name):
            table = guard.Products(self.database)
            try:
                return misses.Rows(self.rows.keeper, table, True).get([name])
            finally:
                table.connection.close()

        return ask

    def test_what_cannot_be_learned_is_asked_again(self):
        """A service that is refused an exception would fail where it only had to be slower."""
        name = self.one_miss()
        self.client.execute_command("ACL", "SETUSER", "default", "-bf.except")
        self.assertEqual(self.rows.get([name]), {})
        self.assertEqual(self.rows.get([name]), {})
        self.assertEqual(self.rows.misses[name], 2)
        self.client.execute_command("ACL", "SETUSER", "default", "+bf.except")
        writer = sqlite3.connect(self.database)
        self.addCleanup(writer.close)
        writer.execute("BEGIN IMMEDIATE")
        self.table.connection.execute("PRAGMA busy_timeout = 10")
        self.assertEqual(self.rows.get([name]), {})
        self.assertEqual(self.rows.keeper.that_may_exist([name]), [name])

    def test_a_filter_that_is_missing_or_away_hides_nothing(self):
        self.client.flushall()
        self.assertEqual(self.rows.get(["row-1", "absent"]), {"row-1": "text"})
        # Nor is one made, which would hide all rows.
        self.assertEqual(self.client.dbsize(), 0)
        self.server.stop()
        self.assertEqual(self.rows.get(["row-1", "absent"]), {"row-1": "text"})


if __name__ == "__main__":
    unittest.main()
