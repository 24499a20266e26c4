/** Files of filters: docs/file.md. */

import { Bits } from "./bits.js";
import { FormatError } from "./error.js";
import { type Header, parseHeader, readU64, viewOf } from "./format.js";
import { hash, xxh3 } from "./xxh3.js";

/** A filter's header, or a piece of its bits, with the iterator that BF.LOADCHUNK takes for it. */
export type Chunk = [iterator: number, data: Uint8Array];

const MAGIC = Uint8Array.of(0x89, 0x42, 0x4c, 0x4f, 0x4f, 0x4d, 0x0d, 0x0a);
const VERSION = 1;
const HEADER = 1;
const MOST_CHUNK = 1 << 24;
/** A buffer for bytes that are still to come has so many at first. */
const FIRST_PIECE = 1 << 16;
/** XXH3's own secret, for the checksums. */
const SECRET = viewOf(
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
  for (let record = 0; ; record += 1) {
    const head = viewOf(await file.take(32));
    const [iterator, length] = [readU64(head, 0), readU64(head, 8)];
    const most = record === 0 ? Number.MAX_SAFE_INTEGER : MOST_CHUNK;
    if (length > most) throw new FormatError(`record ${record} has ${length} bytes, and may have ${most}`);
    // The checksum is that of the first fields and the data.
    const whole = await file.take(length, new Uint8Array(head.buffer, head.byteOffset, 16));
    xxh3(viewOf(whole), 0, whole.length, SECRET);
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
  /** The bits of each layer. */
  readonly bits: Bits[];
  /** All of it, the header first. */
  readonly chunks: Chunk[];
  private layer = 0;
  /** Where the layer begins in the bits of all of them. */
  private begin: number;
  private last = HEADER;

  constructor(iterator: number, data: Uint8Array) {
    if (iterator !== HEADER) throw new FormatError(`the header is missing: the first iterator is ${iterator}`);
    this.header = parseHeader(data);
    this.begin = this.header.window?.begin ?? 0;
    this.bits = this.header.layers.map(() => new Bits());
    this.chunks = [[iterator, data]];
  }

  add(iterator: number, data: Uint8Array): void {
    const { layers } = this.header;
    const start = iterator - data.length;
    if (data.length === 0 || !(start >= this.last)) {
      throw new FormatError(`chunk ${iterator}, of ${data.length} bytes, is not behind chunk ${this.last}`);
    }
    const offset = start - HEADER;
    if (offset < this.begin)
      throw new FormatError(`chunk ${iterator}, of ${data.length} bytes, is of a layer that is gone`);
    while (this.layer < layers.length && offset >= this.begin + layers[this.layer].bytes) {
      this.begin += layers[this.layer].bytes;
      this.layer += 1;
    }
    if (this.layer === layers.length || offset + data.length > this.begin + layers[this.layer].bytes) {
      throw new FormatError(`chunk ${iterator}, of ${data.length} bytes, is not within a layer`);
    }
    this.bits[this.layer].append(offset - this.begin, data);
    this.chunks.push([iterator, data]);
    this.last = iterator;
  }

  finish(): this {
    this.header.layers.forEach(({ ones, items, bytes }, layer) => {
      const { ones: found, bytes: came } = this.bits[layer];
      // Of other modules' layers the header does not count the set bits, so all of their bytes must be there.
      const isPart = ones === undefined && came < bytes && (items > 0 || came > 0);
      // Each item that a layer counts has set a bit of it.
      if (isPart || items > found || (ones ?? found) !== found) {
        throw new FormatError(`layer ${layer} has ${came} of ${bytes} bytes and ${found} set bits: a chunk is missing`);
      }
    });
    return this;
  }
}

/** The bytes of a stream. They take memory as they come. */
class Pieces {
  private rest: Uint8Array = new Uint8Array(0);
  private total = 0;

  constructor(
    private readonly reader: ReadableStreamDefaultReader<Uint8Array>,
    private readonly atMost: number,
  ) {}

  /** The next bytes, behind others. */
  async take(length: number, before: Uint8Array = new Uint8Array(0)): Promise<Uint8Array> {
    const wanted = before.length + length;
    let taken = new Uint8Array(Math.min(wanted, FIRST_PIECE));
    taken.set(before);
    for (let filled = before.length; filled < wanted;) {
      if (!(await this.hasMore())) throw new FormatError(`the file ends early, after ${this.total} bytes`);
      if (filled === taken.length) {
        const larger = new Uint8Array(Math.min(wanted, 2 * filled));
        larger.set(taken);
        taken = larger;
      }
      const part = this.rest.subarray(0, taken.length - filled);
      taken.set(part, filled);
      filled += part.length;
      this.rest = this.rest.subarray(part.length);
    }
    return taken;
  }

  async end(): Promise<void> {
    if (await this.hasMore())
      throw new FormatError(`bytes follow the last record, which ends at ${this.total - this.rest.length}`);
  }

  private async hasMore(): Promise<boolean> {
    while (this.rest.length === 0) {
      const { done, value } = await this.reader.read();
      if (done) return false;
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
