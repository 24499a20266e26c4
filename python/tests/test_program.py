"""The program `libbloom`, by its command line and its exit codes."""

import gzip
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import test_server
from servers import PATIENCE

from libbloom import Filter, plan

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
        command = [sys.executable, "-m", "libbloom._program", *map(str, words)]
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
        self.assertEqual((made.capacity, made.layers, made.error_rate, made.seed), (20_004, 1, 1e-6, 7))
        self.assertEqual(made.contains_many(["one", "two", "", "four", "line 19999", "five"]), [True] * 5 + [False])
        self.assertEqual(self.run_program("query", "seen.bloom", "one", "line 7"), "one\nline 7\n")
        self.assertEqual(self.run_program("query", "seen.bloom", "one", "five", code=1), "one\n")
        self.assertEqual(self.run_program("query", "-v", "seen.bloom", input=b"one\nfive\nsix\n", code=1), "five\nsix\n")
        self.assertEqual(self.run_program("query", "-q", "seen.bloom", input=b"one\nfive", code=1), "")
        self.assertIn("items: 20004\ncapacity: 20004\n", self.run_program("info", "seen.bloom"))
        self.run_program("build", "-", "-o", "more.bloom", "--capacity", "1e3", "--fixed", input=b"x\ny\n")
        self.assertTrue(Filter.load(self.folder / "more.bloom").fixed)

    def test_plan_says_what_filters_take(self):
        """Too little memory would be bought, or too much."""
        rows = self.run_program("plan", "1e6", "--error-rate", "0.001", "--items", "1e8", "--growing").splitlines()
        size, layers, _ = plan(10**6, 0.001, items=10**8, growing=True)
        self.assertEqual(rows[2].split()[:2] + rows[2].split()[3:4], ["100,000,000", f"{size:,}", f"{layers}"])
        made = Filter(10**6, 0.001, growing=True)
        self.assertEqual(rows[1].split()[1], f"{made.size_in_bytes:,}")
        self.assertIn("cannot hold 2,000 items", self.run_program("plan", 1000, "--items", 2000, "--fixed", code=2))

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
        client = test_server.redis.Redis(port=test_server.server.port)
        self.addCleanup(client.close)
        seen.push(client, "one")
        value = client.dump("one")[1:-10]
        one = b"REDIS0011\x00\x04text\x03abc\x07\x03one" + value + b"\xff" + bytes(8)
        (self.folder / "one.rdb").write_bytes(one)
        (self.folder / "cut.rdb").write_bytes(one[:-20])
        (self.folder / "damaged.rdb").write_bytes(one[:-8] + b"12345678")
        (self.folder / "one.rdb.gz").write_bytes(gzip.compress(one))
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
            (["build", "-", "-o", "x"], "--capacity must say how many items come"),
            (["build", "many.txt", "-o", "x", "--capacity", "2", "--fixed"], "full"),
            (["build", "many.txt", "-o", "missing/x"], "No such file"),
            (["build", "many.txt", "-o", "x", "--error-rate", "2"], "rate"),
            (["plan", "many"], "'many' is no number of 1 or more"),
            (["plan", "0"], "'0' is no number of 1 or more"),
            (["push", "wrong.bloom", "key"], "this is not a filter's file"),
            (["pull", "key", "-o", "x", "--url", "redis://127.0.0.1:1"], "refused"),
            (["pull", "key", "-o", "x", "--url", "nonsense"], "server: Redis URL must specify one of"),
            ([], "COMMAND"),
        ]:
            with self.subTest(" ".join(words)):
                self.assertIn(said, self.run_program(*words, code=2))
        self.assertFalse((self.folder / "x").exists())


if __name__ == "__main__":
    unittest.main()
