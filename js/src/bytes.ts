/** What callers pass: bytes in memory, bytes that are still to come, lists. Anything else is refused, with what is taken. */

/** Bytes that are no whole filter, or more than the caller allows. The message says what is wrong. */
export class FormatError extends Error {
  override name = "FormatError";
}

/** Bytes in memory. */
export type Bytes = Uint8Array | DataView | ArrayBuffer;
export const IN_MEMORY = "a Uint8Array, a DataView or an ArrayBuffer";

/** A stream of bytes: the web's, or one of Node.js. */
export type Stream = AsyncIterable<Bytes> | { getReader(): { read(): Promise<{ done: boolean; value?: Bytes }> } };

/** What a file is read from. */
export type Source = Bytes | Blob | Response | Stream;

/** Throws a TypeError that says what is taken, and what came. */
export function refuse(taken: string, value: unknown): never {
  throw new TypeError(`${taken}, not ${kindOf(value)}`);
}

/** The bytes of something in memory, which are not copied. */
export function bytesOf(value: unknown, taken: string): Uint8Array {
  if (value instanceof Uint8Array) return value;
  // Values of another realm have other classes.
  if (kindOf(value) === "ArrayBuffer") return new Uint8Array(value as ArrayBuffer);
  if (!ArrayBuffer.isView(value) || (value as Uint8Array).BYTES_PER_ELEMENT > 1) refuse(taken, value);
  return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
}

export function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** The members of a list. Text and bytes are none, although they can be iterated. */
export function listOf<Member>(list: Iterable<Member>): Iterable<Member> {
  const isList = typeof list === "object" && !ArrayBuffer.isView(list) && typeof list?.[Symbol.iterator] === "function";
  return isList ? list : refuse("a list is an array or another iterable object", list);
}

/** Uint8Array, Undefined, or what else a value is. */
function kindOf(value: unknown): string {
  return Object.prototype.toString.call(value).slice(8, -1);
}

/** All bytes of a source. `begins` sees those that came as soon as there are `least` of them. */
export async function readAll(
  source: Source | PromiseLike<Source>,
  atMost: number,
  least: number,
  begins: (bytes: Uint8Array) => void,
): Promise<Uint8Array> {
  const from: any = await source;
  const isResponse = typeof from?.headers?.get === "function";
  const body = isResponse ? (from.body ?? new Blob([]).stream()) : from;
  const reader = readerOf(typeof body?.stream === "function" ? body.stream() : body);
  const limit = (length: number, says: string): void => {
    if (!(length <= atMost)) throw new FormatError(`the file has ${says}`);
  };
  if (!reader) {
    const bytes = bytesOf(from, `a filter is read from ${IN_MEMORY}, a Blob, a Response or a stream of bytes`);
    limit(bytes.length, `more than ${atMost} bytes`);
    return bytes;
  }
  let bytes = new Uint8Array(0);
  let total = 0;
  try {
    if (isResponse && !from.ok) throw new FormatError(`${from.url || "the server"} answered ${from.status}`);
    // A promise of bytes decides how large the buffer becomes at most, but never that it becomes larger.
    const promised = Number((isResponse ? from.headers.get("content-length") : from.size) ?? NaN);
    if (promised >= 0) limit(promised, `${promised} bytes, and may have ${atMost}`);
    for (;;) {
      const { done, value } = await reader.next();
      if (done) return bytes.length === total ? bytes : bytes.slice(0, total);
      const piece = bytesOf(value, `a stream of a filter's file has pieces that are ${IN_MEMORY}`);
      const next = total + piece.length;
      limit(next, `more than ${atMost} bytes`);
      if (next > bytes.length) {
        const before = bytes;
        const larger = Math.max(2 * before.length, next);
        bytes = new Uint8Array(next <= promised ? Math.min(larger, promised) : larger);
        bytes.set(before);
      }
      bytes.set(piece, total);
      if (total < least && next >= least) begins(bytes);
      total = next;
    }
  } catch (error) {
    // The rest need not come. Whether that can be stopped does not matter.
    Promise.resolve().then(reader.stop).catch(() => undefined);
    throw error;
  }
}

/** How a stream's pieces are asked for, where it is one. */
function readerOf(stream: any): { next(): Promise<{ done?: boolean; value?: unknown }>; stop(): unknown } | undefined {
  if (typeof stream?.getReader === "function") {
    const reader = stream.getReader();
    return { next: () => reader.read(), stop: () => reader.cancel() };
  }
  const pieces = stream?.[Symbol.asyncIterator]?.();
  return pieces && { next: () => pieces.next(), stop: () => pieces.return?.() };
}
