"""node-redis and ioredis: their own tests in `node`, run by Node.js against a server that is started here."""

import os
import re
import shutil
import subprocess
import unittest

from common import INSTALLED, Case

NODE = INSTALLED / "node"
# The first version that the libraries are for.
OLDEST = 20


def version():
    """Node.js's, 0 without one."""
    if shutil.which("node") is None:
        return 0
    text = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    return int(re.match(r"v(\d+)", text)[1])


@unittest.skipIf(version() < OLDEST, f"node-redis and ioredis need Node.js {OLDEST} or later")
class NodeTest(Case):
    def run_test(self, file):
        protocols = " ".join(map(str, self.protocols()))
        named = {"REDIS_URL": f"redis://{self.address}", "PROTOCOLS": protocols}
        self.run_program("node", "--test", NODE / file, env={**os.environ, **named})

    def test_node_redis(self):
        self.run_test("redis.test.js")

    def test_ioredis(self):
        self.run_test("ioredis.test.js")

    def test_the_session_in_the_readme(self):
        promised = self.write_session("js", "node/readme.js")
        self.assertEqual(self.run_program("node", NODE / "readme.js"), promised)


if __name__ == "__main__":
    unittest.main()
