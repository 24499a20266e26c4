// The arithmetic in pairs of 32-bit numbers, against BigInt.

import assert from "node:assert/strict";
import test from "node:test";
// Parts of the package that are not exported.
import { keyStream } from "../dist/blocked.js";
import { modulo } from "../dist/scattered.js";
import { multiply, product, wordsOf } from "../dist/words.js";

let state = 1n;
/** A number of up to `bits` bits, many of them with long rows of equal bits. */
function random(bits: number): bigint {
  state = BigInt.asUintN(64, state * 6364136223846793005n + 1442695040888963407n);
  const number = (state >> 7n) ^ (state << 40n);
  const edge = [0n, 1n, -1n, 0x80000000n, 0xffffffffn, 1n << 63n][Number((state >> 33n) % 12n)];
  return BigInt.asUintN(bits, edge === undefined ? number : edge + BigInt.asIntN(2, number));
}

// An item's bits would be looked for in other places than those that a writer set.
test("products", () => {
  for (let round = 0; round < 200_000; round += 1) {
    const [a, b] = [random(64), random(64)];
    multiply(...wordsOf(a), ...wordsOf(b));
    const words = [...wordsOf(a * b), ...wordsOf((a * b) >> 64n)];
    assert.deepEqual([...product], words, `${a} * ${b}`);
  }
});

test("remainders", () => {
  for (let round = 0; round < 200_000; round += 1) {
    const number = random(64);
    const modulus = (random(1 + (round % 36)) % (1n << 36n)) + 1n;
    assert.equal(modulo(...wordsOf(number), Number(modulus)), Number(number % modulus), `${number} mod ${modulus}`);
  }
  for (const modulus of [2 ** 36, 2 ** 36 - 1]) {
    for (const number of [2n ** 64n - 1n, BigInt(modulus), BigInt(modulus) - 1n, BigInt(modulus) * 1000n]) {
      assert.equal(modulo(...wordsOf(number), modulus), Number(number % BigInt(modulus)), `${number} mod ${modulus}`);
    }
  }
});

test("the key stream is ChaCha20's", () => {
  // RFC 8439, appendix A.1, test vectors 1 and 2.
  const stream = Buffer.from(keyStream(Array(8).fill(0), 2).buffer);
  assert.equal(stream.subarray(0, 20).toString("hex"), "76b8e0ada0f13d90405d6ae55386bd28bdd219b8");
  assert.equal(stream.subarray(64, 84).toString("hex"), "9f07e7be5551387a98ba977c732d080dcb0f29a0");
});
