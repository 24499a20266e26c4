"""`libbloom migrate load`: what it says of the place where it stopped.

BLOOM_TEST_SERVER and BLOOM_TEST_MODULE name other ones than redis-server and ./libbloom.so.
"""

import re
import subprocess
import sys
import unittest
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(PROJECT / "examples"), str(PROJECT / "tests/examples")]

import servers  # noqa: E402
from servers import PATIENCE  # noqa: E402


def lines(*numbers):
    return b"".join(b"%d\n" % number for number in numbers)


class RefusedTest(servers.Case):
    def setUp(self):
        super().setUp()
        self.server, self.client = self.start()

    def load(self, url, *words, items):
        program = [sys.executable, "-m", "libbloom._program", "migrate", "load", url, "key", *words]
        done = subprocess.run(program, input=items, capture_output=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 1, done.stderr)
        return (done.stdout + done.stderr).decode()

    def test_the_first_item_that_was_refused_is_named(self):
        """Who goes on behind the item that is named would leave out a thousand that never came into the filter."""
        first = range(1, 901)
        for name, batch, items, in_all, reached in [
            ("known items come behind", 1000, [*range(1, 2001), *first, *first], 2800, 1000),
            ("a command is refused in its middle", 600, [*range(1, 2001), *first], 1500, 1000),
            ("commands of one item", 1, [*range(1, 1001), 5000, 7, 6000, 8], 1002, 1000),
            ("nothing comes behind", 1000, range(1, 2001), 1000, 1000),
            ("all are in one command", 5000, [*first, *first, *range(901, 1500)], 1900, 1900),
        ]:
            for way in (self.server, self.start_older(self.server)):
                with self.subTest(f"{name}, {'packed' if way is self.server else 'one by one'}"):
                    self.client.flushall()
                    shape = ["--error-rate", "1e-9", "--capacity", "1000", "--fixed", "--batch", str(batch)]
                    text = self.load(way.url, *shape, items=lines(*items))
                    self.assertIn(f"{in_all:,} items, 1,000 new and {in_all - 1000:,} known", text)
                    self.assertRegex(text, f"stopped after item {reached:,} of this run: non scaling filter is full( \\(|\\n)")
                    behind = re.findall(r"\(([0-9,]+) items behind the first that was refused are in", text)
                    self.assertEqual(behind, [f"{in_all - reached:,}"] * (in_all > reached))
                    # Not what no machine can do.
                    [rate] = re.findall(r"s, ([0-9,]+) items/s", text)
                    self.assertLess(int(rate.replace(",", "")), 10**9)


if __name__ == "__main__":
    unittest.main()
