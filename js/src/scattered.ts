/** RedisBloom's and valkey-bloom's layouts: docs/design.md. An item sets single bits anywhere in a layer. */

import type { Bits } from "./bits.js";
import { carry, multiplyLow, product, wordsOf } from "./words.js";

/** The most bits of a layer, 2 TiB of them. */
export const MOST_BITS = 2 ** 44;

/** The words of the two hashes of the last item. */
export const pair = new Int32Array(4);
const [MURMUR_L, MURMUR_H] = wordsOf(0xc6a4a7935bd1e995n);
const MURMUR_32 = 0x5bd1e995;
/** The low word of the largest prime below 2^64; all bits of the high word are set. */
const LARGEST_PRIME_L = 0xffffffc5;

/** RedisBloom's hashes of an item. Early filters have such of 32 bits. */
export function hashClassic(item: DataView, length: number, isWide: boolean): void {
  if (isWide) {
    murmur64(0, item, length, MURMUR_L, MURMUR_H);
    murmur64(2, item, length, pair[0], pair[1]);
  } else {
    pair[0] = murmur32(item, length, 0x9747b28c);
    pair[2] = murmur32(item, length, pair[0]);
    pair[1] = pair[3] = 0;
  }
}

/** valkey-bloom's hashes of an item, under the 32 bytes of the filter's seed. */
export function hashValkey(item: DataView, length: number, seed: DataView): void {
  siphash(0, item, length, seed, 0);
  siphash(2, item, length, seed, 16);
}

/**
 * Whether the bits (a + i · b mod 2^64) mod `modulus` are set, where a and b are the item's hashes. valkey-bloom takes b
 * itself for i = 1, and then takes each number modulo the largest prime first.
 */
export function hasProbes(bits: Bits, { modulus, over }: Modulus, probes: number, isValkey: boolean): boolean {
  const step = modulo(pair[2], pair[3], modulus);
  let low = pair[0];
  let top = pair[1];
  let rest = modulo(low, top, modulus);
  for (let i = 0; i < probes; i += 1) {
    let place = rest;
    if (isValkey && i === 1) place = step;
    else if (isValkey && i > 1 && top === -1 && low >>> 0 >= LARGEST_PRIME_L) {
      place = ((low >>> 0) - LARGEST_PRIME_L) % modulus;
    }
    if (((bits.byte(Math.floor(place / 8)) >>> (place & 7)) & 1) === 0) return false;
    low = (low + pair[2]) | 0;
    const sum = (top >>> 0) + (pair[3] >>> 0) + carry(low, pair[2]);
    top = sum | 0;
    rest += sum > 0xffffffff ? step - over : step;
    if (rest >= modulus) rest -= modulus;
    else if (rest < 0) rest += modulus;
  }
  return true;
}

/** What probes are taken modulo. */
export class Modulus {
  /** What 2^64 leaves: a sum beyond 2^64 has a remainder that is too large by it. */
  readonly over: number;

  constructor(readonly modulus: number) {
    this.over = (modulo(-1, -1, modulus) + 1) % modulus;
  }
}

/** A number of 64 bits modulo one of up to MOST_BITS. */
export function modulo(low: number, top: number, modulus: number): number {
  // Digit by digit, of which each is so short that all numbers stay below 2^53, and so exact.
  const width = modulus <= 2 ** 36 ? 16 : 8;
  const base = 2 ** width;
  let rest = 0;
  for (let word = top, i = 0; i < 2; word = low, i += 1) {
    for (let by = 32 - width; by >= 0; by -= width) {
      const number = rest * base + ((word >>> by) & (base - 1));
      rest = number - Math.floor(number / modulus) * modulus;
      // The quotient was rounded up to a whole number.
      if (rest < 0) rest += modulus;
    }
  }
  return rest;
}

/** MurmurHash64A, into two words of `pair`. */
export function murmur64(to: number, item: DataView, length: number, seedL: number, seedH: number): void {
  const end = length - (length % 8);
  multiplyLow(length | 0, (length / 0x100000000) | 0, MURMUR_L, MURMUR_H);
  let low = seedL ^ product[0];
  let top = seedH ^ product[1];
  for (let at = 0; at < end; at += 8) {
    multiplyLow(item.getInt32(at, true), item.getInt32(at + 4, true), MURMUR_L, MURMUR_H);
    multiplyLow(product[0] ^ (product[1] >>> 15), product[1], MURMUR_L, MURMUR_H);
    multiplyLow(low ^ product[0], top ^ product[1], MURMUR_L, MURMUR_H);
    low = product[0];
    top = product[1];
  }
  if (end < length) {
    multiplyLow(low ^ tail(item, end, length), top ^ tail(item, end + 4, length), MURMUR_L, MURMUR_H);
    low = product[0];
    top = product[1];
  }
  multiplyLow(low ^ (top >>> 15), top, MURMUR_L, MURMUR_H);
  pair[to] = product[0] ^ (product[1] >>> 15);
  pair[to + 1] = product[1];
}

/** The word at a place of which the item may have only some bytes, or none. */
function tail(item: DataView, at: number, length: number): number {
  let word = 0;
  for (let i = Math.min(at + 4, length) - 1; i >= at; i -= 1) word = (word << 8) | item.getUint8(i);
  return word;
}

/** MurmurHash2, of 32 bits. */
export function murmur32(item: DataView, length: number, seed: number): number {
  const end = length - (length % 4);
  let sum = seed ^ length;
  for (let at = 0; at < end; at += 4) {
    const word = Math.imul(item.getInt32(at, true), MURMUR_32);
    sum = Math.imul(sum, MURMUR_32) ^ Math.imul(word ^ (word >>> 24), MURMUR_32);
  }
  if (end < length) sum = Math.imul(sum ^ tail(item, end, length), MURMUR_32);
  sum = Math.imul(sum ^ (sum >>> 13), MURMUR_32);
  return sum ^ (sum >>> 15);
}

/** SipHash-1-3 of the item's length and the item, under 16 bytes of `keys`; into two words of `pair`. */
function siphash(to: number, item: DataView, length: number, keys: DataView, at: number): void {
  const k0l = keys.getInt32(at, true);
  const k0h = keys.getInt32(at + 4, true);
  const k1l = keys.getInt32(at + 8, true);
  const k1h = keys.getInt32(at + 12, true);
  // "somepseudorandomlygeneratedbytes"
  let al = k0l ^ 0x70736575;
  let ah = k0h ^ 0x736f6d65;
  let bl = k1l ^ 0x6e646f6d;
  let bh = k1h ^ 0x646f7261;
  let cl = k0l ^ 0x6e657261;
  let ch = k0h ^ 0x6c796765;
  let dl = k1l ^ 0x79746573;
  let dh = k1h ^ 0x74656462;
  const end = length - (length % 8);
  // A round for each word, the length before them and what is left behind them, and three at the end.
  for (let word = -8; word <= end + 24; word += 8) {
    let low = 0;
    let top = 0;
    if (word < 0) {
      low = length | 0;
      top = (length / 0x100000000) | 0;
    } else if (word < end) {
      low = item.getInt32(word, true);
      top = item.getInt32(word + 4, true);
    } else if (word === end) {
      low = tail(item, end, length);
      top = tail(item, end + 4, length) | ((length + 8) << 24);
    } else if (word === end + 8) cl ^= 0xff;
    dl ^= low;
    dh ^= top;
    al = (al + bl) | 0;
    ah = (ah + bh + carry(al, bl)) | 0;
    cl = (cl + dl) | 0;
    ch = (ch + dh + carry(cl, dl)) | 0;
    let turned = ((bl << 13) | (bh >>> 19)) ^ al;
    bh = ((bh << 13) | (bl >>> 19)) ^ ah;
    bl = turned;
    turned = ((dl << 16) | (dh >>> 16)) ^ cl;
    dh = ((dh << 16) | (dl >>> 16)) ^ ch;
    dl = turned;
    // The halves of a and of c change places: what is added to the low one goes into the other name.
    const sum = (ah + dl) | 0;
    ah = (al + dh + carry(sum, dl)) | 0;
    al = sum;
    cl = (cl + bl) | 0;
    ch = (ch + bh + carry(cl, bl)) | 0;
    turned = ((bl << 17) | (bh >>> 15)) ^ cl;
    bh = ((bh << 17) | (bl >>> 15)) ^ ch;
    bl = turned;
    turned = ((dl << 21) | (dh >>> 11)) ^ al;
    dh = ((dh << 21) | (dl >>> 11)) ^ ah;
    dl = turned;
    const half = cl;
    cl = ch;
    ch = half;
    al ^= low;
    ah ^= top;
  }
  pair[to] = al ^ bl ^ cl ^ dl;
  pair[to + 1] = ah ^ bh ^ ch ^ dh;
}
