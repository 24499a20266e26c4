"""What the tests of the client libraries share: a server with the module, programs that speak to it, and the
sessions of docs/clients.md and other pages.

Run them with `make test-clients`, which sets up the libraries in .build/clients. BLOOM_TEST_SERVER names another
server than redis-server, BLOOM_TEST_MODULE another module. Every server is on a free port of the loopback
interface, with a directory of its own, and is stopped in any case.
"""

import os
import subprocess
import sys
import unittest
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(PROJECT / "examples"), str(PROJECT / "tests/examples")]

import support  # noqa: E402
import documents  # noqa: E402

PROGRAM = os.environ.get("BLOOM_TEST_SERVER", "redis-server")
MODULE = Path(os.environ.get("BLOOM_TEST_MODULE", PROJECT / "libbloom.so"))
# Where the libraries are installed.
INSTALLED = PROJECT / ".build/clients"
# Seconds until a program that must end has failed. Nothing is measured by it.
PATIENCE = 300


class Server(support.Server):
    """One whose filters have the same false positives in every run."""

    ARGUMENTS = ("bf-seed", "42")


class Case(unittest.TestCase):
    """A test with an empty server of its own."""

    def setUp(self):
        self.server = Server(PROGRAM, MODULE)
        self.server.__enter__()
        self.addCleanup(self.server.__exit__)

    @property
    def address(self):
        return f"localhost:{self.server.port}"

    def protocols(self):
        """The versions of RESP that modules can answer in. Redis 6.2 has no calls for booleans and maps."""
        with self.server.client() as client:
            version = client.info("server")["redis_version"]
        return [2] if version.startswith("6.") else [2, 3]

    def run_program(self, *words, **named):
        """Runs a program, which must succeed; gives what it printed."""
        named.setdefault("cwd", INSTALLED)
        words = [os.fspath(word) for word in words]
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, **named)
        self.assertEqual(done.returncode, 0, f"{words}\n{done.stdout}{done.stderr}")
        return done.stdout

    def check_session(self, language, name, run, page="docs/clients.md"):
        """Writes the session of a page in a language to the file `name`, for this test's server, and runs it twice: who
        tries a program runs it again, and then the filter is there."""
        if 3 not in self.protocols():
            self.skipTest("here modules answer clients of RESP3 with 1 and 0, and the session shows booleans")
        blocks = documents.blocks(PROJECT / page)
        [session] = [block.text for block in blocks if block.language == language and "localhost:6379" in block.text]
        file = INSTALLED / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(session.replace("localhost:6379", self.address))
        promised = documents.promised_output(session)
        self.assertEqual(run(), promised)
        self.assertEqual(run(), promised.replace("fetch it\n", ""))

