/**
 * Numbers of 64 bits as pairs of 32-bit words. Results that do not fit into one word go into typed arrays: these never
 * allocate, as pairs of numbers would.
 */

/** The words of the last product, the lowest first. */
export const product = new Int32Array(4);

/** The high word of a · b, both unsigned. */
export function high(a: number, b: number): number {
  const a0 = a & 0xffff;
  const a1 = a >>> 16;
  const b0 = b & 0xffff;
  const b1 = b >>> 16;
  // Neither sum exceeds 32 bits.
  const middle = (Math.imul(a1, b0) + (Math.imul(a0, b0) >>> 16)) | 0;
  const other = (Math.imul(a0, b1) + (middle & 0xffff)) | 0;
  return (Math.imul(a1, b1) + (middle >>> 16) + (other >>> 16)) | 0;
}

/** 1 if the sum of words, of which `addend` is one, was too large for a word. */
export function carry(sum: number, addend: number): number {
  return sum >>> 0 < addend >>> 0 ? 1 : 0;
}

/** Sets the two lowest words of the product of two numbers of 64 bits. */
export function multiplyLow(al: number, ah: number, bl: number, bh: number): void {
  product[0] = Math.imul(al, bl);
  product[1] = high(al, bl) + Math.imul(al, bh) + Math.imul(ah, bl);
}

/** Sets all four words of the product of two numbers of 64 bits. */
export function multiply(al: number, ah: number, bl: number, bh: number): void {
  const low = Math.imul(al, bh);
  const half = (high(al, bl) + low) | 0;
  const second = (half + Math.imul(ah, bl)) | 0;
  const over = high(al, bh) + carry(half, low);
  const above = high(ah, bl) + carry(second, half);
  const third = (over + above) | 0;
  const top = Math.imul(ah, bh);
  const sum = (third + top) | 0;
  product[0] = Math.imul(al, bl);
  product[1] = second;
  product[2] = sum;
  product[3] = high(ah, bh) + carry(third, over) + carry(sum, third);
}

/** The words of a number of 64 bits, the lowest first. */
export function wordsOf(number: bigint): [number, number] {
  return [Number(BigInt.asIntN(32, number)), Number(BigInt.asIntN(32, number >> 32n))];
}
