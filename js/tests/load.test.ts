// What a filter is read from, and what is refused.

import assert from "node:assert/strict";
import { createReadStream, readFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { createServer } from "node:http";
import { once } from "node:events";
import { Readable } from "node:stream";
import test from "node:test";
import { setTimeout } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { inspect } from "node:util";
import { runInNewContext } from "node:vm";
import { Filter, FormatError } from "libbloom";
// Parts of the package that are not exported.
import { fileOf } from "../dist/file.js";
import { cases } from "./support.js";

const { path, figures } = cases().whole.find(({ name }) => name === "blocked 3000 of 20")!;
const bytes = readFileSync(path);
const [size] = figures;

const refused = (message: string | RegExp) => (error: unknown) => {
  assert.ok(error instanceof FormatError, `${error}`);
  if (typeof message === "string") assert.equal(error.message, message);
  else assert.match(error.message, message);
  return true;
};

function pieces(sizes: number[], from: Uint8Array = bytes): ReadableStream<Uint8Array> {
  let at = 0;
  let turn = 0;
  return new ReadableStream({
    pull(controller) {
      const size = sizes[turn++ % sizes.length];
      controller.enqueue(from.slice(at, at + size));
      at += size;
      if (at >= from.length) controller.close();
    },
  });
}

test("from everything that has bytes", async (t) => {
  const handle = await open(path);
  t.after(() => handle.close());
  const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer;
  const sources = [
    bytes,
    buffer,
    new DataView(buffer),
    new Blob([bytes]),
    new Response(bytes),
    Promise.resolve(new Response(new Blob([bytes]))),
    pieces([1]),
    pieces([7, 0, 1, 100_000]),
    pieces([bytes.length]),
    Readable.from([bytes.subarray(0, 100), bytes.subarray(100)]),
    Readable.toWeb(createReadStream(path)),
    createReadStream(path),
    // In Node.js 20 its pieces are ArrayBuffers.
    handle.readableWebStream(),
    // Bytes of another realm, as in a test runner's.
    runInNewContext("Uint8Array.from(bytes).buffer", { bytes }) as ArrayBuffer,
  ];
  for (const source of sources) {
    const filter = await Filter.load(source);
    assert.equal(filter.size, size);
    assert.ok(filter.hasMany(["item 0", Buffer.from("item 2999")]).every(Boolean));
  }
});

// A stream may give one buffer again and again.
test("the pieces of a stream are copied", async () => {
  async function* reused(): AsyncGenerator<Uint8Array> {
    const piece = Buffer.alloc(100);
    for (let at = 0; at < bytes.length; at += 100) yield piece.subarray(0, bytes.copy(piece, 0, at, at + 100));
  }
  assert.ok((await Filter.load(reused())).has("item 7"));
});

// A page with thousands of small filters would take 64 KiB for each.
test("a small filter takes the memory of its file, wherever it comes from", async () => {
  const small = readFileSync(cases().whole.find(({ name }) => name === "blocked 1 of 1")!.path);
  for (const source of [small, new Blob([small]), new Response(small), pieces([50], small)]) {
    const [, [, data]] = (await Filter.load(source)).chunks();
    assert.ok(data.buffer === small.buffer || data.buffer.byteLength === small.length, `${data.buffer.byteLength}`);
  }
});

test("what is no filter's file is refused with what it is", async () => {
  const begins = "89 42 4c 4f 4f 4d 0d 0a";
  const page = new Blob(["<!DOCTYPE html><title>Not found</title>"]);
  await assert.rejects(
    Filter.load(page),
    refused(`this is no filter's file: it begins with 3c 21 44 4f 43 54 59 50, and not with ${begins}`),
  );
  await assert.rejects(Filter.load(new Uint8Array(0)), refused("the file ends early, after 0 bytes"));
  await assert.rejects(Filter.load(new Response(page, { status: 404 })), refused("the server answered 404"));
  await assert.rejects(Filter.load(new Response(null, { status: 204 })), refused("the file ends early, after 0 bytes"));
  const others = { Object: {}, URL: new URL("file:///leaked.bloom"), Array: [1, 2], String: "/leaked.bloom", Null: null };
  const more = { Undefined: undefined, Number: 7, SharedArrayBuffer: new SharedArrayBuffer(9), Float64Array: new Float64Array(9) };
  for (const [kind, value] of Object.entries({ ...others, ...more })) {
    await assert.rejects(Filter.load(value as never), {
      name: "TypeError",
      message: `a filter is read from a Uint8Array, a DataView or an ArrayBuffer, a Blob, a Response or a stream of bytes, not ${kind}`,
    });
  }
  const later = Uint8Array.from(bytes);
  later[8] = 2;
  await assert.rejects(Filter.load(later), refused("a later version wrote the file, of the format 2: this reader knows 1"));
  await assert.rejects(Filter.load(bytes.subarray(0, 300)), refused("the file ends early, after 300 bytes"));
  await assert.rejects(Filter.load(Buffer.concat([bytes, bytes])), refused(`bytes follow the end of the file, which is at ${bytes.length}`));
  for (const [at, message] of [
    [48, "the header is damaged: its checksum differs"],
    [100, "the header is damaged: its checksum differs"],
    [bytes.length - 100, "the file is damaged in its piece 0 of 16 MiB: its checksum differs"],
    [bytes.length - 1, "the file does not end with its magic"],
  ] as const) {
    const flipped = Uint8Array.from(bytes);
    flipped[at] ^= 1;
    await assert.rejects(Filter.load(flipped), refused(message));
  }
});

/** A header of so many layers of one line, which have so many lines each. */
function headerOf(count: number, lines = 1): Buffer {
  const header = Buffer.alloc(48 + 48 * count);
  header.set(Buffer.from("BLOOM\0\0\x03", "latin1"));
  for (const [at, number] of [[12, count], [32, 1], [36, 2]]) header.writeUInt32LE(number, at);
  header.writeDoubleLE(0.25, 24);
  for (let at = 48; at < header.length; at += 48) {
    for (const [field, number] of [[0, 1], [32, lines], [40, 1], [44, 2]]) header.writeUInt32LE(number, at + field);
  }
  return header;
}

/** A file of this header and so many layers of one line without a set bit. */
function written(header: Uint8Array, count: number): Uint8Array {
  const bits = new Uint8Array(64);
  return fileOf({ header: () => header, layers: Array.from({ length: count }, () => ({ bytes: 64, bits })) } as never);
}

// A page that somebody else's file is loaded into would take all memory of its process.
test("memory is taken for what came, and not for what is promised", async () => {
  const before = process.memoryUsage().arrayBuffers;
  const most = before + 2 ** 26;
  for (const length of [2n ** 30n, 2n ** 40n, 2n ** 53n - 1n, 2n ** 60n]) {
    const file = Buffer.from(bytes);
    file.writeBigUInt64LE(length, 16);
    await assert.rejects(Filter.load(file), refused(`the file ends early, after ${bytes.length} bytes`));
  }
  const promised = written(headerOf(1, 2 ** 30), 1);
  await assert.rejects(Filter.load(promised), refused(`the file ends early, after ${promised.length} bytes`));
  assert.ok(process.memoryUsage().arrayBuffers < most);
});

setFlagsFromString("--expose-gc");
const collect: () => void = runInNewContext("gc");

async function memory(): Promise<number> {
  // Buffers are given back some time after they are found to be garbage.
  for (let round = 0; round < 4; round += 1) {
    collect();
    await setTimeout(50);
  }
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

// A page that allows files of 48 MB would need 678 MB for one that somebody forged.
test("a filter takes about as much memory as its file, whatever it is made of", async () => {
  const count = 100_000;
  const file = written(headerOf(count), count);
  const before = await memory();
  const filter = await Filter.load(file);
  const taken = (await memory()) - before;
  assert.equal(filter.layers, count);
  assert.equal(filter.sizeInBytes, 64 * count);
  assert.equal(filter.has("item"), false);
  assert.ok(taken < 3 * file.length, `${taken} bytes for ${file.length}`);
});

// A stream of text would end as an error that does not say what to do.
test("a stream of anything else than bytes is refused by its type", async () => {
  for (const [piece, what] of [
    ["text", "String"],
    [7, "Number"],
    [null, "Null"],
    [new Uint16Array(4), "Uint16Array"],
  ]) {
    const stream = new ReadableStream({
      start(controller) {
        controller.enqueue(piece);
        controller.close();
      },
    });
    await assert.rejects(Filter.load(stream), (error: unknown) => {
      assert.ok(error instanceof TypeError);
      assert.equal(error.message, `a stream of a filter's file has pieces that are a Uint8Array, a DataView or an ArrayBuffer, not ${what}`);
      return true;
    });
  }
});

// A log would have the seed, with which items can be made that collide, or all bits.
test("a filter is shown in one short line, without its seed", async () => {
  const filter = await Filter.load(bytes);
  const { capacity, errorRate, sizeInBytes, layers } = filter;
  const figures = `{"size":${size},"capacity":${capacity},"errorRate":${errorRate},"sizeInBytes":${sizeInBytes},"layers":${layers}}`;
  assert.equal(JSON.stringify({ filter }), `{"filter":${figures}}`);
  assert.equal(inspect({ filter }), `{ filter: Filter(${size} of ${capacity} items at ${errorRate}, ${sizeInBytes} bytes) }`);
});

// A filter whose clock was far ahead is whole, and would be called damaged.
test("times beyond JavaScript's exact numbers are read", async () => {
  const closes = 2n ** 62n + 1n;
  const header = Buffer.alloc(80 + 24 + 48);
  header.set(Buffer.from("BLOOM\0\0\x03", "latin1"));
  header.writeUInt32LE(1, 12);
  header.writeDoubleLE(0.25, 24);
  header.writeUInt32LE(1, 32);
  header.writeUInt32LE(2, 36);
  header.writeUInt32LE(3600, 44);
  header.writeUInt32LE(1000, 48);
  header.writeUInt8(8, 56);
  header.writeUInt32LE(1, 60);
  for (const at of [64, 80, 88]) header.writeBigUInt64LE(closes, at);
  header.writeUInt32LE(1, 96);
  header.writeUInt32LE(9, 104);
  for (const [at, value] of [
    [136, 1],
    [144, 1],
    [148, 2],
  ]) {
    header.writeUInt32LE(value, at);
  }
  const file = (): Uint8Array => written(header, 1);
  assert.equal((await Filter.load(file())).capacity, 1000);
  for (const at of [12, 96]) header.writeUInt32LE(4401, at);
  await assert.rejects(Filter.load(file()), refused("the header: layers is 4401, and not 0 to 4400"));
  for (const at of [12, 96]) header.writeUInt32LE(1, at);
  header.writeBigUInt64LE(closes - 1n, 88);
  await assert.rejects(Filter.load(file()), refused(/^the header: closes is 4611686018427387904, and not 46/));
});

test("a file that is larger than allowed is refused before it has come", async () => {
  const atMost = bytes.length - 1;
  for (const source of [bytes, new Blob([bytes]), pieces([100])]) {
    await assert.rejects(Filter.load(source, { atMost }), refused(/^the file has (more than \d+ bytes|\d+ bytes, and may have \d+)$/));
  }
  assert.equal((await Filter.load(pieces([100]), { atMost: bytes.length })).size, size);
  // What came out of a mistaken computation is no limit that everything keeps.
  await assert.rejects(Filter.load(bytes, { atMost: NaN }), FormatError);

  let isClosed: Promise<unknown> | undefined;
  const server = createServer((_, response) => {
    isClosed = once(response, "close");
    response.writeHead(200, { "content-length": "1000000000000" }).flushHeaders();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    const { port } = server.address() as { port: number };
    const loaded = Filter.load(fetch(`http://127.0.0.1:${port}/`), { atMost: 1e9 });
    await assert.rejects(loaded, refused("the file has 1000000000000 bytes, and may have 1000000000"));
    await isClosed;
  } finally {
    server.close();
  }
});

// A program that reads into one buffer would be told that items are absent that are there.
test("items are asked for as an iterable gives them", async () => {
  const filter = await Filter.load(bytes);
  const buffer = Buffer.alloc(6);
  function* items() {
    for (const item of ["item 7", "absent", "item 8"]) {
      buffer.write(item);
      yield buffer;
    }
  }
  assert.deepEqual(filter.hasMany(items()), [true, false, true]);
});

test("an item is text or bytes", async () => {
  const filter = await Filter.load(bytes);
  for (const item of [7, null, undefined, {}, ["item 7"], new Uint16Array(3)]) {
    assert.throws(() => filter.has(item as never), TypeError);
  }
  assert.equal(filter.has(bytes.buffer.slice(0, 0) as ArrayBuffer), filter.has(""));
  for (const [kind, list] of Object.entries({ String: "item 7", Number: 5, Object: {}, Undefined: undefined, Uint8Array: bytes })) {
    const refusal = { name: "TypeError", message: `a list is an array or another iterable object, not ${kind}` };
    assert.throws(() => filter.hasMany(list as never), refusal);
  }
  const odd = cases().whole.find(({ name }) => name === "blocked odd")!;
  const texts = await Filter.load(readFileSync(odd.path));
  for (const text of [
    "grün",
    "日本語",
    "\u{1f600}".repeat(9),
    "\0",
    "é".repeat(300),
    "x".repeat(4096),
    "ü".repeat(5000),
    "",
  ]) {
    assert.ok(texts.has(text), text.slice(0, 10));
  }
  // A lone surrogate has no UTF-8.
  assert.equal(texts.has("\ud800"), texts.has("\ufffd"));
});
