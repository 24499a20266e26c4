// The programs of docs/javascript.md and of the README.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import test from "node:test";
import { createClient } from "redis";
import { cases, HERE, PROJECT, programs, Server } from "./support.js";

const FOLDER = join(HERE, "build/pages");
mkdirSync(FOLDER, { recursive: true });
const [worker, collecting, receiving, client] = programs(join(PROJECT, "docs/javascript.md"), "js");
const [query, server] = programs(join(HERE, "README.md"), "js");
const file = readFileSync(cases().whole[2].path);

function written(name: string, program: string): string {
  writeFileSync(join(FOLDER, name), program);
  return join(FOLDER, name);
}

/** Runs something while the network has only what `answer` gives. */
async function withFetch<T>(answer: (url: string) => Response, work: () => Promise<T>): Promise<T> {
  const own = globalThis.fetch;
  globalThis.fetch = async (request) =>
    answer(typeof request === "object" && "url" in request ? request.url : `${request}`);
  try {
    return await work();
  } finally {
    globalThis.fetch = own;
  }
}

test("the program that queries a file", async () => {
  const path = written("query.mjs", `${query}\nexport default leaked;`);
  const { default: leaked } = await withFetch(
    () => new Response(file),
    () => import(`${pathToFileURL(path)}`),
  );
  assert.equal(leaked.has("item 7"), true);
});

test("the Worker at the edge", async () => {
  const { default: edge } = await import(
    `${pathToFileURL(written("worker.mjs", worker.replace(".pathname", ".searchParams.get('id')")))}`
  );
  let isBroken = true;
  const answer = (url: string): Response => {
    if (!url.endsWith("/gone.bloom")) return new Response("the page");
    return isBroken ? new Response("", { status: 503 }) : new Response(file);
  };
  const ask = async (id: string): Promise<string> =>
    (await edge.fetch(new Request(`https://example.com/?id=${encodeURIComponent(id)}`))).text();
  await withFetch(answer, async () => {
    assert.equal(await ask("item 7"), "the page");
    isBroken = false;
    assert.equal(await ask("item 7"), "gone");
    assert.equal(await ask("no item"), "the page");
  });
});

test("a page that collects items, and the server that asks", async () => {
  const own = await new Server().start();
  const asking = await createClient({ url: own.url }).connect();
  const receiver = written("receiving.mjs", `${receiving.replace("redis://localhost:6379", own.url)}\nexport { client };`);
  const { server, client } = await import(`${pathToFileURL(receiver)}`);
  try {
    await once(server.listen(0, "127.0.0.1"), "listening");
    const at = `http://127.0.0.1:${server.address().port}/read`;
    const page = written("collecting.mjs", collecting.replace("/read", at));
    const { show, send } = await import(`${pathToFileURL(page)}`);
    assert.deepEqual(["one", "two", "one"].map(show), [true, true, false]);
    assert.equal((await send()).status, 204);
    assert.deepEqual(await asking.bf.mExists("read:ann", ["one", "two", "three"]), [true, true, false]);
    assert.equal((await fetch(at, { method: "POST", body: "no filter" })).status, 400);
  } finally {
    server.close();
    client.destroy();
    asking.destroy();
    await own.stop();
  }
});

test("the programs with a server", async () => {
  const own = await new Server().start();
  try {
    for (const [name, program] of Object.entries({ client, server: `${server}\nclient.destroy();` })) {
      const path = written(`${name}.mjs`, program.replace("redis://localhost:6379", own.url));
      const promised = [...program.matchAll(/\/\/ prints: (.*)/g)].map(([, line]) => `${line}\n`).join("");
      assert.equal(execFileSync(process.execPath, [path], { encoding: "utf8" }), promised);
    }
  } finally {
    await own.stop();
  }
});
