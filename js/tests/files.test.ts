// Filters that the Python package wrote, whole and damaged: the answers must be the same.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { Filter, FormatError } from "libbloom";
import { answersOf, cases, PROJECT } from "./support.js";

const { whole, damaged } = cases();
const VECTORS = join(PROJECT, "core/vectors");

// A filter that one program built would have lost items, or have others, in another one.
for (const { name, path, ...expected } of whole) {
  test(`a filter of the Python package: ${name}`, async () => {
    const filter = await Filter.load(readFileSync(path));
    assert.deepEqual(answersOf(filter, expected.items, expected.now), expected);
  });
}

for (const file of readdirSync(VECTORS)) {
  test(`the vector ${file}`, async () => {
    // A seed of 64 bits is no exact number in JavaScript.
    const text = readFileSync(join(VECTORS, file), "utf8").replace(/"seed": (\d+)/, '"seed": "$1"');
    const vector = JSON.parse(text);
    if (vector.parameters.layout === "valkey") {
      return assert.rejects(Filter.load(Buffer.from(vector.file, "base64")), /^FormatError: .* is not read in JavaScript$/);
    }
    const filter = await Filter.load(Buffer.from(vector.file, "base64"));
    const now = vector.time?.now;
    const items = vector.items.map((item: string) => Buffer.from(item, "hex"));
    const probes = Array.from({ length: vector.probes.count }, (_, number) => `${vector.probes.prefix}${number}`);
    const found = filter.hasMany(probes, now);
    assert.equal(filter.hasMany(items, now).filter(Boolean).length, vector.items_found);
    assert.deepEqual(
      [...found.keys()].filter((number) => found[number]),
      vector.probes_found,
    );
    for (const wrong of [NaN, "1"])
      if (now !== undefined)
        assert.throws(() => filter.has("item", wrong as number), /^RangeError: now is not a number$/);
    const { layout, window, capacity, error_rate: errorRate, seed, expansion, fixed, growing } = vector.parameters;
    if (!layout && !window && vector.excepted.length === 0) {
      const made = Filter.create({ capacity, errorRate, seed: BigInt(seed), expansion, fixed, growing });
      made.addMany(items);
      assert.equal(Buffer.from(made.toBytes()).toString("base64"), vector.file);
    }
    for (const item of vector.excepted) assert.equal(filter.has(Buffer.from(item, "hex")), false);
  });
}

// A page would deny items because a file was cut, or hang because somebody forged one.
test("damaged files are refused, or answer as in Python", async () => {
  const counts = { refused: 0, answered: 0 };
  for (const [number, { file, error, large, ...expected }] of damaged.entries()) {
    let filter: Filter;
    try {
      filter = await Filter.load(Buffer.from(file, "base64"));
    } catch (wrong) {
      assert.ok(wrong instanceof FormatError, `${number}: ${(wrong as Error).stack}`);
      // Above that, JavaScript's numbers are not exact.
      const isHuge = wrong.message.endsWith(` to ${Number.MAX_SAFE_INTEGER}`);
      assert.ok(error !== undefined || large || isHuge, `${number} is whole in Python: ${wrong.message}`);
      counts.refused += 1;
      continue;
    }
    assert.equal(error, undefined, `${number} is refused in Python`);
    if (!large) assert.deepEqual(answersOf(filter, expected.items!, expected.now), expected, `${number}`);
    counts.answered += 1;
  }
  assert.ok(counts.refused >= 400 && counts.answered >= 50, JSON.stringify(counts));
});
