// One filter over many keys of a cluster, as docs/sharding.md defines it, with node-redis: for services that query and
// add to a filter which `libbloom shard create` made.
//
//   const cluster = await clusterOf("redis://127.0.0.1:7000").connect();
//   const seen = await ShardedBloom.open(cluster, "seen");
//   await seen.addMany(["https://example.com/"]); // [true]: it was new
//
// node-redis follows slots that move. A command whose connection breaks is rejected: its items may have been added.

import { createHash } from "node:crypto";
import { bloom, BYTES } from "libbloom/redis";
import { createCluster } from "redis";

type Cluster = ReturnType<typeof clusterOf>;
type Item = string | Uint8Array;

/** A client of the cluster that a node belongs to. */
export function clusterOf(url: string, RESP: 2 | 3 = 3) {
  return createCluster({ rootNodes: [{ url }], RESP, modules: { bloom } });
}

/** The shard of an item: the first 8 bytes of its BLAKE2b-512, as a big-endian number, modulo the number of shards. */
export function shardOf(item: Item, shards: number): number {
  return Number(createHash("blake2b512").update(item).digest().readBigUInt64BE(0) % BigInt(shards));
}

export function metaKey(name: string): string {
  return `${name}:{meta}`;
}

/** The key of a shard. What stands in braces decides about the slot. */
export function shardKey(name: string, shard: number, shards: number): string {
  return `${name}:{${shard}}:${shards}`;
}

export class ShardedBloom {
  private constructor(
    private readonly cluster: Cluster,
    readonly name: string,
    readonly shards: number,
  ) {}

  /** Opens a filter; its name is enough. */
  static async open(cluster: Cluster, name: string): Promise<ShardedBloom> {
    const meta = await cluster.hGetAll(metaKey(name));
    if (Object.keys(meta).length === 0) throw new Error(`there is no sharded filter ${name}`);
    if (meta.version !== "1" || meta.hash !== "BLAKE2b-512") throw new Error(`${name} has another version or hash`);
    if (meta.state !== "ready") throw new Error(`${name} is not whole, it is ${meta.state ?? "being dropped"}`);
    return new ShardedBloom(cluster, name, Number(meta.shards));
  }

  /** Adds an item. True if it was not in the filter before. */
  async add(item: Item): Promise<boolean> {
    return (await this.addMany([item]))[0];
  }

  /** Adds items; for each, whether it was new. */
  addMany(items: Item[]): Promise<boolean[]> {
    const { bloom } = this.cluster.withTypeMapping(BYTES);
    return this.overShards(items, (key, some) => bloom.addPacked(key, some, { NOCREATE: true }));
  }

  /** Whether an item is in the filter. */
  async has(item: Item): Promise<boolean> {
    return (await this.hasMany([item]))[0];
  }

  /** For each item, whether it is in the filter. */
  hasMany(items: Item[]): Promise<boolean[]> {
    const { bloom } = this.cluster.withTypeMapping(BYTES);
    return this.overShards(items, async (key, some) => {
      const found = await bloom.existsPacked(key, some);
      // A shard that is gone denies every item, as an empty one does.
      if (!found.includes(true) && !(await this.cluster.exists(key)))
        throw new Error(`there is no ${key}: the shard is lost, or the filter was dropped`);
      return found;
    });
  }

  /** One command for each shard that has some of the items, all at once, and the answers in the items' order. */
  private async overShards(items: Item[], send: (key: string, some: Item[]) => Promise<boolean[]>): Promise<boolean[]> {
    const places = new Map<number, number[]>();
    items.forEach((item, place) => {
      const shard = shardOf(item, this.shards);
      if (!places.has(shard)) places.set(shard, []);
      places.get(shard)!.push(place);
    });
    const answers = new Array<boolean>(items.length);
    await Promise.all(
      [...places].map(async ([shard, some]) => {
        const found = await send(
          shardKey(this.name, shard, this.shards),
          some.map((place) => items[place]),
        );
        some.forEach((place, at) => (answers[place] = found[at]));
      }),
    );
    return answers;
  }
}
