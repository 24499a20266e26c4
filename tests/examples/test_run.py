"""scripts/run.sh, which `make run` starts the server with.

Run it with `make test-examples`; test_migrate.py tells how to run it by hand. The script runs in a folder of its
own, which has what it needs of the project.
"""

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import redis
from test_migrate import MODULE, PATIENCE, PROGRAM, PROJECT

import crawl  # noqa: E402


class RunTest(unittest.TestCase):
    def setUp(self):
        self.project = Path(tempfile.mkdtemp(prefix="run-"))
        self.addCleanup(shutil.rmtree, self.project)
        (self.project / "scripts").mkdir()
        shutil.copy(PROJECT / "scripts/run.sh", self.project / "scripts")
        shutil.copy(PROJECT / "redis.conf", self.project)
        (self.project / "libbloom.so").symlink_to(MODULE.resolve())
        self.log = self.project / "log"

    def words(self, action, port, *arguments):
        return [str(self.project / "scripts/run.sh"), action, str(port), *arguments]

    def start(self, port, *arguments):
        """Starts the server; gives a client of it."""
        environment = {**os.environ, "SERVER": PROGRAM}
        with open(self.log, "wb") as log:
            process = subprocess.Popen(
                self.words("start", port, *arguments), env=environment, stdout=log, stderr=subprocess.STDOUT
            )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        client = redis.Redis(port=port)
        self.addCleanup(client.close)
        deadline = time.monotonic() + PATIENCE
        while True:
            self.assertIsNone(process.poll(), self.log.read_text())
            self.assertLess(time.monotonic(), deadline, self.log.read_text())
            try:
                client.ping()
            except (redis.ConnectionError, redis.BusyLoadingError):
                time.sleep(0.02)
            else:
                self.process = process
                return client

    def stop(self, client):
        client.shutdown()
        self.process.wait(PATIENCE)

    def test_each_port_has_data_of_its_own(self):
        """Two servers in one folder would write over each other's files."""
        first, second = crawl.free_port(), crawl.free_port()
        client = self.start(first)
        self.assertEqual(client.execute_command("BF.ADD", "seen", "a"), 1)
        self.stop(client)
        client = self.start(second)
        self.assertEqual(client.dbsize(), 0)
        self.stop(client)
        client = self.start(first)
        self.assertEqual(client.execute_command("BF.EXISTS", "seen", "a"), 1)
        folders = sorted(path.name for path in (self.project / "data").iterdir())
        self.assertEqual(folders, sorted([str(first), str(second)]))

    def test_a_rewritten_configuration_stays_and_is_no_tracked_file(self):
        """CONFIG REWRITE of a server that was started with redis.conf would be a change of the project."""
        before = (self.project / "redis.conf").read_bytes()
        port = crawl.free_port()
        client = self.start(port)
        client.execute_command("BF.ADD", "seen", "a")
        client.config_set("maxmemory", "64mb")
        client.config_rewrite()
        self.stop(client)
        self.assertEqual((self.project / "redis.conf").read_bytes(), before)
        copy = self.project / f"data/{port}/redis.conf"
        self.assertEqual(len(re.findall("(?m)^loadmodule ", copy.read_text())), 1)

        client = self.start(port)
        self.assertEqual(client.execute_command("BF.EXISTS", "seen", "a"), 1)
        self.assertEqual(client.config_get("maxmemory"), {"maxmemory": str(64 << 20)})
        self.assertNotIn("has changed", self.log.read_text())
        self.stop(client)
        # An edit of redis.conf does not get lost in silence.
        with open(self.project / "redis.conf", "a") as file:
            file.write("hz 20\n")
        client = self.start(port)
        self.assertIn(f"run: redis.conf has changed, and so has its copy: data/{port}/redis.conf", self.log.read_text())
        self.assertEqual(client.config_get("maxmemory"), {"maxmemory": str(64 << 20)})

    def test_an_edit_of_the_configuration_holds_from_the_next_start(self):
        port = crawl.free_port()
        self.stop(self.start(port))
        with open(self.project / "redis.conf", "a") as file:
            file.write("hz 20\n")
        client = self.start(port, "--maxmemory", "64mb")
        self.assertEqual(client.config_get("hz"), {"hz": "20"})
        self.assertEqual(client.config_get("maxmemory"), {"maxmemory": str(64 << 20)})

    def test_a_port_in_use_is_told_in_a_line(self):
        """The server's own words are its whole start, and nothing about what to do."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            for action in ("check", "start"):
                done = subprocess.run(self.words(action, port), capture_output=True, text=True, timeout=PATIENCE)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                advice = rf"run: port {port} is in use: .*\(make run PORT={port + 1}\)\n"
                self.assertRegex(done.stderr, rf"^{advice}$")
        self.assertFalse((self.project / "data").exists())

    def test_what_is_no_port(self):
        done = subprocess.run(self.words("check", "7000x"), capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (1, "run: PORT is '7000x', and not a number\n"))


if __name__ == "__main__":
    unittest.main()
