"""The program `libbloom`, by its command line and its exit codes."""

import bz2
import codecs
import contextlib
import gzip
import hashlib
import io
import lzma
import os
import pickle
import re
import resource
import select
import shlex
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import unittest
import zipfile
import zlib
from pathlib import Path
from unittest import mock

import numpy
import test_server
from servers import PATIENCE

from libbloom import Bloom, Filter, ShardedBloom, _terminal, plan


PROGRAM = [sys.executable, "-m", "libbloom._program"]

FIXTURES = Path(__file__).resolve().parent.parent.parent / "tests/fixtures"


def setUpModule():
    test_server.setUpModule()


class ProgramTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.url = f"redis://127.0.0.1:{test_server.server.port}"

    def run_program(self, *words, input=b"", code=0):
        command = [*PROGRAM, *(word if isinstance(word, bytes) else str(word) for word in words)]
        done = subprocess.run(command, input=input, capture_output=True, cwd=self.folder, timeout=PATIENCE)
        self.assertEqual(done.returncode, code, done.stderr.decode())
        if code == 2:
            self.assertEqual(done.stdout, b"")
            self.last = done.stderr.decode().strip().splitlines()[-1]
            return self.last
        self.assertEqual(done.stderr, b"")
        return done.stdout.decode()

    def test_from_files_to_answers(self):
        """Who follows the page would find nothing of what is in the files."""
        (self.folder / "a.txt").write_bytes(b"one\ntwo\r\n\nfour")
        with gzip.open(self.folder / "b.gz", "wb") as file:
            file.writelines(b"line %d\n" % number for number in range(20_000))
        said = self.run_program("build", "a.txt", "b.gz", "-o", "seen.bloom", "--error-rate", "1e-6", "--seed", 7)
        self.assertIn("seen.bloom: 20,004 of 20,004 items were new", said)
        made = Filter.load(self.folder / "seen.bloom")
        self.assertEqual((made.layers, made.error_rate, made.seed), (1, 1e-6, 7))
        self.assertLess(made.size_in_bytes, 1.34 * Filter(20_004, 1e-6).size_in_bytes)
        # The two lists at once, one of them from a pipe.
        lines = gzip.decompress((self.folder / "b.gz").read_bytes())
        self.run_program("build", "a.txt", "/dev/stdin", "-o", "both.bloom", "--error-rate", "1e-6", "--seed", 7, input=lines)
        self.assertEqual(Filter.load(self.folder / "both.bloom"), made)
        self.assertEqual(made.contains_many(["one", "two", "", "four", "line 19999", "five"]), [True] * 5 + [False])
        self.assertEqual(self.run_program("query", "seen.bloom", "one", "line 7"), "one\nline 7\n")
        self.assertEqual(self.run_program("query", "seen.bloom", "one", "five", code=1), "one\n")
        self.assertEqual(self.run_program("query", "seen.bloom", "-", input=b"two\nfive\n", code=1), "two\n")
        self.assertEqual(self.run_program("query", "-v", "seen.bloom", input=b"one\nfive\nsix\n", code=1), "five\nsix\n")
        self.assertEqual(self.run_program("query", "-q", "seen.bloom", input=b"one\nfive", code=1), "")
        self.assertRegex(self.run_program("info", "seen.bloom"), "items: 20004\ncapacity: 2[0-6]")
        self.run_program("build", "-", "-o", "more.bloom", "--capacity", "1k", "--fixed", input=b"x\ny\n")
        more = Filter.load(self.folder / "more.bloom")
        self.assertEqual((more.fixed, more.capacity), (True, 1000))
        self.run_program("build", "/dev/stdin", "-o", "more.bloom", "--capacity", "1e3", input=b"x\ny\n")
        self.assertEqual(len(Filter.load(self.folder / "more.bloom")), 2)

    def test_a_list_of_unknown_length_is_read_once(self):
        """A filter of a pipe would be much larger than one of a list whose length is known, or lack items."""
        for count in (1, 3000, 70_000):
            items = b"".join(b"item %d\n" % number for number in range(count))
            for options in [[], ["--fixed"], ["--error-rate", "1e-6"], ["--layout", "classic"], ["--growing"]]:
                with self.subTest(count=count, options=options):
                    self.run_program("build", "-", "-o", "piped", *options, input=items)
                    self.run_program("build", "-", "-o", "known", "--capacity", count, *options, input=items)
                    piped, known = (Filter.load(self.folder / name) for name in ("piped", "known"))
                    self.assertTrue(all(piped.contains_many(items.splitlines())))
                    self.assertEqual(piped.layers, 1)
                    self.assertLess(piped.size_in_bytes, 1.34 * max(known.size_in_bytes, Filter(100).size_in_bytes * 3))

    def test_a_filter_is_shrunk(self):
        """Who made a filter too large would keep the file as large as it is, or lose what is in it."""
        large = Filter(1_000_000, 0.01, seed=1)
        large.update([b"item %d" % number for number in range(1000)])
        large.save(self.folder / "large")
        before = large.size_in_bytes
        self.assertIn("less than before", self.run_program("shrink", "large", "-o", "small", "--capacity", "1e5"))
        small = Filter.load(self.folder / "small")
        self.assertTrue(100_000 <= small.capacity < 134_000)
        self.assertEqual(Filter.load(self.folder / "large").size_in_bytes, before)
        self.run_program("shrink", "large")
        self.assertIn("as small as it can be", self.run_program("shrink", "large"))
        smallest = Filter.load(self.folder / "large")
        self.assertEqual(large.shrink(), before - smallest.size_in_bytes)
        self.assertEqual(large, smallest)
        self.assertTrue(all(smallest.contains_many([b"item %d" % number for number in range(1000)])))
        with self.assertRaisesRegex(ValueError, "never shrunk"):
            Filter(100, window=60).shrink()

    def test_a_list_gets_the_same_answers_whichever_way_it_is_loaded(self):
        """Items would be missing for who loads a list of Windows, or an empty one, in one way and asks in another."""
        lines = b"one\r\ntwo\n\r\n\nthree\r\r\n four \nlast\r"
        asked = [b"one", b"two", b"", b"three\r", b" four ", b"last", b"one\r", b"\r", b"three", b"last\r", b"\xef\xbb\xbfone"]
        expected = [True] * 6 + [False] * 5
        (self.folder / "list").write_bytes(codecs.BOM_UTF8 + lines)
        shape = ["--error-rate", "1e-9", "--capacity", 100]
        self.run_program("build", "list", "-o", "built", *shape)
        self.assertEqual(Filter.load(self.folder / "built").contains_many(asked), expected)
        self.run_program("query", "-q", "built", input=codecs.BOM_UTF8 + lines)
        self.run_program("migrate", "load", self.url, "loaded", "--file", "list", *shape)
        self.run_program("shard", "create", "sharded", "--items", 100, "--error-rate", "1e-9", "--url", self.url, "--shards", 3)
        self.run_program("shard", "load", "sharded", "list", "--processes", 1, "--url", self.url)
        with test_server.server.client() as client:
            client.execute_command("BF.ADDPACKED", "packed", "ERROR", "1e-9", "LINES", lines)
            client.execute_command("BF.ADDPACKED", "classic", "ERROR", "1e-9", "LAYOUT", "CLASSIC", "LINES", lines)
            for key in ("loaded", "packed", "classic"):
                self.assertEqual(Bloom(client, key).contains_many(asked), expected, key)
                self.assertEqual(Bloom(client, key).card(), 6)
            self.assertEqual(ShardedBloom(client, "sharded").contains_many(asked), expected)
            # Without a command for many items they are sent one by one.
            self.run_program("migrate", "load", self.url, "old", "--file", "list", *shape, "--layout", "classic")
            self.assertEqual(Bloom(client, "old").contains_many(asked), expected)
        hashes = b"\r\n".join(hashlib.sha1(item).hexdigest().encode() for item in (b"a", b"b")) + b"\r"
        (self.folder / "hashes").write_bytes(codecs.BOM_UTF8 + hashes)
        self.run_program("passwords", "load", self.url, "leaked", "--file", "hashes", *shape)
        said = self.run_program("passwords", "check", self.url, "leaked", "--stdin", input=b"x\r\na\r\nb\r", code=1)
        self.assertEqual(said, "line 2: probably leaked\nline 3: probably leaked\n2 of 3 passwords are probably leaked\n")

    def test_packed_lists(self):
        """Packed bytes would be added as items, or those after the first part left out."""
        lines = [b"line %d" % number for number in range(30_000)]
        text = b"\n".join(lines)
        for pack in (gzip.compress, bz2.compress, lzma.compress):
            # Several files behind each other, an empty one, and zeros, as tapes have them.
            whole = pack(codecs.BOM_UTF8 + text[:100_000]) + pack(b"") + pack(text[100_000:]) + bytes(512)
            (self.folder / "list").write_bytes(whole)
            said = self.run_program("build", "list", "-o", "x", "--error-rate", "1e-9")
            self.assertIn("30,000 of 30,000", said)
            self.assertTrue(all(Filter.load(self.folder / "x").contains_many(lines)))
            self.run_program("query", "-q", "x", input=whole)
            (self.folder / "x").unlink()
            once = pack(os.urandom(200_000))
            for damaged, why in [
                (once[:-2], "data is cut off"),
                (once[:50_000], "data is cut off"),
                (once + b"more than a header", "data cannot be unpacked"),
                (once[:70_000] + bytes([once[70_000] ^ 255]) + once[70_001:], "data cannot be unpacked"),
                (pack(once), "is packed twice"),
            ]:
                self.assertIn(why, self.run_program("build", "-", "--capacity", 9, "-o", "x", input=damaged, code=2))
                self.assertFalse((self.folder / "x").exists())

    def test_zstd_is_unpacked_or_named(self):
        """A packed list would be taken for one of strange items."""
        # Of "one" and "two", a line each, not compressed.
        packed = b"\x28\xb5\x2f\xfd\x20\x08\x41\0\0one\ntwo\n"
        if sys.version_info >= (3, 14):
            self.run_program("build", "-", "--capacity", 9, "-o", "x", input=packed)
            self.assertEqual(Filter.load(self.folder / "x").contains_many(["one", "two"]), [True, True])
        else:
            said = self.run_program("build", "-", "--capacity", 9, "-o", "x", input=packed, code=2)
            self.assertIn("is packed with zstd, which this Python cannot unpack: pipe it from `zstd -dc`", said)

    def test_what_is_no_text_is_refused(self):
        """A filter of garbage would say no to every item."""
        table, archive, tar = io.BytesIO(), io.BytesIO(), io.BytesIO()
        numpy.save(table, numpy.arange(3))
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("list", "one")
        with tarfile.open(fileobj=tar, mode="w") as file:
            file.add(__file__)
        database = self.folder / "database"
        with contextlib.closing(sqlite3.connect(database)) as connection:
            connection.execute("CREATE TABLE list (item)")
        text = "one\ntwo\n"
        files = [table.getvalue(), archive.getvalue(), tar.getvalue(), database.read_bytes(), pickle.dumps(["one"]), bytes(Filter(9))]
        files += [text.encode(form) for form in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be")]
        files += [lzma.compress(b"one", lzma.FORMAT_ALONE), Path(sys.executable).read_bytes()[:9999], b"one\n" + b"x" * 2**19 + b"\0"]
        for data in files:
            for sent in (data, gzip.compress(data)):
                with self.subTest(data[:20]):
                    said = self.run_program("build", "-", "--capacity", 9, "-o", "x", input=sent, code=2)
                    place = f"its byte {data.removeprefix(codecs.BOM_UTF8).index(0) + 1:,} is NUL, which no text has"
                    self.assertIn(f"libbloom: the standard input is no list of an item a line: {place}", said)
                    self.assertIn("; --null is for items that end with NUL", said)
                    self.assertFalse((self.folder / "x").exists())
        # Whatever else a file begins with, it is a list.
        for item in (b"PK", b"P", b"BZh9", b"PAR1", b"MZ", b"%PDF", b"\xef\xbb", b"\x1f", b"SQLite format 3", b"\x89PNG\r"):
            self.run_program("build", "-", "--capacity", 9, "-o", "x", input=item)
            self.assertIn(item.removesuffix(b"\r"), Filter.load(self.folder / "x"))

    def test_items_may_end_with_nul_wherever_a_list_is_read(self):
        """Names of files, as `find -print0` gives them, would be cut at their line feeds."""
        items, shape = [b"one\ntwo", b"", b"three\r\n", b"four"], ["--error-rate", "1e-9", "--capacity", 100]
        (self.folder / "list").write_bytes(gzip.compress(b"\0".join(items)))
        self.run_program("build", "list", "-o", "built", "--null", *shape)
        self.run_program("migrate", "load", self.url, "null", "--file", "list", "--null", *shape)
        self.run_program("shard", "create", "nulls", "--items", 100, "--error-rate", "1e-9", "--url", self.url, "--shards", 3)
        self.run_program("shard", "load", "nulls", "list", "--null", "--processes", 1, "--url", self.url)
        self.run_program("passwords", "load", self.url, "leaks", "--plain", "--file", "list", "--null", *shape)
        asked = b"\0".join([*items, b"one", b"two"])
        with test_server.server.client() as client:
            for made in (Filter.load(self.folder / "built"), Bloom(client, "null"), ShardedBloom(client, "nulls")):
                self.assertEqual((made.contains_many(items), len(made)), ([True] * 4, 4))
        for words in (["query", "built", "-"], ["shard", "query", "nulls", "--url", self.url]):
            self.assertEqual(self.run_program(*words, "--null", input=asked, code=1), "one\ntwo\0\0three\r\n\0four\0")
        said = self.run_program("passwords", "check", self.url, "leaks", "--stdin", "--null", input=asked, code=1)
        self.assertIn("4 of 6 passwords are probably leaked", said)
        copy = ["migrate", "copy", self.url, self.url + "/1", "--keys", "-", "--null"]
        self.assertIn("filters copied: 1", self.run_program(*copy, input=b"null\0"))

    def test_a_list_may_come_byte_by_byte(self):
        """A packed list would be taken for text if a pipe gives its first byte alone."""
        for data in (codecs.BOM_UTF8 + b"a\r\nb\n", *(pack(b"a\r\nb\n") for pack in (gzip.compress, bz2.compress, lzma.compress))):
            for is_live in (False, True):
                reading, writing = os.pipe()

                def write():
                    with open(writing, "wb", buffering=0) as pipe:
                        for byte in data:
                            pipe.write(bytes([byte]))

                thread = threading.Thread(target=write)
                thread.start()
                with _terminal.opened(f"/dev/fd/{reading}", is_live=is_live) as file:
                    items = [item for part in file.parts() for item in part]
                thread.join()
                os.close(reading)
                self.assertEqual(items, [b"a", b"b"])

    def test_each_line_is_printed_once(self):
        """A corpus would keep its duplicates, or lose documents."""
        many = [b"line %d\n" % (number * number % 50_021) for number in range(60_000)]
        whole = b"".join(many)
        once = b"".join(dict.fromkeys(many))
        (self.folder / "some.gz").write_bytes(gzip.compress(b"one\r\ntwo\none\n\nlast"))
        (self.folder / "more").write_bytes(b"two\r\n\nthree\nlast\r")
        # With a random seed one of so many lines would be lost in one run of forty.
        Filter(100, 1e-6, growing=True, seed=7).save(self.folder / "grown")
        for words, given, printed, code in [
            (["some.gz", "more"], b"", b"one\r\ntwo\n\nlast\nthree\n", 0),
            (["more", "-"], b"three\nfour", b"two\r\n\nthree\nlast\r\nfour\n", 0),
            ([], b"", b"", 1),
            (["--count"], b"a\na\nb", b"2\n", 0),
            (["--null"], b"a\nb\0a\nb\0c\r\0c", b"a\nb\0c\r\0c\0", 0),
            ([], whole, once, 0),
            (["--capacity", "100", "--state", "made"], b"a\nb\na\n", b"a\nb\n", 0),
            # It grows.
            (["--state", "grown"], whole, once, 0),
            (["--state", "grown"], whole, b"", 1),
            (["--state", "grown", "--count"], whole + b"new\n", b"1\n", 0),
            (["--state", "grown"], b"new\nnewer\n", b"newer\n", 0),
        ]:
            with self.subTest(words):
                done = subprocess.run([*PROGRAM, "uniq", *words], input=given, capture_output=True, cwd=self.folder)
                self.assertEqual((done.returncode, done.stdout == printed, done.stderr), (code, True, b""), done.stdout[:200])
        made, grown = Filter.load(self.folder / "made"), Filter.load(self.folder / "grown")
        self.assertEqual((made.growing, made.capacity, len(made), made.error_rate), (True, 100, 2, 1e-6))
        self.assertEqual((grown.layers > 3, len(grown), grown.error_rate), (True, len(dict.fromkeys(many)) + 2, 1e-6))
        # Lines that were not written count as new the next time.
        before = (self.folder / "grown").read_bytes()
        for words, said in [
            ("--state grown >/dev/full", "No space left on device"),
            ("--state grown missing", "missing: No such file or directory"),
            ("--state missing/x", "missing/x: No such file or directory"),
            ("--state grown grown", "grown is read, and the filter would replace it"),
            ("--state more", "more: this is not a filter's file"),
        ]:
            with self.subTest(words):
                line = f"printf 'lost\\n' | {shlex.join(PROGRAM)} uniq {words}"
                done = subprocess.run(line, shell=True, capture_output=True, text=True, cwd=self.folder)
                self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1))
                self.assertIn(said, done.stderr)
        self.assertEqual((self.folder / "grown").read_bytes(), before)
        with subprocess.Popen([*PROGRAM, "uniq"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as uniq:
            self.addCleanup(uniq.kill)
            for asked, answer in [(b"one\n", b"one\n"), (b"one\ntwo\n", b"two\n")]:
                uniq.stdin.write(asked)
                uniq.stdin.flush()
                self.assertTrue(select.select([uniq.stdout], [], [], PATIENCE)[0], f"no answer to {asked}")
                self.assertEqual(os.read(uniq.stdout.fileno(), 100), answer)

    def test_the_commands_of_the_page_of_duplicates_run(self):
        """Who deduplicates a corpus by the page would be met by an error, or keep duplicates."""
        page = (FIXTURES.parents[1] / "docs/deduplicate.md").read_text()
        documents = [b'{"text": "document %d"}\n' % (number % 700) for number in range(2000)]
        for name in ("pages.jsonl.gz", "crawl-1.gz", "crawl-2.gz", "shard-1.jsonl.gz", "shard-2.jsonl.gz"):
            (self.folder / name).write_bytes(gzip.compress(b"".join(documents)))
        programs = self.folder / "programs"
        programs.mkdir()
        (programs / "libbloom").write_text(f'#!/bin/sh\nexec {shlex.join(PROGRAM)} "$@"\n')
        (programs / "libbloom").chmod(0o755)
        environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
        for language, text in re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
            if "sys.stdin" in text:
                (self.folder / "divide.py").write_text(text)
                continue
            words = [sys.executable, "-c", text] if language else ["bash", "-euc", text]
            done = subprocess.run(words, capture_output=True, text=True, cwd=self.folder, env=environment, timeout=PATIENCE)
            self.assertEqual((done.returncode, done.stderr, done.stdout), (0, "", "2\n" if language else ""), text)
        once = sorted(dict.fromkeys(documents))
        for pattern in ("once.jsonl", "new.gz", "once/shard-1*", "once-part-*"):
            parts = [path.read_bytes() for path in self.folder.glob(pattern)]
            found = b"".join(gzip.decompress(part) if part[:2] == b"\x1f\x8b" else part for part in parts)
            self.assertEqual(sorted(found.splitlines(keepends=True)), once, pattern)

    def test_query_answers_as_items_come(self):
        """A program that asks for one item and waits for the answer would wait for ever."""
        made = Filter(100, 1e-9)
        made.update(["one", "", "three"])
        made.save(self.folder / "seen.bloom")
        with subprocess.Popen([*PROGRAM, "query", "seen.bloom"], cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as query:
            self.addCleanup(query.kill)
            for asked, answer in [(b"one\n", b"one\n"), (b"two\n\r\n", b"\n"), (b"thr", b""), (b"ee\none\n", b"three\none\n")]:
                query.stdin.write(asked)
                query.stdin.flush()
                got = b""
                while len(got) < len(answer):
                    self.assertTrue(select.select([query.stdout], [], [], PATIENCE)[0], f"no answer to {asked}")
                    got += os.read(query.stdout.fileno(), 100)
                self.assertEqual(got, answer)
            query.stdin.close()
            self.assertEqual((query.stdout.read(), query.wait(PATIENCE)), (b"", 1))

    def test_the_length_of_an_item_costs_no_more_than_its_bytes(self):
        """A list without line feeds would keep the program busy for days. (With a copy of the item for each block,
        this would copy a terabyte.)"""
        size = 48 << 20
        path = self.folder / "long"
        path.write_bytes(b"x" * size + b"\nend")
        with _terminal.opened(str(path)) as file:
            self.assertEqual([len(block) for block in file.blocks(1024)], [size + 1, 3])

    def test_a_list_takes_little_memory(self):
        """A small file that unpacks to gigabytes would take the memory of the machine."""
        line = b"x" * 999 + b"\n"
        (self.folder / "lines.gz").write_bytes(gzip.compress(line * 1000) * 300)
        for name, byte in [("zeros.gz", b"\0"), ("bomb.gz", b"x")]:
            (self.folder / name).write_bytes(gzip.compress(byte * 10**6) * 300)
        script = "import resource; from libbloom import _program, _terminal; _terminal.LONGEST = 50 << 20; "
        script += "code = _program.main(); print(code, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        for name, expected, said in [
            ("lines.gz", 0, ""),
            ("zeros.gz", 2, "libbloom: zeros.gz is no list of an item a line: its byte 1 is NUL, which no text has (UTF-16 has, and archives and databases); --null is for items that end with NUL\n"),
            ("bomb.gz", 2, "libbloom: bomb.gz: an item has more than 50 MiB: this is no list of an item a line\n"),
        ]:
            words = [sys.executable, "-c", script, "build", name, "--capacity", "9", "-o", "x"]
            done = subprocess.run(words, capture_output=True, text=True, cwd=self.folder, timeout=PATIENCE)
            self.assertEqual(done.stderr, said)
            code, kilobytes = map(int, done.stdout.split()[-2:])
            self.assertEqual(code, expected)
            self.assertLess(kilobytes, 200_000)

    def test_closed_streams_are_no_surprise(self):
        """A script would get a traceback, or take the exit code of an error for an answer."""
        made = Filter(100)
        made.add("one")
        made.save(self.folder / "seen")
        program = shlex.join(PROGRAM)
        for line, said, code in [
            ("query seen one >&-", "libbloom: the standard output is closed\n", 2),
            ("query -q seen one >&-", "", 0),
            ("query -q seen two >&-", "", 1),
            ("info seen >&-", "libbloom: the standard output is closed\n", 2),
            ("plan 1M >&-", "libbloom: the standard output is closed\n", 2),
            ("query seen <&-", "libbloom: there is no standard input\n", 2),
            ("info seen >/dev/full", "libbloom: No space left on device\n", 2),
            ("query seen one >/dev/full", "libbloom: No space left on device\n", 2),
            ("query missing one 2>&-", "", 2),
            ("build missing -o x 2>&- >/dev/null", "", 2),
            ("--help >/dev/full", "libbloom: No space left on device\n", 2),
            ("query --help >/dev/full", "libbloom: No space left on device\n", 2),
            ("--version >/dev/full", "libbloom: No space left on device\n", 2),
            ("query missing one 2>/dev/full", "", 2),
            ("query seen two 2>/dev/full", "", 1),
            ("info seen >/dev/full 2>&1", "", 2),
            ("nonsense 2>/dev/full", "", 2),
        ]:
            with self.subTest(line):
                done = subprocess.run(f"{program} {line}", shell=True, capture_output=True, text=True, cwd=self.folder)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (code, "", said))
        # A reader that has gone: the program ends when it notices, and says nothing.
        for line in ("query -v seen", "info seen", "--help"):
            with subprocess.Popen(
                f"{program} {line}",
                shell=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self.folder,
            ) as process:
                process.stdout.close()
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.write(b"two\n" * 100_000)
                    process.stdin.close()
                self.assertEqual((process.stderr.read(), process.wait(PATIENCE) in (0, 2)), (b"", True))

    def test_filters_go_through_pipes(self):
        """A filter could not be built on one machine and sent to another without a file between."""
        output = self.pipe("build", "-", "-o", "-", "--capacity", 10, "--seed", 7, input=b"one\ntwo\n")
        made = Filter(10, seed=7)
        made.update(["one", "two"])
        self.assertEqual(output, bytes(made))
        self.assertIn(b"items: 2\n", self.pipe("info", "-", input=output))
        self.assertEqual(self.pipe("query", "-", "two", input=output), b"two\n")
        self.assertIn("both the filter and the items", self.run_program("query", "-", code=2))
        with open(self.folder / "both", "wb") as both:
            both.write(b"before")
            both.flush()
            command = ["build", "-", "-o", "/dev/stdout", "--capacity", "10", "--seed", "7"]
            command = [sys.executable, "-m", "libbloom._program", *command]
            subprocess.run(command, input=b"one\ntwo\n", stdout=both, stderr=subprocess.DEVNULL, check=True)
        self.assertEqual((self.folder / "both").read_bytes(), b"before" + output)

    def pipe(self, *words, input):
        command = [sys.executable, "-m", "libbloom._program", *map(str, words)]
        return subprocess.run(command, input=input, capture_output=True, timeout=PATIENCE, check=True).stdout

    def test_all_answers_are_written_or_it_is_an_error(self):
        """A script would take the answers that a full disk had room for, or a pipe at once, for all of them."""
        items = b"".join(b"%d\n" % number for number in range(200_000))
        self.run_program("build", "-", "-o", "seen", "--capacity", 200_000, input=items)
        limit = 100_000
        for more in ({}, {"PYTHONUNBUFFERED": "1"}):
            options = {"cwd": self.folder, "env": {**os.environ, **more}, "stderr": subprocess.PIPE}
            for words in (["query", "seen"], ["build", "-", "--capacity", "200000", "--seed", "7", "-o", "-"]):
                with self.subTest(words[0], **more):
                    expected = subprocess.run([*PROGRAM, *words], input=items, stdout=subprocess.PIPE, **options).stdout
                    self.assertGreater(len(expected), 2 * limit)
                    with open(self.folder / "answers", "wb") as file:
                        # As on a disk that is full: a part of a write is done, and the next one fails.
                        full = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))  # noqa: E731
                        done = subprocess.run([*PROGRAM, *words], input=items, stdout=file, preexec_fn=full, **options)
                    self.assertEqual((done.returncode, done.stderr.count(b"File too large\n")), (2, 1))
                    reading, writing = os.pipe()
                    os.set_blocking(writing, False)
                    (self.folder / "items").write_bytes(items)
                    with open(self.folder / "items", "rb") as file, open(reading, "rb") as pipe:
                        with subprocess.Popen([*PROGRAM, *words], stdin=file, stdout=writing, **options) as program:
                            os.close(writing)
                            found = pipe.read()
                            said = program.stderr.read()
                    self.assertEqual((program.returncode, found == expected), (0, True), said)

    def test_a_pipe_that_does_not_wait_is_waited_for(self):
        """A filter that comes slowly would be an error, where another program has changed the pipe."""
        data = bytes(Filter(1_000_000))
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        with subprocess.Popen([*PROGRAM, "info", "-"], stdin=reading, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as info:
            half = len(data) // 2
            with open(writing, "wb", buffering=0) as pipe:
                pipe.write(data[:half])
                while select.select([reading], [], [], 0)[0]:
                    time.sleep(0.01)
                pipe.write(data[half:])
            os.close(reading)
            self.assertIn(b"items: 0\n", info.stdout.read())
            self.assertEqual(info.wait(PATIENCE), 0)

    def test_a_shrunk_filter_goes_where_it_is_asked_for(self):
        """Who shrinks in a pipeline would get a sentence instead of the filter, or nothing."""
        made = Filter(100, seed=7)
        made.update(["one", "two"])
        made.shrink()
        for words in (["-"], ["-", "-o", "-"], ["/dev/stdin"]):
            self.assertEqual(self.pipe("shrink", *words, input=bytes(made)), bytes(made))
        made.save(self.folder / "seen")
        program = shlex.join(PROGRAM)

        def run(line):
            return subprocess.run(["bash", "-c", f"{program} {line}"], capture_output=True, text=True, cwd=self.folder)

        done = run("shrink <(cat seen)")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("is no file that can be replaced: -o FILTER says where the filter goes", done.stderr)
        self.assertEqual(run("shrink <(cat seen) -o copy").returncode, 0)
        self.assertEqual(Filter.load(self.folder / "copy"), made)
        large = Filter(100_000, seed=7)
        large.update(["one", "two"])
        large.save(self.folder / "seen")
        self.assertEqual(run("shrink /dev/fd/3 3<seen").returncode, 0)
        large.shrink()
        self.assertEqual(Filter.load(self.folder / "seen"), large)

    def test_no_message_is_written_where_the_filter_goes(self):
        """A sentence about the filter would stand in it, and nobody could read it."""
        (self.folder / "list").write_bytes(b"one\ntwo\n")
        (self.folder / "link").symlink_to("/dev/stdout")
        made = Filter(10, seed=7)
        made.update(["one", "two"])
        program = shlex.join(PROGRAM)
        for end in (
            "-o - 2>&- >out",
            "-o - 2>/dev/full >out",
            "-o - 2> >(true) >out",
            "-o - 2>&1 >out",
            "-o - >out 2>&1",
            "-o - 2>&- | cat >out",
            "-o - 2>&1 | cat >out",
            "-o /dev/fd/1 >out",
            "-o /proc/self/fd/1 | cat >out",
            "-o link >out",
            "-o link >>out",
            "-o out >out",
            "-o /dev/stderr 2>out",
            "-o /dev/fd/3 3>out >&3",
        ):
            with self.subTest(end):
                (self.folder / "out").unlink(missing_ok=True)
                line = f"set -o pipefail; {program} build list --capacity 10 --seed 7 {end}"
                done = subprocess.run(["bash", "-c", line], capture_output=True, cwd=self.folder)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual((self.folder / "out").read_bytes(), bytes(made))
        # As `migrate copy` says what it did not copy.
        with mock.patch("sys.stderr", None), contextlib.redirect_stdout(io.StringIO()) as printed:
            _terminal.Bar().say("not copied")
        self.assertEqual(printed.getvalue(), "")

    def test_ctrl_c_ends_what_waits(self):
        """Who names a pipe that nobody uses could end the program from another terminal only."""
        (self.folder / "list").write_bytes(b"one\n")
        os.mkfifo(self.folder / "pipe")
        script = """
import os, signal, sys, threading, time
from libbloom import _program

def interrupt():
    while True:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

# A shell's background jobs begin with the signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=interrupt, daemon=True).start()
sys.exit(_program.main())
"""
        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        self.addCleanup(os.close, writing)
        os.set_blocking(reading, False)
        blocked, other = os.pipe()
        self.addCleanup(os.close, blocked)
        self.addCleanup(os.close, other)
        for words, pipe in [
            (["info", "-"], blocked),
            (["info", "-"], reading),
            (["query", "pipe", "1"], blocked),
            (["pull", "pipe", "key", "-o", "x"], blocked),
            (["build", "list", "-o", "pipe"], blocked),
            (["build", "pipe", "-o", "x"], blocked),
            (["build", "-", "-o", "x"], blocked),
        ]:
            with self.subTest(" ".join(words)):
                command = [sys.executable, "-c", script, *words]
                done = subprocess.run(command, stdin=pipe, capture_output=True, text=True, cwd=self.folder, timeout=PATIENCE)
                self.assertEqual((done.returncode, done.stderr), (130, "libbloom: interrupted\n"))
        with open("/dev/full", "wb") as full:
            done = subprocess.run(command, stdin=pipe, stderr=full, cwd=self.folder, timeout=PATIENCE)
        self.assertEqual(done.returncode, 130)
        self.assertFalse((self.folder / "x").exists())

    def test_an_impossible_output_is_named_before_the_work(self):
        """Hours of reading would end in an error, or in a list that is gone."""
        (self.folder / "list").write_bytes(b"one\n")
        (self.folder / "link").symlink_to("list")
        (self.folder / "folder").mkdir()
        reading, writing = os.pipe()
        for words, said in [
            (["build", "-", "-o", "missing/x"], "missing/x: No such file or directory"),
            (["build", "-", "-o", "folder"], "folder: Is a directory"),
            (["build", "-", "-o", "list/x"], "list/x: Not a directory"),
            (["build", "-", "list", "-o", "list"], "list is read, and the filter would replace it"),
            (["build", "-", "link", "-o", "./list"], "./list is read, and the filter would replace it"),
            (["shrink", "-", "-o", "missing/x"], "missing/x: No such file or directory"),
            (["pull", "--url", "redis://127.0.0.1:1", "key", "-o", "missing/x"], "missing/x: No such file or directory"),
            (["pull", "list", "key", "-o", "link"], "link is read, and the filter would replace it"),
        ]:
            with self.subTest(" ".join(words)):
                # The list never ends.
                done = subprocess.run([*PROGRAM, *words], stdin=reading, capture_output=True, text=True, cwd=self.folder, timeout=PATIENCE)
                self.assertEqual((done.returncode, done.stderr), (2, f"libbloom: {said}\n"))
        os.close(reading)
        os.close(writing)
        with open(self.folder / "list", "rb") as file:
            done = subprocess.run([*PROGRAM, "build", "-", "-o", "list"], stdin=file, capture_output=True, text=True, cwd=self.folder)
        self.assertEqual((done.returncode, (self.folder / "list").read_bytes()), (2, b"one\n"))
        # Nothing is left of the attempts.
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["folder", "link", "list"])

    def test_what_takes_too_much_memory_is_said_with_what_helps(self):
        """Somebody would look for damage in a file that is whole, or give up a list that has room."""
        # The dictionary of an empty list, of which the header alone says that it is so large.
        filters = [{"id": lzma.FILTER_LZMA2, "preset": 0}]
        packed = bytearray(lzma.compress(b"one\n", lzma.FORMAT_XZ, filters=filters))
        header = packed[12 : 12 + 4 * (packed[12] + 1)]
        # Its size stands behind the filter's number (0x21) and the size of that (1).
        header[header.index(b"\x21\x01") + 2] = 35
        header[-4:] = zlib.crc32(header[:-4]).to_bytes(4, "little")
        packed[12 : 12 + len(header)] = header
        said = self.run_program("build", "-", "--capacity", 9, "-o", "x", input=bytes(packed), code=2)
        self.assertEqual(
            said,
            "libbloom: the standard input: this xz data cannot be unpacked here: Memory usage limit exceeded; "
            "`xz -dc` may unpack it, or say more",
        )
        line = f"ulimit -v 250000; OPENBLAS_NUM_THREADS=1 {shlex.join(PROGRAM)} build list -o x"
        (self.folder / "list").write_bytes(b"one\n")
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=self.folder)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("(for a list of unknown length, 256 MiB are needed: --capacity takes less)\n", done.stderr)

    def test_options_that_would_say_nothing_are_refused(self):
        """Somebody would get another filter than the one that was asked for."""
        for words, said in [
            (["--fixed", "--expansion", 4], "a fixed filter has no expansion"),
            (["--growing", "--window", 60], "a filter with a window cannot be growing"),
            (["--slices", 9], "slices and refresh need a window"),
        ]:
            for command in (["plan", 100], ["build", "-", "-o", "x", "--capacity", 9]):
                self.assertEqual(self.run_program(*command, *words, code=2), f"libbloom: {said}")
        build = ["build", "-", "-o", "x", "--capacity", 9, "--layout", "classic", "--seed", 7]
        self.assertIn("has no seed", self.run_program(*build, code=2))
        create = ["shard", "create", "x", "--url", self.url, "--items", 9, "--fixed", "--expansion", 4]
        self.assertIn("has no expansion", self.run_program(*create, code=2))

    def test_options_may_stand_between_names(self):
        """Who adds an option to a command that works would be told that a name is unrecognized."""
        (self.folder / "one").write_bytes(b"a\n")
        (self.folder / "two").write_bytes(b"b\n-v\n")
        self.run_program("build", "one", "-o", "seen", "two")
        self.assertEqual(self.run_program("query", "seen", "-v", "b", "c", code=1), "c\n")
        self.assertEqual(self.run_program("query", "-v", "seen", "--", "-v", "--c", code=1), "--c\n")
        backup = FIXTURES / "rdb/redis-7.4.rdb"
        self.assertIn("199 items", self.run_program("pull", backup, "--db", 7, "filter:grown", "-o", "grown"))
        self.assertIn("unrecognized arguments: more", self.run_program("pull", "a", "-o", "x", "key", "more", code=2))
        self.assertIn("unrecognized arguments: --odd", self.run_program("query", "seen", "-v", "a", "--odd", code=2))

    def test_plan_says_what_filters_take(self):
        """Too little memory would be bought, or too much."""
        rows = self.run_program("plan", "1e6", "--error-rate", "0.001", "--items", "1e8", "--growing").splitlines()
        size, layers, _ = plan(10**6, 0.001, items=10**8, growing=True)
        self.assertEqual(rows[2].split()[:2] + rows[2].split()[3:4], ["100,000,000", f"{size:,}", f"{layers}"])
        made = Filter(10**6, 0.001, growing=True)
        self.assertEqual(rows[1].split()[1], f"{made.size_in_bytes:,}")
        self.assertIn("cannot hold 2,000 items", self.run_program("plan", 1000, "--items", 2000, "--fixed", code=2))
        self.assertIn("cannot hold 10,000,000,000,000,000,000 items", self.run_program("plan", "1e6", "--items", "1e19", code=2))

    def test_to_a_server_and_back(self):
        """A filter that was built for a server could not get there."""
        seen = Filter(100, seed=7)
        seen.update(["a", "b"])
        seen.save(self.folder / "seen.bloom")
        self.assertIn("seen: 2 items", self.run_program("push", "seen.bloom", "seen", "--url", self.url))
        self.assertIn("back.bloom: 2 items", self.run_program("pull", "seen", "-o", "back.bloom", "--url", self.url))
        self.assertEqual(Filter.load(self.folder / "back.bloom"), seen)
        self.run_program("pull", "missing", "-o", "no.bloom", "--url", self.url, code=2)
        self.assertIn("not found", self.last)
        self.assertFalse((self.folder / "no.bloom").exists())

    def test_the_permissions_of_the_page_are_enough(self):
        """Who gives a user these, and no others, could neither push nor pull."""
        page = (FIXTURES.parents[1] / "docs/python.md").read_text()
        part = page.partition("These commands need permission")[2].partition("## The program")[0]
        commands = re.findall(r"(?<![/\w])[A-Z][A-Z.]{2,}[A-Z]\b", part)
        self.assertIn("BF.LOADCHUNK", commands)
        keys = ["~seen", "~seen:libbloom:*", "~{seen}:libbloom:*"]
        allowed = [f"+{command.lower()}" for command in commands]
        client = test_server.server.client()
        self.addCleanup(client.close)
        client.execute_command("ACL", "SETUSER", "few", "reset", "on", ">pw", *keys, *allowed)
        self.addCleanup(client.execute_command, "ACL", "DELUSER", "few")
        url = self.url.replace("//", "//few:pw@")
        Filter(100, seed=7).save(self.folder / "seen.bloom")
        self.run_program("push", "seen.bloom", "seen", "--url", url)
        self.run_program("pull", "seen", "-o", "back.bloom", "--url", url)
        self.assertEqual(Filter.load(self.folder / "back.bloom"), Filter.load(self.folder / "seen.bloom"))

    def test_out_of_an_rdb_file(self):
        """Who gets a backup from a cloud would need a server to read it."""
        backup = FIXTURES / "rdb/redis-7.4.rdb"
        said = self.run_program("pull", backup, "filter:grown", "--db", 7, "-o", "grown.bloom")
        self.assertIn("grown.bloom: 199 items", said)
        made = Filter.load(self.folder / "grown.bloom")
        self.assertTrue(all(made.contains_many([f"item:{number}" for number in range(200)])))

        # A file with one filter, and other keys.
        seen = Filter(100, seed=7)
        seen.update(["a", "b"])
        client = test_server.redis.Redis("127.0.0.1", test_server.server.port)
        self.addCleanup(client.close)
        seen.push(client, "one")
        value = client.dump("one")[1:-10]
        one = b"REDIS0011\x00\x04text\x03abc\x07\x03one" + value + b"\xff" + bytes(8)
        (self.folder / "one.rdb").write_bytes(one)
        (self.folder / "cut.rdb").write_bytes(one[:-20])
        (self.folder / "damaged.rdb").write_bytes(one[:-8] + b"12345678")
        (self.folder / "one.rdb.gz").write_bytes(gzip.compress(one))
        (self.folder / "behind.rdb").write_bytes(one + b"\0")
        (self.folder / "pre.aof").write_bytes(one + b"*3\r\n$6\r\nBF.ADD\r\n$3\r\none\r\n$1\r\nc\r\n")
        (self.folder / "enterprise.rdb").write_bytes(b"REDIS0011\x6b\x81" + one[9:])
        (self.folder / "none.rdb").write_bytes(b"REDIS0011\xff" + bytes(8))
        self.run_program("pull", "one.rdb", "-o", "one.bloom")
        self.assertEqual(Filter.load(self.folder / "one.bloom"), seen)
        with subprocess.Popen(["cat", self.folder / "one.rdb"], stdout=subprocess.PIPE) as pipe:
            made = Filter.from_rdb(f"/dev/fd/{pipe.stdout.fileno()}", b"one")
        self.assertEqual(made, seen)

        for words, said in [
            ([backup, "filter:grown"], "which filter is meant by key and database? There are filter:grown, filter:grown in database 7"),
            ([backup], "which filter is meant by key and database? There are filter:"),
            ([backup, "other"], "there is no such filter; there are filter:"),
            ([backup, "filter:grown", "--db", 3], "there is no such filter; there are filter:"),
            (["one.rdb", "text"], "one.rdb: there is no such filter; there are one"),
            (["none.rdb"], "none.rdb: there is no filter"),
            (["cut.rdb", "one"], "cut.rdb: the file or payload ends early"),
            (["damaged.rdb", "one"], "damaged.rdb: the checksum is wrong"),
            (["behind.rdb", "one"], "behind.rdb: more bytes follow the end of the RDB file"),
            (["pre.aof", "one"], "pre.aof: this is an append-only file: the commands that follow its RDB part are not read"),
            (["one.rdb.gz", "one"], "one.rdb.gz: this is no RDB file, and no payload of a filter (if it is compressed, decompress it"),
            (["enterprise.rdb", "one"], "enterprise.rdb: the type or section 107 is not known"),
            (["missing.rdb", "one"], "missing.rdb: No such file or directory"),
            ([".", "one"], ".: Is a directory"),
        ]:
            with self.subTest(" ".join(map(str, words))):
                self.assertIn(said, self.run_program("pull", *words, "-o", "x", code=2))
        self.assertFalse((self.folder / "x").exists())
        with self.assertRaisesRegex(MemoryError, "one.rdb: .* bytes do not fit into memory"):
            Filter.from_rdb(self.folder / "one.rdb", "one", max_bytes=100)
        # A server's key of the same name as a file.
        self.run_program("pull", "one.bloom", "-o", "x", "--url", self.url, code=2)
        self.assertIn("not found", self.last)

    def test_errors_are_one_line_and_code_2(self):
        """A script would take an error for an answer."""
        (self.folder / "wrong.bloom").write_bytes(b"no filter at all, but long enough")
        (self.folder / "cut.gz").write_bytes(gzip.compress(os.urandom(5000))[:3000])
        (self.folder / "many.txt").write_text("a\nb\nc\n")
        for words, said in [
            (["query", "missing.bloom", "a"], "missing.bloom"),
            (["info", "wrong.bloom"], "wrong.bloom: this is not a filter's file"),
            (["build", "missing.txt", "-o", "x"], "missing.txt: No such file or directory"),
            (["build", "cut.gz", "-o", "x"], "cut.gz: "),
            (["build", "-", "-o", "x", "--window", "60"], "--capacity must say how many items come"),
            (["build", "-", "-o", "x", "--layout", "valkey"], "--capacity must say how many items come"),
            (["shrink", "missing.bloom"], "missing.bloom"),
            (["build", "many.txt", "-o", "x", "--capacity", "2", "--fixed"], "full"),
            (["build", "many.txt", "-o", "missing/x"], "No such file"),
            (["build", "many.txt", "-o", "x", "--error-rate", "2"], "rate"),
            (["plan", "many"], "'many' is no whole number from 1 to 2^64 - 1"),
            (["plan", "0"], "'0' is no whole number from 1 to 2^64 - 1"),
            (["plan", "100", "--window", "0"], "'0' is no whole number from 1 to 2^64 - 1"),
            (["push", "wrong.bloom", "key"], "this is not a filter's file"),
            (["pull", "key", "-o", "x", "--url", "redis://127.0.0.1:1"], "refused"),
            (["pull", "key", "-o", "x", "--url", "nonsense"], "server: Redis URL must specify one of"),
            ([], "COMMAND"),
            (["plan", "9", "--expansion", "99999999999"], "--expansion: '99999999999' is no whole number from 1 to 32768;"),
            (["plan", "9", "--window", "9", "--slices", "300"], "--slices: '300' is no whole number from 2 to 64;"),
            (["build", "many.txt", "-o", "x", "--seed", "-1"], "--seed: '-1' is no whole number from 0 to 2^64 - 1"),
            (["build", "many.txt", "-o", "x", "--seed", "1.5"], "--seed: '1.5' is no whole number from 0 to 2^64 - 1"),
            (["pull", "dump.rdb", "k", "-o", "x", "--db", "-1"], "--db: '-1' is no whole number from 0 to 2^64 - 1"),
            (["plan", "1.5"], "'1.5' is no whole number from 1 to 2^64 - 1, such as 1000000, 1e6 or 1M"),
            (["plan", "1e999999999"], "no whole number"),
            (["plan", "1e6", "--error-rate", "low"], "'low' is no error rate, such as 0.01"),
            (["build", ".", "-o", "x"], ".: Is a directory"),
            (["build", b"\xff\n\x1b[1m", "-o", "x"], r"libbloom: \xff\x0a\x1b[1m: No such file"),
            (["query", b"\xff\n\x1b[1m", "a"], r"libbloom: \xff\x0a\x1b[1m: No such file"),
            (["build", "-", "-o", b"no\n/\xff"], r"libbloom: no\x0a/\xff: No such file"),
            (["plan", b"\x1b\n[1m"], r"\x1b"),
        ]:
            with self.subTest(" ".join(map(str, words))):
                self.assertIn(said, self.run_program(*words, code=2))
        self.assertFalse((self.folder / "x").exists())


if __name__ == "__main__":
    unittest.main()
