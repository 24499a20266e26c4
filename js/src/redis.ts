/**
 * For node-redis and a server with the module libbloom: its commands beyond RedisBloom's, which node-redis has as
 * `client.bf`, and filters that move between a server and a program.
 */

import { randomUUID } from "node:crypto";
import { type CommandParser as Parser, type RedisArgument as Word, RESP_TYPES } from "redis";
import { bytesOf, IN_MEMORY, listOf, refuse } from "./bytes.js";
import type { Chunk } from "./file.js";
import { Filter } from "./filter.js";
import { parseHeader } from "./format.js";
import type { Item, Items } from "./item.js";

/** For `client.withTypeMapping`: replies as bytes, which `addPacked` and `existsPacked` need. */
export const BYTES = { [RESP_TYPES.BLOB_STRING]: Buffer } as const;

/** The options of a filter to create: docs/commands/options.md. `WINDOW`: seconds after which items are forgotten. */
export type FilterOptions = {
  EXPANSION?: number; NONSCALING?: boolean; GROWING?: boolean; SEED?: number | bigint | Word;
  LAYOUT?: "BLOCKED" | "CLASSIC" | "VALKEY"; TIGHTENING?: number; VALIDATESCALETO?: number;
  WINDOW?: number; SLICES?: number; REFRESH?: boolean;
};
/** When a filter to create expires: one of these. */
export type Expiry = { EX?: number; PX?: number; EXAT?: number; PXAT?: number };
/** `NX`: a filter that is there stays, without an error; the reply is null then. */
export type ReserveOptions = FilterOptions & Expiry & { NX?: boolean };
/** `NOCREATE`: a missing key is an error. `AT`: when items were added to a window, in milliseconds of the Unix clock. */
export type AddOptions = FilterOptions & Expiry & { CAPACITY?: number; ERROR?: number; NOCREATE?: boolean; AT?: number };

/** Items of one command: one by one, or packed already. */
export type Packed = Items | { LINES: Item } | { WIDTH: number; data: Item };

/** What BF.PLAN replies. */
export type Plan = { [name: string]: number | string | null | Plan[] };

/** A command of a key: its words behind the key, and what its reply becomes. */
function onKey<Args extends unknown[], Reply>(
  name: string,
  rest: (parser: Parser, ...args: Args) => unknown[],
  transformReply: (reply: any, count?: any) => Reply = asItIs,
  IS_READ_ONLY = false,
) {
  const parseCommand = (parser: Parser, key: Word, ...args: Args): void => {
    parser.push(name);
    parser.pushKey(word(key));
    parser.push(...rest(parser, ...args).map(word));
  };
  return { IS_READ_ONLY, parseCommand, transformReply };
}

const asItIs = (reply: any): any => reply;

/** `createClient({ modules: { bloom } })` gives `client.bloom.reserve` and the others. */
export const bloom = {
  /** Creates a filter. */
  reserve: onKey<[errorRate: number, capacity: number, options?: ReserveOptions], "OK" | null>(
    "BF.RESERVE",
    (_, errorRate, capacity, options) => [errorRate, capacity, ...words(options)],
  ),
  /** The size of the filter that `reserve` would create. */
  plan: {
    NOT_KEYED_COMMAND: true as const,
    IS_READ_ONLY: true,
    parseCommand: (parser: Parser, errorRate: number, capacity: number, options?: FilterOptions) =>
      void parser.push(...["BF.PLAN", errorRate, capacity, ...words(options)].map(word)),
    transformReply: plan,
  },
  /** Adds items; for each, whether it was new. The client must have the type mapping BYTES. */
  addPacked: onKey<[items: Packed, options?: AddOptions], boolean[]>("BF.ADDPACKED", packed, answers),
  /** Adds items; how many were new. */
  addPackedCount: onKey<[items: Packed, options?: AddOptions], number>("BF.ADDPACKED", counted),
  /** For each item, whether it is there. The client must have the type mapping BYTES. */
  existsPacked: onKey<[items: Packed], boolean[]>("BF.EXISTSPACKED", packed, answers, true),
  /** How many of the items are there. */
  existsPackedCount: onKey<[items: Packed], number>("BF.EXISTSPACKED", counted, asItIs, true),
  /** Adds all items of the sources to a filter, which is created if it is missing. */
  merge: onKey<[sources: Word[], options?: { ERROR?: number; OVERRIDE?: boolean }], "OK">("BF.MERGE", sourcesOf),
  /** Makes a filter of the items that are in all sources. */
  intersect: onKey<[sources: Word[]], "OK">("BF.INTERSECT", sourcesOf),
  /** Takes items out until they are added again; for each, whether it was there. */
  except: onKey<[items: Items], boolean[]>("BF.EXCEPT", (_, items) => buffersOf(items), (reply) => reply.map(Boolean)),
  /** Empties a filter. */
  reset: onKey<[], "OK">("BF.RESET", () => []),
  /** Makes a filter as small as its items allow; the bytes that were given back. */
  shrink: onKey<[options?: { CAPACITY?: number }], number>("BF.SHRINK", (_, options) => words(options)),
};

function sourcesOf(_: Parser, sources: Word[], options?: object): unknown[] {
  return [[...listOf(sources)].length, ...sources, ...words(options)];
}

function counted(parser: Parser, items: Packed, options?: AddOptions): unknown[] {
  return ["COUNT", ...packed(parser, items, options)];
}

/** The words of options. */
function words(options: object = {}): unknown[] {
  if (typeof options !== "object" || !options) refuse("options are an object", options);
  const given = Object.entries(options).filter(([, value]) => value !== undefined && value !== false);
  return given.flatMap(([name, value]) => (value === true ? name : [name, value]));
}

/** A word of a command. */
function word(given: unknown): Word {
  if (typeof given === "number" || typeof given === "bigint") return `${given}`;
  return typeof given === "string" ? given : bufferOf(given, "a word of a command");
}

function bufferOf(given: unknown, what = "an item"): Buffer {
  if (typeof given === "string") return Buffer.from(given);
  const bytes = bytesOf(given, `${what} is a string, ${IN_MEMORY}`);
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}

function buffersOf(items: Items): Buffer[] {
  return Array.from(listOf(items), (item) => bufferOf(item));
}

/** The words of packed items. Their number tells the answers from the bits that fill the last byte of a bitmap. */
function packed(parser: Parser, items: Packed, options?: AddOptions): unknown[] {
  const has = (name: string): boolean => name in Object(items);
  const { LINES, WIDTH, data } = Object(items) as { LINES: Item; WIDTH: number; data: Item };
  if (has("LINES")) {
    const lines = bufferOf(LINES, "LINES");
    const ends = lines.reduce((count, byte) => count + (byte === 10 ? 1 : 0), 0);
    parser.preserve = lines.length === 0 || lines.at(-1) === 10 ? ends : ends + 1;
    return [...words(options), "LINES", lines];
  }
  if (has("WIDTH")) {
    const bytes = bufferOf(data, "data");
    parser.preserve = bytes.length / WIDTH;
    return [...words(options), "WIDTH", WIDTH, bytes];
  }
  const each = buffersOf(items as Items);
  parser.preserve = each.length;
  // Each item after its length in four bytes, little-endian.
  const prefixed = each.flatMap((item) => [Buffer.from([0, 8, 16, 24].map((by) => item.length >> by)), item]);
  return [...words(options), "PREFIXED", Buffer.concat(prefixed)];
}

/** The answers of a bitmap to so many items. */
function answers(bitmap: Uint8Array | string, count: number): boolean[] {
  if (typeof bitmap !== "string")
    return Array.from({ length: count }, (_, i) => ((bitmap[i >> 3] << (i & 7)) & 0x80) !== 0);
  throw new TypeError("the answers came as text, and are lost: send the command by client.withTypeMapping(BYTES)");
}

/** A map of RESP3, or a flat array of RESP2, with numbers where RESP2 has texts. */
function plan(reply: any): Plan {
  const flat: any[] = Array.isArray(reply) ? reply : [...(reply instanceof Map ? reply : Object.entries(reply))].flat();
  const value = (of: any) => (of === null ? null : Number.isNaN(Number(`${of}`)) ? `${of}` : Number(`${of}`));
  const fields: Plan = {};
  for (let i = 0; i < flat.length; i += 2)
    fields[`${flat[i]}`] = Array.isArray(flat[i + 1]) ? flat[i + 1].map(plan) : value(flat[i + 1]);
  return fields;
}

/** A client of one server, or of a cluster. */
export type Client =
  | { sendCommand(args: Word[], options?: object): Promise<any> }
  | {
      masters: object;
      sendCommand(key: Word | undefined, isReadonly: boolean, args: Word[], options?: object): Promise<any>;
    };

/** Milliseconds after which a filter expires that was pushed in part, or copied to be pulled. */
const LEFT_OVER = "600000";
const CREATE = `
redis.call('BF.LOADCHUNK', KEYS[1], 1, ARGV[1])
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`;
const FINISH = `
local type = redis.call('TYPE', KEYS[2]).ok
if type ~= 'none' and type ~= 'MBbloom--' and type ~= 'bloomfltr' then
    return redis.error_reply('WRONGTYPE the key holds ' .. type .. ', which is no filter')
end
local left = redis.call('PTTL', KEYS[2])
if left >= 0 then redis.call('PEXPIRE', KEYS[1], math.max(left, 1)) else redis.call('PERSIST', KEYS[1]) end
return redis.call('RENAME', KEYS[1], KEYS[2])`;
const COPY = `
if redis.call('COPY', KEYS[1], KEYS[2]) == 0 then return redis.error_reply('ERR not found') end
return redis.call('PEXPIRE', KEYS[2], ARGV[1])`;

/**
 * Makes a key of a server this filter, whole: its chunks go under another name first, which expires if the push is
 * interrupted. An expiry of the key stays. A key that holds anything else than a filter is an error.
 */
export async function push(client: Client, key: Word, filter: Filter): Promise<void> {
  if (typeof filter?.chunks !== "function") refuse("what is pushed is a Filter", filter);
  const other = temporary(key);
  const [[, header], ...chunks] = filter.chunks();
  try {
    await call(client, "EVAL", CREATE, "1", other, header, LEFT_OVER);
    for (const [iterator, data] of chunks) {
      await call(client, "BF.LOADCHUNK", other, iterator, data);
      await call(client, "PEXPIRE", other, LEFT_OVER);
    }
    await call(client, "EVAL", FINISH, "2", other, key);
  } catch (error) {
    await call(client, "UNLINK", other).catch(() => undefined);
    throw error;
  }
}

/** The filter of a key of a server. If it changes meanwhile, the server makes a copy, which is read instead. */
export async function pull(client: Client, key: Word): Promise<Filter> {
  const chunks = await dumped(client, key);
  const [, header] = await call(client, "BF.SCANDUMP", key, "0");
  if (header.equals(chunks[0][1])) return Filter.fromChunks(chunks);
  const other = temporary(key);
  try {
    await call(client, "EVAL", COPY, "2", key, other, LEFT_OVER);
    return Filter.fromChunks(await dumped(client, other));
  } finally {
    await call(client, "UNLINK", other).catch(() => undefined);
  }
}

async function dumped(client: Client, key: Word): Promise<Chunk[]> {
  const chunks: Chunk[] = [];
  let left = 0;
  for (let iterator = 0; ;) {
    const [next, data] = await call(client, "BF.SCANDUMP", key, iterator);
    if (next === 0) return chunks;
    chunks.push([next, data]);
    left = iterator === 0 ? parseHeader(data).layers.reduce((sum, { bytes }) => sum + bytes, 0) : left - data.length;
    // No filter has such chunks, unless it changed meanwhile. A server could send them for ever.
    if (!(next > iterator) || data.length === 0 || left < 0) return chunks;
    iterator = next;
  }
}

/** Sends a command to the primary of its key: a replica may be behind. */
function call(client: Client, name: string, ...given: unknown[]): Promise<any> {
  if (typeof client?.sendCommand !== "function") refuse("a client is one of node-redis", client);
  const options = { typeMapping: BYTES };
  const args = given.map(word);
  if (!("masters" in client)) return client.sendCommand([name, ...args], options);
  return client.sendCommand(args[name === "EVAL" ? 2 : 0], false, [name, ...args], options);
}

/** A name that is not in use, in the slot of the key. */
function temporary(key: Word): Buffer {
  const end = Buffer.from(`:libbloom:${randomUUID()}`);
  const name = bufferOf(key, "a key");
  const tagged = (tag: Buffer): Buffer => Buffer.concat([Buffer.from("{"), tag, Buffer.from("}")]);
  if (slot(Buffer.concat([name, end])) === slot(name)) return Buffer.concat([name, end]);
  if (slot(tagged(name)) === slot(name)) return Buffer.concat([tagged(name), end]);
  // The key has braces that no tag can repeat, as in "a}b". One number in 16,384 is in its slot.
  let number = 0;
  while (slot(Buffer.from(`${number}`)) !== slot(name)) number += 1;
  return Buffer.concat([tagged(Buffer.from(`${number}`)), name, end]);
}

/** The slot of a key in a cluster: the CRC-16 of what stands in its first braces, or else of all. */
function slot(key: Buffer): number {
  const begin = key.indexOf("{");
  const end = begin < 0 ? -1 : key.indexOf("}", begin);
  let crc = 0;
  for (const byte of end > begin + 1 ? key.subarray(begin + 1, end) : key) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit += 1) crc = ((crc << 1) ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff;
  }
  return crc % 16384;
}
