/** Files of filters: docs/file.md. */

import { FormatError, viewOf } from "./bytes.js";
import { type Contents, headerOf, type Layer, parseHeader } from "./format.js";
import { hash, xxh3 } from "./xxh3.js";

/** A filter's header, or a piece of its bits, with the iterator that BF.LOADCHUNK takes for it. */
export type Chunk = [iterator: number, data: Uint8Array];

const MAGIC = Uint8Array.of(0x89, 0x42, 0x4c, 0x4f, 0x4f, 0x4d, 0x0d, 0x0a);
const VERSION = 1n;
const HEADER = 1;
const MOST_CHUNK = 1 << 24;
/** Set bits of a byte. */
const ONES = Uint8Array.from({ length: 256 }, (_, byte) => [...byte.toString(2)].filter((bit) => bit === "1").length);
/** XXH3's own secret, for the checksums. */
const SECRET = atob(
  "uP5sOSOkS758AYEs9yGtHN7UbemDkJfbckCkpLezZx/LeeZOzMDleIJa0H3M/3IhuAhGdPdDJI7gNZDmgTomTDwoUruRwwDLiNBlixtT" +
  "LqNxZEiXog35TjgZ70ap3qzYqPp2P+OcND/53LvHxwtPHYpR4EvNtFkxyJ9+ydl4c2TqxayDNNPrw8WBoP/6E2PrFw3dUbfw2knTFlUm" +
  "KdRonisWvlh9R6H8j/i40XrQMc5FyzqPlRYEKK/X+8q7S0B+",
);
export const CHECKSUMS = viewOf(Uint8Array.from(SECRET, (letter) => letter.charCodeAt(0)));

export const MAGIC_BYTES = MAGIC.length;
/** Bytes of the file's head, and of the fields of a record, which its checksum follows. */
const HEAD = 16;
const RECORD = 32;

/** Refuses what begins otherwise than a file. */
export function beginsAsFile(file: Uint8Array): void {
  const begin = hex(file.subarray(0, MAGIC_BYTES));
  if (begin !== hex(MAGIC))
    throw new FormatError(`this is no filter's file: it begins with ${begin}, and not with ${hex(MAGIC)}`);
}

/** The filter of a file. Its bits stay where they are. */
export function parseFile(file: Uint8Array): Contents {
  return assemble(chunksIn(file));
}

/** The chunks in a file, each of which is checked. */
function* chunksIn(file: Uint8Array): Generator<Chunk> {
  const view = viewOf(file);
  const pass = (from: number, length: number): number => {
    if (from + length <= file.length) return from + length;
    throw new FormatError(`the file ends early, after ${file.length} bytes`);
  };
  pass(0, MAGIC_BYTES);
  beginsAsFile(file);
  let at = pass(0, HEAD);
  const version = view.getBigUint64(8, true);
  if (version !== VERSION) throw new FormatError(`the file has version ${version}, and this reader knows ${VERSION}`);
  for (let record = 0; ; record += 1) {
    const begin = pass(at, RECORD);
    const [iterator, length] = [0, 8].map((field) => Number(view.getBigUint64(at + field, true)));
    const most = record === 0 ? Number.MAX_SAFE_INTEGER : MOST_CHUNK;
    if (length > most) throw new FormatError(`record ${record} has ${length} bytes, and may have ${most}`);
    const end = pass(begin, length);
    const data = file.subarray(begin, end);
    checksum(file.subarray(at, at + HEAD), data);
    if (hash.some((word, i) => word !== view.getInt32(at + HEAD + 4 * i, true))) {
      throw new FormatError(`record ${record} is damaged: its checksum differs`);
    }
    if (iterator === 0) {
      const count = length === 8 ? view.getBigUint64(begin, true) : `${length} bytes`;
      if (record === 0 || count !== BigInt(record))
        throw new FormatError(`the last record is number ${record}, and says ${count}`);
      if (end < file.length) throw new FormatError(`bytes follow the last record, which ends at ${end}`);
      return;
    }
    yield [iterator, data];
    at = end;
  }
}

/** The file of chunks. */
export function fileOf(chunks: readonly Chunk[]): Uint8Array {
  const count = new Uint8Array(8);
  viewOf(count).setBigUint64(0, BigInt(chunks.length), true);
  const records: Chunk[] = [...chunks, [0, count]];
  const file = new Uint8Array(records.reduce((sum, [, data]) => sum + RECORD + data.length, HEAD));
  const view = viewOf(file);
  file.set(MAGIC);
  view.setBigUint64(8, VERSION, true);
  let at = HEAD;
  for (const [iterator, data] of records) {
    view.setBigUint64(at, BigInt(iterator), true);
    view.setBigUint64(at + 8, BigInt(data.length), true);
    checksum(file.subarray(at, at + HEAD), data);
    hash.forEach((word, i) => view.setInt32(at + HEAD + 4 * i, word, true));
    file.set(data, at + RECORD);
    at += RECORD + data.length;
  }
  return file;
}

/** Hashes the fields of a record and its data. */
function checksum(fields: Uint8Array, data: Uint8Array): void {
  const summed = new Uint8Array(HEAD + data.length);
  summed.set(fields);
  summed.set(data, HEAD);
  xxh3(viewOf(summed), 0, summed.length, CHECKSUMS);
}

/** The filter of a header and chunks, in their order. What is missing is zero. */
export function assemble(chunks: Iterable<Chunk>): Contents {
  let contents: Contents | undefined;
  let number = 0;
  let base = HEADER;
  let last = HEADER;
  let came = new Float64Array(0);
  for (const [iterator, data] of chunks) {
    if (!contents) {
      if (iterator !== HEADER) throw new FormatError(`the header is missing: the first iterator is ${iterator}`);
      contents = parseHeader(data);
      base += contents.window?.begin ?? 0;
      came = new Float64Array(contents.layers.length);
      continue;
    }
    const { layers } = contents;
    const start = iterator - data.length;
    if (data.length === 0 || !(start >= last)) {
      throw new FormatError(`chunk ${iterator}, of ${data.length} bytes, is not behind chunk ${last}`);
    }
    for (; number < layers.length && start >= base + layers[number].bytes; number += 1) base += layers[number].bytes;
    const layer = layers[number];
    if (!layer || start < base || iterator > base + layer.bytes) {
      throw new FormatError(`chunk ${iterator}, of ${data.length} bytes, is not within a layer`);
    }
    if (data.length === layer.bytes) layer.bits = data;
    else roomFor(layer).set(data, start - base);
    came[number] += data.length;
    last = iterator;
  }
  if (!contents) throw new FormatError("the header is missing");
  contents.layers.forEach((layer, number) => check(layer, number, came[number]));
  return contents;
}

/** Refuses a layer of which so many bytes came, and some are missing. */
function check({ bits, bytes, items, ones }: Layer, number: number, came: number): void {
  let found = 0;
  for (let at = 0; at < bits.length; at += 1) found += ONES[bits[at]];
  // Of RedisBloom's layers the header does not count the set bits, so all of their bytes must be there.
  const isPart = ones === undefined && came < bytes && (items > 0 || came > 0);
  // Each item that a layer counts has set a bit of it.
  if (!isPart && items <= found && (ones ?? found) === found) return;
  const what = `${came} of ${bytes} bytes and ${found} set bits`;
  throw new FormatError(`layer ${number} has ${what}: a chunk is missing`);
}

function roomFor(layer: Layer): Uint8Array {
  try {
    return ownBits(layer);
  } catch {
    throw new FormatError(`there is no memory for a layer of ${layer.bytes} bytes`);
  }
}

/** The bits of a layer, as bytes that the filter may change. */
export function ownBits(layer: Layer): Uint8Array {
  if (!layer.isOwn) {
    const bits = new Uint8Array(layer.bytes);
    bits.set(layer.bits);
    layer.bits = bits;
    layer.isOwn = true;
  }
  return layer.bits;
}

/** The header and the chunks of a filter, of which those without a set bit are left out where the header shows that. */
export function chunksOf({ header, spec, layers, window }: Contents): Chunk[] {
  const chunks: Chunk[] = [[HEADER, spec ? headerOf(spec, layers) : header]];
  let base = HEADER + (window?.begin ?? 0);
  for (const { bits, bytes, ones } of layers) {
    for (let from = 0; from < bits.length; from += MOST_CHUNK) {
      const data = bits.subarray(from, from + MOST_CHUNK);
      if (ones === undefined || data.some((byte) => byte !== 0)) chunks.push([base + from + data.length, data]);
    }
    base += bytes;
  }
  return chunks;
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(" ");
}
