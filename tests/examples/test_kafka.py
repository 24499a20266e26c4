"""docs/kafka.md: its consumer is run, and killed between any two of its steps, against a broker for tests."""

import concurrent.futures
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path

from documents import PROJECT, blocks
from kafka_broker import broker, wait_until_consumed
from servers import PATIENCE, Server

ORDERS = [1, 2, 3, 2, 4, 1, 5]
# The order that kills its consumer, the first time.
FATAL = "order-3"
ADD = '            r.bf().add("search:seen", order)\n'
WORK = "            work(order)\n"
COMMIT = "        consumer.commit(asynchronous=False)\n"
EXISTS = '        if not r.bf().exists("search:seen", order):\n'
# A dead consumer is a member of its group for so long.
SESSION = '"session.timeout.ms": 3000,'
DIE = """
import os, pathlib

def die(order):
    mark = pathlib.Path({mark!r})
    if order == {fatal!r} and not mark.exists():
        mark.touch()
        os._exit(9)

"""


def consumer():
    [program] = [block.text for block in blocks(PROJECT / "docs/kafka.md") if "KafkaException" in block.text]
    assert all(program.count(line) == 1 for line in (ADD, WORK, COMMIT, EXISTS))
    return program


def at_most_once():
    """As the page says: the answer to an add that comes first decides."""
    return consumer().replace(ADD, "").replace(EXISTS, '        if r.bf().add("search:seen", order):\n')


def deadly(program, before):
    """The program, which dies before one of its lines; without a line, it does not."""
    if before == COMMIT:
        # By then the order at hand is the last one of the batch.
        return program.replace(before, f"        die({FATAL!r})\n{before}")
    indent = before[: len(before) - len(before.lstrip())]
    return program.replace(before, f"{indent}die(order)\n{before}")


class KafkaTest(unittest.TestCase):
    def worked(self, program, kills):
        """How often each order is worked on until nothing comes any more."""
        with Server() as server, broker("orders", [f"order-{n}" for n in ORDERS]) as address, \
                tempfile.TemporaryDirectory() as folder:
            mark = Path(folder) / "died"
            program = program.replace("redis.Redis(", f"redis.Redis('127.0.0.1', {server.port}, ")
            program = program.replace("localhost:9092", address).replace('"group.id"', f'{SESSION} "group.id"')
            program = DIE.format(mark=str(mark), fatal=FATAL) + program
            done = Counter()
            for is_killed in [True, False] if kills else [False]:
                words = [sys.executable, "-u", "-c", program]
                with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                    if is_killed:
                        output, errors = process.communicate(timeout=PATIENCE)
                        self.assertEqual(process.returncode, 9, errors)
                    else:
                        wait_until_consumed(address, "orders", "search", len(ORDERS))
                        process.kill()
                        output, _ = process.communicate()
                done.update(output.replace("index ", "").split())
            return done

    def test_what_each_order_gives(self):
        every = Counter(f"order-{n}" for n in ORDERS)
        once = Counter(every.keys())
        runs = {
            "no crash": (consumer(), None, once),
            "at least once, before the work": (consumer(), WORK, once),
            "at least once, after the work": (consumer(), ADD, once + Counter([FATAL])),
            "at least once, before the commit": (consumer(), COMMIT, once),
            "at most once, no crash": (at_most_once(), None, once),
            "at most once, before the work": (at_most_once(), WORK, once - Counter([FATAL])),
            "at most once, before the commit": (at_most_once(), COMMIT, once),
        }
        with concurrent.futures.ThreadPoolExecutor(len(runs)) as pool:
            futures = {}
            for name, (program, before, _) in runs.items():
                text = deadly(program, before) if before else program
                futures[name] = pool.submit(self.worked, text, before is not None)
            for name, future in futures.items():
                with self.subTest(name):
                    self.assertEqual(future.result(), runs[name][2])


if __name__ == "__main__":
    unittest.main()
