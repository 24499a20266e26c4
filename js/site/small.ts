/**
 * A filter of one layer in the blocked layout that one can add to: docs/design.md has its bytes. Queries are those of the
 * package, which reads the filter's chunks as BF.SCANDUMP replies them.
 */

import { secretOf, splitMix64 } from "../dist/blocked.js";
import { Filter } from "../dist/filter.js";
import { bytes, encode } from "../dist/item.js";
import { hash, xxh3 } from "../dist/xxh3.js";
import { type Geometry, geometryFor, rateOf } from "./sizing.js";

const LINE_BITS = 512;
/** A[0], B[0], A[1], B[1], … */
const multiplier = (index: number): bigint => (index === 0 ? 1n : splitMix64(BigInt(index)) | 1n);

export class SmallFilter {
  readonly geometry: Geometry;
  readonly bits: Uint8Array;
  size = 0;
  private readonly secret: DataView;

  /** A filter that does not grow. */
  constructor(
    readonly errorRate: number,
    readonly capacity: number,
    readonly seed: bigint,
  ) {
    this.geometry = geometryFor(capacity, errorRate);
    this.bits = new Uint8Array((this.geometry.lines * this.geometry.linesPerItem * LINE_BITS) / 8);
    const key = new DataView(new ArrayBuffer(8));
    key.setBigUint64(0, seed, true);
    this.secret = secretOf(new Uint8Array(key.buffer));
  }

  /** The places of the bits that an item sets. */
  placesOf(item: string): number[] {
    const { lines, linesPerItem, probes } = this.geometry;
    const length = encode(item);
    xxh3(bytes, 0, length, this.secret);
    const [a, b] = [0, 2].map((at) => BigInt(hash[at] >>> 0) | (BigInt(hash[at + 1] >>> 0) << 32n));
    return Array.from({ length: linesPerItem }, (_, j) => {
      const c = BigInt.asUintN(64, a * multiplier(2 * j));
      const line = j * lines + Number((c * BigInt(lines)) >> 64n);
      const w = BigInt.asUintN(64, (c + b) * multiplier(2 * j + 1));
      return Array.from({ length: probes }, (_, t) => {
        const word = (Number(w >> 61n) + t) % 8;
        return LINE_BITS * line + 64 * word + Number((w >> BigInt(55 - 6 * t)) & 63n);
      });
    }).flat();
  }

  isSet(place: number): boolean {
    return ((this.bits[place >> 3] >> (place & 7)) & 1) === 1;
  }

  /** Whether the item was new. A full filter takes no more, but knows what is there. */
  add(item: string): boolean {
    const unset = this.placesOf(item).filter((place) => !this.isSet(place));
    if (unset.length === 0) return false;
    if (this.isFull) throw new RangeError(`the filter is full: it is made for ${this.capacity} items`);
    for (const place of unset) this.bits[place >> 3] |= 1 << (place & 7);
    this.size += 1;
    return true;
  }

  get isFull(): boolean {
    return this.size >= this.capacity;
  }

  /** The number of set bits. */
  get ones(): number {
    return Array.from({ length: 8 * this.bits.length }, (_, place) => place).filter((place) => this.isSet(place)).length;
  }

  /** The probability that a query for an absent item is answered with yes. */
  get rate(): number {
    return rateOf(this.geometry, this.size);
  }

  /** The filter as the package reads it. */
  readable(): Filter {
    return Filter.fromChunks(this.chunks());
  }

  chunks(): Array<[iterator: number, data: Uint8Array]> {
    const header = new DataView(new ArrayBuffer(96));
    const { lines, linesPerItem, probes } = this.geometry;
    new Uint8Array(header.buffer).set([..."BLOOM\0\0\x01"].map((letter) => letter.charCodeAt(0)));
    header.setUint32(12, 1, true); // layers
    header.setBigUint64(16, this.seed, true);
    header.setFloat64(24, this.errorRate, true);
    header.setBigUint64(48, BigInt(this.capacity), true);
    header.setBigUint64(56, BigInt(this.size), true);
    header.setBigUint64(64, BigInt(this.ones), true);
    header.setFloat64(72, rateOf(this.geometry, this.capacity), true);
    header.setBigUint64(80, BigInt(lines), true);
    header.setUint32(88, linesPerItem, true);
    header.setUint32(92, probes, true);
    return [
      [1, new Uint8Array(header.buffer)],
      [1 + this.bits.length, this.bits],
    ];
  }
}
