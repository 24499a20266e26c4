/** Reads the filters that libbloom writes, and queries them: in Node.js, browsers, Workers, Deno and Bun. */

export type { Bytes, Source, Stream } from "./bytes.js";
export { FormatError } from "./error.js";
export type { Chunk } from "./file.js";
export { Filter, type LoadOptions } from "./filter.js";
export type { Item, Items } from "./item.js";
