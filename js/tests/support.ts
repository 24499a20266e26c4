// What tests share: files that the Python package wrote, and servers with the module.

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createClient } from "redis";
import type { Filter } from "libbloom";

/** The folder js. */
export const HERE = fileURLToPath(new URL("..", import.meta.url));
export const PROJECT = fileURLToPath(new URL("../..", import.meta.url));
/** Milliseconds until something that must happen has failed. Nothing is measured by it. */
export const PATIENCE = 120_000;

/** What tests/files.py wrote of a filter. */
export interface Answers {
  /** The time of the answers, where the filter has a window. */
  now?: number;
  items: string[];
  items_found: boolean[];
  probes_found: number[];
  figures: number[];
}
export interface Cases {
  whole: Array<Answers & { name: string; path: string }>;
  damaged: Array<Partial<Answers> & { file: string; error?: string; large?: boolean }>;
  /** Options, how many items were added, and the files after half of them and after all. */
  added: Array<{
    capacity: number;
    error_rate: number;
    seed: string;
    expansion?: number;
    growth: string;
    count: number;
    half: number;
    paths: [string, string];
  }>;
}

export function cases(): Cases {
  return JSON.parse(readFileSync(join(HERE, "build/files/cases.json"), "utf8"));
}

/** The programs of a page that are in a language. */
export function programs(page: string, language: string): string[] {
  const blocks = readFileSync(page, "utf8").matchAll(/^```(\w*)\n(.*?)^```$/gms);
  return [...blocks].filter(([, of]) => of === language).map(([, , text]) => text);
}

const PROBES = Array.from({ length: 3000 }, (_, number) => `probe ${number}`);

/** The answers and figures of a filter, in the form of tests/files.py. */
export function answersOf(filter: Filter, items: string[], now?: number): Answers {
  const found = filter.hasMany(PROBES, now);
  return {
    ...(now === undefined ? {} : { now }),
    items,
    items_found: items.map((item) => filter.has(Buffer.from(item, "hex"), now)),
    probes_found: [...found.keys()].filter((number) => found[number]),
    figures: [filter.size, filter.capacity, filter.errorRate, filter.layers],
  };
}

/** A server with the module, in a folder of its own. */
export class Server {
  private readonly folder = mkdtempSync(join(tmpdir(), "libbloom-js-"));
  private process?: ChildProcess;
  port = 0;

  constructor(private readonly words: string[] = []) {}

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  async start(): Promise<this> {
    const module = process.env.BLOOM_TEST_MODULE ?? join(PROJECT, "libbloom.so");
    // Another program may take a port that was free just now.
    for (let attempt = 0; attempt < 20; attempt += 1) {
      this.port = await freePort();
      const words = [
        "--bind",
        "127.0.0.1",
        "--port",
        `${this.port}`,
        "--save",
        "",
        "--dir",
        this.folder,
        ...this.words,
      ];
      const server = spawn(process.env.BLOOM_TEST_SERVER ?? "redis-server", [...words, "--loadmodule", module], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      let log = "";
      const ready = new Promise<boolean>((resolve) => {
        server.stdout!.on("data", (text) => {
          log += text;
          if (log.includes("eady to accept connections")) resolve(true);
        });
        server.on("exit", () => resolve(false));
      });
      this.process = server;
      if (await ready) return this;
      if (!log.includes("in use")) throw new Error(`the server does not start:\n${log}`);
    }
    throw new Error("there is no free port");
  }

  async stop(): Promise<void> {
    if (this.process && this.process.exitCode === null) {
      this.process.kill("SIGKILL");
      await once(this.process, "exit");
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** A cluster of three primaries. */
export async function startCluster(): Promise<{ url: string; stop(): Promise<void> }> {
  const servers: Server[] = [];
  const stop = async (): Promise<void> => void (await Promise.all(servers.map((server) => server.stop())));
  try {
    while (servers.length < 3) servers.push(await new Server(["--cluster-enabled", "yes"]).start());
    const clients = await Promise.all(servers.map((server) => createClient({ url: server.url }).connect()));
    const share = Math.ceil(16384 / servers.length);
    for (const [at, client] of clients.entries()) {
      const slots = Array.from({ length: Math.min(share, 16384 - at * share) }, (_, slot) => `${at * share + slot}`);
      await client.sendCommand(["CLUSTER", "ADDSLOTS", ...slots]);
      if (at > 0) await client.sendCommand(["CLUSTER", "MEET", "127.0.0.1", `${servers[0].port}`]);
    }
    const end = Date.now() + PATIENCE;
    for (const client of clients) {
      const isWhole = async (): Promise<boolean> => {
        const info = `${await client.sendCommand(["CLUSTER", "INFO"])}`;
        return info.includes("cluster_state:ok") && info.includes("cluster_known_nodes:3");
      };
      while (!(await isWhole())) {
        if (Date.now() > end) throw new Error("the servers are no cluster");
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      client.destroy();
    }
    return { url: servers[0].url, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** A port whose number for a cluster's bus, 10,000 above it, is one too. */
async function freePort(): Promise<number> {
  for (;;) {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    server.close();
    await once(server, "close");
    if (port > 20_000 && port < 55_000) return port;
  }
}
