/** Reads the filters that libbloom writes, and queries them: in Node.js, browsers, Workers, Deno and Bun. */

export { FormatError } from "./error.js";
export type { Chunk } from "./file.js";
export { Filter, type LoadOptions, type Source } from "./filter.js";
export type { Item } from "./item.js";
