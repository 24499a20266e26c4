/** An item: a string, which stands for its UTF-8, or bytes. A lone surrogate is U+FFFD, as everywhere on the web. */
export type Item = string | Uint8Array;

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

function encodeBytes(item: Uint8Array): number {
  if (!ArrayBuffer.isView(item) || item.BYTES_PER_ELEMENT !== 1) {
    throw new TypeError(`an item is a string or a Uint8Array, and not ${typeof item}`);
  }
  if (item.length > SHORT) {
    bytes = new DataView(item.buffer, item.byteOffset, item.length);
  } else {
    bytes = viewOfScratch;
    scratch.set(item);
  }
  return item.length;
}
