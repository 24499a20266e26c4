// The filter that the site shows is, bit for bit, one of the server.

import assert from "node:assert/strict";
import test from "node:test";
import { createClient } from "redis";
import { bloom, pull } from "libbloom/redis";
import type { Chunk } from "../dist/file.js";
import { SmallFilter } from "../build/small.js";
import { Server } from "./support.js";

const shown = (chunks: readonly Chunk[]) => chunks.map(([iterator, data]) => [iterator, Buffer.from(data).toString("hex")]);

// Whoever watches it would learn another filter than the one that they get.
test("the filter that one can watch has the server's bits", async () => {
  const server = await new Server().start();
  const client = await createClient({ url: server.url, modules: { bloom } }).connect();
  try {
    const specs: Array<[errorRate: number, capacity: number]> = [
      [0.05, 80],
      [0.01, 1000],
      [1e-6, 300],
      [0.25, 7],
      [1e-30, 20],
    ];
    for (const [errorRate, capacity] of specs) {
      const seed = 2n ** 63n + BigInt(capacity);
      const own = new SmallFilter(errorRate, capacity, seed);
      const key = `${errorRate} ${capacity}`;
      await client.bloom.reserve(key, errorRate, capacity, { SEED: `${seed}`, NONSCALING: true });
      assert.deepEqual(shown(own.chunks().slice(0, 1)), shown((await pull(client, key)).chunks().slice(0, 1)), key);
      for (let number = 0; !own.isFull; number += 1) {
        const item = `item ${"é".repeat(number % 40)} ${number}`;
        assert.equal(own.add(item), Boolean(Number(await client.sendCommand(["BF.ADD", key, item]))), item);
      }
      assert.deepEqual(shown(own.chunks()), shown((await pull(client, key)).chunks()), key);
      const filter = own.readable();
      const probes = Array.from({ length: 5000 }, (_, number) => `probe ${number}`);
      const found = filter.hasMany(probes);
      assert.deepEqual(
        found,
        probes.map((item) => own.placesOf(item).every((place) => own.isSet(place))),
      );
      const absent = probes.find((_, at) => !found[at])!;
      assert.throws(() => own.add(absent), /full: it is made for/);
    }
  } finally {
    client.destroy();
    await server.stop();
  }
});
