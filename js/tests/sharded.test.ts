// examples/typescript/sharded.ts: the vectors of the layout, and a filter on a cluster that Python's client laid out.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { PROJECT, startCluster } from "./support.js";
import { clusterOf, metaKey, shardKey, shardOf, ShardedBloom } from "./sharded.js";

const FOLDER = join(PROJECT, "python/vectors");
const ITEMS = Array.from({ length: 1000 }, (_, number) => `item ${number}`);

// Items would be looked for in other shards than those that have them.
for (const file of readdirSync(FOLDER)) {
  test(`the vectors of ${file}`, () => {
    const vector = JSON.parse(readFileSync(join(FOLDER, file), "utf8"));
    const shards = Number(vector.meta.shards);
    assert.equal(metaKey(vector.name), vector.meta_key);
    assert.ok(vector.items.length > 30);
    for (const { item, shard, key } of vector.items) {
      assert.equal(shardOf(Buffer.from(item, "hex"), shards), shard);
      assert.equal(shardKey(vector.name, shard, shards), key);
    }
  });
}

test("a sharded filter", async () => {
  const nodes = await startCluster();
  try {
    for (const RESP of [2, 3] as const) await use(nodes.url, RESP);
  } finally {
    await nodes.stop();
  }
});

async function use(url: string, RESP: 2 | 3): Promise<void> {
  const cluster = clusterOf(url, RESP);
  await cluster.connect();
  /** What `libbloom shard create` does. */
  const make = async (name: string, shards: number, state: string): Promise<void> => {
    const figures = { capacity: 1000, shard_capacity: 1000, error_rate: 1e-9 };
    await cluster.hSet(metaKey(name), { version: 1, hash: "BLAKE2b-512", shards, ...figures, state });
    for (let shard = 0; shard < shards; shard += 1)
      await cluster.bloom.reserve(shardKey(name, shard, shards), 1e-9, 1000);
  };
  try {
    const [name, half, lossy] = [`seen ${RESP}`, `half ${RESP}`, `lossy ${RESP}`];
    await make(name, 5, "ready");
    await make(half, 1, "creating");
    await make(lossy, 1, "ready");
    await cluster.del(shardKey(lossy, 0, 1));
    for (const item of ITEMS) await cluster.bf.add(shardKey(name, shardOf(item, 5), 5), item);

    const seen = await ShardedBloom.open(cluster, name);
    assert.ok((await seen.hasMany(ITEMS)).every((found) => found));
    assert.deepEqual(await seen.hasMany(["absent", "item 7", Buffer.from("item 8")]), [false, true, true]);
    assert.deepEqual(await seen.addMany(["fresh", "item 9", "fresh", "grün"]), [true, false, false, true]);
    assert.equal(await seen.add("fresh"), false);
    assert.equal(await seen.has("grün"), true);
    await assert.rejects(ShardedBloom.open(cluster, "unseen"), { message: "there is no sharded filter unseen" });
    await assert.rejects(ShardedBloom.open(cluster, half), { message: `${half} is not whole, it is creating` });
    const lost = await ShardedBloom.open(cluster, lossy);
    await assert.rejects(lost.has("item"), { message: /^there is no lossy \d:\{0\}:1/ });
    await assert.rejects(lost.add("item"), { message: "ERR not found" });
  } finally {
    cluster.destroy();
  }
}
