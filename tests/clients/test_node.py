"""node-redis and ioredis: their own tests in `node`, run by Node.js against a server that is started here."""

import os
import re
import subprocess
import unittest

from common import INSTALLED, Case

NODE = INSTALLED / "node"
# From npm, where the system's is too old.
NEWER = INSTALLED / "node-bin/node_modules/node/bin/node"
PROGRAM = NEWER if NEWER.exists() else "node"
# The first version that the libraries are for.
OLDEST = 20


class NodeTest(Case):
    @classmethod
    def setUpClass(cls):
        text = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout
        version = int(re.match(r"v(\d+)", text)[1])
        if version < OLDEST:
            raise AssertionError(f"node-redis and ioredis need Node.js {OLDEST} or later, and this is {version}")

    def run_test(self, file):
        protocols = " ".join(map(str, self.protocols()))
        named = {"REDIS_URL": f"redis://{self.address}", "PROTOCOLS": protocols}
        self.run_program(PROGRAM, "--test", NODE / file, env={**os.environ, **named})

    def test_node_redis(self):
        self.run_test("redis.test.js")

    def test_ioredis(self):
        self.run_test("ioredis.test.js")

    def test_the_session_in_the_readme(self):
        self.check_session("js", "node/readme.js", lambda: self.run_program(PROGRAM, NODE / "readme.js"))


if __name__ == "__main__":
    unittest.main()
