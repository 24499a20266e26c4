// node-redis: every function of `client.bf`, in RESP2 and RESP3.

import assert from "node:assert/strict";
import test from "node:test";
import { createClient, RESP_TYPES } from "redis";

const url = process.env.REDIS_URL;
const binary = Buffer.from([0xff, 0x00, 0x0d, 0x0a]);
const items = ["text", binary, ""];

const figures = (changed) => ({
  Capacity: 100,
  Size: 312,
  "Number of filters": 1,
  "Number of items inserted": 1,
  "Expansion rate": 2,
  ...changed,
});

for (const RESP of process.env.PROTOCOLS.split(" ").map(Number)) {
  test(`client.bf in RESP${RESP}`, async () => {
    const client = createClient({ url, RESP });
    await client.connect();
    try {
      await client.flushAll();
      await reserves(client.bf);
      await adds(client.bf, RESP);
      await asks(client.bf);
      await moves(client);
    } finally {
      client.destroy();
    }
  });
}

const refuses = (promise, message) => assert.rejects(promise, { message });

async function reserves(bf) {
  assert.equal(await bf.reserve("reserved", 0.01, 100), "OK");
  assert.equal(await bf.reserve("wide", 0.001, 1000, { EXPANSION: 4 }), "OK");
  assert.equal(await bf.reserve("fixed", 0.01, 3, { NONSCALING: true }), "OK");
  await refuses(bf.reserve("reserved", 0.01, 100), "ERR item exists");
  await refuses(bf.reserve("new", 1, 100), "ERR error rate must be in the range (0.000000, 1.000000)");
  await refuses(
    bf.reserve("new", 0.01, 100, { EXPANSION: 2, NONSCALING: true }),
    "Nonscaling filters cannot expand",
  );
}

async function adds(bf, RESP) {
  assert.equal(await bf.add("added", "item"), true);
  assert.equal(await bf.add("added", "item"), false);
  assert.deepEqual(await bf.mAdd("many", [...items, "text"]), [true, true, true, false]);
  const options = { CAPACITY: 1000, ERROR: 0.001, EXPANSION: 4 };
  assert.deepEqual(await bf.insert("inserted", ["a", "b"], options), [true, true]);
  assert.deepEqual(await bf.insert("inserted", ["a", "c"], { NOCREATE: true }), [false, true]);
  assert.deepEqual(await bf.insert("once", "a", { CAPACITY: 5, NONSCALING: true }), [true]);
  await refuses(bf.insert("missing", "a", { NOCREATE: true }), "ERR not found");

  // The array ends with the error of the item that did not fit. In RESP2 the library turns it into a false.
  const reply = await bf.mAdd("fixed", ["a", "b", "a", "c", "d", "e"]);
  const last = reply.pop();
  assert.deepEqual(reply, [true, true, false, true]);
  assert.equal(RESP === 2 ? last : last.message, RESP === 2 ? false : "ERR non scaling filter is full");
  await refuses(bf.add("fixed", "d"), "ERR non scaling filter is full");
}

async function asks(bf) {
  assert.equal(await bf.exists("many", binary), true);
  assert.equal(await bf.exists("many", "other"), false);
  assert.equal(await bf.exists("missing", "other"), false);
  assert.deepEqual(await bf.mExists("many", ["other", ...items]), [false, true, true, true]);
  assert.deepEqual(await bf.mExists("missing", ["a", "b"]), [false, false]);
  assert.equal(await bf.card("many"), 3);
  assert.equal(await bf.card("missing"), 0);

  const info = async (key) => ({ ...(await bf.info(key)) });
  assert.deepEqual(await info("added"), figures({}));
  assert.deepEqual(
    await info("inserted"),
    figures({ Capacity: 1000, Size: 2040, "Number of items inserted": 3, "Expansion rate": 4 }),
  );
  assert.equal((await info("fixed"))["Expansion rate"], null);
  await refuses(bf.info("missing"), "ERR not found");
}

async function moves(client) {
  // Chunks are bytes, which the library takes for text unless it is told.
  const raw = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
  let iterator = 0;
  for (;;) {
    const dumped = await raw.bf.scanDump("many", iterator);
    if (dumped.iterator === 0) {
      assert.equal(dumped.chunk.length, 0);
      break;
    }
    assert.equal(await client.bf.loadChunk("copy", dumped.iterator, dumped.chunk), "OK");
    iterator = dumped.iterator;
  }
  assert.deepEqual(await raw.dump("copy"), await raw.dump("many"));
  // So are bitmaps; docs/clients.md tells both ways.
  assert.deepEqual(await raw.sendCommand(["BF.ADDPACKED", "packed", "LINES", "a\nb\na\n"]), Buffer.from([0xc0]));
  await refuses(client.bf.loadChunk("bad", 1, "nonsense"), "ERR received bad data");
}
