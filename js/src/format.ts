/**
 * The headers of filters: docs/design.md, "Stored bytes". Everything else in this package knows only what `parseHeader`
 * returns.
 */

import type { Bits } from "./bits.js";
import { hasLines, secretOf } from "./blocked.js";
import { FormatError } from "./error.js";
import { hashClassic, hashValkey, hasProbes, Modulus, MOST_BITS } from "./scattered.js";
import { xxh3 } from "./xxh3.js";

export interface Header {
  errorRate: number;
  /** With a window: the items that are expected in it, and where the bits begin that its chunks count from. */
  window?: { capacity: number; begin: number };
  /** The number of the layers, the items that they are made for, and the bytes of their bits. */
  count: number;
  capacity: number;
  bytes: number;
  /** The layers, oldest first. They are read anew each time: a header may have millions, and objects take memory. */
  layers(): Iterable<Layer>;
  /** Hashes of the exceptions, 16 bytes each, in ascending order. */
  exceptions?: DataView;
  /** Hashes the first bytes of `item`, for `has`. */
  hash(length: number, item: DataView): void;
  /** Whether all bits of the last item that was hashed are set in a layer, which has these. */
  has(layer: Layer, bits: Bits): boolean;
}

export interface Layer {
  /** Length of the bit array. */
  bytes: number;
  capacity: number;
  items: number;
  rate: number;
  /** Set bits, where the header has their number. */
  ones?: number;
  /** With a window: when its items are forgotten, in milliseconds of the Unix clock. */
  expires?: number;
  probes: number;
  /** What places are computed with: in the blocked layout the lines, in the others what probes are taken modulo. */
  lines?: number;
  linesPerItem?: number;
  by?: Modulus;
}

/** The type and the range of a field. */
type Field = [size: number, read: (view: DataView, at: number) => number, least: number, most: number];

const u8 = (least = 0, most = 255): Field => [1, (view, at) => view.getUint8(at), least, most];
const u16 = (least = 0, most = 65535): Field => [2, (view, at) => view.getUint16(at, true), least, most];
const u32 = (least = 0, most = 2 ** 32 - 1): Field => [4, (view, at) => view.getUint32(at, true), least, most];
const f64 = (least = 0, most = Infinity): Field => [8, (view, at) => view.getFloat64(at, true), least, most];
/** Above that, JavaScript's numbers are not exact. */
const u64 = (least = 0, most = Number.MAX_SAFE_INTEGER): Field => [8, readU64, least, most];

export function readU64(view: DataView, at: number): number {
  return view.getUint32(at, true) + view.getUint32(at + 4, true) * 2 ** 32;
}

const MAGIC = "BLOOM\0\0";
/** The most lines in each part of a layer that this reader can number. */
const MOST_LINES = 2 ** 32 - 1;
const BELOW_1 = 1 - Number.EPSILON / 2;
/** By how much sums, and logarithms, may differ from those of the writer. */
const ROUNDING = 1e-9;
const LN_ROUNDING = 1e-12;
// RedisBloom's options of a filter, and its logarithms, which it cuts off.
const NOROUND = 1;
const FORCE64 = 4;
const NO_SCALING = 8;
const CLASSIC_LN2 = 0.693147180559945;
const CLASSIC_LN2_SQUARED = 0.480453013918201;
/** The latest time that is stored. */
const LATEST = 2n ** 63n - 1n;

/** Reads and checks a header. It takes no memory for the bits. */
export function parseHeader(bytes: Uint8Array): Header {
  const fields = new Fields(bytes);
  if (String.fromCharCode(...bytes.subarray(0, 7)) !== MAGIC) return classic(fields);
  const version = fields.take(8)[7];
  if (version === 1) return blocked(fields);
  if (version === 2) return valkey(fields);
  throw new FormatError(`the header has version ${version}, which is not known`);
}

function blocked(fields: Fields): Header {
  const { layers: count } = fields.read({ zero: u32(0, 0), layers: u32() });
  const secret = secretOf(fields.take(8));
  const { errorRate, growth, expansion, exceptions, seconds } = fields.read({
    errorRate: f64(1e-30, 0.25),
    growth: u32(),
    expansion: u32(),
    exceptions: u32(),
    seconds: u32(),
  });
  inRange("growth", growth, seconds > 0 ? 1 : 0, seconds > 0 ? 1 : 2);
  inRange("exceptions", exceptions, 0, seconds > 0 ? 0 : 2 ** 24);
  inRange("expansion", expansion, Math.min(growth, 1), 32768 * Math.min(growth, 1));
  // Without a window all layers are one slice, which does not expire.
  const { slices, window } = seconds > 0 ? windowed(fields, seconds) : { slices: [{ count: Math.max(count, 1) }] };
  const all = slices.reduce((sum, slice) => sum + slice.count, 0);
  inRange("layers", count, all, all);
  if (window) inRange("layers", count, 0, 4400);
  fields.mustLeave(48 * count + 16 * exceptions);
  const data = fields.take(48 * count);
  const hashes = ascending(viewOf(fields.take(16 * exceptions)));
  const { rates, ...checked } = summed(() => blockedLayers(data, slices));
  inRange("sum of the layers' rates", rates, 0, errorRate * (1 + ROUNDING));
  return {
    errorRate,
    window,
    ...checked,
    exceptions: hashes,
    hash: (length, item) => xxh3(item, 0, length, secret),
    has: (layer, bits) => hasLines(bits, layer.lines!, layer.linesPerItem!, layer.probes),
  };
}

/** Reads and checks all layers once, for their figures. */
function summed(layers: () => Iterable<Layer>) {
  let [count, capacity, bytes, items, rates] = [0, 0, 0, 0, 0];
  for (const layer of layers()) {
    count += 1;
    capacity += layer.capacity;
    bytes += layer.bytes;
    items += layer.items;
    rates += layer.rate;
  }
  return { layers, count, capacity, bytes, items, rates };
}

/** The number of a slice's layers, and when they expire. */
type Slice = { count: number; expires?: number };

function windowed(fields: Fields, seconds: number): Pick<Header, "window"> & { slices: Slice[] } {
  const { capacity, slices: usual, stored } = fields.read({
    capacity: u64(1, 2 ** 40),
    slices: u8(2, 64),
    refresh: u8(0, 1),
    zero: u16(0, 0),
    stored: u32(0, 512),
  });
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

const BLOCKED_LAYER = {
  capacity: u64(1),
  items: u64(),
  ones: u64(),
  rate: f64(0, BELOW_1),
  lines: u64(1, MOST_LINES),
  linesPerItem: u32(1, 16),
  probes: u32(2, 8),
};

function* blockedLayers(data: Uint8Array, slices: Slice[]): Iterable<Layer> {
  const fields = new Fields(data);
  for (const { count, expires } of slices) {
    for (let at = 1; at <= count; at += 1) {
      const { capacity, items, ones, rate, lines, linesPerItem, probes } = fields.read(BLOCKED_LAYER);
      // In a slice only the newest layer has room.
      inRange("items", items, at < count && expires !== undefined ? capacity : 0, capacity);
      // All of them written out: V8 gives such an object a third of the memory of one with copied fields.
      yield { bytes: 64 * lines * linesPerItem, capacity, items, ones, rate, expires, lines, linesPerItem, probes };
    }
  }
}

/** The hashes of exceptions, whose order is checked. */
function ascending(exceptions: DataView): DataView {
  let last = 0n;
  for (let at = 0; at < exceptions.byteLength; at += 16) {
    const next = (exceptions.getBigUint64(at, true) << 64n) | exceptions.getBigUint64(at + 8, true);
    if (next <= last) throw new FormatError(`the header: exception ${at / 16} is not above the one before it`);
    last = next;
  }
  return exceptions;
}

function classic(fields: Fields): Header {
  const {
    items,
    layers: count,
    options,
  } = fields.read({ items: u64(), layers: u32(1), options: u32(0, 13), expansion: u32() });
  const [noRound, isWide, isFixed] = [NOROUND, FORCE64, NO_SCALING].map((option) => (options & option) !== 0);
  if ((options & 2) !== 0) inRange("options", options, options - 2, options - 2);
  if (isFixed) inRange("layers", count, 1, 1);
  fields.mustLeave(53 * count);
  const data = fields.take(53 * count);
  const checked = summed(() => classicLayers(data, noRound));
  inRange("items of all layers", checked.items, items, items);
  const [first] = classicLayers(data.subarray(0, 53), noRound);
  const errorRate = isFixed ? first.rate : 2 * first.rate;
  return {
    errorRate,
    ...checked,
    hash: (length, item) => hashClassic(item, length, isWide),
    has: (layer, bits) => hasProbes(bits, layer.by!, layer.probes, false),
  };
}

const CLASSIC_LAYER = {
  bytes: u64(),
  bits: u64(),
  items: u64(),
  rate: f64(Number.MIN_VALUE, BELOW_1),
  bitsPerItem: f64(),
  probes: u32(),
  capacity: u64(1),
  n2: u8(0, 63),
};

function* classicLayers(data: Uint8Array, noRound: boolean): Iterable<Layer> {
  for (const fields = new Fields(data); !fields.isAtEnd;) {
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
    yield { bytes, capacity, items: layer.items, rate: layer.rate, probes, by: new Modulus(modulus) };
  }
}

function valkey(fields: Fields): Header {
  const {
    layers: count,
    errorRate,
    tightening,
    expansion,
  } = fields.read({
    zero: u32(0, 0),
    layers: u32(1),
    errorRate: f64(Number.MIN_VALUE, BELOW_1),
    tightening: f64(Number.MIN_VALUE, BELOW_1),
    expansion: u32(),
  });
  const seed = viewOf(fields.take(32));
  if (expansion === 0) inRange("layers", count, 1, 1);
  fields.mustLeave(24 * count);
  const data = fields.take(24 * count);
  const checked = summed(() => valkeyLayers(data, errorRate, tightening, expansion));
  return {
    errorRate,
    ...checked,
    hash: (length, item) => hashValkey(item, length, seed),
    has: (layer, bits) => hasProbes(bits, layer.by!, layer.probes, true),
  };
}

const VALKEY_LAYER = { capacity: u64(1), items: u64(), bytes: u64(1, MOST_BITS / 8) };

function* valkeyLayers(data: Uint8Array, first: number, tightening: number, expansion: number): Iterable<Layer> {
  let rate = first;
  let before: Layer | undefined;
  for (const fields = new Fields(data); !fields.isAtEnd;) {
    const { capacity, items, bytes } = fields.read(VALKEY_LAYER);
    inRange("items", items, 0, capacity);
    if (before) {
      inRange("items before the newest layer", before.items, before.capacity, before.capacity);
      inRange("capacity", capacity, before.capacity * expansion, before.capacity * expansion);
      rate *= tightening;
    }
    const exact = (capacity * Math.log(rate)) / (-8 * (Math.LN2 * Math.LN2));
    const [least, most] = [1 - LN_ROUNDING, 1 + LN_ROUNDING].map((off) => Math.max(Math.ceil(exact * off), 1));
    inRange("bytes", bytes, least, most);
    const probes = Math.max(Math.round(((8 * bytes) / capacity) * Math.LN2), 1);
    before = { bytes, capacity, items, rate, probes, by: new Modulus(8 * bytes) };
    yield before;
  }
}

function inRange<N extends number | bigint>(name: string, value: N, least: N, most: N): void {
  if (value >= least && value <= most) return;
  const words = name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  throw new FormatError(`the header: ${words} is ${value}, and not ${least === most ? least : `${least} to ${most}`}`);
}

export function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** The fields of a header, one after another. */
class Fields {
  private at = 0;
  private readonly view: DataView;

  constructor(private readonly bytes: Uint8Array) {
    this.view = viewOf(bytes);
  }

  get isAtEnd(): boolean {
    return this.at === this.bytes.length;
  }

  take(length: number): Uint8Array {
    const from = this.pass(length);
    return this.bytes.subarray(from, this.at);
  }

  /** Reads and checks the fields of a table, in its order. */
  read<Name extends string>(table: Record<Name, Field>): Record<Name, number> {
    const values = {} as Record<Name, number>;
    for (const name in table) {
      const [size, read, least, most] = table[name];
      const value = read(this.view, this.pass(size));
      inRange(name, value, least, most);
      values[name] = value;
    }
    return values;
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
