/** Files of filters: docs/file.md. */

import { Bits, type Chunk, Chunks } from "./bits.js";
import { FormatError } from "./error.js";
import { type Header, type Layer, parseHeader, readU64, viewOf } from "./format.js";
import { hash, xxh3 } from "./xxh3.js";

export type { Chunk } from "./bits.js";

const MAGIC = Uint8Array.of(0x89, 0x42, 0x4c, 0x4f, 0x4f, 0x4d, 0x0d, 0x0a);
const VERSION = 1;
const HEADER = 1;
const MOST_CHUNK = 1 << 24;
/** So many layers keep what is read of their bits. Only forged files have more. */
const MOST_OPEN = 2000;
/** Set bits of a byte. */
const ONES = Uint8Array.from({ length: 256 }, (_, byte) => [...byte.toString(2)].filter((bit) => bit === "1").length);
/** XXH3's own secret, for the checksums. */
export const CHECKSUMS = viewOf(
  Uint8Array.from(
    (
      "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221" +
      "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8" +
      "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb" +
      "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
    ).match(/../g)!,
    (digits) => parseInt(digits, 16),
  ),
);

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
  const view = viewOf(file);
  const pass = (from: number, length: number): number => {
    if (from + length <= file.length) return from + length;
    throw new FormatError(`the file ends early, after ${file.length} bytes`);
  };
  pass(0, MAGIC_BYTES);
  beginsAsFile(file);
  let at = pass(0, HEAD);
  const version = readU64(view, 8);
  if (version !== VERSION) throw new FormatError(`the file has version ${version}, and this reader knows ${VERSION}`);
  let contents: Contents | undefined;
  let summed = new Uint8Array(0);
  for (let record = 0; ; record += 1) {
    const begin = pass(at, RECORD);
    const [iterator, length] = [readU64(view, at), readU64(view, at + 8)];
    const most = record === 0 ? Number.MAX_SAFE_INTEGER : MOST_CHUNK;
    if (length > most) throw new FormatError(`record ${record} has ${length} bytes, and may have ${most}`);
    const end = pass(begin, length);
    const data = file.subarray(begin, end);
    // The checksum is that of the first fields and the data.
    if (summed.length < HEAD + length) summed = new Uint8Array(HEAD + length);
    summed.set(file.subarray(at, at + HEAD));
    summed.set(data, HEAD);
    xxh3(viewOf(summed), 0, HEAD + length, CHECKSUMS);
    if (hash.some((word, i) => word !== view.getInt32(at + HEAD + 4 * i, true))) {
      throw new FormatError(`record ${record} is damaged: its checksum differs`);
    }
    if (iterator === 0) {
      const count = length === 8 ? readU64(view, begin) : `${length} bytes`;
      if (!contents || count !== record)
        throw new FormatError(`the last record is number ${record}, and says ${count}`);
      if (end < file.length) throw new FormatError(`bytes follow the last record, which ends at ${end}`);
      return contents.finish();
    }
    if (contents) contents.add(iterator, data);
    else contents = new Contents(iterator, data);
    at = end;
  }
}

/** The filter of the chunks that BF.SCANDUMP replied, in their order. */
export function assemble([header, ...chunks]: readonly Chunk[]): Contents {
  if (!header) throw new FormatError("the header is missing");
  const contents = new Contents(...header);
  for (const chunk of chunks) contents.add(...chunk);
  return contents.finish();
}

/** What a filter is made of. */
export class Contents {
  readonly header: Header;
  /** The layers that have bits, oldest first: an item is never in another. */
  readonly layers: Layer[] = [];
  private readonly chunks = new Chunks();
  /** The bits of the first of them, as far as they were asked. */
  private readonly bits: Bits[] = [];
  /** Of each of these layers: its first chunk, and 1 + the offset of its bits in those of all. */
  private readonly firsts: number[] = [];
  private readonly bases: number[] = [];
  /** The layers from the next one on. */
  private readonly coming: Iterator<Layer>;
  private layer: Layer | undefined;
  private number = 0;
  private base: number;
  /** Bytes and set bits that came of the layer. */
  private came = 0;
  private ones = 0;
  private last = HEADER;

  constructor(iterator: number, data: Uint8Array) {
    if (iterator !== HEADER) throw new FormatError(`the header is missing: the first iterator is ${iterator}`);
    this.header = parseHeader(data);
    this.base = HEADER + (this.header.window?.begin ?? 0);
    this.coming = this.header.layers()[Symbol.iterator]();
    this.layer = this.coming.next().value;
    this.chunks.append(iterator, data);
  }

  add(iterator: number, data: Uint8Array): void {
    const start = iterator - data.length;
    if (data.length === 0 || !(start >= this.last)) {
      throw new FormatError(`chunk ${iterator}, of ${data.length} bytes, is not behind chunk ${this.last}`);
    }
    if (start < this.base)
      throw new FormatError(`chunk ${iterator}, of ${data.length} bytes, is of a layer that is gone`);
    while (this.layer && start >= this.base + this.layer.bytes) this.leave(this.layer);
    if (!this.layer || iterator > this.base + this.layer.bytes) {
      throw new FormatError(`chunk ${iterator}, of ${data.length} bytes, is not within a layer`);
    }
    if (this.came === 0) {
      this.layers.push(this.layer);
      this.firsts.push(this.chunks.count);
      this.bases.push(this.base);
    }
    for (let at = 0; at < data.length; at += 1) this.ones += ONES[data[at]];
    this.came += data.length;
    this.chunks.append(iterator, data);
    this.last = iterator;
  }

  finish(): this {
    while (this.layer) this.leave(this.layer);
    return this;
  }

  /** Whether the last item that was hashed is in the layer with this number, of those that have bits. */
  isIn(index: number): boolean {
    return this.header.has(this.layers[index], this.bits[index] ?? this.open(index));
  }

  private open(index: number): Bits {
    const behind = index + 1 < this.firsts.length ? this.firsts[index + 1] : this.chunks.count;
    const bits = new Bits(this.chunks, this.firsts[index], behind, this.bases[index]);
    if (index < MOST_OPEN) this.bits[index] = bits;
    return bits;
  }

  /** All of it, the header first. */
  list(): Chunk[] {
    return this.chunks.list();
  }

  /** Goes on to the next layer, of which no chunk has come. */
  private leave({ ones, items, bytes }: Layer): void {
    const { came, ones: found } = this;
    // Of other modules' layers the header does not count the set bits, so all of their bytes must be there.
    const isPart = ones === undefined && came < bytes && (items > 0 || came > 0);
    // Each item that a layer counts has set a bit of it.
    if (isPart || items > found || (ones ?? found) !== found) {
      const what = `${came} of ${bytes} bytes and ${found} set bits`;
      throw new FormatError(`layer ${this.number} has ${what}: a chunk is missing`);
    }
    this.base += bytes;
    this.number += 1;
    this.came = this.ones = 0;
    this.layer = this.coming.next().value;
  }
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(" ");
}
