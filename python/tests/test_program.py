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
            (["plan", "many"], "'many' is no whole number of 1 or more"),
            (["plan", "0"], "'0' is no whole number of 1 or more"),
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
