/** XXH3-128 under a secret of 192 bytes: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md. */

import { carry, high, multiply, multiplyLow, product, wordsOf } from "./words.js";

/** The last hash: the words of its low half, then those of its high half. */
export const hash = new Int32Array(4);

const P32_1 = 0x9e3779b1 | 0;
const P32_2 = 0x85ebca77 | 0;
const P32_3 = 0xc2b2ae3d | 0;
const [P1L, P1H] = wordsOf(0x9e3779b185ebca87n);
const [P2L, P2H] = wordsOf(0xc2b2ae3d27d4eb4fn);
const [P3L, P3H] = wordsOf(0x165667b19e3779f9n);
const [P4L, P4H] = wordsOf(0x85ebca77c2b2ae63n);
const [P5L, P5H] = wordsOf(0x27d4eb2f165667c5n);
const [P6L, P6H] = wordsOf(0x165667919e3779f9n);
const [P7L, P7H] = wordsOf(0x9fb21c651e98df25n);

/** The eight sums of a long input, of two words each. */
const sums = new Int32Array(16);
const FIRST_SUMS = Int32Array.of(P32_3, 0, P1L, P1H, P2L, P2H, P3L, P3H, P4L, P4H, P32_2, 0, P5L, P5H, P32_1, 0);

/** Hashes `length` bytes of `data` from `at` on, into `hash`. */
export function xxh3(data: DataView, at: number, length: number, secret: DataView): void {
  if (length > 240) hashLong(data, at, length, secret);
  else if (length > 16) hashMiddle(data, at, length, secret);
  else if (length > 8) hashTo16(data, at, length, secret);
  else if (length > 3) hashTo8(data, at, length, secret);
  else if (length > 0) {
    const last = data.getUint8(at + length - 1);
    const low = (data.getUint8(at) << 16) | (data.getUint8(at + (length >> 1)) << 24) | last | (length << 8);
    const swapped = swap(low);
    finish64(0, low ^ word(secret, 0) ^ word(secret, 4), 0);
    finish64(2, ((swapped << 13) | (swapped >>> 19)) ^ word(secret, 8) ^ word(secret, 12), 0);
  } else {
    finish64(0, word(secret, 64) ^ word(secret, 72), word(secret, 68) ^ word(secret, 76));
    finish64(2, word(secret, 80) ^ word(secret, 88), word(secret, 84) ^ word(secret, 92));
  }
}

function hashTo8(data: DataView, at: number, length: number, secret: DataView): void {
  const first = word(data, at) ^ word(secret, 16) ^ word(secret, 24);
  const last = word(data, at + length - 4) ^ word(secret, 20) ^ word(secret, 28);
  multiply(first, last, P1L + (length << 2), P1H);
  hash.set(product);
  add(hash, 2, hash[0] << 1, (hash[1] << 1) | (hash[0] >>> 31));
  const top = hash[1] ^ (hash[3] >>> 3);
  multiplyLow(hash[0] ^ ((hash[2] >>> 3) | (hash[3] << 29)) ^ (top >>> 3), top, P7L, P7H);
  hash[0] = product[0] ^ ((product[0] >>> 28) | (product[1] << 4));
  hash[1] = product[1] ^ (product[1] >>> 28);
  finish(2);
}

function hashTo16(data: DataView, at: number, length: number, secret: DataView): void {
  const endL = word(data, at + length - 8);
  const endH = word(data, at + length - 4);
  const bothL = word(data, at) ^ endL ^ word(secret, 32) ^ word(secret, 40);
  multiply(bothL, word(data, at + 4) ^ endH ^ word(secret, 36) ^ word(secret, 44), P1L, P1H);
  hash.set(product);
  hash[1] += (length - 1) << 22;
  const keyedL = endL ^ word(secret, 48) ^ word(secret, 56);
  add(hash, 2, keyedL, endH ^ word(secret, 52) ^ word(secret, 60));
  add(hash, 2, Math.imul(keyedL, P32_2 - 1), high(keyedL, P32_2 - 1));
  const low = hash[0] ^ swap(hash[3]);
  const top = hash[1] ^ swap(hash[2]);
  multiplyLow(hash[2], hash[3], P2L, P2H);
  set(hash, 2);
  multiply(low, top, P2L, P2H);
  set(hash, 0);
  add(hash, 2, product[2], product[3]);
  finish(0);
  finish(2);
}

function hashMiddle(data: DataView, at: number, length: number, secret: DataView): void {
  multiplyLow(length, 0, P1L, P1H);
  set(hash, 0);
  hash[2] = hash[3] = 0;
  const end = at + length;
  if (length <= 128) {
    for (let i = (length - 1) >> 5; i >= 0; i -= 1) mix(data, at + 16 * i, end - 16 * (i + 1), secret, 32 * i);
  } else {
    for (let i = 0; i < length >> 5; i += 1) {
      mix(data, at + 32 * i, at + 32 * i + 16, secret, i < 4 ? 32 * i : 32 * i - 125);
      if (i === 3) {
        finish(0);
        finish(2);
      }
    }
    mix(data, end - 16, end - 32, secret, 103);
  }
  const topL = hash[2];
  const topH = hash[3];
  multiplyLow(hash[0], hash[1], P1L, P1H);
  set(hash, 2);
  add(hash, 0, topL, topH);
  multiplyLow(topL, topH, P4L, P4H);
  add(hash, 2, product[0], product[1]);
  multiplyLow(length, 0, P2L, P2H);
  add(hash, 2, product[0], product[1]);
  finish(0);
  finish(2);
  hash[3] = ~hash[3] + (hash[2] === 0 ? 1 : 0);
  hash[2] = -hash[2];
}

/** Mixes 16 bytes at each of two places into the hash. */
function mix(data: DataView, one: number, two: number, secret: DataView, key: number): void {
  mixHalf(0, data, one, two, secret, key);
  mixHalf(2, data, two, one, secret, key + 16);
}

function mixHalf(to: number, data: DataView, one: number, two: number, secret: DataView, key: number): void {
  fold(to, word(data, one), word(data, one + 4), word(data, one + 8), word(data, one + 12), secret, key);
  const low = word(data, two);
  const sum = (low + word(data, two + 8)) | 0;
  hash[to] ^= sum;
  hash[to + 1] ^= word(data, two + 4) + word(data, two + 12) + carry(sum, low);
}

/** Adds both halves of the product of two numbers, under 16 bytes of the secret. */
function fold(to: number, al: number, ah: number, bl: number, bh: number, secret: DataView, key: number): void {
  multiply(al ^ word(secret, key), ah ^ word(secret, key + 4), bl ^ word(secret, key + 8), bh ^ word(secret, key + 12));
  add(hash, to, product[0] ^ product[2], product[1] ^ product[3]);
}

function hashLong(data: DataView, at: number, length: number, secret: DataView): void {
  sums.set(FIRST_SUMS);
  const last = Math.floor((length - 1) / 64);
  for (let i = 0; i < last; i += 1) {
    accumulate(data, at + 64 * i, secret, 8 * (i & 15));
    if ((i & 15) === 15) scramble(secret);
  }
  accumulate(data, at + length - 64, secret, 121);
  const lengthL = length | 0;
  const lengthH = (length / 2 ** 32) | 0;
  multiplyLow(lengthL, lengthH, P1L, P1H);
  set(hash, 0);
  multiplyLow(lengthL, lengthH, P2L, P2H);
  hash[2] = ~product[0];
  hash[3] = ~product[1];
  for (let i = 0; i < 16; i += 4) {
    fold(0, sums[i], sums[i + 1], sums[i + 2], sums[i + 3], secret, 11 + 4 * i);
    fold(2, sums[i], sums[i + 1], sums[i + 2], sums[i + 3], secret, 117 + 4 * i);
  }
  finish(0);
  finish(2);
}

/** Adds 64 bytes to the sums. */
function accumulate(data: DataView, at: number, secret: DataView, key: number): void {
  for (let i = 0; i < 16; i += 2) {
    const low = word(data, at + 4 * i);
    const top = word(data, at + 4 * i + 4);
    const keyedL = low ^ word(secret, key + 4 * i);
    const keyedH = top ^ word(secret, key + 4 * i + 4);
    add(sums, i ^ 2, low, top);
    add(sums, i, Math.imul(keyedL, keyedH), high(keyedL, keyedH));
  }
}

function scramble(secret: DataView): void {
  for (let i = 0; i < 16; i += 2) {
    const low = sums[i] ^ (sums[i + 1] >>> 15) ^ word(secret, 128 + 4 * i);
    multiplyLow(low, sums[i + 1] ^ word(secret, 132 + 4 * i), P32_1, 0);
    set(sums, i);
  }
}

function word(data: DataView, at: number): number {
  return data.getInt32(at, true);
}

function swap(bytes: number): number {
  return (bytes << 24) | ((bytes & 0xff00) << 8) | ((bytes >>> 8) & 0xff00) | (bytes >>> 24);
}

function set(numbers: Int32Array, to: number): void {
  numbers[to] = product[0];
  numbers[to + 1] = product[1];
}

function add(numbers: Int32Array, to: number, low: number, top: number): void {
  const sum = (numbers[to] + low) | 0;
  numbers[to] = sum;
  numbers[to + 1] += top + carry(sum, low);
}

/** The last step for a half of the hash. */
function finish(to: number): void {
  multiplyLow(hash[to] ^ (hash[to + 1] >>> 5), hash[to + 1], P6L, P6H);
  hash[to] = product[0] ^ product[1];
  hash[to + 1] = product[1];
}

/** The last step for a half of the hash of a short input, which is XXH64's. */
function finish64(to: number, low: number, top: number): void {
  multiplyLow(low ^ (top >>> 1), top, P2L, P2H);
  multiplyLow(product[0] ^ ((product[0] >>> 29) | (product[1] << 3)), product[1] ^ (product[1] >>> 29), P3L, P3H);
  hash[to] = product[0] ^ product[1];
  hash[to + 1] = product[1];
}
