"""examples/once.py, tried as its users would: days of a real stream, a restart and a failover, in seconds.

Run it with `make test-examples`; servers.py tells how to run it by hand.
"""

import contextlib
import io
import re
import subprocess
import sys
import unittest
from unittest import mock

from servers import MODULE, PATIENCE, PROGRAM, PROJECT, Case

import support  # noqa: E402
import once  # noqa: E402
import redis  # noqa: E402

LINES, DIFFERENT, DAYS = 59_226, 30_089, 4
ERROR = 0.01


def number(pattern, text):
    """The whole number that stands where the pattern has its group."""
    return int(re.search(pattern, text)[1].replace(",", ""))


class ScriptTest(unittest.TestCase):
    def run_script(self, *arguments):
        words = [sys.executable, str(PROJECT / "examples/once.py"), "--server", PROGRAM, *arguments]
        return subprocess.run(words, capture_output=True, text=True, timeout=2 * PATIENCE)

    def test_each_event_is_handled_once_a_day(self):
        """Whoever builds on the example would bill twice, or leave out more than was promised."""
        done = self.run_script("--module", str(MODULE))
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        text = done.stdout
        again = number(r"and gets ([\d,]+) events of 5 minutes again", text)
        self.assertIn("the primary died, and its replica took its place", text)
        self.assertEqual(number(r"([\d,]+) events in 4 days", text), DAYS * LINES + again)
        self.assertEqual(number(r"([\d,]+) different ones", text), DIFFERENT)
        self.assertEqual(number(r"handled again within a day: ([\d,]+) of", text), 0)
        skipped = number(r"were due: ([\d,]+) of", text)
        due = number(r"were due: [\d,]+ of ([\d,]+)", text)
        # The first day alone makes all of them due.
        self.assertGreater(due, 2 * DIFFERENT)
        self.assertLessEqual(skipped, ERROR * due + support.SLACK * (ERROR * due) ** 0.5)
        # Some come again within the three hours after a day; of all events they are few.
        late = number(r"longer than a day: ([\d,]+)", text)
        self.assertGreater(late, 0)
        self.assertLess(late, DAYS * LINES // 20)
        self.assertIn("2 promises kept, 0 broken", text)

    def test_what_cannot_run_says_why(self):
        done = self.run_script("--module", "missing.so")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("once.py: there is no missing.so", done.stderr)


class TableTest(unittest.TestCase):
    """What the example holds the filter against."""

    def setUp(self):
        self.table = once.Table()

    def test_a_filter_that_forgets_too_early_is_found_out(self):
        self.table.note(b"a", True, once.BEGIN)
        self.table.note(b"a", True, once.BEGIN + once.DAY - 1)
        self.assertEqual((self.table.repeated, self.table.too_early), (1, 1))

    def test_a_filter_that_remembers_too_long_is_found_out(self):
        slice_ = once.DAY // once.SLICES
        self.table.note(b"a", True, once.BEGIN)
        self.table.note(b"a", False, once.BEGIN + once.DAY + slice_ - 1)
        self.assertEqual((self.table.late, self.table.wrongly_skipped), (1, 0))
        self.table.note(b"a", False, once.BEGIN + once.DAY + slice_)
        self.assertEqual((self.table.late, self.table.wrongly_skipped), (1, 1))
        # In a burst it is the same mistake; a day later it is another one.
        self.table.note(b"a", False, once.BEGIN + once.DAY + slice_ + 1)
        self.assertEqual(self.table.wrongly_skipped, 1)
        self.table.note(b"a", False, once.BEGIN + 2 * once.DAY + slice_)
        self.assertEqual((self.table.wrongly_skipped, self.table.due), (2, 3))

    def test_broken_promises_are_told(self):
        for at in range(200):
            self.table.note(b"%d" % at, at % 2 == 0, once.BEGIN)
        self.table.note(b"0", True, once.BEGIN + 1)
        pair = mock.Mock()
        pair.client.bf().info().size = 0
        with contextlib.redirect_stdout(io.StringIO()) as told:
            promises = self.table.report(pair, mock.Mock(error=ERROR, days=1))
            self.assertEqual(promises.report(), 1)
        self.assertIn("BROKEN  handled again within a day: 1 of 1 that came again", told.getvalue())
        self.assertIn("BROKEN  skipped though they were due: 100 of 200", told.getvalue())


class OnceTest(Case):
    """The class that a program would use."""

    def test_nothing_is_taken_that_no_replica_has(self):
        """A primary that dies alone takes along what it was told: all of it would be handled again."""
        _, client = self.start()
        consumer = once.Once(client, "handled")
        consumer.create(ERROR, 100)
        with mock.patch.object(once, "PATIENCE", 10):
            with self.assertRaisesRegex(support.Trouble, "no replica took over"):
                consumer.take([b"a"])

    def test_a_filter_that_is_gone_lets_nothing_pass(self):
        """An empty one in its place would have everything handled again."""
        with once.Pair(PROGRAM, MODULE) as pair:
            consumer = once.Once(pair.client, "handled")
            consumer.create(ERROR, 100)
            consumer.create(ERROR, 100)
            self.assertEqual(consumer.take([b"a", b"b", b"a"]), [True, True, False])
            pair.client.unlink("handled")
            with self.assertRaisesRegex(redis.ResponseError, "not found"):
                consumer.take([b"a"])


if __name__ == "__main__":
    unittest.main()
