/** The headers of filters: docs/design.md, "Stored bytes". Nothing else in this package knows what is in them. */

import { keyStream, unsetBits } from "./blocked.js";
import { FormatError, viewOf } from "./bytes.js";
import { hashClassic, hasProbes, MOST_BITS } from "./scattered.js";
import { firstTrue, GROWTHS, type Shape, type Spec } from "./sizing.js";
import { hash, xxh3 } from "./xxh3.js";

/** What a filter is made of. */
export interface Contents {
  header(): Uint8Array;
  errorRate: number;
  /** With a window: the items that are expected in it, and where the bits begin that its chunks count from. */
  window?: { capacity: number; begin: number };
  /** Oldest first. */
  layers: Layer[];
  /** Hashes of the exceptions, 16 bytes each, in ascending order. */
  exceptions?: DataView;
  /** What further layers are made from. Without it, no items can be added. */
  spec?: BlockedSpec;
  /** Hashes the first bytes of `item`, for `has`, which says whether a layer has all bits of the item. */
  hash(length: number, item: DataView): void;
  has(layer: Layer): boolean;
}

export type BlockedSpec = Spec & { seedLow: number; seedHigh: number };

/** Places of bits are computed with the lines in the blocked layout, and with the modulus in the classic one. */
export interface Layer extends Shape {
  modulus: number;
  bytes: number;
  bits: Uint8Array;
  /** Whether the bits may be changed: those of a file are not the filter's own. */
  isOwn: boolean;
  items: number;
  /** Set bits, where the header has their number. */
  ones: number | undefined;
  /** With a window: when its items are forgotten, in milliseconds of the Unix clock. */
  expires: number | undefined;
}

/** The type and the range of a field. */
type Field = [type: keyof typeof SIZES, least: number, most: number];
const SIZES = { Uint8: 1, Uint16: 2, Uint32: 4, Float64: 8, BigUint64: 8 };

const u8 = (least = 0, most = 255): Field => ["Uint8", least, most];
const u16 = (least = 0, most = 65535): Field => ["Uint16", least, most];
const u32 = (least = 0, most = 2 ** 32 - 1): Field => ["Uint32", least, most];
const f64 = (least = 0, most = Infinity): Field => ["Float64", least, most];
/** Above that, JavaScript's numbers are not exact. */
const u64 = (least = 0, most = Number.MAX_SAFE_INTEGER): Field => ["BigUint64", least, most];

const MAGIC = "BLOOM\0\0\x03";
/** The most lines in each part of a layer that this reader can number. */
const MOST_LINES = 2 ** 32 - 1;
const BELOW_1 = 1 - Number.EPSILON / 2;
/** By how much sums, and logarithms, may differ from those of the writer. */
const ROUNDING = 1e-9;
const LN_ROUNDING = 1e-12;
// RedisBloom's logarithms, which it cuts off.
const CLASSIC_LN2 = 0.693147180559945;
const CLASSIC_LN2_SQUARED = 0.480453013918201;
/** The latest time that is stored. */
const LATEST = 2n ** 63n - 1n;

/** Reads and checks a header. It takes no memory for the bits. */
export function parseHeader(header: Uint8Array): Contents {
  const fields = new Fields(header);
  const begins = String.fromCharCode(...header.subarray(0, MAGIC.length));
  if (begins.slice(0, 5) !== MAGIC.slice(0, 5)) return classic(header, fields);
  if (begins === MAGIC) return blocked(header, fields);
  throw new FormatError(`the header has version ${header[7]}: this version, or valkey-bloom's layout, is not read in JavaScript`);
}

const BLOCKED = {
  zero: u32(0, 0), layers: u32(), seedLow: u32(), seedHigh: u32(), errorRate: f64(1e-30, 0.25), growth: u32(),
  expansion: u32(), exceptions: u32(), seconds: u32(),
};
const BLOCKED_LAYER = {
  capacity: u64(1), items: u64(), ones: u64(), rate: f64(0, BELOW_1), lines: u64(1, MOST_LINES),
  linesPerItem: u32(1, 16), probes: u32(2, 8),
};
/** Bytes of the fields in a header of this layout before those of the layers, and as many for each layer. */
const BLOCKED_BYTES = 48;

/** The header of a filter that items can be added to. */
export function headerOf({ errorRate, growth, expansion, seedLow, seedHigh }: BlockedSpec, layers: Layer[]): Uint8Array {
  const header = new Uint8Array(BLOCKED_BYTES * (1 + layers.length));
  header.set(Array.from(MAGIC, (letter) => letter.charCodeAt(0)));
  const fields = new Fields(header);
  fields.take(MAGIC.length);
  const own = { errorRate, growth: GROWTHS.indexOf(growth), expansion: growth === "fixed" ? 0 : expansion };
  fields.write(BLOCKED, { zero: 0, layers: layers.length, seedLow, seedHigh, ...own, exceptions: 0, seconds: 0 });
  for (const layer of layers) fields.write(BLOCKED_LAYER, layer as Layer & { ones: number });
  return header;
}

function blocked(header: Uint8Array, fields: Fields): Contents {
  fields.take(MAGIC.length);
  const { layers: count, seedLow, seedHigh, errorRate, growth, expansion, exceptions, seconds } = fields.read(BLOCKED);
  inRange("growth", growth, seconds > 0 ? 1 : 0, seconds > 0 ? 1 : 2);
  inRange("exceptions", exceptions, 0, seconds > 0 ? 0 : 2 ** 24);
  inRange("expansion", expansion, Math.min(growth, 1), 32768 * Math.min(growth, 1));
  // Without a window all layers are one slice, which does not expire.
  const { slices, window } = seconds > 0 ? windowed(fields, seconds) : { slices: [{ count: Math.max(count, 1) }] };
  const all = slices.reduce((sum, slice) => sum + slice.count, 0);
  inRange("layers", count, all, all);
  if (window) inRange("layers", count, 0, 4400);
  fields.mustLeave(BLOCKED_BYTES * count + 16 * exceptions);
  const layers: Layer[] = [];
  for (const { count, expires } of slices) {
    for (let at = 1; at <= count; at += 1) {
      const { capacity, items, ones, rate, lines, linesPerItem, probes } = fields.read(BLOCKED_LAYER);
      // In a slice only the newest layer has room.
      inRange("items", items, at < count && expires !== undefined ? capacity : 0, capacity);
      layers.push(layerOf(64 * lines * linesPerItem, { capacity, items, ones, rate, expires, lines, linesPerItem, probes }));
    }
  }
  const rates = layers.reduce((sum, { rate }) => sum + rate, 0);
  inRange("sum of the layers' rates", rates, 0, errorRate * (1 + ROUNDING));
  const secret = keyStream([seedLow, seedHigh, 0, 0, 0, 0, 0, 0], 3);
  const whole = { errorRate, capacity: 0, growth: GROWTHS[growth], expansion, seedLow, seedHigh };
  const spec = window || exceptions > 0 ? undefined : whole;
  return {
    header: () => (spec ? headerOf(spec, layers) : header),
    errorRate,
    window,
    layers,
    exceptions: exceptions > 0 ? ascending(viewOf(fields.take(16 * exceptions))) : undefined,
    spec,
    hash: (length, item) => xxh3(item, 0, length, secret),
    has: (layer) => unsetBits(layer, false) === 0,
  };
}

/** A layer, in the one form of all: with several, each query would ask which. */
export function layerOf(bytes: number, figures: Partial<Layer> & Omit<Shape, "lines" | "linesPerItem">): Layer {
  const { capacity, items = 0, rate, ones, expires, probes, lines = 0, linesPerItem = 0, modulus = 0 } = figures;
  const { bits = new Uint8Array(0), isOwn = false } = figures;
  return { bytes, capacity, items, rate, ones, expires, probes, lines, linesPerItem, modulus, bits, isOwn };
}

const WINDOW = { capacity: u64(1, 2 ** 40), slices: u8(2, 64), refresh: u8(0, 1), zero: u16(0, 0), stored: u32(0, 512) };

/** The number of a slice's layers, and when they expire. */
type Slice = { count: number; expires?: number };

function windowed(fields: Fields, seconds: number): Pick<Contents, "window"> & { slices: Slice[] } {
  const { capacity, slices: usual, stored } = fields.read(WINDOW);
  const changed = fields.time();
  const { begin } = fields.read({ begin: u64(0, 2 ** 52) });
  inRange("begin", begin, begin - (begin % 64), begin - (begin % 64));
  const longest = BigInt(Math.ceil((1000 * seconds) / usual));
  let last = { opens: 0n, closes: 0n };
  const slices = Array.from({ length: stored }, () => {
    const slice = { opens: fields.time(), closes: fields.time() };
    inRange("opens", slice.opens, last.opens, LATEST);
    inRange("closes", slice.closes, last.closes, LATEST);
    inRange("closes", slice.closes, slice.opens, slice.opens + longest);
    last = slice;
    const { layers } = fields.read({ layers: u32(1), zero: u32(0, 0) });
    return { count: layers, expires: Number(slice.closes) + 1000 * seconds };
  });
  inRange("changed", changed, last.opens, stored > 0 ? last.closes : LATEST);
  return { slices, window: { capacity, begin } };
}

/** The hashes of exceptions, whose order is checked. */
function ascending(exceptions: DataView): DataView {
  let last = 0n;
  for (let at = 0; 16 * at < exceptions.byteLength; at += 1) {
    const next = exceptionAt(exceptions, at);
    if (next <= last) throw new FormatError(`the header: exception ${at} is not above the one before it`);
    last = next;
  }
  return exceptions;
}

function exceptionAt(exceptions: DataView, at: number): bigint {
  return (exceptions.getBigUint64(16 * at, true) << 64n) | exceptions.getBigUint64(16 * at + 8, true);
}

/** Whether the last item that was hashed is an exception. */
export function isException(exceptions: DataView): boolean {
  const [lowest, low, high, highest] = Array.from(hash, (word) => BigInt(word >>> 0));
  const item = (highest << 96n) | (high << 64n) | (low << 32n) | lowest;
  const count = exceptions.byteLength / 16;
  const at = firstTrue(0, count, (at) => exceptionAt(exceptions, at) >= item);
  return at < count && exceptionAt(exceptions, at) === item;
}

function classic(header: Uint8Array, fields: Fields): Contents {
  const head = { items: u64(), layers: u32(1), options: u32(0, 13), expansion: u32() };
  const { items, layers: count, options } = fields.read(head);
  const [noRound, isWide, isFixed] = [1, 4, 8].map((option) => (options & option) !== 0);
  if ((options & 2) !== 0) inRange("options", options, options - 2, options - 2);
  if (isFixed) inRange("layers", count, 1, 1);
  fields.mustLeave(53 * count);
  const layers = Array.from({ length: count }, () => classicLayer(fields, noRound));
  const sum = layers.reduce((all, layer) => all + layer.items, 0);
  inRange("items of all layers", sum, items, items);
  return {
    header: () => header,
    errorRate: isFixed ? layers[0].rate : 2 * layers[0].rate,
    layers,
    hash: (length, item) => hashClassic(item, length, isWide),
    has: hasProbes,
  };
}

const CLASSIC_LAYER = {
  bytes: u64(), bits: u64(), items: u64(), rate: f64(Number.MIN_VALUE, BELOW_1), bitsPerItem: f64(), probes: u32(),
  capacity: u64(1), n2: u8(0, 63),
};

function classicLayer(fields: Fields, noRound: boolean): Layer {
  const layer = fields.read(CLASSIC_LAYER);
  const { bytes, bits, bitsPerItem, probes, capacity, n2 } = layer;
  inRange("n2", n2, 0, noRound ? 0 : 63);
  const perItem = -Math.log(layer.rate) / CLASSIC_LN2_SQUARED;
  inRange("bits per item", bitsPerItem, perItem * (1 - LN_ROUNDING), perItem * (1 + LN_ROUNDING));
  inRange("probes", probes, Math.ceil(CLASSIC_LN2 * bitsPerItem), Math.ceil(CLASSIC_LN2 * bitsPerItem));
  inRange("items", layer.items, 0, capacity);
  // The bits are a power of two, to which the capacity was raised, or what the capacity needs.
  const wanted = capacity * bitsPerItem;
  if (n2 > 0) inRange("bits of the capacity", wanted, 2 ** n2 / 2, 2 ** n2 * (1 + LN_ROUNDING));
  const needed = n2 > 0 ? 2 ** n2 : Math.max(Math.trunc(wanted), 1);
  if (bytes !== 8 * Math.ceil(needed / 64)) inRange("bytes", bytes, Math.ceil(needed / 8), Math.ceil(needed / 8));
  const whole = n2 > 0 || noRound ? 8 * bytes : needed;
  if (n2 === 0 || bits !== needed) inRange("bits", bits, whole, whole);
  const modulus = n2 > 0 ? needed : bits;
  inRange("bits", modulus, 1, MOST_BITS);
  return layerOf(bytes, { capacity, items: layer.items, rate: layer.rate, probes, modulus });
}

function inRange<N extends number | bigint>(name: string, value: N, least: N, most: N): void {
  if (value >= least && value <= most) return;
  const words = name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  throw new FormatError(`the header: ${words} is ${value}, and not ${least === most ? least : `${least} to ${most}`}`);
}

/** The fields of a header, one after another. */
class Fields {
  private at = 0;
  private readonly view: DataView;

  constructor(private readonly bytes: Uint8Array) {
    this.view = viewOf(bytes);
  }

  take(length: number): Uint8Array {
    const from = this.pass(length);
    return this.bytes.subarray(from, this.at);
  }

  /** Reads and checks the fields of a table, in its order. */
  read<Name extends string>(table: Record<Name, Field>): Record<Name, number> {
    const values = {} as Record<Name, number>;
    for (const name in table) {
      const [type, least, most] = table[name];
      const value = Number(this.view[`get${type}`](this.pass(SIZES[type]), true));
      inRange(name, value, least, most);
      values[name] = value;
    }
    return values;
  }

  /** Writes the fields of a table, in its order. */
  write<Name extends string>(table: Record<Name, Field>, values: Record<NoInfer<Name>, number>): void {
    for (const name in table) {
      const [type] = table[name];
      const value: any = type === "BigUint64" ? BigInt(values[name]) : values[name];
      this.view[`set${type}`](this.pass(SIZES[type]), value as never, true);
    }
  }

  /** A time, which may be later than any of JavaScript's exact numbers. */
  time(): bigint {
    return this.view.getBigUint64(this.pass(8), true);
  }

  mustLeave(bytes: number): void {
    inRange("length of the rest", this.bytes.length - this.at, bytes, bytes);
  }

  /** Where the next bytes begin, which are passed over. */
  private pass(length: number): number {
    if (length > this.bytes.length - this.at) {
      throw new FormatError(`the header ends early, after ${this.bytes.length} bytes`);
    }
    this.at += length;
    return this.at - length;
  }
}
