// Filters that are made and added to here: bit for bit those of the Python package, and of a server.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { type CreateOptions, Filter } from "libbloom";
import { bloom, pull, push } from "libbloom/redis";
import { createClient } from "redis";
import { answersOf, cases, Server } from "./support.js";

const numbered = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, at) => `item ${from + at}${"é".repeat((from + at) % 40)}`);

// A filter that a page made would be refused by a server, or deny items there.
test("the same items make the same file as in Python, at once and in two steps", async () => {
  const forms = new Set<string>();
  for (const { capacity, error_rate, seed, expansion, growth, count, half, paths } of cases().added) {
    const options = { capacity, errorRate: error_rate, seed: BigInt(seed), expansion };
    const label = `${JSON.stringify({ capacity, error_rate, seed, expansion, growth, count, half })}`;
    const filter = Filter.create({ ...options, fixed: growth === "fixed", growing: growth === "growing" });
    const expected = paths.map((path) => readFileSync(path));
    for (const item of numbered(0, half)) filter.add(item);
    assert.ok(expected[0].equals(filter.toBytes()), label);
    const rest = numbered(half, count);
    const isNew = filter.addMany(rest);
    assert.ok(expected[1].equals(filter.toBytes()), label);
    assert.equal(filter.size, (await Filter.load(expected[0])).size + isNew.filter(Boolean).length);
    assert.ok(filter.hasMany(numbered(0, count)).every(Boolean), label);
    assert.ok(!filter.addMany(numbered(0, count)).some(Boolean), label);
    const loaded = await Filter.load(expected[0]);
    loaded.addMany(rest);
    assert.ok(expected[1].equals(loaded.toBytes()), label);
    forms.add(`${growth} ${filter.layers > 1}`);
  }
  assert.equal(forms.size, 5);
});

// Whoever loads one file twice, or keeps it, would have items in both.
test("adding leaves the bytes alone that a filter was loaded from", async () => {
  const filter = Filter.create({ capacity: 1000, errorRate: 0.01, seed: 1 });
  filter.add("one");
  const bytes = filter.toBytes();
  const before = Uint8Array.from(bytes);
  const [loaded, other] = [await Filter.load(bytes), await Filter.load(bytes)];
  assert.equal(loaded.add("two"), true);
  assert.deepEqual(bytes, before);
  assert.deepEqual([loaded.has("two"), other.has("two")], [true, false]);
  assert.deepEqual(other.toBytes(), before);
});

test("a full filter that may not grow refuses new items, and knows the others", () => {
  const filter = Filter.create({ capacity: 3, errorRate: 1e-9, fixed: true });
  assert.deepEqual(filter.addMany(["one", "two", "one", "three"]), [true, true, false, true]);
  const before = filter.toBytes();
  assert.throws(() => filter.add("four"), /^RangeError: the filter is full with 3 items, and may not grow$/);
  assert.equal(filter.add("two"), false);
  assert.deepEqual(filter.toBytes(), before);
});

test("filters of one program have one seed, which nobody can guess", () => {
  const [one, two] = [1, 2].map(() => Filter.create({ capacity: 100, errorRate: 0.01 }));
  assert.deepEqual(one.toBytes(), two.toBytes());
  assert.notDeepEqual(one.toBytes(), Filter.create({ capacity: 100, errorRate: 0.01, seed: 0 }).toBytes());
});

// A filter of other options than those that were meant would have other rates.
test("options out of their range are refused by name", () => {
  const usual = { capacity: 100, errorRate: 0.01 };
  const wrong: Array<[Partial<Record<keyof CreateOptions, unknown>>, RegExp]> = [
    [{ capacity: 0 }, /^RangeError: capacity is a whole number from 1 to 1099511627776, not 0$/],
    [{ capacity: 1.5 }, /^RangeError: capacity/],
    [{ capacity: "100" }, /^RangeError: capacity/],
    [{ capacity: undefined }, /^RangeError: capacity/],
    [{ errorRate: undefined }, /^RangeError: errorRate is above 0 and below 1, not undefined$/],
    [{ errorRate: 1 }, /^RangeError: errorRate/],
    [{ errorRate: NaN }, /^RangeError: errorRate/],
    [{ expansion: 0 }, /^RangeError: expansion is a whole number from 1 to 32768, not 0$/],
    [{ seed: -1 }, /^RangeError: seed/],
    [{ seed: 2 ** 53 }, /^RangeError: seed/],
    [{ seed: 2n ** 64n }, /^RangeError: seed is from 0 to 2\^64 - 1, not 18446744073709551616$/],
    [{ errorRate: "0.1" }, /^RangeError: errorRate/],
    [{ expansion: null }, /^RangeError: expansion/],
    [{ fixed: true, growing: true }, /^RangeError: a filter is fixed or growing, not both$/],
    [{ fixed: true, expansion: 3 }, /^RangeError: a fixed filter has no expansion$/],
    [{ capacity: 2 ** 40 }, /^RangeError: /],
  ];
  for (const [options, message] of wrong) {
    assert.throws(() => Filter.create({ ...usual, ...options } as CreateOptions), message);
  }
});

// Items would be lost: nothing here knows when they expire, or that an exception ends.
test("filters that only a server adds to refuse items", async () => {
  const names = ["exceptions", "window, refresh false, after 0", "classic 3000 of 20"];
  for (const { name, path, ...expected } of cases().whole.filter(({ name }) => names.includes(name))) {
    const filter = await Filter.load(readFileSync(path));
    assert.throws(() => filter.add("item"), /^TypeError: only a server adds to filters with a window or exceptions/);
    assert.deepEqual(answersOf(filter, expected.items, expected.now), expected, name);
    assert.ok(readFileSync(path).equals(filter.toBytes()), name);
  }
});

test("what is made here is made alike by a server, and goes there and back", async () => {
  const server = await new Server().start();
  const client = await createClient({ url: server.url, modules: { bloom } }).connect();
  try {
    for (const [capacity, errorRate, growth] of [[80, 0.05, "NONSCALING"], [1000, 1e-6, "GROWING"], [20, 0.01, ""]] as const) {
      const filter = Filter.create({ capacity, errorRate, seed: 5, fixed: growth === "NONSCALING", growing: growth === "GROWING" });
      const count = growth === "NONSCALING" ? capacity / 2 : 10 * capacity;
      await client.bloom.reserve("made", errorRate, capacity, { SEED: 5, ...(growth && { [growth]: true }) });
      for (const half of [numbered(0, count / 2), numbered(count / 2, count)]) {
        filter.addMany(half);
        await client.bloom.addPackedCount("made", half);
      }
      assert.deepEqual((await pull(client, "made")).toBytes(), filter.toBytes());
      await push(client, "pushed", filter);
      assert.equal(await client.bloom.existsPackedCount("pushed", numbered(0, count)), count);
      const back = await pull(client, "pushed");
      assert.deepEqual(back.toBytes(), filter.toBytes());
      await client.del("made");
    }
  } finally {
    client.destroy();
    await server.stop();
  }
});
