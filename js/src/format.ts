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
  layers: Layer[];
  /** Hashes of the exceptions, 16 bytes each, in ascending order. */
  exceptions?: DataView;
  /** Hashes the first bytes of `item`, for the layers' `has`. */
  hash(length: number, item: DataView): void;
}

export interface Layer {
  /** Length of the bit array. */
  bytes: number;
  capacity: number;
  items: number;
  /** Set bits, where the header has their number. */
  ones?: number;
  /** With a window: when its items are forgotten, in milliseconds of the Unix clock. */
  expires?: number;
  /** Whether all bits of the last item that was hashed are set. */
  has(bits: Bits): boolean;
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

/** Reads and checks a header. It takes no memory for the bits. */
export function parseHeader(bytes: Uint8Array): Header {
  const fields = new Fields(bytes);
  if (String.fromCharCode(...bytes.subarray(0, 7)) !== MAGIC) return classic(fields);
  const version = fields.take(8)[7];
  if (version === 1) return blocked(fields, true);
  if (version === 2) return windowed(fields);
  if (version === 3) return composed(fields);
  if (version === 4) return valkey(fields);
  throw new FormatError(`the header has version ${version}, which is not known`);
}

function blocked(fields: Fields, isGrown: boolean): Header {
  const { count, growth, expansion, ...header } = blockedHead(fields, 1);
  inRange("growth", growth, 0, 2);
  if (isGrown && growth === 0) inRange("layers", count, 1, 1);
  inRange("expansion", expansion, Math.min(growth, 1), 32768 * Math.min(growth, 1));
  const layers = fields.layers<ReturnType<typeof blockedLayer>>(count, 48, (before) => {
    const layer = blockedLayer(fields);
    if (before && isGrown) follow(before, layer.capacity, expansion);
    return layer;
  });
  const sum = layers.reduce((rates, { rate }) => rates + rate, 0);
  inRange("sum of the layers' rates", sum, 0, header.errorRate * (1 + ROUNDING));
  return { ...header, layers };
}

function blockedHead(fields: Fields, least: number) {
  const { layers: count } = fields.read({ zero: u32(0, 0), layers: u32(least) });
  const secret = secretOf(fields.take(8));
  const head = fields.read({ errorRate: f64(1e-30, 0.25), growth: u32(), expansion: u32() });
  return { ...head, count, hash: (length: number, item: DataView) => xxh3(item, 0, length, secret) };
}

function blockedLayer(fields: Fields) {
  const { capacity, items, ones, rate, lines, linesPerItem, probes } = fields.read({
    capacity: u64(1),
    items: u64(),
    ones: u64(),
    rate: f64(0, BELOW_1),
    lines: u64(1, MOST_LINES),
    linesPerItem: u32(1, 16),
    probes: u32(2, 8),
  });
  inRange("items", items, 0, capacity);
  const has = (bits: Bits): boolean => hasLines(bits, lines, linesPerItem, probes);
  return { bytes: 64 * lines * linesPerItem, capacity, items, ones, rate, has };
}

function windowed(fields: Fields): Header {
  const { count, growth, expansion, ...header } = blockedHead(fields, 0);
  inRange("growth", growth, 3, 3);
  inRange("expansion", expansion, 1, 32768);
  const { capacity, seconds, begin } = fields.read({
    capacity: u64(1, 2 ** 40),
    seconds: u32(1),
    slices: u8(2, 64),
    flags: u8(0, count > 0 ? 3 : 1),
    zero: u16(0, 0),
    begin: u64(0, 2 ** 52),
  });
  let last = 0;
  const layers = fields.layers(count, 72, () => {
    const layer = blockedLayer(fields);
    const { first, end } = fields.read({ first: u64(last), end: u64(), flags: u32(0, 3), zeros: u32(0, 0) });
    inRange("end", end, first, Infinity);
    last = first;
    return { ...layer, expires: end + 1000 * seconds };
  });
  return { ...header, layers, window: { capacity, begin } };
}

function composed(fields: Fields): Header {
  const { exceptions: count } = fields.read({ zero: u64(0, 0), exceptions: u64(0, 2 ** 24) });
  const exceptions = viewOf(fields.take(16 * count));
  let last = [0n, 0n];
  for (let at = 0; at < exceptions.byteLength; at += 16) {
    const next = [exceptions.getBigUint64(at, true), exceptions.getBigUint64(at + 8, true)];
    if (next[0] < last[0] || (next[0] === last[0] && next[1] <= last[1])) {
      throw new FormatError(`the header: exception ${at / 16} is not above the one before it`);
    }
    last = next;
  }
  inRange("version of the layers", fields.take(8)[7], 1, 1);
  return { ...blocked(fields, false), exceptions };
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
  let counted = 0;
  let errorRate = 0;
  const layers = fields.layers(count, 53, (before) => {
    const layer = fields.read({
      bytes: u64(),
      bits: u64(),
      items: u64(),
      rate: f64(Number.MIN_VALUE, BELOW_1),
      bitsPerItem: f64(),
      probes: u32(),
      capacity: u64(1),
      n2: u8(0, noRound ? 0 : 63),
    });
    const { bytes, bits, bitsPerItem, probes, capacity, n2 } = layer;
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
    counted += layer.items;
    if (!before) errorRate = isFixed ? layer.rate : 2 * layer.rate;
    const by = new Modulus(modulus);
    return { bytes, capacity, items: layer.items, has: (array) => hasProbes(array, by, probes, false) };
  });
  inRange("items of all layers", counted, items, items);
  return { errorRate, layers, hash: (length, item) => hashClassic(item, length, isWide) };
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
  let rate = errorRate;
  const layers = fields.layers(count, 24, (before) => {
    const { capacity, items, bytes } = fields.read({ capacity: u64(1), items: u64(), bytes: u64(1, MOST_BITS / 8) });
    inRange("items", items, 0, capacity);
    if (before) follow(before, capacity, expansion);
    if (before) rate *= tightening;
    const exact = (capacity * Math.log(rate)) / (-8 * (Math.LN2 * Math.LN2));
    const [least, most] = [1 - LN_ROUNDING, 1 + LN_ROUNDING].map((off) => Math.max(Math.ceil(exact * off), 1));
    inRange("bytes", bytes, least, most);
    const probes = Math.max(Math.round(((8 * bytes) / capacity) * Math.LN2), 1);
    const by = new Modulus(8 * bytes);
    return { bytes, capacity, items, has: (bits) => hasProbes(bits, by, probes, true) };
  });
  return { errorRate, layers, hash: (length, item) => hashValkey(item, length, seed) };
}

/** Checks that a layer follows another one as growth makes it. */
function follow(before: Layer, capacity: number, expansion: number): void {
  inRange("items before the newest layer", before.items, before.capacity, before.capacity);
  inRange("capacity", capacity, before.capacity * expansion, before.capacity * expansion);
}

function inRange(name: string, value: number, least: number, most: number): void {
  if (value >= least && value <= most) return;
  throw new FormatError(`the header: ${name} is ${value}, and not ${least === most ? least : `${least} to ${most}`}`);
}

export function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
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

/** The fields of a header, one after another. */
class Fields {
  private at = 0;

  constructor(private readonly bytes: Uint8Array) {}

  take(length: number): Uint8Array {
    const left = this.bytes.length - this.at;
    if (length > left) throw new FormatError(`the header ends early, after ${this.bytes.length} bytes`);
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }

  /** Reads and checks the fields of a table, in its order. */
  read<Name extends string>(table: Record<Name, Field>): Record<Name, number> {
    const values = {} as Record<Name, number>;
    for (const name in table) {
      const [size, read, least, most] = table[name];
      values[name] = read(viewOf(this.take(size)), 0);
      inRange(
        name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`),
        values[name],
        least,
        most,
      );
    }
    return values;
  }

  /** Reads all layers, of so many bytes each, with which the header ends. */
  layers<L extends Layer>(count: number, bytes: number, read: (before: L | undefined) => L): L[] {
    inRange("length of the layers", this.bytes.length - this.at, count * bytes, count * bytes);
    const layers: L[] = [];
    while (layers.length < count) layers.push(read(layers.at(-1)));
    return layers;
  }
}
