"""examples/parallel.py, tried as its users would: processes that fill filters of their own, and their union.

Run it with `make test-examples`; servers.py tells how to run it by hand.
"""

import re
import subprocess
import sys
import unittest

from servers import MODULE, PATIENCE, PROGRAM, PROJECT, URLS, Case

import support  # noqa: E402
import parallel  # noqa: E402
import redis  # noqa: E402

LINES = 3000
ERROR = 0.01


class ScriptTest(Case):
    def run_script(self, *arguments):
        words = [sys.executable, str(PROJECT / "examples/parallel.py"), "--server", PROGRAM, *map(str, arguments)]
        return subprocess.run(words, capture_output=True, text=True, timeout=2 * PATIENCE)

    def test_many_workers_make_the_filter_of_one(self):
        """Whoever fills a filter in parallel would lose items, or get another filter than the one he planned."""
        some = self.folder / "urls.txt"
        some.write_bytes(b"\n".join(support.read_urls(URLS)[:LINES]))
        done = self.run_script(some, "--workers", 3, "--error", ERROR, "--module", MODULE)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertRegex(done.stdout, r"3,000 URLs by one worker: [\d.]+ s")
        self.assertRegex(done.stdout, r"the same by 3, on \d+ processors: [\d.]+ s, [\d.]+ ms of it to merge")
        self.assertIn("ok      the bits are those that one worker alone has set", done.stdout)
        self.assertRegex(done.stdout, r"ok      added URLs found in the merged filter: ([\d,]+) of \1\n")
        self.assertIn("5 promises kept, 0 broken", done.stdout)

    def test_the_whole_list_by_eight(self):
        done = self.run_script("--module", MODULE)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertIn("59,226 URLs by one worker", done.stdout)
        self.assertIn("the same by 8", done.stdout)
        self.assertIn("5 promises kept, 0 broken", done.stdout)

    def test_what_cannot_run_says_why(self):
        done = self.run_script("--module", "missing.so")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("parallel.py: there is no missing.so", done.stderr)

    def test_a_worker_that_fails_is_told(self):
        """The list would be a part short."""
        done = self.run_script("--module", MODULE, "--error", 2)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"worker 0: .*error rate must be in the range")
        self.assertIn("parallel.py: a worker did not begin", done.stderr)
        self.assertNotIn("Traceback", done.stderr)


class PartsTest(Case):
    """The class that a program would use."""

    def setUp(self):
        super().setUp()
        self.server, self.client = self.start()

    def parts(self, capacity=1000, seed=42):
        return parallel.Parts(self.client, "list", ERROR, capacity, seed)

    def fill(self, parts, count):
        for part in range(count):
            parts.begin(part)
            parts.add(part, [b"item %d of %d" % (number, part) for number in range(100)])

    def found(self, part):
        items = [b"item %d of %d" % (number, part) for number in range(100)]
        return sum(map(bool, self.client.execute_command("BF.MEXISTS", "list", *items)))

    def test_parts_become_one(self):
        parts = self.parts()
        self.fill(parts, 3)
        parts.merge(3)
        self.assertEqual([self.found(part) for part in range(3)], [100, 100, 100])
        self.assertEqual(self.client.keys(), [b"list"])

    def test_a_new_list_takes_the_place_of_the_old_one(self):
        """What is no longer in the list would be found for ever."""
        parts = self.parts()
        self.fill(parts, 2)
        parts.merge(2)
        self.fill(parts, 1)
        parts.merge(1)
        self.assertEqual(self.found(0), 100)
        self.assertLess(self.found(1), 20)

    def test_a_worker_that_begins_again_begins_with_nothing(self):
        """Half of what it did before may be another list's by now."""
        parts = self.parts()
        self.fill(parts, 1)
        parts.begin(0)
        parts.merge(1)
        self.assertEqual(self.found(0), 0)

    def test_a_part_that_is_lost_is_an_error_and_the_others_stay(self):
        """A list that is a part short would replace a whole one."""
        parts = self.parts()
        self.fill(parts, 2)
        self.client.unlink(parts.name(1))
        with self.assertRaisesRegex(redis.ResponseError, re.escape("source {list}:part:1 not found")):
            parts.merge(2)
        self.assertEqual(self.client.keys(), [parts.name(0).encode()])
        with self.assertRaisesRegex(redis.ResponseError, "not found"):
            parts.add(1, [b"item"])

    def test_parts_that_hash_differently_are_an_error(self):
        self.fill(self.parts(), 2)
        other = self.parts(seed=43)
        self.client.unlink(other.name(1))
        other.begin(1)
        with self.assertRaisesRegex(redis.ResponseError, "has another seed"):
            other.merge(2)


class CanonicalTest(unittest.TestCase):
    def test_one_page_has_one_form(self):
        forms = [b"http://Example.com?b=2&a=%31#top", b"http://example.com/?a=1&b=2"]
        self.assertEqual({parallel.canonical(form) for form in forms}, {b"http://example.com/?a=1&b=2"})

    def test_any_bytes_have_a_form(self):
        for url in [b"", b"http://[", b"\xff\xfe", b"/path?\xfc=%FC", *support.read_urls(URLS)]:
            form = parallel.canonical(url)
            self.assertEqual(parallel.canonical(form), form)
            self.assertNotIn(b"\n", form)


if __name__ == "__main__":
    unittest.main()
