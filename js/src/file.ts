/** Files of filters: docs/file.md, and the chunks that servers dump and load. */

import { FormatError, viewOf } from "./bytes.js";
import { type Contents, type Layer, parseHeader } from "./format.js";
import { hash, xxh3 } from "./xxh3.js";

/** A filter's header, or a piece of its bits, with the iterator that BF.LOADCHUNK takes for it. */
export type Chunk = [iterator: number, data: Uint8Array];

export const MAGIC = Uint8Array.of(0x89, 0x42, 0x4c, 0x4f, 0x4f, 0x4d, 0x0d, 0x0a);
const VERSION = 1;
/** Bytes of the head, and of its fields before the checksum of the header. */
const HEAD = 64;
const SUM = 48;
/** What layers of a MiB or more begin at a multiple of; the others at one of the head's bytes. */
const PAGE = 4096;
/** Bytes of a piece that has a checksum, and the most of a chunk. */
const PIECE = 1 << 24;
/** The iterator of a header. */
const HEADER = 1;
/** Set bits of a byte. */
const ONES = Uint8Array.from({ length: 256 }, (_, byte) => [...byte.toString(2)].filter((bit) => bit === "1").length);
/** XXH3's own secret, for the checksums. */
const SECRET = atob(
  "uP5sOSOkS758AYEs9yGtHN7UbemDkJfbckCkpLezZx/LeeZOzMDleIJa0H3M/3IhuAhGdPdDJI7gNZDmgTomTDwoUruRwwDLiNBlixtT" +
  "LqNxZEiXog35TjgZ70ap3qzYqPp2P+OcND/53LvHxwtPHYpR4EvNtFkxyJ9+ydl4c2TqxayDNNPrw8WBoP/6E2PrFw3dUbfw2knTFlUm" +
  "KdRonisWvlh9R6H8j/i40XrQMc5FyzqPlRYEKK/X+8q7S0B+",
);
export const CHECKSUMS = viewOf(Uint8Array.from(SECRET, (letter) => letter.charCodeAt(0)));

/** Refuses what begins otherwise than a file. */
export function beginsAsFile(file: Uint8Array): void {
  const begin = hex(file.subarray(0, MAGIC.length));
  if (begin !== hex(MAGIC))
    throw new FormatError(`this is no filter's file: it begins with ${begin}, and not with ${hex(MAGIC)}`);
}

/** The filter of a file. Its bits stay where they are. */
export function parseFile(file: Uint8Array): Contents {
  const from = (begin: number, length: number): Uint8Array => {
    if (begin + length <= file.length) return file.subarray(begin, begin + length);
    throw new FormatError(`the file ends early, after ${file.length} bytes`);
  };
  beginsAsFile(from(0, MAGIC.length));
  const view = viewOf(from(0, HEAD));
  const version = view.getUint32(8, true);
  if (version !== VERSION || view.getUint32(12, true) !== 0 || file.subarray(24, SUM).some((byte) => byte !== 0))
    throw new FormatError(`a later version wrote the file, of the format ${version}: this reader knows ${VERSION}`);
  const header = from(HEAD, Number(view.getBigUint64(16, true)));
  if (hex(checksum(file.subarray(0, SUM), header)) !== hex(file.subarray(SUM, HEAD)))
    throw new FormatError("the header is damaged: its checksum differs");
  const contents = parseHeader(header);
  const { begins, sums, end } = placesOf(header, contents.layers);
  const ends = from(sums, end - sums);
  if (file.length > end) throw new FormatError(`bytes follow the end of the file, which is at ${end}`);
  checksumsOf(file, sums).forEach((sum, piece) => {
    if (hex(sum) !== hex(ends.subarray(16 * piece, 16 * piece + 16)))
      throw new FormatError(`the file is damaged in its piece ${piece} of 16 MiB: its checksum differs`);
  });
  if (hex(ends.subarray(-MAGIC.length)) !== hex(MAGIC)) throw new FormatError("the file does not end with its magic");
  contents.layers.forEach((layer, number) => setBits(layer, number, from(begins[number], layer.bytes)));
  return contents;
}

/** The file of a filter. */
export function fileOf(contents: Contents): Uint8Array<ArrayBuffer> {
  const header = contents.header();
  const { begins, sums, end } = placesOf(header, contents.layers);
  const file = new Uint8Array(end);
  const view = viewOf(file);
  file.set(MAGIC);
  view.setUint32(8, VERSION, true);
  view.setBigUint64(16, BigInt(header.length), true);
  file.set(checksum(file.subarray(0, SUM), header), SUM);
  file.set(header, HEAD);
  contents.layers.forEach(({ bits }, number) => file.set(bits, begins[number]));
  file.set(joined(...checksumsOf(file, sums), MAGIC), sums);
  return file;
}

/** Where each layer begins, where the checksums do, and where the file ends. */
function placesOf(header: Uint8Array, layers: Layer[]): { begins: number[]; sums: number; end: number } {
  const multiple = (number: number, unit: number): number => Math.ceil(number / unit) * unit;
  let behind = HEAD + header.length;
  const begins = layers.map(({ bytes }) => {
    const begin = multiple(behind, bytes < 1 << 20 ? HEAD : PAGE);
    behind = begin + bytes;
    return begin;
  });
  const sums = multiple(behind, HEAD);
  return { begins, sums, end: sums + 16 * Math.ceil(sums / PIECE) + MAGIC.length };
}

/** The checksums of a file's pieces, each of which begins with the head and its number. */
function checksumsOf(file: Uint8Array, end: number): Uint8Array[] {
  return Array.from({ length: Math.ceil(end / PIECE) }, (_, piece) => {
    const number = new Uint8Array(8);
    viewOf(number).setBigUint64(0, BigInt(piece), true);
    return checksum(file.subarray(0, HEAD), number, file.subarray(PIECE * piece, Math.min(PIECE * (piece + 1), end)));
  });
}

function checksum(...parts: Uint8Array[]): Uint8Array {
  const all = joined(...parts);
  const sum = new DataView(new ArrayBuffer(16));
  xxh3(viewOf(all), 0, all.length, CHECKSUMS);
  hash.forEach((word, i) => sum.setInt32(4 * i, word, true));
  return new Uint8Array(sum.buffer);
}

function joined(...parts: Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** Gives a layer the bits that are stored, which must be those that the header counts: each item has set one. */
function setBits(layer: Layer, number: number, bits: Uint8Array): void {
  let found = 0;
  for (let at = 0; at < bits.length; at += 1) found += ONES[bits[at]];
  const { items, ones = found } = layer;
  if (items > found || ones !== found)
    throw new FormatError(`layer ${number} has ${found} set bits, where the header counts ${ones}, and ${items} items`);
  layer.bits = bits;
}

/** The filter of the chunks that BF.SCANDUMP replied. */
export function assemble([[first, header] = [0, MAGIC], ...chunks]: readonly Chunk[]): Contents {
  if (first !== HEADER) throw new FormatError(`the header is missing: the first iterator is ${first}`);
  const contents = parseHeader(header);
  let last = HEADER + (contents.window?.begin ?? 0);
  let next = 0;
  for (const [number, layer] of contents.layers.entries()) {
    const pieces: Uint8Array[] = [];
    for (const end = last + layer.bytes; last < end; next += 1) {
      const [iterator, data] = chunks[next] ?? [last, MAGIC];
      if (data.length === 0 || iterator !== last + data.length || iterator > end)
        throw new FormatError(`layer ${number} goes on at ${last}, where chunk ${iterator} of ${data.length} bytes does not fit`);
      pieces.push(data);
      last = iterator;
    }
    setBits(layer, number, pieces.length === 1 ? pieces[0] : joined(...pieces));
  }
  if (next < chunks.length) throw new FormatError(`chunk ${chunks[next][0]} is not within a layer`);
  return contents;
}

/** The header and the chunks of a filter. */
export function chunksOf(contents: Contents): Chunk[] {
  const chunks: Chunk[] = [[HEADER, contents.header()]];
  let end = HEADER + (contents.window?.begin ?? 0);
  for (const { bits } of contents.layers) {
    for (let from = 0; from < bits.length; from += PIECE) {
      const data = bits.subarray(from, from + PIECE);
      end += data.length;
      chunks.push([end, data]);
    }
  }
  return chunks;
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(" ");
}
