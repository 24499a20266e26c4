/**
 * The sizes of layers in the blocked layout: core/src/blocked/sizing.rs explains the formulas. Numbers of 64 bits in floating
 * point, added and multiplied in the same order, give the same results everywhere, and so the same filters.
 */

/** The numbers of the growths in a header are their places here. */
export const GROWTHS = ["fixed", "reserved", "growing"] as const;
export type Growth = (typeof GROWTHS)[number];

/** What a filter is made from. */
export interface Spec {
  errorRate: number;
  /** Items that the first layer is made for; with a window, items that are expected in it. */
  capacity: number;
  growth: Growth;
  /** The capacity of a new layer divided by that of the layer before it. */
  expansion: number;
}

/** The lines and probes of a layer. */
export interface Geometry {
  linesPerItem: number;
  probes: number;
  /** Lines in each of the parts, of which there are as many as lines per item. */
  lines: number;
}

/** A layer without its items and bits. */
export interface Shape extends Geometry {
  capacity: number;
  /** Once it is full. */
  rate: number;
}

export const ERROR_RATES = { least: 1e-30, most: 0.25 };
export const CAPACITIES = { least: 1, most: 2 ** 40 };
export const EXPANSIONS = { least: 1, most: 32768 };

/** From this rate on, a layer's rate is computed: early files understate it. */
const LOOSE = 0.05;

/** The layer that follows these, or the first one. */
export function nextShape({ errorRate, capacity, growth, expansion }: Spec, layers: readonly Shape[]): Shape {
  const newest = layers.at(-1);
  const left = layers.reduce((rest, layer) => rest - fullRate(layer), errorRate);
  return shapeFor(newest ? newest.capacity * expansion : capacity, share(growth, layers.length) * Math.max(left, 0));
}

function fullRate(layer: Shape): number {
  return layer.rate < LOOSE ? layer.rate : Math.max(layer.rate, rateOf(layer, layer.capacity));
}

/** The part of what is left of the error rate that a layer gets, counted from 0: `Growth::share` of core/src/params.rs. */
function share(growth: Growth, layer: number): number {
  if (growth === "fixed") return 1;
  if (growth === "reserved") return layer === 0 ? 0.8 : 2 / (layer + 3);
  return layer === 0 ? 0.25 : 1 / Math.max(layer - 6, 9);
}

export function shapeFor(capacity: number, rate: number): Shape {
  const geometry = geometryFor(capacity, rate);
  return { ...geometry, capacity, rate: rateOf(geometry, capacity) };
}

/** The lines of a layer that needs so many: `divisible` of core/src/blocked/sizing.rs. */
function divisible(lines: number): number {
  const factor = [5040, 720, 240, 48, 12, 4].find((number) => number * 1000 <= lines) ?? 1;
  return lines % factor === 0 ? lines : lines + (factor - (lines % factor));
}

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

/** The smallest geometry for a layer. */
function geometryFor(capacity: number, layerRate: number): Geometry {
  const rate = Math.max(layerRate, ERROR_RATES.least * 1e-15);
  const linesPerItem = usualLinesPerItem(rate);
  const probes = usualProbes(rate, linesPerItem);
  const fewest = fewestLines(capacity, rate, linesPerItem, probes);
  if (capacity > SEARCH_ALL_UP_TO) return { linesPerItem, probes, lines: divisible(fewest) };
  let best = { linesPerItem, probes, lines: fewest };
  for (let perItem = 1; perItem <= Math.min(MOST_LINES_PER_ITEM, linesPerItem + 2); perItem += 1) {
    for (let bits = 2; bits <= 8; bits += 1) {
      const fewer = Math.floor((best.lines * best.linesPerItem - 1) / perItem);
      const isEnough = (lines: number) => keeps({ linesPerItem: perItem, probes: bits, lines }, capacity, rate);
      if (fewer > 0 && isEnough(fewer)) {
        best = { linesPerItem: perItem, probes: bits, lines: firstTrue(1, fewer, isEnough) };
      }
    }
  }
  return best;
}

function usualLinesPerItem(rate: number): number {
  if (rate >= 0.004) return 1;
  let lines = 2;
  while (lines < MOST_LINES_PER_ITEM && power(0.008, lines) > rate) lines += 1;
  return lines;
}

function usualProbes(rate: number, linesPerItem: number): number {
  const crossings = [0.185, 0.085, 0.045, 0.0205, 0.0092, 0.0035];
  return 2 + crossings.filter((crossing) => rate <= power(crossing, linesPerItem)).length;
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
  let last = items;
  for (const met of itemsMet(geometry, items)) last = met;
  return rateOfMet(geometry, last);
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
  const line = met < POISSON_FROM ? binomialRate(probes, met, lines) : poissonRate(probes, met / lines);
  return power(line, linesPerItem);
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

function firstTrue(from: number, to: number, holds: (value: number) => boolean): number {
  let low = from;
  let high = to;
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

/** The chance that a line covers a query's bits, with `items` that choose among so many lines. */
function binomialRate(probes: number, items: number, lines: number): number {
  const part = 1 / lines;
  return clamped(TERMS[probes].reduce((sum, { count, hit }) => sum + count * power(1 - hit * part, items), 0));
}

/** The same, for many lines with so many items in each. */
function poissonRate(probes: number, load: number): number {
  return clamped(TERMS[probes].reduce((sum, { count, hit }) => sum + count * expOfMinus(load * hit), 0));
}

function clamped(sum: number): number {
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
