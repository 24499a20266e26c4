// The sizes that the site's calculator shows are those of BF.PLAN.

import assert from "node:assert/strict";
import test from "node:test";
import { createClient, RESP_TYPES } from "redis";
import { bloom, type FilterOptions, type Plan } from "libbloom/redis";
import { CAPACITIES, ERROR_RATES, EXPANSIONS } from "../dist/sizing.js";
import { type Plan as Spec, stageAt } from "../build/plan.js";
import { Server } from "./support.js";

const SPECS = 500;

/** Numbers from 0 to 1 that are the same in each run: SplitMix64. */
function* randomNumbers(seed: bigint): Generator<number> {
  for (let state = seed; ; ) {
    state = BigInt.asUintN(64, state + 0x9e3779b97f4a7c15n);
    const first = BigInt.asUintN(64, (state ^ (state >> 30n)) * 0xbf58476d1ce4e5b9n);
    const second = BigInt.asUintN(64, (first ^ (first >> 27n)) * 0x94d049bb133111ebn);
    yield Number((second ^ (second >> 31n)) >> 11n) / 2 ** 53;
  }
}

/** A filter with parameters from all of their ranges, and its options. */
function randomSpec(random: () => number): { spec: Spec; options: FilterOptions } {
  const between = (least: number, most: number) => least * (most / least) ** random();
  // Half of them are of usual sizes.
  const isUsual = random() < 0.5;
  const errorRate = isUsual ? between(1e-6, 0.1) : between(ERROR_RATES.least, ERROR_RATES.most);
  const capacity = Math.floor(isUsual ? between(100, 1e8) : between(CAPACITIES.least, CAPACITIES.most));
  const expansion = Math.floor(isUsual ? between(1, 8) : between(EXPANSIONS.least, EXPANSIONS.most));
  const own = { errorRate, capacity, expansion };
  const kind = Math.floor(random() * 4);
  if (kind === 0) return { spec: { ...own, growth: "fixed" }, options: { NONSCALING: true } };
  if (kind === 1) return { spec: { ...own, growth: "growing" }, options: { EXPANSION: expansion, GROWING: true } };
  const spec: Spec = { ...own, growth: "reserved" };
  if (kind === 2) return { spec, options: { EXPANSION: expansion } };
  const slices = 2 + Math.floor(random() * 63);
  return { spec: { ...spec, slices }, options: { EXPANSION: expansion, WINDOW: 3600, SLICES: slices } };
}

// Whoever buys memory by the calculator would buy too little or too much.
test("the calculator's sizes are those of BF.PLAN", async () => {
  const server = await new Server().start();
  // Rounded once: the largest sizes are above 2^53.
  const commandOptions = { typeMapping: { [RESP_TYPES.NUMBER]: String } };
  const client = await createClient({ url: server.url, modules: { bloom }, commandOptions }).connect();
  try {
    const numbers = randomNumbers(1n);
    let compared = 0;
    for (let count = 0; count < SPECS; count += 1) {
      const { spec, options } = randomSpec(() => numbers.next().value!);
      const plan = await client.bloom.plan(spec.errorRate, spec.capacity, options);
      const planned = (plan.Stages as Plan[]).map((stage) => ({
        items: stage.Items,
        bytes: stage.Size,
        layers: stage["Number of filters"],
        bitsPerItem: stage["Bits per item"],
        errorRate: stage["Error rate"],
      }));
      // A stage is left out if the filter cannot grow so far, or not with so few layers.
      const stages = [1, 10, 1000].map((times) => stageAt(spec, times * spec.capacity)).filter((stage) => stage);
      assert.deepEqual(stages, planned, JSON.stringify(spec));
      compared += planned.length;
    }
    assert.ok(compared > 2 * SPECS, `${compared}`);
  } finally {
    client.destroy();
    await server.stop();
  }
});
