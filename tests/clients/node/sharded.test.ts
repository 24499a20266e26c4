// examples/typescript/sharded.ts: the vectors of the layout, and a filter that Python made, on a cluster.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { createCluster } from "redis";
import { metaKey, shardKey, shardOf, ShardedBloom } from "./sharded.js";

const folder = process.env.VECTORS!;

for (const file of readdirSync(folder)) {
  test(`the vectors of ${file}`, () => {
    const vector = JSON.parse(readFileSync(join(folder, file), "utf8"));
    const shards = Number(vector.meta.shards);
    assert.equal(metaKey(vector.name), vector.meta_key);
    assert.ok(vector.items.length > 30);
    for (const { item, shard, key } of vector.items) {
      assert.equal(shardOf(Buffer.from(item, "hex"), shards), shard);
      assert.equal(shardKey(vector.name, shard, shards), key);
    }
  });
}

for (const RESP of [2, 3] as const) {
  test(`a filter that another client made, in RESP${RESP}`, async () => {
    const cluster = createCluster({ rootNodes: [{ url: process.env.CLUSTER_URL! }], RESP });
    await cluster.connect();
    try {
      const seen = await ShardedBloom.open(cluster, "seen");
      const items = Array.from({ length: 1000 }, (_, number) => `item ${number}`);
      assert.ok((await seen.hasMany(items)).every((found) => found));
      assert.deepEqual(await seen.hasMany(["absent", "item 7", Buffer.from("item 8")]), [false, true, true]);
      const fresh = `fresh in ${RESP}`;
      assert.deepEqual(await seen.addMany([fresh, "item 9", fresh, "grün"]), [true, false, false, RESP === 2]);
      assert.equal(await seen.add(fresh), false);
      assert.equal(await seen.has(fresh), true);
      await assert.rejects(ShardedBloom.open(cluster, "unseen"), { message: "there is no sharded filter unseen" });
      await assert.rejects(ShardedBloom.open(cluster, "half"), { message: "half is not whole, it is creating" });
      const lossy = await ShardedBloom.open(cluster, "lossy");
      await assert.rejects(lossy.has("item"), { message: /^there is no lossy:\{0\}:1/ });
      await assert.rejects(lossy.add("item"), { message: "ERR not found" });
    } finally {
      cluster.destroy();
    }
  });
}
