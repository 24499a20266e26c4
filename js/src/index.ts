/** libbloom's filters in Node.js, browsers, Workers, Deno and Bun: made, read, queried, added to and written. */

export type { Bytes, Source, Stream } from "./bytes.js";
export { FormatError } from "./error.js";
export type { Chunk } from "./file.js";
export { type CreateOptions, Filter, type LoadOptions } from "./filter.js";
export type { Item, Items } from "./item.js";
