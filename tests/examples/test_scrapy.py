"""examples/scrapy, tried as its users would: Scrapy crawls a site of this process, and a server remembers the pages.

Run it with `make test-examples`; servers.py tells how to run it by hand.
"""

import collections
import functools
import http.server
import subprocess
import sys
import threading
import unittest

from servers import PROJECT, Case

PAGES = 150
# One in a billion, so that no page is missed by chance.
ERROR = "1e-9"
# Scrapy itself takes seconds to start.
PATIENCE = 120


class Site(http.server.ThreadingHTTPServer):
    """Pages that link to each other in many ways, and a count of the times that each was asked for."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Page)
        self.asked = collections.Counter()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/0"


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked[self.path] += 1
        number = int(self.path.partition("?")[0].strip("/"))
        # Each is linked from several others; the last two are one page to Scrapy, and to the count.
        links = [2 * number + 1, 2 * number + 2, number // 2, number + 7, f"{(number + 1) % PAGES}#top"]
        links = [link for link in links if isinstance(link, str) or link < PAGES]
        body = "".join(f"<a href='/{link}'>x</a>" for link in links).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class ScrapyTest(Case):
    def setUp(self):
        super().setUp()
        self.server, self.client = self.start()
        self.site = Site()
        serve = threading.Thread(target=functools.partial(self.site.serve_forever, poll_interval=0.05))
        serve.start()
        self.addCleanup(serve.join)
        self.addCleanup(self.site.server_close)
        self.addCleanup(self.site.shutdown)

    def crawl(self, *arguments):
        self.site.asked.clear()
        script = PROJECT / "examples/scrapy/crawl_site.py"
        # What is sent again, because an answer came late, would be known then.
        redis = f"{self.server.url}?socket_timeout={PATIENCE}"
        done = subprocess.run(
            [sys.executable, script, self.site.url, "--redis", redis, "--error", ERROR, *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_each_page_is_fetched_once_and_a_kept_filter_fetches_nothing_again(self):
        once = {f"/{number}": 1 for number in range(PAGES)}
        text = self.crawl("--capacity", "1000")
        self.assertEqual(self.site.asked, once)
        self.assertIn(f"{PAGES} pages fetched\n", text)
        self.assertEqual(self.client.execute_command("BF.CARD", "site:seen"), PAGES)
        self.assertEqual(self.client.bf().info("site:seen").capacity, 1000)

        text = self.crawl("--keep")
        self.assertEqual(self.site.asked, {})
        self.assertEqual(text, "0 pages fetched\n1 requests for pages that were seen\n")

        self.crawl()
        self.assertEqual(self.site.asked, once, "without --keep it starts anew")


if __name__ == "__main__":
    unittest.main()
