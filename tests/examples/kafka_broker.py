"""Kafka for tests: the broker that librdkafka contains, which confluent-kafka brings along. It is in memory, keeps
topics and the offsets of groups, and ends with the process that started it.

As a program: prints the address, then puts its arguments into a topic as keys, and waits for the end of its input.

    python kafka_broker.py orders order-1 order-2 order-1
"""

import contextlib
import subprocess
import sys
import time

# Seconds until something that must happen has failed.
PATIENCE = 120


@contextlib.contextmanager
def broker(topic, keys):
    """The address of a broker, which has these events."""
    words = [sys.executable, __file__, topic, *keys]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=quiet, text=True) as process:
        try:
            address = process.stdout.readline().strip()
            assert address and process.stdout.readline() == "ready\n", "the broker did not start"
            yield address
        finally:
            process.kill()


def wait_until_consumed(address, topic, group, count):
    """Until a group has committed so many events."""
    from confluent_kafka import Consumer, TopicPartition

    watcher = Consumer({"bootstrap.servers": address, "group.id": group, "log_level": 0})
    try:
        numbers = watcher.list_topics(topic, PATIENCE).topics[topic].partitions
        parts = [TopicPartition(topic, number) for number in numbers]
        deadline = time.monotonic() + PATIENCE
        while sum(max(part.offset, 0) for part in watcher.committed(parts, PATIENCE)) < count:
            assert time.monotonic() < deadline, "the events are not consumed"
            time.sleep(0.1)
    finally:
        watcher.close()


def main(topic, *keys):
    from confluent_kafka import Producer

    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    [node] = producer.list_topics(timeout=PATIENCE).brokers.values()
    print(f"{node.host}:{node.port}", flush=True)
    for key in keys:
        producer.produce(topic, key=key, value="")
    if producer.flush(PATIENCE) == 0:
        print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
