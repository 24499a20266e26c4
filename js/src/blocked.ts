/** The blocked layout: docs/design.md. An item sets a few bits in each of a few lines of 64 bytes. */

import type { Layer } from "./format.js";
import { carry, high, multiplyLow, product, wordsOf } from "./words.js";
import { hash } from "./xxh3.js";

/** The words of the multipliers A[0], B[0], A[1], B[1], … */
const MULTIPLIERS = Int32Array.from(
  Array.from({ length: 32 }, (_, index) => wordsOf(index === 0 ? 1n : splitMix64(BigInt(index)) | 1n)).flat(),
);

/** The number of bits of the last item that was hashed that are not set, which are set if `isAdded`; if not, 1 stands for any. */
export function unsetBits({ bits, lines, linesPerItem, probes }: Layer, isAdded: boolean): number {
  let unset = 0;
  for (let j = 0; j < linesPerItem; j += 1) {
    multiplyLow(hash[0], hash[1], MULTIPLIERS[4 * j], MULTIPLIERS[4 * j + 1]);
    const cl = product[0];
    const ch = product[1];
    const below = high(cl, lines);
    const index = (high(ch, lines) + carry((Math.imul(ch, lines) + below) | 0, below)) >>> 0;
    const line = 64 * (j * lines + index);
    // The first line's bits need no high half.
    const bl = j === 0 ? 0 : hash[2];
    const sum = (cl + bl) | 0;
    const sumHigh = j === 0 ? ch : (ch + hash[3] + carry(sum, bl)) | 0;
    multiplyLow(sum, sumHigh, MULTIPLIERS[4 * j + 2], MULTIPLIERS[4 * j + 3]);
    const wl = product[0];
    const wh = product[1];
    for (let t = 0; t < probes; t += 1) {
      const word = ((wh >>> 29) + t) & 7;
      const by = 55 - 6 * word;
      const bit = by >= 32 ? wh >>> (by - 32) : (wl >>> by) | (wh << (32 - by));
      const at = line + 8 * word + ((bit >>> 3) & 7);
      const mask = 1 << (bit & 7);
      if ((bits[at] & mask) !== 0) continue;
      if (!isAdded) return 1;
      bits[at] |= mask;
      unset += 1;
    }
  }
  return unset;
}

function splitMix64(index: bigint): bigint {
  const state = BigInt.asUintN(64, index * 0x9e3779b97f4a7c15n);
  const first = BigInt.asUintN(64, (state ^ (state >> 30n)) * 0xbf58476d1ce4e5b9n);
  const second = BigInt.asUintN(64, (first ^ (first >> 27n)) * 0x94d049bb133111ebn);
  return second ^ (second >> 31n);
}

/** So many blocks of ChaCha20's key stream (RFC 8439), with nonce 0 and from counter 0: the hash's secret is one. */
export function keyStream(key: number[], blocks: number): DataView {
  const stream = new DataView(new ArrayBuffer(64 * blocks));
  const start = new Int32Array(16);
  start.set([0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, ...key]); // "expand 32-byte k", the key
  for (let block = 0; block < blocks; block += 1) {
    start[12] = block;
    const x = start.slice();
    const step = (to: number, by: number, turned: number, left: number): void => {
      x[to] += x[by];
      const mixed = x[turned] ^ x[to];
      x[turned] = (mixed << left) | (mixed >>> (32 - left));
    };
    for (let turn = 0; turn < 80; turn += 1) {
      // Four columns, then four diagonals.
      const [a, b, c, d] = [0, 1, 2, 3].map((row) => 4 * row + ((turn + row * ((turn >> 2) & 1)) & 3));
      step(a, b, d, 16);
      step(c, d, b, 12);
      step(a, b, d, 8);
      step(c, d, b, 7);
    }
    x.forEach((word, i) => stream.setInt32(64 * block + 4 * i, word + start[i], true));
  }
  return stream;
}
