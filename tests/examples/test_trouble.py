"""What every example does without what it needs: one line that says why, and the exit code 2.

Run it with `make test-examples`; test_migrate.py tells how to run it by hand.
"""

import subprocess
import sys
import unittest

from test_migrate import PATIENCE, PROJECT, BareServer, Case, Server
from test_sharded import Node

import crawl  # noqa: E402

# Each with where its URL goes; what else it needs is there.
SCRIPTS = {
    "crawl.py": "--url {url}",
    "guard.py": "fill --database {folder}/shop.db --url {url}",
    "migrate.py": "copy {url} {url}",
    "migrate.py load": "{url} key --error 0.01 --capacity 100",
    "passwords.py": "check {url} key --stdin",
    "passwords.py load": "{url} key --error 0.01 --capacity 100",
    "scrapy/crawl_site.py": "http://127.0.0.1:1/ --redis {url}",
    "sharded.py": "--url {url} create key --items 100 --shards 3",
}


class Alone(Node):
    """A node of a cluster that has no slots."""

    url = Server.url


class TroubleTest(Case):
    """A stranger's first try is often without a server: a trace of Python's tells nothing of what to do."""

    def complaint(self, script, arguments, url):
        """The one line that a script ends with."""
        name, *command = script.split()
        words = arguments.format(url=url, folder=self.folder).split()
        done = subprocess.run(
            [sys.executable, str(PROJECT / "examples" / name), *command, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        self.assertEqual((done.returncode, done.stdout), (2, ""), f"{script}: {done.stdout}{done.stderr}")
        [line] = done.stderr.splitlines()
        start = f"{name.rpartition('/')[2]}: "
        self.assertTrue(line.startswith(start), line)
        return line.removeprefix(start)

    def test_without_a_server(self):
        nowhere = f"redis://127.0.0.1:{crawl.free_port()}"
        for script, arguments in SCRIPTS.items():
            with self.subTest(script):
                self.assertIn("Connection refused", self.complaint(script, arguments, nowhere))

    def test_without_a_url(self):
        for script, arguments in SCRIPTS.items():
            with self.subTest(script):
                self.assertIn("URL must specify", self.complaint(script, arguments, "localhost"))

    def test_without_the_module(self):
        server, _ = self.start(BareServer())
        for script, arguments in SCRIPTS.items():
            if not script.startswith(("crawl.py", "guard.py", "migrate.py")):
                continue
            with self.subTest(script):
                line = self.complaint(script, arguments, server.url)
                self.assertRegex(line, "unknown command 'BF.RESERVE'|load the module there")
                self.assertNotIn("another fill?", line)

    def test_without_a_cluster(self):
        """sharded.py needs one, and takes no single server for it."""
        server, _ = self.start()
        line = self.complaint("sharded.py", SCRIPTS["sharded.py"], server.url)
        self.assertIn("Cluster mode is not enabled on this node", line)

    def test_a_cluster_without_slots(self):
        """A node that was started and never joined."""
        server, _ = self.start(Alone())
        for script in ("sharded.py", "migrate.py", "migrate.py load", "passwords.py"):
            with self.subTest(script):
                self.assertRegex(self.complaint(script, SCRIPTS[script], server.url), "(?i)cluster|slot")


if __name__ == "__main__":
    unittest.main()
