import { type Bytes, bytesOf, IN_MEMORY } from "./bytes.js";

/** An item: a string, which stands for its UTF-8, or bytes. A lone surrogate is U+FFFD, as everywhere on the web. */
export type Item = string | Bytes;
/** Many of them: an array, a Set, what a generator yields. */
export type Items = Iterable<Item> & object;

const encoder = new TextEncoder();
const scratch = new Uint8Array(4096);
const viewOfScratch = new DataView(scratch.buffer);
/** The most bytes that are copied one after another instead of by a call that has its own price. */
const SHORT = 256;

/** The bytes of the last item. There may be more than its length. */
export let bytes: DataView = viewOfScratch;

/** Sets `bytes` to an item's, and returns their number. */
export function encode(item: Item): number {
  if (typeof item !== "string") return encodeBytes(item);
  if (3 * item.length > scratch.length) return encodeBytes(encoder.encode(item));
  bytes = viewOfScratch;
  if (item.length > SHORT) return encoder.encodeInto(item, scratch).written;
  for (let i = 0; i < item.length; i += 1) {
    const unit = item.charCodeAt(i);
    if (unit > 0x7f) return encoder.encodeInto(item, scratch).written;
    scratch[i] = unit;
  }
  return item.length;
}

function encodeBytes(value: Bytes): number {
  const item = bytesOf(value, `an item is a string, ${IN_MEMORY}`);
  if (item.length > SHORT) {
    bytes = new DataView(item.buffer, item.byteOffset, item.length);
  } else {
    bytes = viewOfScratch;
    scratch.set(item);
  }
  return item.length;
}
