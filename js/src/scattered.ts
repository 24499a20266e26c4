/** RedisBloom's layout: docs/design.md. An item sets single bits anywhere in a layer. */

import type { Layer } from "./format.js";
import { carry, multiplyLow, product, wordsOf } from "./words.js";

/** The most bits of a layer: no array has more bytes. */
export const MOST_BITS = 2 ** 36;

/** The words of the two hashes of the last item. */
const pair = new Int32Array(4);
const [MURMUR_L, MURMUR_H] = wordsOf(0xc6a4a7935bd1e995n);
const MURMUR_32 = 0x5bd1e995;

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

/** Whether a layer has the bits (a + i · b mod 2^64) mod `modulus`, where a and b are the item's hashes. */
export function hasProbes({ bits, probes, modulus }: Layer): boolean {
  let low = pair[0];
  let top = pair[1];
  for (let i = 0; i < probes; i += 1) {
    const place = modulo(low, top, modulus);
    if (((bits[Math.floor(place / 8)] >>> (place & 7)) & 1) === 0) return false;
    low = (low + pair[2]) | 0;
    top = (top + pair[3] + carry(low, pair[2])) | 0;
  }
  return true;
}

/** A number of 64 bits modulo one of up to MOST_BITS. */
export function modulo(low: number, top: number, modulus: number): number {
  // By 16 bits, so that all numbers stay below 2^53, and so exact.
  let rest = 0;
  for (let digit = 0; digit < 4; digit += 1) {
    const number = rest * 65536 + (((digit < 2 ? top : low) >>> (digit % 2 === 0 ? 16 : 0)) & 65535);
    rest = number - Math.floor(number / modulus) * modulus;
    // The quotient was rounded up to a whole number.
    if (rest < 0) rest += modulus;
  }
  return rest;
}

/** MurmurHash64A, into two words of `pair`. */
function murmur64(to: number, item: DataView, length: number, seedL: number, seedH: number): void {
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
function murmur32(item: DataView, length: number, seed: number): number {
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
