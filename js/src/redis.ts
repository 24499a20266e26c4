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

/** The options of a filter to create: docs/commands/options.md. */
export interface FilterOptions {
  EXPANSION?: number;
  NONSCALING?: boolean;
  GROWING?: boolean;
  SEED?: number | bigint | Word;
  LAYOUT?: "BLOCKED" | "CLASSIC" | "VALKEY";
  TIGHTENING?: number;
  VALIDATESCALETO?: number;
  /** Seconds after which items are forgotten. */
  WINDOW?: number;
  SLICES?: number;
  REFRESH?: boolean;
}

/** When a filter to create expires: one of these. */
export type Expiry = { EX?: number; PX?: number; EXAT?: number; PXAT?: number };

export interface ReserveOptions extends FilterOptions, Expiry {
  /** A filter that is there stays, without an error; the reply is null then. */
  NX?: boolean;
}

export interface AddOptions extends FilterOptions, Expiry {
  CAPACITY?: number;
  ERROR?: number;
  /** A missing key is an error. */
  NOCREATE?: boolean;
  /** When the items were added to a window, in milliseconds of the Unix clock. */
  AT?: number;
}

/** Items of one command: one by one, or packed already. */
export type Packed = Items | { LINES: Item } | { WIDTH: number; data: Item };

/** What BF.PLAN replies. */
export interface Plan {
  [name: string]: number | string | null | Plan[];
}

/** For replies that stay as they are. */
function as<Reply>(): (reply: any, count?: any) => Reply {
  return (reply) => reply;
}

const booleans = (reply: Array<number | boolean>): boolean[] => reply.map(Boolean);

/** `createClient({ modules: { bloom } })` gives `client.bloom.reserve` and the others. */
export const bloom = {
  /** Creates a filter. */
  reserve: {
    parseCommand: (parser: Parser, key: Word, errorRate: number, capacity: number, options?: ReserveOptions) =>
      send(parser, "BF.RESERVE", key, errorRate, capacity, ...words(options)),
    transformReply: as<"OK" | null>(),
  },
  /** The size of the filter that `reserve` would create. */
  plan: {
    NOT_KEYED_COMMAND: true as const,
    IS_READ_ONLY: true,
    parseCommand: (parser: Parser, errorRate: number, capacity: number, options?: FilterOptions) =>
      void parser.push(...["BF.PLAN", errorRate, capacity, ...words(options)].map(word)),
    transformReply: plan,
  },
  /** Adds items; for each, whether it was new. The client must have the type mapping BYTES. */
  addPacked: {
    parseCommand: (parser: Parser, key: Word, items: Packed, options?: AddOptions) =>
      send(parser, "BF.ADDPACKED", key, ...words(options), ...packed(parser, items)),
    transformReply: answers,
  },
  /** Adds items; how many were new. */
  addPackedCount: {
    parseCommand: (parser: Parser, key: Word, items: Packed, options?: AddOptions) =>
      send(parser, "BF.ADDPACKED", key, "COUNT", ...words(options), ...packed(parser, items)),
    transformReply: as<number>(),
  },
  /** For each item, whether it is there. The client must have the type mapping BYTES. */
  existsPacked: {
    IS_READ_ONLY: true,
    parseCommand: (parser: Parser, key: Word, items: Packed) =>
      send(parser, "BF.EXISTSPACKED", key, ...packed(parser, items)),
    transformReply: answers,
  },
  /** How many of the items are there. */
  existsPackedCount: {
    IS_READ_ONLY: true,
    parseCommand: (parser: Parser, key: Word, items: Packed) =>
      send(parser, "BF.EXISTSPACKED", key, "COUNT", ...packed(parser, items)),
    transformReply: as<number>(),
  },
  /** Adds all items of the sources to a filter, which is created if it is missing. */
  merge: {
    parseCommand: (parser: Parser, to: Word, sources: Word[], options?: { ERROR?: number; OVERRIDE?: boolean }) =>
      combine(parser, "BF.MERGE", to, sources, options),
    transformReply: as<"OK">(),
  },
  /** Makes a filter of the items that are in all sources. */
  intersect: {
    parseCommand: (parser: Parser, to: Word, sources: Word[]) => combine(parser, "BF.INTERSECT", to, sources),
    transformReply: as<"OK">(),
  },
  /** Takes items out until they are added again; for each, whether it was there. */
  except: {
    parseCommand: (parser: Parser, key: Word, items: Items) =>
      send(parser, "BF.EXCEPT", key, ...Array.from(listOf(items), (item) => bufferOf(item))),
    transformReply: booleans,
  },
  /** Empties a filter. */
  reset: { parseCommand: (parser: Parser, key: Word) => send(parser, "BF.RESET", key), transformReply: as<"OK">() },
  /** Makes a filter as small as its items allow; the bytes that were given back. */
  shrink: {
    parseCommand: (parser: Parser, key: Word, options?: { CAPACITY?: number }) =>
      send(parser, "BF.SHRINK", key, ...words(options)),
    transformReply: as<number>(),
  },
};

function send(parser: Parser, command: string, key: Word, ...rest: unknown[]): void {
  parser.push(command);
  parser.pushKey(word(key));
  parser.push(...rest.map(word));
}
function combine(parser: Parser, command: string, destination: Word, sources: Word[], options?: object): void {
  const keys = Array.from(listOf(sources), word);
  send(parser, command, destination, keys.length);
  parser.pushKeys(keys);
  parser.push(...words(options).map(word));
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

/** The words of packed items. Their number tells the answers from the bits that fill the last byte of a bitmap. */
function packed(parser: Parser, items: Packed): unknown[] {
  if ("LINES" in Object(items)) {
    const data = bufferOf((items as { LINES: Item }).LINES, "LINES");
    const ends = data.reduce((count, byte) => count + (byte === 10 ? 1 : 0), 0);
    parser.preserve = data.length === 0 || data.at(-1) === 10 ? ends : ends + 1;
    return ["LINES", data];
  }
  if ("WIDTH" in Object(items)) {
    const { WIDTH, data } = items as { WIDTH: number; data: Item };
    const bytes = bufferOf(data, "data");
    parser.preserve = bytes.length / WIDTH;
    return ["WIDTH", WIDTH, bytes];
  }
  const each = Array.from(listOf(items as Items), (item) => bufferOf(item));
  parser.preserve = each.length;
  return ["PREFIXED", Buffer.concat(each.flatMap((item) => [lengthOf(item), item]))];
}

/** An item's length, in four bytes, little-endian. */
function lengthOf(item: Buffer): Buffer {
  return Buffer.of(item.length, item.length >> 8, item.length >> 16, item.length >> 24);
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
  const fields: Plan = {};
  for (let i = 0; i < flat.length; i += 2) {
    const value = flat[i + 1];
    if (Array.isArray(value)) fields[`${flat[i]}`] = value.map(plan);
    else
      fields[`${flat[i]}`] = value === null ? null : Number.isNaN(Number(`${value}`)) ? `${value}` : Number(`${value}`);
  }
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
    left = iterator === 0 ? parseHeader(data).bytes : left - data.length;
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
