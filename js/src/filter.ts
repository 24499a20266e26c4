import { listOf, readAll, type Source } from "./bytes.js";
import { assemble, beginsAsFile, type Chunk, type Contents, MAGIC_BYTES, parseFile } from "./file.js";
import { bytes, encode, type Item, type Items } from "./item.js";
import { hash } from "./xxh3.js";

/** `atMost`: the most bytes that the file may have. */
export type LoadOptions = { atMost?: number };

/** A Bloom filter that answers queries: a no is certain, a yes is wrong with the probability `errorRate` at most. */
export class Filter {
  private constructor(private readonly contents: Contents) {}

  /**
   * Reads a file (`.bloom`) that the program `libbloom`, the Python package or the crate wrote. The filter takes about as
   * much memory as the file has bytes; one that is forged of tiny layers takes up to four times as much. Bytes in memory
   * are not copied: they are the filter's from then on.
   *
   * @throws FormatError for anything but a whole file, and for an answer of a server that is none, such as 404
   */
  static async load(source: Source | PromiseLike<Source>, { atMost = Infinity }: LoadOptions = {}): Promise<Filter> {
    return new Filter(parseFile(await readAll(source, atMost, MAGIC_BYTES, beginsAsFile)));
  }

  /**
   * Makes a filter of the chunks that BF.SCANDUMP replied, in their order. They are not copied.
   *
   * @throws FormatError for anything but a whole filter
   */
  static fromChunks(chunks: readonly Chunk[]): Filter {
    return new Filter(assemble(chunks));
  }

  /** Whether an item is in the filter; in one with a window, at the time `now`, in milliseconds of the Unix clock. */
  has(item: Item, now?: number): boolean {
    const { header, layers } = this.contents;
    const time = header.window ? (now ?? Date.now()) : 0;
    if (typeof time !== "number" || Number.isNaN(time)) throw new RangeError("now is not a number");
    header.hash(encode(item), bytes);
    // The newest layers are the largest.
    for (let i = layers.length - 1; i >= 0; i -= 1) {
      const { expires } = layers[i];
      if (expires !== undefined && expires <= time) continue;
      if (this.contents.isIn(i)) return !header.exceptions || !isException(header.exceptions);
    }
    return false;
  }

  /** Whether each item is in the filter, in the order of the items. */
  hasMany(items: Items, now?: number): boolean[] {
    const time = this.contents.header.window ? (now ?? Date.now()) : undefined;
    // Each item is asked for as it comes: an iterable may give one buffer again and again.
    return Array.from(listOf(items), (item) => this.has(item, time));
  }

  /** The filter as BF.LOADCHUNK takes it, the header first. The bytes are the filter's own. */
  chunks(): readonly Chunk[] {
    return this.contents.list();
  }

  /** The number of items that were added; in a filter with a window, of those that have not expired. */
  get size(): number {
    // A layer without bits has no items.
    const living = this.contents.layers.filter(({ expires }) => expires === undefined || expires > Date.now());
    return living.reduce((sum, layer) => sum + layer.items, 0);
  }

  /** The number of items that the layers are made for, or that are expected in a window. */
  get capacity(): number {
    const { capacity, window } = this.contents.header;
    return window?.capacity ?? capacity;
  }

  /** The probability that a query for an absent item is answered with yes, at most. */
  get errorRate(): number {
    return this.contents.header.errorRate;
  }

  /** Bytes of the filter's bits. Those that the file leaves out, because they are zero, take no memory. */
  get sizeInBytes(): number {
    return this.contents.header.bytes;
  }

  /** The number of layers: 1, and one more for each time that the filter grew. */
  get layers(): number {
    return this.contents.header.count;
  }

  /** The figures, without the seed and the bits. */
  toJSON(): { size: number; capacity: number; errorRate: number; sizeInBytes: number; layers: number } {
    const { size, capacity, errorRate, sizeInBytes, layers } = this;
    return { size, capacity, errorRate, sizeInBytes, layers };
  }

  /** What console.log shows in Node.js, Deno and Bun. */
  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return `Filter(${this.size} of ${this.capacity} items at ${this.errorRate}, ${this.sizeInBytes} bytes)`;
  }
}

/** Whether the last hash is one of the exceptions, each of which has its high half first. */
function isException(exceptions: DataView): boolean {
  let low = 0;
  let high = exceptions.byteLength / 16;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const differ = (order: number, place: number, i: number): number =>
      order || exceptions.getUint32(16 * middle + place, true) - (hash[3 - i] >>> 0);
    const order = [4, 0, 12, 8].reduce(differ, 0);
    if (order === 0) return true;
    if (order < 0) low = middle + 1;
    else high = middle;
  }
  return false;
}
