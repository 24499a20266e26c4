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
/** A buffer for bytes that are still to come has so many at first. */
const FIRST_PIECE = 1 << 16;
/** Data of so many bytes shares a buffer with other data: a buffer of its own takes some hundred bytes besides. */
const SHORT = 1 << 12;
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

/** Reads a file of at most `atMost` bytes, as it comes. */
export async function readFile(reader: ReadableStreamDefaultReader<Uint8Array>, atMost: number): Promise<Contents> {
  const file = new Pieces(reader, atMost);
  const magic = await file.take(8);
  if (hex(magic) !== hex(MAGIC)) {
    throw new FormatError(`this is no filter's file: it begins with ${hex(magic)}, and not with ${hex(MAGIC)}`);
  }
  const version = readU64(viewOf(await file.take(8)), 0);
  if (version !== VERSION) throw new FormatError(`the file has version ${version}, and this reader knows ${VERSION}`);
  let contents: Contents | undefined;
  const bytes = new Uint8Array(32);
  const head = viewOf(bytes);
  for (let record = 0; ; record += 1) {
    await file.fill(bytes, 0);
    const [iterator, length] = [readU64(head, 0), readU64(head, 8)];
    const most = record === 0 ? Number.MAX_SAFE_INTEGER : MOST_CHUNK;
    if (length > most) throw new FormatError(`record ${record} has ${length} bytes, and may have ${most}`);
    // The checksum is that of the first fields and the data.
    const whole = await file.take(length, bytes.subarray(0, 16));
    xxh3(viewOf(whole), 0, whole.length, CHECKSUMS);
    if (hash.some((word, i) => word !== head.getInt32(16 + 4 * i, true))) {
      throw new FormatError(`record ${record} is damaged: its checksum differs`);
    }
    const data = whole.subarray(16);
    if (iterator === 0) {
      const count = data.length === 8 ? readU64(viewOf(data), 0) : `${data.length} bytes`;
      if (!contents || count !== record)
        throw new FormatError(`the last record is number ${record}, and says ${count}`);
      await file.end();
      return contents.finish();
    }
    if (contents) contents.add(iterator, data);
    else contents = new Contents(iterator, data);
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

/** The bytes of a stream. They take memory as they come. */
class Pieces {
  private rest: Uint8Array = new Uint8Array(0);
  /** What is left of the buffer that short data shares. */
  private shared: Uint8Array = new Uint8Array(0);
  private total = 0;

  constructor(
    private readonly reader: ReadableStreamDefaultReader<Uint8Array>,
    private readonly atMost: number,
  ) {}

  /** The next bytes, behind others. */
  async take(length: number, before: Uint8Array = new Uint8Array(0)): Promise<Uint8Array> {
    const wanted = before.length + length;
    let taken = this.room(wanted);
    taken.set(before);
    let filled = before.length;
    while (taken.length < wanted) {
      await this.fill(taken, filled);
      filled = taken.length;
      const larger = new Uint8Array(Math.min(wanted, 2 * filled));
      larger.set(taken);
      taken = larger;
    }
    await this.fill(taken, filled);
    return taken;
  }

  /** Fills a buffer with the next bytes, from a place in it on. */
  async fill(buffer: Uint8Array, from: number): Promise<void> {
    for (let filled = from; filled < buffer.length;) {
      if (this.rest.length === 0 && !(await this.hasMore())) {
        throw new FormatError(`the file ends early, after ${this.total} bytes`);
      }
      const part = this.rest.subarray(0, buffer.length - filled);
      buffer.set(part, filled);
      filled += part.length;
      this.rest = this.rest.subarray(part.length);
    }
  }

  private room(wanted: number): Uint8Array {
    if (wanted > SHORT) return new Uint8Array(Math.min(wanted, FIRST_PIECE));
    if (this.shared.length < wanted) this.shared = new Uint8Array(FIRST_PIECE);
    const room = this.shared.subarray(0, wanted);
    this.shared = this.shared.subarray(wanted);
    return room;
  }

  async end(): Promise<void> {
    if (await this.hasMore())
      throw new FormatError(`bytes follow the last record, which ends at ${this.total - this.rest.length}`);
  }

  private async hasMore(): Promise<boolean> {
    while (this.rest.length === 0) {
      const { done, value } = await this.reader.read();
      if (done) return false;
      if (!ArrayBuffer.isView(value) || value.BYTES_PER_ELEMENT !== 1) {
        const what = Object.prototype.toString.call(value).slice(8, -1);
        throw new TypeError(`a stream of a filter's file has pieces of type Uint8Array, not ${what}`);
      }
      this.rest = value;
      this.total += value.length;
      if (!(this.total <= this.atMost)) throw new FormatError(`the file has more than ${this.atMost} bytes`);
    }
    return true;
  }
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(" ");
}
