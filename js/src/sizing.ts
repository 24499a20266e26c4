/**
 * The sizes of layers in the blocked layout: core/src/blocked/sizing.rs explains the formulas. Numbers of 64 bits in floating
 * point, added and multiplied in the same order, give the same results everywhere, and so the same filters.
 */

/** The numbers of the growths in a header are their places here. */
export const GROWTHS = ["fixed", "reserved", "growing"] as const;

/** What a filter is made from. */
export interface Spec {
  errorRate: number;
  /** Items that the first layer is made for; with a window, items that are expected in it. */
  capacity: number;
  growth: (typeof GROWTHS)[number];
  /** The capacity of a new layer divided by that of the layer before it. */
  expansion: number;
}

/** A layer's bit array. */
interface Geometry {
  /** Lines in each of the parts, of which there are as many as lines per item. */
  lines: number;
  linesPerItem: number;
  probes: number;
}

/** A layer without its items and bits, with its rate once it is full. */
export type Shape = Geometry & { capacity: number; rate: number };

export const ERROR_RATES = { least: 1e-30, most: 0.25 };
export const CAPACITIES = { least: 1, most: 2 ** 40 };
export const EXPANSIONS = { least: 1, most: 32768 };

/** Up to this capacity all geometries are tried. */
const SEARCH_ALL_UP_TO = 4096;
/** From here on, the items in a line are Poisson. */
const POISSON_FROM = 100_000;
const MOST_LINES_PER_ITEM = 16;
const MOST_STEPS = 32;
const MEAN_POINTS = Array.from({ length: 16 }, (_, at) => {
  const off = at % 2 === 0 ? -0.577_350_269_189_625_8 : 0.577_350_269_189_625_8;
  return (Math.floor(at / 2) * 2 + 1 + off) / 16;
});

/** The layer that follows these, or the first one. */
export function nextShape({ errorRate, capacity, growth, expansion }: Spec, layers: readonly Shape[]): Shape {
  const newest = layers.at(-1);
  const left = layers.reduce((rest, { rate }) => rest - rate, errorRate);
  return shapeFor(newest ? newest.capacity * expansion : capacity, share(growth, layers.length) * Math.max(left, 0));
}

/** The part of what is left of the error rate that a layer gets, counted from 0: `Growth::share` of core/src/params.rs. */
function share(growth: Spec["growth"], layer: number): number {
  if (growth === "fixed") return 1;
  if (growth === "reserved") return layer === 0 ? 0.8 : 2 / (layer + 3);
  return layer === 0 ? 0.25 : 1 / Math.max(layer - 6, 9);
}

/** The smallest layer for so many items at a rate. */
export function shapeFor(capacity: number, rate: number): Shape {
  const geometry = geometryFor(capacity, Math.max(rate, ERROR_RATES.least * 1e-15));
  return { ...geometry, capacity, rate: rateOf(geometry, capacity) };
}

function geometryFor(capacity: number, rate: number): Geometry {
  const linesPerItem = rate >= 0.004 ? 1 : firstTrue(2, MOST_LINES_PER_ITEM, (lines) => power(0.008, lines) <= rate);
  const crossings = [0.185, 0.085, 0.045, 0.0205, 0.0092, 0.0035];
  const probes = 2 + crossings.filter((crossing) => rate <= power(crossing, linesPerItem)).length;
  let best = { linesPerItem, probes, lines: fewestLines(capacity, rate, linesPerItem, probes) };
  if (capacity > SEARCH_ALL_UP_TO) return { ...best, lines: divisible(best.lines) };
  const most = Math.min(MOST_LINES_PER_ITEM, linesPerItem + 2);
  for (let linesPerItem = 1; linesPerItem <= most; linesPerItem += 1) {
    for (let probes = 2; probes <= 8; probes += 1) {
      const fewer = Math.floor((best.lines * best.linesPerItem - 1) / linesPerItem);
      const isEnough = (lines: number) => keeps({ linesPerItem, probes, lines }, capacity, rate);
      if (fewer > 0 && isEnough(fewer)) best = { linesPerItem, probes, lines: firstTrue(1, fewer, isEnough) };
    }
  }
  return best;
}

/** The lines of a layer that needs so many: `divisible` of core/src/blocked/sizing.rs. */
function divisible(lines: number): number {
  const factor = [5040, 720, 240, 48, 12, 4].find((number) => number * 1000 <= lines) ?? 1;
  return lines % factor === 0 ? lines : lines + (factor - (lines % factor));
}

function fewestLines(capacity: number, rate: number, linesPerItem: number, probes: number): number {
  const isEnough = (lines: number) => keeps({ linesPerItem, probes, lines }, capacity, rate);
  const highest = highestMeanLoad(rate, linesPerItem, probes);
  const meanRate = mean((part) => power(poissonRate(probes, highest * part), linesPerItem));
  const poisson = Math.max(Math.ceil(Math.ceil(capacity / (1 - meanRate)) / highest), 1);
  if (capacity >= POISSON_FROM) return poisson;
  let enough = poisson;
  while (!isEnough(enough)) enough += Math.floor(enough / 64) + 1;
  let tooFew = enough;
  while (tooFew > 0 && isEnough(tooFew)) {
    enough = tooFew;
    tooFew -= Math.min(Math.floor(tooFew / 64) + 1, tooFew);
  }
  return firstTrue(tooFew + 1, enough, isEnough);
}

/** The false positive rate of a layer that has counted `items`. */
export function rateOf(geometry: Geometry, items: number): number {
  return rateOfMet(geometry, [...itemsMet(geometry, items)].at(-1)!);
}

function keeps(geometry: Geometry, capacity: number, rate: number): boolean {
  for (const met of itemsMet(geometry, capacity)) if (!(rateOfMet(geometry, met) <= rate)) return false;
  return true;
}

/** Approximations of the different items that a layer has met when it has counted some. */
function* itemsMet(geometry: Geometry, counted: number): Generator<number> {
  let met = counted;
  for (let step = 0; step < MOST_STEPS; step += 1) {
    yield met;
    const next = Math.ceil(counted / (1 - mean((part) => rateOfMet(geometry, Math.floor(met * part)))));
    if (!(next > met)) return;
    met = next;
  }
}

function rateOfMet({ lines, linesPerItem, probes }: Geometry, met: number): number {
  const part = 1 / lines;
  const binomial = () => lineRate(probes, (hit) => power(1 - hit * part, met));
  return power(met < POISSON_FROM ? binomial() : poissonRate(probes, met / lines), linesPerItem);
}

function highestMeanLoad(rate: number, linesPerItem: number, probes: number): number {
  let low = 0;
  let high = 1024;
  for (let step = 0; step < 64; step += 1) {
    const middle = (low + high) / 2;
    if (power(poissonRate(probes, middle), linesPerItem) <= rate) low = middle;
    else high = middle;
  }
  return low;
}

function mean(rateAt: (part: number) => number): number {
  return MEAN_POINTS.reduce((sum, part) => sum + rateAt(part), 0) / MEAN_POINTS.length;
}

/** The first number for which something holds, from which on it holds, or the last one. */
export function firstTrue(low: number, high: number, holds: (value: number) => boolean): number {
  while (low < high) {
    const middle = low + Math.floor((high - low) / 2);
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Subsets of a query's words that an item misses with one probability: their number, with a sign, and 1 - that. */
type Term = { count: number; hit: number };

const TERMS: Term[][] = Array.from({ length: 9 }, (_, probes) => {
  const terms = new Map<number, number>();
  for (let subset = 0; subset < 1 << probes; subset += 1) {
    let miss = 0;
    for (let start = 0; start < 8; start += 1) {
      let unset = 1;
      for (let word = 0; word < 8; word += 1) {
        unset *= (word + 8 - start) % 8 < probes && ((subset >> word) & 1) === 1 ? 63 : 64;
      }
      miss += unset;
    }
    const isEven = [...subset.toString(2)].filter((bit) => bit === "1").length % 2 === 0;
    terms.set(miss, (terms.get(miss) ?? 0) + (isEven ? 1 : -1));
  }
  // In the order in which they were found.
  return [...terms].map(([miss, count]) => ({ count, hit: (2 ** 51 - miss) / 2 ** 51 }));
});

/** The chance that one of many lines covers a query's bits, with so many items in each. */
function poissonRate(probes: number, load: number): number {
  return lineRate(probes, (hit) => expOfMinus(load * hit));
}

/** The same, of the chance that the line misses some of the bits. */
function lineRate(probes: number, missed: (hit: number) => number): number {
  const sum = TERMS[probes].reduce((all, { count, hit }) => all + count * missed(hit), 0);
  return Math.min(Math.max(sum, 0), 1);
}

/** By repeated squaring. */
function power(base: number, exponent: number): number {
  let square = base;
  let product = 1;
  for (let left = exponent; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) product *= square;
    square *= square;
  }
  return product;
}

function expOfMinus(exponent: number): number {
  let x = exponent;
  let halvings = 0;
  for (; x > 0.125; halvings += 1) x *= 0.5;
  let sum = 1;
  for (let degree = 9; degree >= 1; degree -= 1) sum = 1 - (sum * x) / degree;
  for (; halvings > 0; halvings -= 1) sum *= sum;
  return sum;
}
