"""What every example does without what it needs: one line that says why, and the exit code 2.

Run it with `make test-examples`; servers.py tells how to run it by hand.
"""

import gzip
import os
import subprocess
import sys
import unittest

from servers import MODULE, PATIENCE, PROGRAM, PROJECT, BareServer, Case, unused_port

# Each with where its URL goes; what else it needs is there.
SCRIPTS = {
    "crawl.py": "--url {url}",
    "guard.py": "fill --database {folder}/shop.db --url {url}",
    "scrapy/crawl_site.py": "http://127.0.0.1:1/ --redis {url}",
}


class TroubleTest(Case):
    """A stranger's first try is often without a server: a trace of Python's tells nothing of what to do."""

    def complaint(self, script, arguments, url, **named):
        """The one line that a script ends with."""
        name, *command = script.split()
        words = arguments.format(url=url, folder=self.folder).split()
        done = subprocess.run(
            [sys.executable, str(PROJECT / "examples" / name), *command, *words],
            **{"stdin": subprocess.DEVNULL, **named},
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
        nowhere = f"redis://127.0.0.1:{unused_port(self)}"
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
            with self.subTest(script):
                self.assertIn("load the module there", self.complaint(script, arguments, server.url))

    def test_a_key_that_holds_something_else_is_left_alone(self):
        """Whoever mistypes a key would lose what it holds."""
        server, client = self.start()
        named = {
            "crawl.py": "--url {url} --key text",
            "guard.py": "fill --database {folder}/shop.db --url {url} --key text",
            "guard.py serve": "--database {folder}/shop.db --url {url} --key text --port 0",
            "guard.py fill": "--database {folder}/shop.db --url {url} --key draft --replace",
            "scrapy/crawl_site.py": "http://127.0.0.1:1/ --redis {url} --key text",
            "scrapy/crawl_site.py --keep": "http://127.0.0.1:1/ --redis {url} --key text",
        }
        held = {b"text": b"no filter", b"{draft}:new": b"no filter"}
        client.mset(held)
        for script, arguments in named.items():
            with self.subTest(script):
                line = self.complaint(script, arguments, server.url)
                self.assertRegex(line, "text|draft")
                self.assertRegex(line, "wrong kind of value|exists|no filter")
                self.assertEqual(dict(zip(held, client.mget(held))), held)
                self.assertEqual(client.dbsize(), len(held))

    def test_files_that_are_cut_or_damaged_or_missing(self):
        """A list that was not copied to its end would be taken for a whole one, or a trace says nothing of it."""
        server, client = self.start()
        whole = gzip.compress(b"".join(b"%040x\n" % number for number in range(10_000)))
        (self.folder / "cut.gz").write_bytes(whole[:-100])
        (self.folder / "damaged.gz").write_bytes(whole[:500] + b"\xff" * 500 + whole[1000:])
        (self.folder / "sum.gz").write_bytes(whole[:-8] + bytes(8))
        scripts = {
            "crawl.py": "{file} --url {url}",
            **{f"{name}.py": f"{{file}} --module {MODULE} --server {PROGRAM}" for name in ("misses", "once", "parallel")},
        }
        for script, arguments in scripts.items():
            for name, said in {
                "cut.gz": "cut off",
                "damaged.gz": "cut off or damaged|no gzip file",
                "sum.gz": "cut off or damaged|no gzip file",
                "none": "No such file",
                "": "Is a directory",
            }.items():
                with self.subTest(script, file=name):
                    client.unlink("key")
                    words = arguments.replace("{file}", str(self.folder / name))
                    self.assertRegex(self.complaint(script, words, server.url), said)

    def test_without_an_input(self):
        """A service or a cron job has none."""
        server, client = self.start()
        # The script has no standard input at all, as after <&- of a shell.
        line = self.complaint("crawl.py", "- --url {url}", server.url, preexec_fn=lambda: os.close(0))
        self.assertIn("no standard input", line)

    def test_what_is_no_address_of_a_page(self):
        """Scrapy shows a trace, and ends as if the site had failed."""
        server, _ = self.start()
        for url in ("example.com", "ftp://example.com/", "http://", "http://[::1"):
            with self.subTest(url):
                line = self.complaint("scrapy/crawl_site.py", f"{url} --redis {{url}}", server.url)
                self.assertRegex(line, "no address of a page|Invalid IPv6")


if __name__ == "__main__":
    unittest.main()
