// ioredis has no functions for modules: `call` sends any command. In RESP3 it turns booleans into 1 and 0, and
// maps into arrays.

import assert from "node:assert/strict";
import test from "node:test";
import Redis from "ioredis";

for (const protocol of process.env.PROTOCOLS.split(" ").map(Number)) {
  test(`call in RESP${protocol}`, async () => {
    const client = new Redis(process.env.REDIS_URL, { protocol });
    try {
      await client.flushall();
      await uses(client, protocol);
    } finally {
      client.disconnect();
    }
  });
}

async function uses(client, protocol) {
  assert.equal(await client.call("BF.RESERVE", "key", "0.01", "100"), "OK");
  assert.equal(await client.call("BF.ADD", "key", "item"), 1);
  assert.deepEqual(await client.call("BF.MADD", "key", "item", "other"), [0, 1]);
  assert.deepEqual(await client.call("BF.INSERT", "key", "NOCREATE", "ITEMS", "a", "a"), [1, 0]);
  assert.equal(await client.call("BF.EXISTS", "key", "b"), 0);
  assert.deepEqual(await client.call("BF.MEXISTS", "key", "a", "b"), [1, 0]);
  assert.equal(await client.call("BF.CARD", "key"), 3);
  assert.deepEqual(await client.call("BF.INFO", "key", "CAPACITY"), protocol === 2 ? [100] : ["Capacity", 100]);
  assert.deepEqual((await client.call("BF.INFO", "key")).slice(-4), [
    "Number of items inserted",
    3,
    "Expansion rate",
    2,
  ]);
  let iterator = 0;
  for (;;) {
    const [next, chunk] = await client.callBuffer("BF.SCANDUMP", "key", iterator);
    if (next === 0) break;
    assert.equal(await client.call("BF.LOADCHUNK", "copy", next, chunk), "OK");
    iterator = next;
  }
  assert.deepEqual(await client.dumpBuffer("copy"), await client.dumpBuffer("key"));
  assert.deepEqual(await client.callBuffer("BF.ADDPACKED", "packed", "LINES", "a\nb\na\n"), Buffer.from([0xc0]));
  await assert.rejects(client.call("BF.RESERVE", "key", "0.01", "100"), { message: "ERR item exists" });
}
