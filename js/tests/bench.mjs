// Queries and additions a second, bytes and code of the package beside others from npm, at one error rate: the table of js/README.md.
//
//   make bench-js
//
// Times are of the processor, the best of three rounds.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import BloomFilters from "bloom-filters";
import { BloomFilter } from "bloomfilter";
import { build } from "esbuild";
import { Filter } from "libbloom";

const ITEMS = 100_000;
const RATE = 0.01;
const PYTHON = fileURLToPath(new URL("../../.build/venv/bin/python", import.meta.url));
const numbered = (from) => Array.from({ length: ITEMS }, (_, number) => `${from + number}`.padStart(32, "0"));
const [present, absent] = [numbered(0), numbered(ITEMS)];

/** Microseconds of the processor that something takes for an item, at best. */
function time(work, rounds = 3) {
  let best = Infinity;
  for (let round = 0; round < rounds; round += 1) {
    const begin = process.cpuUsage();
    work();
    const { user, system } = process.cpuUsage(begin);
    best = Math.min(best, (user + system) / ITEMS);
  }
  return best;
}

async function code(name, from) {
  const stdin = {
    contents: `export { ${name} } from "${from}"`,
    resolveDir: fileURLToPath(new URL("..", import.meta.url)),
  };
  const options = { bundle: true, minify: true, write: false, format: "esm", platform: "browser", logLevel: "error" };
  return gzipSync((await build({ stdin, ...options })).outputFiles[0].contents, { level: 9 }).length;
}

const rows = [];
async function row(name, has, many, adding, bytes, size) {
  const found = absent.filter(has).length;
  if (!present.every(has)) throw new Error(`${name} denies an item`);
  const second = (micros) => (micros === undefined ? "–" : `${(1 / micros).toFixed(2)} million`);
  const [yes, no] = [present, absent].map((items) => time(() => items.forEach(has)));
  const each = many && time(() => many(absent));
  const cells = [yes, no, each, adding].map(second);
  rows.push([name, ...cells, `${((100 * found) / ITEMS).toFixed(2)} %`, bytes, `${(size / 1000).toFixed(1)} kB`]);
}

/** A filter with all items, and the time that each takes. */
function filled(empty) {
  let filter;
  const each = time(() => {
    filter = empty();
    present.forEach((item) => filter.add(item));
  });
  return [filter, each];
}

const size = await code("Filter", "libbloom");
const rowOf = (name, filter, adding) =>
  row(name, (item) => filter.has(item), (items) => filter.hasMany(items), adding, filter.sizeInBytes, size);

await rowOf("libbloom", ...filled(() => Filter.create({ capacity: ITEMS, errorRate: RATE, fixed: true, seed: 1 })));

const folder = mkdtempSync(join(tmpdir(), "libbloom-bench-"));
const file = join(folder, "classic.bloom");
const script = `from libbloom import Filter
made = Filter(${ITEMS}, ${RATE}, layout="classic", fixed=True)
made.update("%032d" % number for number in range(${ITEMS}))
made.save("${file}")`;
execFileSync(PYTHON, ["-c", script]);
await rowOf("libbloom, RedisBloom's layout", await Filter.load(readFileSync(file)));
rmSync(folder, { recursive: true });

const bits = Math.ceil((-ITEMS * Math.log(RATE)) / Math.LN2 ** 2);
const [other, quick] = filled(() => new BloomFilter(bits, Math.round((bits / ITEMS) * Math.LN2)));
await row(
  "bloomfilter 1.1.0",
  (item) => other.test(item),
  undefined,
  quick,
  other.buckets.byteLength,
  await code("BloomFilter", "bloomfilter"),
);

const [third, slow] = filled(() => BloomFilters.BloomFilter.create(ITEMS, RATE));
await row(
  "bloom-filters 3.0.4",
  (item) => third.has(item),
  undefined,
  slow,
  Math.ceil(third.size / 8),
  await code("BloomFilter", "bloom-filters"),
);

console.log(
  `| ${ITEMS} items at ${RATE} | has, present | has, absent | hasMany, absent | add | false positives | bytes of bits | code, compressed |`,
);
console.log(`|---|---|---|---|---|---|---|---|`);
for (const cells of rows) console.log(`| ${cells.join(" | ")} |`);
