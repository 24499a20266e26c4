"""What a type checker says of programs, which test_types.py compares: a line's error stands behind it, as `E:`."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import numpy
import redis
import redis.asyncio
from libbloom import AsyncBloom, AsyncShardedBloom, Bloom, Count, Filter, Maybe, ShardedBloom
from typing_extensions import assert_type

seen = Filter(1_000_000, 0.001)
assert_type(seen.add("a"), bool)
assert_type(seen.update(["a", b"b", bytearray(b"c"), memoryview(b"d")]), int)
assert_type(seen.update(numpy.arange(3), threads=2), int)
assert_type(seen.contains_many(["a"]), list[bool])
assert_type(seen.contains_many(word for word in ("a", "b")), list[bool])
assert_type(seen.contains_many(numpy.arange(3)), Any)
assert_type(seen.except_(["a"]), int)
seen.update(5)  # E: Argument 1 to "update" of "Filter" has incompatible type "int"
seen.update(b"bytes")  # E: Argument 1 to "update" of "Filter" has incompatible type "bytes"
seen.update([5])  # E: List item 0 has incompatible type "int"
seen.update([None])  # E: List item 0 has incompatible type "None"
seen.contains_many(5)  # E: No overload variant of "contains_many" of "Filter" matches argument type "int"
seen.add(5)  # E: Argument 1 to "add" of "Filter" has incompatible type "int"
seen.capacity = 5  # E: Property "capacity" defined in "Filter" is read-only
Filter(100, 0.01, layuot="classic")  # E: Unexpected keyword argument "layuot" for "Filter"

client = redis.Redis()
for there in (Bloom(client, "seen"), ShardedBloom(client, "seen")):
    assert_type(there.add("a"), bool | Maybe)
    assert_type(there.update(["a"]), Count)
    assert_type(there.update(numpy.arange(3)), Count)
    assert_type(there.add_many(["a"]), list[bool | Maybe])
    assert_type(there.contains_many(["a"]), list[bool])
    assert_type(there.contains_many(numpy.arange(3)), Any)
    there.update(5)  # E: Argument 1 to "update" of "Calls" has incompatible type "int"
    there.add_many([5])  # E: List item 0 has incompatible type "int"


async def words() -> AsyncIterator[str]:
    yield "a"


async def use(client: redis.asyncio.Redis) -> None:
    for there in (AsyncBloom(client, "seen"), AsyncShardedBloom(client, "seen")):
        assert_type(await there.update(words()), Count)
        assert_type(await there.contains_many(words()), list[bool])
        assert_type(await there.contains_many(["a"]), list[bool])
        assert_type(await there.contains_many(numpy.arange(3)), Any)
        await there.update(5)  # E: Argument 1 to "update" of "AsyncCalls" has incompatible type "int"
    assert_type((await AsyncBloom(client, "seen").info()).items, int)


asyncio.run(use(redis.asyncio.Redis()))
