"""What `make compare` makes of its figures: ratios, intervals, tables, and their places in pages."""

import itertools
import re
import sys
import unittest

from documents import PAGES, PROJECT

sys.path.insert(0, str(PROJECT / "benches/server"))
import tables  # noqa: E402 (it is no package)

COMMAND = "make compare"
RECORD = PROJECT / "benches/server/results.md"
# The summary of another run.
OTHER_RECORD = PROJECT / "benches/server/redisbloom-8.md"
# The crate has no server, and a record of its own.
CRATES = PROJECT / "benches/crates.md"
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


def parts(place):
    """The lines of a place besides its tables, and of each table the names of columns, and the rows."""
    lines, found = [], []
    for is_table, group in itertools.groupby(place.splitlines(), key=lambda line: line.startswith("|")):
        if is_table:
            names, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in group)
            found.append((names, rows))
        else:
            lines += filter(None, group)
    return lines, found


def has_columns(table, short):
    """Whether all rows of a table are rows of this one, which may have more, and more columns."""
    (names, rows), (columns, of_short) = table, short
    if not set(columns) <= set(names):
        return False
    chosen = [names.index(column) for column in columns]
    rows = [[row[at] for at in chosen] for row in rows]
    return all(row in rows for row in of_short)


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
        rows = {"ask": {"floor": 1.0, "libbloom": 2.0, "redisbloom": 5.0}, "add": {"libbloom": 4.0, "redisbloom": 2.0}}
        self.assertEqual(
            tables.beside("", rows).splitlines(),
            [
                "|  | floor | libbloom | redisbloom | redisbloom/libbloom |",
                "|---|---|---|---|---|",
                "| ask | 1 | 2 | 5 | 2.50 |",
                "| add | – | 4 | 2 | 0.50 |",
            ],
        )

    def test_what_a_module_refuses_stands_in_its_place(self):
        """One refusal would leave a page without the whole table."""
        row = {"libbloom": 0.5, "redisbloom": "capacity must be in the range [1, 1073741824]"}
        [*_, line] = tables.beside("", {"huge": row}).splitlines()
        self.assertEqual(line, "| huge | 0.500 | capacity must be in the range [1, 1073741824] | – |")

    def test_rates_are_told_with_their_hits(self):
        """A rate of 1e-8 that was never seen would be taken for one that is kept."""
        found = [
            {"how": "reserved", "items": 1000, "rate": 1e-8, "filters": 50, "questions": 2 * 10**6}
            | {"hits": {"libbloom": 0, "redisbloom": 11}}
        ]
        [*_, line] = tables.rates({"rates": found}).splitlines()
        shown = "| reserved, 1,000 items | 1e-8 | 2 | at most 184 (0 hits) | **550** (275 to 984), 11 |"
        self.assertEqual(line, shown)

    def test_versions_are_written_as_people_write_them(self):
        """Nobody could tell which RedisBloom a page is about."""
        self.assertEqual([tables.version(number) for number in (100, 20820, 999999)], ["0.1.0", "2.8.20", "not released"])

    def test_a_summary_needs_no_more_than_there_is(self):
        """`--only memory` would end without any table."""
        with self.assertRaises(tables.MissingResults):
            tables.summary({"machine": {}, "versions": {}})
        machine = {"server": "S", "allocator": "A", "processor": "P", "system": "L", "day": "D"}
        sizes = {"1000000": {"libbloom": {tables.ACCOUNTED: 10.0}, "redisbloom": {tables.ACCOUNTED: 11.0}}}
        results = {"machine": machine, "versions": {"libbloom": 100, "floor": 1}, "memory": {"reserved": sizes}}
        self.assertEqual(
            tables.summary(results).splitlines(),
            [
                "S, A; P; L; D. libbloom 0.1.0.",
                "",
                "|  | libbloom | redisbloom | redisbloom/libbloom |",
                "|---|---|---|---|",
                "| memory, reserved, 1 million items: bits an item | 10 | 11 | 1.10 |",
            ],
        )

    def test_unions_without_a_comparison_have_empty_cells(self):
        """A reset would seem to unite bytes at some rate."""
        one = {"filter, bytes": 5e7, "s": 0.0567, "bytes/s": 1.76e9, "memcpy, bytes/s": 6.42e9}
        one |= {"before, bytes": 404e6, "at most, bytes": 454e6, "then, bytes": 455e6}
        reset = one | {"s": 0.0001, "bytes/s": None, "memcpy, bytes/s": None}
        results = {"2 into a new key": one, "2 that count too many": one, "a reset": reset}
        self.assertEqual(
            tables.unions(results).splitlines(),
            [
                "| filters of 50 MB | ms | GB/s of what is united | memcpy, GB/s | used, MB | at most, MB | then, MB |",
                "|---|---|---|---|---|---|---|",
                "| 2 into a new key | 56.7 | 1.76 | 6.42 | 404 | 454 | 455 |",
                "| 2 that count too many | 56.7 | 1.76 | 6.42 | 404 | 454 | 455 |",
                "| a reset | 0.1 |  |  | 404 | 454 | 455 |",
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
        for page in PAGES:
            text = page.read_text()
            for command in "make compare", "make bench-server":
                self.assertEqual(tables.put_into(text, command, {}), text)
            self.assertEqual(len(re.findall("^<!-- end of ", text, re.MULTILINE)), len(tables.MARKED.findall(text)), page.name)

    def test_the_records_have_every_table_and_plot(self):
        """A page would leave figures to it that are nowhere."""
        text = RECORD.read_text()
        names = [name for _, name, _, _ in tables.MARKED.findall(text)]
        # `make bench-server` alone measures the log and loading.
        whole = [name for name in tables.TABLES if name not in ("short", "log", "loading")]
        self.assertEqual(names, whole)
        plots = {
            (page.parent / link).resolve()
            for page in (RECORD, CRATES)
            for link in re.findall(r"\]\((.*\.svg)\)", page.read_text())
        }
        self.assertEqual(plots, set((PROJECT / "docs/performance").glob("*.svg")))

    def test_tables_of_pages_are_of_the_run_that_the_record_has(self):
        """After a run that went into one page alone, two pages would tell of one measurement otherwise."""
        record = {name: parts(table) for _, name, table, _ in tables.MARKED.findall(RECORD.read_text())}
        self.assertIn(OTHER_RECORD, PAGES)
        for page in (page for page in PAGES if page != OTHER_RECORD):
            for command, name, table, _ in tables.MARKED.findall(page.read_text()):
                self.assertEqual(command, COMMAND, page.name)
                lines, found = record["summary" if name == "short" else name]
                lines_of_page, tables_of_page = parts(table)
                self.assertTrue(tables_of_page, name)
                with self.subTest(page=page.name, table=name):
                    self.assertLessEqual(set(lines_of_page), set(lines))
                    for short in tables_of_page:
                        self.assertTrue(any(has_columns(whole, short) for whole in found), short[0])


if __name__ == "__main__":
    unittest.main()
