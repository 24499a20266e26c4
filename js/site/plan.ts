/** The sizes of whole filters, to the byte, which tests/plan.test.ts compares with BF.PLAN. */

import { nextShape, type Shape, shapeFor, type Spec } from "../dist/sizing.js";

/** What a filter is made from; with a window, in so many slices. */
export type Plan = Spec & { slices?: number };

/** A filter that holds a number of items. */
export interface Stage {
  items: number;
  bytes: number;
  layers: number;
  bitsPerItem: number;
  /** Of all layers together, once the newest is full. */
  errorRate: number;
}

export const USUAL_SLICES = 8;

const MOST_LAYERS = 16;
const LINE_BYTES = 64;
// Bytes of a filter besides its bits, and of one with a window. A single layer is part of its filter or slice; several
// are in a list.
const FILTER_BYTES = 96n;
const LAYER_BYTES = 64n;
const WINDOW_BYTES = 120n;
const SLICE_BYTES = 104n;
/** The part of a window's error rate that the usual layers of slices have. */
const RATE_OF_SLICES = 0.85;

/** The filter once it has `items` items, or nothing where it would have more than 16 layers, or cannot grow so far. */
export function stageAt(spec: Plan, items: number): Stage | undefined {
  const layers = spec.slices ? windowAt(spec, spec.slices, items) : chainAt(spec, items);
  if (!layers) return undefined;
  const count = BigInt(layers.length);
  const listed = layers.length > 1 ? LAYER_BYTES * count : 0n;
  const own = spec.slices ? WINDOW_BYTES + SLICE_BYTES * count : listed;
  const bits = layers.reduce((sum, { lines, linesPerItem }) => sum + BigInt(lines) * BigInt(linesPerItem * LINE_BYTES), 0n);
  const bytes = Number(FILTER_BYTES + own + bits);
  const errorRate = layers.reduce((all, { rate }) => all + rate * (1 - all), 0);
  return { items, bytes, layers: layers.length, bitsPerItem: (bytes * 8) / items, errorRate };
}

function chainAt(spec: Spec, items: number): Shape[] | undefined {
  const layers = [nextShape(spec, [])];
  for (let room = spec.capacity; room < items; room += layers.at(-1)!.capacity) {
    if (spec.growth === "fixed" || layers.length === MOST_LAYERS) return undefined;
    layers.push(nextShape(spec, layers));
  }
  return layers;
}

/** A window in which items come steadily. */
function windowAt({ errorRate, capacity }: Spec, slices: number, items: number): Shape[] {
  const usual = Math.ceil(capacity / slices);
  const slice = Math.ceil(items / slices);
  const most = slice > usual ? slice + 3 * Math.floor(Math.sqrt(slice)) : usual;
  const layer = shapeFor(most, (errorRate * RATE_OF_SLICES) / (slices + 1));
  return Array.from({ length: slices + 1 }, () => layer);
}
