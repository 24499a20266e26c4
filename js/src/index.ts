/** libbloom's filters in Node.js, browsers, Workers, Deno and Bun: made, read, queried, added to and written. */

export { type Bytes, FormatError, type Source, type Stream } from "./bytes.js";
export type { Chunk } from "./file.js";
export { type CreateOptions, Filter, type LoadOptions } from "./filter.js";
export type { Item, Items } from "./item.js";
