"""redis-py: every method of `bf()`, synchronous and asynchronous, in each protocol, with and without hiredis."""

import asyncio
import inspect
import unittest

import redis
import redis.asyncio
from common import Case
from redis._parsers import _AsyncRESP2Parser, _RESP2Parser

# Bytes of a filter for 1,000 items at 0.001, and of a fixed one for 3 at 0.01.
WIDE, FIXED = 2040, 184
ITEMS = ["text", b"\xff\x00\r\n", 7, ""]
FIVE = {
    "Capacity": 100,
    "Size": 312,
    "Number of filters": 1,
    "Number of items inserted": 1,
    "Expansion rate": 2,
}


async def value(answer):
    """What a method answered, at once or later."""
    return await answer if inspect.isawaitable(answer) else answer


class Session:
    """A client, and what its library makes of the replies."""

    def __init__(self, case, library, options):
        pool = library.ConnectionPool(port=case.server.port, **options)
        protocol = options.get("protocol")
        self.client = library.Redis.from_pool(pool)
        self.bloom = self.client.bf()
        self.case = case
        # Without a protocol redis-py 8 asks for RESP3, and gives most of it the forms of RESP2.
        booleans = protocol != 2 and 3 in case.protocols()
        self.yes, self.no = (True, False) if booleans else (1, 0)
        self.raw_info = protocol == 3

    async def gives(self, answer, expected):
        """By the text of the values, since True is equal to 1."""
        self.case.assertEqual(repr(await value(answer)), repr(expected))

    async def refuses(self, call, text):
        with self.case.assertRaises(redis.ResponseError) as caught:
            await value(call())
        self.case.assertEqual(str(caught.exception), text)

    async def has_info(self, key, **changed):
        expected = {**FIVE, **{name.replace("_", " "): figure for name, figure in changed.items()}}
        info = await value(self.bloom.info(key))
        if self.raw_info:
            found = {name.decode(): figure for name, figure in info.items()}
        else:
            names = ["capacity", "size", "filterNum", "insertedNum", "expansionRate"]
            found = dict(zip(expected, (info[name] for name in names)))
        self.case.assertEqual(found, expected)

    async def uses_everything(self):
        bloom, yes, no = self.bloom, self.yes, self.no
        await value(self.client.flushall())

        await self.gives(bloom.reserve("reserved", 0.01, 100), True)
        await self.gives(bloom.create("wide", "0.001", 1000, expansion=4), True)
        await self.gives(bloom.create("fixed", 0.01, 3, noScale=True), True)
        await self.refuses(lambda: bloom.reserve("reserved", 0.01, 100), "item exists")
        await self.refuses(
            lambda: bloom.reserve("new", 1, 100), "error rate must be in the range (0.000000, 1.000000)"
        )
        await self.refuses(
            lambda: bloom.reserve("new", 0.01, 100, expansion=2, noScale=True),
            "Nonscaling filters cannot expand",
        )

        await self.gives(bloom.add("added", "item"), yes)
        await self.gives(bloom.add("added", "item"), no)
        await self.gives(bloom.madd("many", *ITEMS, "text"), [yes, yes, yes, yes, no])
        await self.gives(bloom.insert("inserted", ITEMS[:2], capacity=1000, error=0.001), [yes, yes])
        await self.gives(bloom.insert("inserted", ITEMS, noCreate=True), [no, no, yes, yes])
        await self.gives(bloom.insert("narrow", ["a"], expansion=1), [yes])
        await self.gives(bloom.insert("once", ["a"], capacity=5, noScale=True), [yes])
        await self.refuses(lambda: bloom.insert("missing", ["a"], noCreate=True), "not found")

        await self.gives(bloom.exists("many", b"\xff\x00\r\n"), yes)
        await self.gives(bloom.exists("many", "7"), yes)
        await self.gives(bloom.exists("many", "other"), no)
        await self.gives(bloom.exists("missing", "other"), no)
        await self.gives(bloom.mexists("many", "other", *ITEMS), [no, yes, yes, yes, yes])
        await self.gives(bloom.mexists("missing", "a", "b"), [no, no])

        await self.gives(bloom.card("many"), 4)
        await self.gives(bloom.card("missing"), 0)
        await self.has_info("added")
        await self.has_info("wide", Capacity=1000, Size=WIDE, Number_of_items_inserted=0, Expansion_rate=4)
        await self.has_info("fixed", Capacity=3, Size=FIXED, Number_of_items_inserted=0, Expansion_rate=None)
        await self.refuses(lambda: bloom.info("missing"), "not found")

        # The array ends with the error of the item that did not fit.
        *taken, refused = await value(bloom.madd("fixed", "a", "b", "a", "c", "d", "e"))
        self.case.assertEqual(repr(taken), repr([yes, yes, no, yes]))
        self.case.assertIsInstance(refused, redis.ResponseError)
        self.case.assertEqual(str(refused), "non scaling filter is full")
        await self.refuses(lambda: bloom.add("fixed", "d"), "non scaling filter is full")

        await self.moves_a_filter()

    async def moves_a_filter(self):
        iterator = 0
        while True:
            iterator, chunk = await value(self.bloom.scandump("many", iterator))
            self.case.assertIsInstance(chunk, bytes)
            if iterator == 0:
                break
            await self.gives(self.bloom.loadchunk("copy", iterator, chunk), b"OK")
        self.case.assertEqual(chunk, b"")
        many, copy = [await value(self.client.dump(key)) for key in ("many", "copy")]
        self.case.assertEqual(many, copy)
        await self.refuses(lambda: self.bloom.loadchunk("bad", 1, "nonsense"), "received bad data")


class RedisPyTest(Case):
    def choices(self, parser):
        """Options of a client; without hiredis redis-py has a parser of its own."""
        for protocol in [{}, *({"protocol": protocol} for protocol in self.protocols())]:
            yield from (protocol, {**protocol, "parser_class": parser})

    def test_the_synchronous_client(self):
        for options in self.choices(_RESP2Parser):
            with self.subTest(**options):
                session = Session(self, redis, options)
                asyncio.run(session.uses_everything())
                session.client.close()

    def test_the_asynchronous_client(self):
        async def run(options):
            session = Session(self, redis.asyncio, options)
            async with session.client:
                await session.uses_everything()

        for options in self.choices(_AsyncRESP2Parser):
            with self.subTest(**options):
                asyncio.run(run(options))


if __name__ == "__main__":
    unittest.main()
