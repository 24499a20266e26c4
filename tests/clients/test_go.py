"""go-redis: its own program in `go`, run against a server that is started here, the README's session, and the
program of docs/kafka.md, which needs kafka-go.

scripts/clients.sh fetches it, and says in a file `missing` why it could not.
"""

import os
import shutil
import subprocess
import unittest

from common import INSTALLED, PROJECT, Case
from documents import blocks
from kafka_broker import broker, wait_until_consumed

FOLDER = INSTALLED / "go"
# Where the system's Go is too old.
GO_ROOTS = list(INSTALLED.glob("go-root/usr/lib/go-*"))


class GoTest(Case):
    @classmethod
    def setUpClass(cls):
        missing = FOLDER / "missing"
        if missing.exists():
            raise unittest.SkipTest(missing.read_text().strip())

    @staticmethod
    def environment():
        environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
        for root in GO_ROOTS:
            environment["PATH"] = f"{root / 'bin'}:{environment['PATH']}"
        return environment

    def run_go(self, *words):
        # By env, so that the program is looked for on this PATH.
        return self.run_program("env", "go", *words, cwd=FOLDER, env=self.environment())

    def test_every_method(self):
        protocols = list(map(str, self.protocols()))
        printed = self.run_go("run", ".", self.address, *protocols)
        self.assertEqual(printed, "".join(f"RESP{protocol}\n" for protocol in protocols))

    def test_the_session_in_the_readme(self):
        self.check_session("go", "go/readme/main.go", lambda: self.run_go("run", "./readme"))

    def test_the_consumer_of_kafka(self):
        [program] = [block.text for block in blocks(PROJECT / "docs/kafka.md") if block.language == "go"]
        folder = FOLDER / "consumer"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        orders = [f"order-{number}" for number in (1, 2, 3, 2, 4, 1, 5)]
        with broker("orders", orders) as kafka:
            program = program.replace("localhost:6379", self.address).replace("localhost:9092", kafka)
            (folder / "main.go").write_text(program)
            self.run_go("build", "-o", "consumer/consumer", "./consumer")
            # By the second start the filter is there, and nothing is left to do.
            lines = []
            for _ in range(2):
                with subprocess.Popen([folder / "consumer"], stdout=subprocess.PIPE, text=True) as process:
                    try:
                        wait_until_consumed(kafka, "orders", "search", len(orders))
                        with self.assertRaises(subprocess.TimeoutExpired):
                            process.wait(3)
                    finally:
                        process.kill()
                    lines += process.stdout.readlines()
        self.assertEqual(sorted(lines), [f"index {order}\n" for order in sorted(set(orders))])


if __name__ == "__main__":
    unittest.main()
