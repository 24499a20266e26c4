"""What `make compare` makes of its figures: ratios, intervals, tables, and their places in pages."""

import re
import sys
import unittest

from documents import PROJECT

sys.path.insert(0, str(PROJECT / "benches/server"))
import tables  # noqa: E402 (it is no package)

COMMAND = "make compare"
PAGE = """\
# Figures

<!-- make compare: memory -->
old
<!-- end of memory -->

<!-- make bench-server: commands -->
others'
<!-- end of commands -->

The end.
"""


class FiguresTest(unittest.TestCase):
    def test_intervals_are_those_of_published_tables(self):
        """A rate that was measured with few hits would seem surer than it is."""
        # Garwood 1936, to the digits that such tables have.
        for hits, least, most in [(0, 0, 3.689), (1, 0.025, 5.572), (4, 1.090, 10.242), (50, 37.111, 65.919)]:
            found = tables.poisson_interval(hits)
            self.assertAlmostEqual(found[0], least, 3)
            self.assertAlmostEqual(found[1], most, 3)

    def test_intervals_of_large_counts_go_on_where_the_exact_ones_end(self):
        """Two lines of a table would be told apart by how they were computed."""
        for end, other in zip(tables.poisson_interval(5000), tables.poisson_interval(5001)):
            self.assertAlmostEqual(end, other, delta=4)

    def test_figures_have_three_digits(self):
        """Whoever reads 0.0884123 takes noise for a figure."""
        shown = [tables.figure(number) for number in [0.08841, 1.2345, 12.345, 123.45, 1234567, 0.0, None, float("nan")]]
        self.assertEqual(shown, ["0.088", "1.23", "12.3", "123", "1,234,567", "0", "–", "–"])

    def test_others_are_compared_with_this_module_and_not_with_the_floor(self):
        """A table that leaves out who is faster, or turns a ratio round, says the opposite."""
        rows = {"ask": {"floor": 1.0, "bloom": 2.0, "redisbloom": 5.0}, "add": {"bloom": 4.0, "redisbloom": 2.0}}
        self.assertEqual(
            tables.beside("", rows).splitlines(),
            [
                "|  | floor | bloom | redisbloom | redisbloom/bloom |",
                "|---|---|---|---|---|",
                "| ask | 1 | 2 | 5 | 2.50 |",
                "| add | – | 4 | 2 | 0.50 |",
            ],
        )

    def test_what_a_module_refuses_stands_in_its_place(self):
        """One refusal would leave a page without the whole table."""
        row = {"bloom": 0.5, "redisbloom": "capacity must be in the range [1, 1073741824]"}
        [*_, line] = tables.beside("", {"huge": row}).splitlines()
        self.assertEqual(line, "| huge | 0.500 | capacity must be in the range [1, 1073741824] | – |")

    def test_rates_are_told_with_their_hits(self):
        """A rate of 1e-8 that was never seen would be taken for one that is kept."""
        found = [
            {"how": "reserved", "items": 1000, "rate": 1e-8, "filters": 50, "questions": 2 * 10**6}
            | {"hits": {"bloom": 0, "redisbloom": 11}}
        ]
        [*_, line] = tables.rates({"rates": found}).splitlines()
        shown = "| reserved, 1,000 items | 1e-8 | 2 | **0.00** (0.00 to 184), 0 | **550** (275 to 984), 11 |"
        self.assertEqual(line, shown)

    def test_versions_are_written_as_people_write_them(self):
        """Nobody could tell which RedisBloom a page is about."""
        self.assertEqual([tables.version(number) for number in (100, 20820, 999999)], ["0.1.0", "2.8.20", "not released"])

    def test_a_summary_needs_no_more_than_there_is(self):
        """`--only memory` would end without any table."""
        with self.assertRaises(tables.MissingResults):
            tables.summary({"machine": {}, "versions": {}})
        machine = {"server": "S", "allocator": "A", "processor": "P", "system": "L", "day": "D"}
        sizes = {"1000000": {"bloom": {tables.ACCOUNTED: 10.0}, "redisbloom": {tables.ACCOUNTED: 11.0}}}
        results = {"machine": machine, "versions": {"bloom": 100, "floor": 1}, "memory": {"reserved": sizes}}
        self.assertEqual(
            tables.summary(results).splitlines(),
            [
                "S, A; P; L; D. bloom 0.1.0.",
                "",
                "|  | bloom | redisbloom | redisbloom/bloom |",
                "|---|---|---|---|",
                "| memory, reserved, 1 million items: bits an item | 10 | 11 | 1.10 |",
            ],
        )


class PlacesTest(unittest.TestCase):
    def test_a_table_takes_the_place_of_the_old_one_and_nothing_else_changes(self):
        """A run would leave old figures in a page, or take its words away."""
        found = tables.put_into(PAGE, COMMAND, {"memory": "| new |\n", "commands": "wrong"})
        self.assertEqual(found, PAGE.replace("old\n", "| new |\n"))
        self.assertEqual(tables.put_into(found, COMMAND, {"memory": "| new |\n"}), found)

    def test_a_place_without_results_stays(self):
        """`--only rates` would empty all other tables of a page."""
        self.assertEqual(tables.put_into(PAGE, COMMAND, {}), PAGE)

    def test_wrong_places_are_told(self):
        """A misspelt place would keep its old figures for ever."""
        with self.assertRaises(ValueError) as error:
            tables.put_into(PAGE.replace("memory", "memroy"), COMMAND, {})
        self.assertEqual(str(error.exception), "there is no table `memroy`")
        with self.assertRaises(ValueError) as error:
            tables.put_into(PAGE.replace("end of memory", "end of rates"), COMMAND, {})
        self.assertEqual(str(error.exception), "`memory` is not ended before `rates` is")

    def test_every_place_in_the_documentation_has_a_table(self):
        """A page would wait for a table that no command makes."""
        for page in [PROJECT / "README.md", *(PROJECT / "docs").rglob("*.md")]:
            text = page.read_text()
            for command in "make compare", "make bench-server":
                self.assertEqual(tables.put_into(text, command, {}), text)
            self.assertEqual(len(re.findall("^<!-- end of ", text, re.MULTILINE)), len(tables.MARKED.findall(text)), page.name)


if __name__ == "__main__":
    unittest.main()
