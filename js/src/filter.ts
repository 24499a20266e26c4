import { unsetBits } from "./blocked.js";
import { listOf, readAll, type Source } from "./bytes.js";
import { assemble, beginsAsFile, type Chunk, chunksOf, fileOf, MAGIC, parseFile } from "./file.js";
import { type BlockedSpec, type Contents, headerOf, isException, type Layer, layerOf, parseHeader } from "./format.js";
import { bytes, encode, type Item, type Items } from "./item.js";
import { CAPACITIES, ERROR_RATES, EXPANSIONS, nextShape, type Shape } from "./sizing.js";

/** What a new filter is made from. */
export interface CreateOptions {
  /** The number of items that it is made for: 1 to 2^40. */
  capacity: number;
  /** The probability that a query for an absent item is answered with yes, at most: above 0 and below 1, used as 1e-30 to 0.25. */
  errorRate: number;
  /** Selects the hash: 0 to 2^64 - 1. Without it, all filters of a program share a random one. */
  seed?: number | bigint;
  /** Each further layer is for so many times the items of the one before: 1 to 32768, usually 2; not with `fixed`. */
  expansion?: number;
  /** The filter never grows: once it is full, it refuses further items. */
  fixed?: boolean;
  /** The filter is expected to outgrow its capacity by far. */
  growing?: boolean;
}

/** `atMost`: the most bytes that the file may have. */
export type LoadOptions = { atMost?: number };

/** A Bloom filter that answers queries: a no is certain, a yes is wrong with the probability `errorRate` at most. */
export class Filter {
  private constructor(private readonly contents: Contents) {}

  /**
   * Makes a filter without items, which is bit for bit one of the crate and of a server with the same seed.
   *
   * @throws RangeError for an option that is out of its range, and where there is no memory
   */
  static create(options: CreateOptions): Filter {
    const spec = specOf(options);
    const layer = withoutItems(nextShape(spec, []));
    const contents = parseHeader(headerOf(spec, [layer]));
    contents.layers[0] = layer;
    return new Filter(contents);
  }

  /**
   * Reads a file (`.bloom`) that the program `libbloom`, the Python package or the crate wrote. The filter takes about as
   * much memory as the file has bytes; one that is forged of tiny layers takes up to four times as much. Bytes in memory
   * are not copied: they are the filter's from then on.
   *
   * @throws FormatError for anything but a whole file, and for an answer of a server that is none, such as 404
   */
  static async load(source: Source | PromiseLike<Source>, { atMost = Infinity }: LoadOptions = {}): Promise<Filter> {
    return new Filter(parseFile(await readAll(source, atMost, MAGIC.length, beginsAsFile)));
  }

  /** Makes a filter of all chunks that BF.SCANDUMP replied. @throws FormatError for anything but a whole filter */
  static fromChunks(chunks: readonly Chunk[]): Filter {
    return new Filter(assemble(chunks));
  }

  /**
   * Adds an item; true if it was new. A filter with a window or exceptions, or in RedisBloom's layout, takes none.
   *
   * @throws RangeError if the filter is full and may not grow, or there is no memory for that; nothing changed
   */
  add(item: Item): boolean {
    const { contents } = this;
    const { layers, spec } = contents;
    if (!spec) throw new TypeError("only a server adds to filters with a window or exceptions, or in RedisBloom's layout");
    contents.hash(encode(item), bytes);
    let newest = layers[layers.length - 1];
    for (let i = layers.length - 2; i >= 0; i -= 1) if (contents.has(layers[i])) return false;
    if (newest.items >= newest.capacity) {
      if (contents.has(newest)) return false;
      if (spec.growth === "fixed") throw new RangeError(`the filter is full with ${newest.items} items, and may not grow`);
      newest = withoutItems(nextShape(spec, layers));
      layers.push(newest);
    }
    if (!newest.isOwn) Object.assign(newest, { bits: newest.bits.slice(), isOwn: true });
    const set = unsetBits(newest, true);
    if (set === 0) return false;
    newest.items += 1;
    newest.ones! += set;
    return true;
  }

  /** Adds items, and says for each whether it was new. Those before one that is refused have been added. */
  addMany(items: Items): boolean[] {
    return Array.from(listOf(items), (item) => this.add(item));
  }

  /** Whether an item is in the filter; in one with a window, at the time `now`, in milliseconds of the Unix clock. */
  has(item: Item, now?: number): boolean {
    const { contents } = this;
    const { layers, exceptions } = contents;
    const time = contents.window ? (now ?? Date.now()) : 0;
    if (typeof time !== "number" || Number.isNaN(time)) throw new RangeError("now is not a number");
    contents.hash(encode(item), bytes);
    // The newest layers are the largest.
    for (let i = layers.length - 1; i >= 0; i -= 1) {
      if ((layers[i].expires ?? Infinity) <= time) continue;
      if (contents.has(layers[i])) return !exceptions || !isException(exceptions);
    }
    return false;
  }

  /** Whether each item is in the filter, in the order of the items. */
  hasMany(items: Items, now?: number): boolean[] {
    const time = this.contents.window ? (now ?? Date.now()) : undefined;
    // Each item is asked for as it comes: an iterable may give one buffer again and again.
    return Array.from(listOf(items), (item) => this.has(item, time));
  }

  /** The filter as a file (`.bloom`). */
  toBytes(): Uint8Array<ArrayBuffer> {
    return fileOf(this.contents);
  }

  /** The filter as BF.LOADCHUNK takes it, the header first. The bits are the filter's own. */
  chunks(): readonly Chunk[] {
    return chunksOf(this.contents);
  }

  /** The number of items that were added; in a filter with a window, of those that have not expired. */
  get size(): number {
    return sum(this.contents.layers.filter(({ expires = Infinity }) => expires > Date.now()), "items");
  }

  /** The number of items that the layers are made for, or that are expected in a window. */
  get capacity(): number {
    return this.contents.window?.capacity ?? sum(this.contents.layers, "capacity");
  }

  /** The probability that a query for an absent item is answered with yes, at most. */
  get errorRate(): number {
    return this.contents.errorRate;
  }

  /** Bytes of the filter's bits. */
  get sizeInBytes(): number {
    return sum(this.contents.layers, "bytes");
  }

  /** The number of layers: 1, and one more for each time that the filter grew. */
  get layers(): number {
    return this.contents.layers.length;
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

function sum(layers: Layer[], figure: "items" | "capacity" | "bytes"): number {
  return layers.reduce((all, layer) => all + layer[figure], 0);
}

/** A new layer, with memory for its bits. */
function withoutItems(shape: Shape): Layer {
  const bytes = 64 * shape.lines * shape.linesPerItem;
  return layerOf(bytes, { ...shape, ones: 0, bits: new Uint8Array(bytes), isOwn: true });
}

let usualSeed: bigint | undefined;

function specOf(options: CreateOptions): BlockedSpec {
  const { capacity, errorRate, seed, expansion = 2, fixed = false, growing = false } = options;
  within("capacity", capacity, CAPACITIES);
  within("expansion", expansion, EXPANSIONS);
  if (!(typeof errorRate === "number" && errorRate > 0 && errorRate < 1))
    throw new RangeError(`errorRate is above 0 and below 1, not ${errorRate}`);
  if (fixed && growing) throw new RangeError("a filter is fixed or growing, not both");
  if (fixed && options.expansion !== undefined) throw new RangeError("a fixed filter has no expansion");
  if (seed !== undefined && typeof seed !== "bigint") within("seed", seed, { least: 0, most: Number.MAX_SAFE_INTEGER });
  const number = BigInt(seed ?? (usualSeed ??= crypto.getRandomValues(new BigUint64Array(1))[0]));
  if (BigInt.asUintN(64, number) !== number) throw new RangeError(`seed is from 0 to 2^64 - 1, not ${number}`);
  return {
    capacity,
    errorRate: Math.min(Math.max(errorRate, ERROR_RATES.least), ERROR_RATES.most),
    growth: fixed ? "fixed" : growing ? "growing" : "reserved",
    expansion,
    seedLow: Number(number & 0xffffffffn),
    seedHigh: Number(number >> 32n),
  };
}

function within(name: string, value: number, { least, most }: typeof CAPACITIES): void {
  if (!(Number.isInteger(value) && value >= least && value <= most))
    throw new RangeError(`${name} is a whole number from ${least} to ${most}, not ${value}`);
}
