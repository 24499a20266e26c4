"""node-redis and ioredis: their own tests in `node`, run by Node.js against a server that is started here, and
examples/typescript against a cluster."""

import hashlib
import os
import re
import subprocess
import unittest

from common import INSTALLED, PROJECT, Case
from redis.cluster import RedisCluster
from servers import Cluster

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

    def test_a_sharded_filter(self):
        """The layout of docs/sharding.md would be one that only Python can use."""
        compiler = NODE / "node_modules/typescript/bin/tsc"
        source = (PROJECT / "examples/typescript/sharded.ts").read_text()
        (NODE / "sharded.ts").write_text(source)
        options = "--strict --module nodenext --target es2022 --skipLibCheck"
        self.run_program(PROGRAM, compiler, *options.split(), "sharded.ts", "sharded.test.ts", cwd=NODE)
        cluster = Cluster(type(self))
        with RedisCluster.from_url(cluster.url) as client:
            self.make(client, "seen", 5, "ready", [b"item %d" % number for number in range(1000)])
            self.make(client, "half", 1, "creating", [])
            self.make(client, "lossy", 1, "ready", [])
            client.delete("lossy:{0}:1")
        named = {"CLUSTER_URL": cluster.url, "VECTORS": str(PROJECT / "python/vectors")}
        self.run_program(PROGRAM, "--test", NODE / "sharded.test.js", env={**os.environ, **named})

    @staticmethod
    def make(client, name, shards, state, items):
        """What `libbloom shard` does."""
        meta = {"version": 1, "hash": "BLAKE2b-512", "shards": shards, "capacity": 1000, "shard_capacity": 1000}
        client.hset(f"{name}:{{meta}}", mapping={**meta, "error_rate": 1e-9, "state": state})
        for shard in range(shards):
            client.execute_command("BF.RESERVE", f"{name}:{{{shard}}}:{shards}", 1e-9, 1000)
        for item in items:
            shard = int.from_bytes(hashlib.blake2b(item).digest()[:8], "big") % shards
            client.execute_command("BF.ADD", f"{name}:{{{shard}}}:{shards}", item)

    def test_the_session_in_the_readme(self):
        self.check_session("js", "node/readme.js", lambda: self.run_program(PROGRAM, NODE / "readme.js"))


if __name__ == "__main__":
    unittest.main()
