"""The tutorial: whoever follows docs/tutorial.md sees what it shows.

Its files are saved and its commands typed in as the page says, in order, with a server that is stopped and started
where the page does so. What a figure of memory is depends on the allocator, so that it may differ a little.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from documents import PROJECT, promised_files
from servers import PATIENCE, Server, unused_port

PAGE = PROJECT / "docs/tutorial.md"
PORT = "8000"
# Blocks that the test does in its own way.
SERVER, SITE, PYTHON = "make run\n", "cd ~/crawl && python3 -m http.server 8000 --directory site\n", "mkdir ~/crawl && cd"
# Part of a figure of memory by which it may differ.
LEEWAY = 0.15


class KeptServer(Server):
    """A server that keeps its data as that of `make run` does."""

    ARGUMENTS = ("--save", "3600 1", "--appendonly", "yes")


class TutorialTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        if shutil.which("redis-cli") is None:
            self.skipTest("there is no redis-cli")
        self.folder = Path(tempfile.mkdtemp(prefix="tutorial-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.server = KeptServer()
        self.server.__enter__()
        self.addCleanup(self.server.__exit__)
        with self.server.client() as client:
            if client.info("server")["redis_version"].startswith("6."):
                self.skipTest("here redis-cli and modules answer in an older way")
        self.port = str(unused_port(self))
        programs = self.folder / ".programs"
        programs.mkdir()
        self.put_program(programs / "redis-cli", f'{shutil.which("redis-cli")} --no-raw -p {self.server.port}')
        self.put_program(programs / "python3", sys.executable)
        self.environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}

    @staticmethod
    def put_program(path, command):
        path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        path.chmod(0o755)

    def test_the_tutorial(self):
        starts = 0
        for name, text in promised_files(PAGE):
            if name:
                text = text.replace("redis.Redis(", f"redis.Redis('127.0.0.1', {self.server.port}, ")
                (self.folder / name).write_text(text.replace(PORT, self.port))
            elif text == SERVER:
                if starts:
                    self.server.restart()
                starts += 1
            elif text == SITE:
                self.serve()
            elif not text.startswith(PYTHON):
                self.type_in(text)
        self.assertEqual(starts, 2)

    def serve(self):
        words = [sys.executable, "-m", "http.server", self.port, "--bind", "127.0.0.1", "--directory", "site"]
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(words, cwd=self.folder, stdout=quiet, stderr=quiet)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        # The crawler does not wait for it.
        asked = f"until (exec 3<>/dev/tcp/127.0.0.1/{self.port}) 2>/dev/null; do sleep 0.02; done"
        subprocess.run(["bash", "-c", asked], check=True, timeout=PATIENCE)

    def type_in(self, text):
        self.assertTrue(text.startswith("$ "), text)
        for step in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, shown = step.partition("\n")
            words = ["bash", "-euc", command]
            named = dict(cwd=self.folder, env=self.environment, timeout=PATIENCE, capture_output=True, text=True)
            done = subprocess.run(words, **named)
            with self.subTest(command):
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.check(command, done.stdout, shown)

    def check(self, command, printed, shown):
        if "MEMORY" in command or "memory" in command:
            for is_there, told in zip(figures(printed), figures(shown), strict=True):
                self.assertAlmostEqual(is_there, told, delta=told * LEEWAY)
            printed, shown = (re.sub(r"\d+", "0", text) for text in (printed, shown))
        self.assertEqual(printed, shown)


def figures(text):
    return [int(digits) for digits in re.findall(r"\d+", text)]


if __name__ == "__main__":
    unittest.main()
