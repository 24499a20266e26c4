// libbloom/redis on a server of its own, in both protocols.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import test, { after, before } from "node:test";
import { Filter } from "libbloom";
import { bloom, BYTES, pull, push } from "libbloom/redis";
import { createClient, createCluster } from "redis";
import { answersOf, cases, Server, startCluster } from "./support.js";

const server = new Server();
before(() => server.start());
after(() => server.stop());

for (const RESP of [2, 3] as const) {
  const connect = () => createClient({ url: server.url, RESP, modules: { bloom } }).connect();

  test(`commands in RESP${RESP}`, async () => {
    const client = await connect();
    const bytes = client.withTypeMapping(BYTES);
    try {
      await client.flushAll();
      assert.equal(
        await client.bloom.reserve("recent", 0.01, 1000, { WINDOW: 3600, SLICES: 4, REFRESH: true, EX: 60 }),
        "OK",
      );
      assert.equal(await client.bloom.reserve("recent", 0.01, 1000, { NX: true }), null);
      assert.ok((await client.ttl("recent")) > 50);
      await assert.rejects(client.bloom.reserve("recent", 0.01, 1000), { message: "ERR item exists" });

      const items = ["one", "grün", Buffer.from([0, 255, 10]), "", "one"];
      const expected = [true, true, true, true, false];
      const options = { CAPACITY: 1000, ERROR: 0.001, SEED: 2n ** 64n - 1n };
      assert.deepEqual(await bytes.bloom.addPacked("seen", items, options), expected);
      assert.deepEqual(await bytes.bloom.existsPacked("seen", [...items, "two"]), [
        true,
        true,
        true,
        true,
        true,
        false,
      ]);
      assert.equal(
        await client.bloom.addPackedCount("seen", ["one", "two", new Uint8Array([3])], { NOCREATE: true }),
        2,
      );
      assert.equal(await client.bloom.existsPackedCount("seen", ["two", "three", "four"]), 1);
      assert.deepEqual(await bytes.bloom.addPacked("seen", { LINES: "two\nthree\nfour" }), [false, true, true]);
      assert.deepEqual(await bytes.bloom.existsPacked("seen", { LINES: Buffer.from("two\nfive\n") }), [true, false]);
      assert.deepEqual(await bytes.bloom.addPacked("seen", { WIDTH: 2, data: "abcdab" }), [true, true, false]);
      assert.deepEqual(await bytes.bloom.existsPacked("seen", []), []);
      await assert.rejects(client.bloom.existsPacked("seen", ["one"]), /withTypeMapping\(BYTES\)/);
      await assert.rejects(bytes.bloom.addPacked("nobody", ["one"], { NOCREATE: true }), { message: "ERR not found" });

      assert.deepEqual(await client.bloom.except("seen", ["two", "five", Buffer.from("two")]), [true, false, false]);
      assert.deepEqual(await bytes.bloom.existsPacked("seen", ["one", "two"]), [true, false]);

      for (const [key, some] of [
        ["monday", ["ann", "bob"]],
        ["tuesday", ["bob", "eve"]],
      ] as const) {
        assert.equal(await client.bloom.addPackedCount(key, some, { CAPACITY: 1000, SEED: 42 }), 2);
      }
      assert.equal(await client.bloom.merge("week", ["monday", "tuesday"], { ERROR: 0.02, OVERRIDE: true }), "OK");
      assert.equal(await client.bloom.intersect("each", ["monday", "tuesday"]), "OK");
      assert.deepEqual(await bytes.bloom.existsPacked("week", ["ann", "bob", "eve", "max"]), [true, true, true, false]);
      assert.deepEqual(await bytes.bloom.existsPacked("each", ["ann", "bob", "eve"]), [false, true, false]);
      assert.equal(await client.bloom.shrink("week", { CAPACITY: 1000 }), 0);
      assert.equal(await client.bloom.shrink("week"), 1024);
      assert.equal(await client.bloom.shrink("week"), 0);
      assert.equal(await client.bloom.reset("week"), "OK");
      assert.equal(await client.bloom.existsPackedCount("week", ["ann", "bob"]), 0);

      for (const asked of [client, bytes]) {
        const plan = await asked.bloom.plan(0.01, 100_000, { EXPANSION: 4 });
        assert.equal(plan.Capacity, 100_000);
        assert.equal(plan["Error rate"], 0.01);
        assert.equal(plan["Expansion rate"], 4);
        assert.equal(plan.Layout, "blocked");
        assert.deepEqual(
          (plan.Stages as Array<{ Items: number }>).map(({ Items }) => Items),
          [1e5, 1e6, 1e8],
        );
        assert.equal((await asked.bloom.plan(0.01, 100_000, { NONSCALING: true }))["Expansion rate"], null);
      }
      const replies = await client
        .multi()
        .bloom.reserve("multi", 0.01, 10)
        .bloom.addPackedCount("multi", ["one"])
        .exec();
      assert.deepEqual(replies, ["OK", 1]);
    } finally {
      client.destroy();
    }
  });

  // What is pushed must be what was read, whatever the layout, and a key must never have half of it.
  test(`filters move in RESP${RESP}`, async () => {
    const client = await connect();
    try {
      await client.flushAll();
      for (const { name, path, ...expected } of cases().whole) {
        const filter = await Filter.load(readFileSync(path));
        await push(client, "moved", filter);
        assert.deepEqual(answersOf(await pull(client, "moved"), expected.items, expected.now), expected, name);
        assert.equal(await client.ttl("moved"), -1, "only what is left over expires");
        assert.equal(await client.dbSize(), 1, "what the push made is gone");
      }
      const filter = await Filter.load(readFileSync(cases().whole[2].path));
      await client.set("text", "text");
      await assert.rejects(
        push(client, "text", filter),
        /^\w*Error: WRONGTYPE the key holds string, which is no filter/,
      );
      assert.equal(await client.get("text"), "text");
      await client.expire("moved", 1000);
      await push(client, "moved", filter);
      assert.ok((await client.ttl("moved")) > 900);
      assert.equal(await client.dbSize(), 2);
      await assert.rejects(pull(client, "nobody"), { message: "ERR not found" });
      await assert.rejects(pull(client, "text"), /WRONGTYPE/);
    } finally {
      client.destroy();
    }
  });

  // A filter that grows all the time would be read as one that never was.
  test(`a filter is read while items are added in RESP${RESP}`, async () => {
    const [client, other] = [await connect(), await connect()];
    try {
      await client.flushAll();
      let isOver = false;
      const added: string[] = [];
      const adding = (async () => {
        for (let number = 0; !isOver && number < 2000; number += 1) {
          const items = Array.from({ length: 100 }, (_, at) => `item ${number}.${at}`);
          await other.bloom.addPackedCount("growing", items, { CAPACITY: 10 });
          added.push(...items);
        }
      })();
      for (let round = 0; round < 10;) {
        const known = [...added];
        if (known.length === 0) {
          await new Promise((resolve) => setTimeout(resolve, 1));
          continue;
        }
        assert.ok((await pull(client, "growing")).hasMany(known).every(Boolean));
        round += 1;
      }
      isOver = true;
      await adding;
      assert.equal(await client.dbSize(), 1, "what the pulls made is gone");
    } finally {
      client.destroy();
      other.destroy();
    }
  });
}

// A program that passes nothing would be told something about a property of its own library.
test("what is no item, list, word, client or filter is refused with what is taken", async () => {
  const client = await createClient({ url: server.url, modules: { bloom } }).connect();
  const filter = await Filter.load(readFileSync(cases().whole[2].path));
  const refused = async (work: () => Promise<unknown>, message: RegExp): Promise<void> =>
    assert.rejects(async () => work(), { name: "TypeError", message });
  try {
    for (const [kind, wrong] of Object.entries({ Object: {} as never, Undefined: undefined as never, Number: 5 as never })) {
      const list = new RegExp(`^a list is an array or another iterable object, not ${kind}$`);
      const item = new RegExp(`is a string, a Uint8Array, a DataView or an ArrayBuffer, not ${kind}$`);
      await refused(() => client.bloom.addPackedCount("key", wrong), list);
      await refused(() => client.bloom.existsPackedCount("key", wrong), list);
      await refused(() => client.bloom.except("key", wrong), list);
      await refused(() => client.bloom.merge("key", wrong), list);
      await refused(() => client.bloom.addPackedCount("key", [wrong]), item);
      await refused(() => client.bloom.except("key", [wrong]), item);
      await refused(() => client.bloom.addPackedCount("key", { LINES: wrong }), item);
      await refused(() => client.bloom.addPackedCount("key", { WIDTH: 2, data: wrong }), item);
      await refused(() => push(client, wrong, filter), item);
      await refused(() => pull(client, [wrong] as never), /not Array$/);
      await refused(() => push(client, "key", wrong), new RegExp(`^what is pushed is a Filter, not ${kind}$`));
      await refused(() => pull(wrong, "key"), new RegExp(`^a client is one of node-redis, not ${kind}$`));
      if (kind === "Number") continue;
      const word = new RegExp(`^a word of a command is a string, a Uint8Array, a DataView or an ArrayBuffer, not ${kind}$`);
      await refused(() => client.bloom.reset(wrong), word);
      await refused(() => client.bloom.reserve("key", wrong, 100), word);
      await refused(() => client.bloom.addPackedCount("key", { WIDTH: wrong, data: "ab" }), word);
    }
    await refused(() => client.bloom.reserve("key", 0.01, 100, { EXPANSION: {} as never }), /^a word of a command/);
    await refused(() => client.bloom.reserve("key", 0.01, 100, null as never), /^options are an object, not Null$/);
    assert.deepEqual(await client.keys("key"), []);
  } finally {
    client.destroy();
  }
});

// A key's name decides about the node; a temporary name on another one would be an error, or be left there.
test("keys with braces, in a cluster", async () => {
  const nodes = await startCluster();
  const cluster = await createCluster({ rootNodes: [{ url: nodes.url }], modules: { bloom } }).connect();
  try {
    const filter = await Filter.load(readFileSync(cases().whole[2].path));
    for (const key of [
      "a",
      "{a}b",
      "a}b",
      "a{}b",
      "{}",
      "{",
      "}",
      "{{a}}",
      "a{b",
      Buffer.from([0xff, 0x7d, 0xfe]),
      randomBytes(9),
    ]) {
      await push(cluster, key, filter);
      assert.equal((await pull(cluster, key)).size, filter.size);
      assert.equal(await cluster.bloom.existsPackedCount(key, ["item 0", "item 499"]), 2);
    }
  } finally {
    cluster.destroy();
    await nodes.stop();
  }
});

// A program would fill the memory of its machine with what a broken server, or a false one, sends.
test("a dump without end is refused", async () => {
  const [[first, header], [end, data]] = Filter.create({ capacity: 100, errorRate: 0.01 }).chunks();
  const dumps: Array<(at: number) => [number, Uint8Array]> = [
    (at) => [at + 64, Buffer.alloc(64)],
    () => [end, data],
    (at) => [at + 1, Buffer.alloc(0)],
  ];
  for (const endless of dumps) {
    let asked = 0;
    const sendCommand = async ([name, , iterator]: any[]): Promise<any> => {
      if (name !== "BF.SCANDUMP") return 1;
      asked += 1;
      if (asked > 100) throw new Error("it does not end");
      const at = Number(`${iterator}`);
      return at === 0 ? [first, Buffer.from(header)] : endless(at);
    };
    await assert.rejects(pull({ sendCommand }, "seen"), { name: "FormatError" });
    assert.ok(asked < 10);
  }
});
