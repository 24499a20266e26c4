// The package in a real Chromium: a page and a Worker fetch a file, query it, and show what is wrong with a damaged one.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { answersOf, cases, HERE, PATIENCE, programs, PROJECT } from "./support.js";
import { Filter } from "libbloom";

const { path, items } = cases().whole.find(({ name }) => name === "blocked 3000 of 20")!;
const file = readFileSync(path);
const damaged = Uint8Array.from(file);
damaged[file.length - 100] ^= 1;

const PAGE = `<!DOCTYPE html>
<title>libbloom</title>
<p id="answer"></p>
<script type="module">
  import { answers } from "/answers.js";
  const shown = document.getElementById("answer");
  shown.textContent = JSON.stringify(await answers());
  const worker = new Worker("/worker.js", { type: "module" });
  worker.onmessage = ({ data }) =>
    fetch("/report", { method: "POST", body: JSON.stringify({ page: JSON.parse(shown.textContent), worker: data }) });
</script>`;
const ANSWERS = `import { Filter, FormatError } from "/dist/index.js";
export async function answers() {
  const probes = Array.from({ length: 3000 }, (_, number) => "probe " + number);
  const filter = await Filter.load(fetch("/filter.bloom"));
  const errors = [];
  for (const name of ["damaged.bloom", "cut.bloom", "missing.bloom", "page.html"]) {
    try {
      await Filter.load(fetch("/" + name));
    } catch (error) {
      errors.push((error instanceof FormatError) + ": " + error.message.replace(location.origin, ""));
    }
  }
  const found = filter.hasMany(probes);
  const { size, capacity, errorRate, layers } = filter;
  const items = Array.from({ length: 2000 }, (_, number) => "item " + number);
  return {
    figures: [size, capacity, errorRate, layers],
    items: filter.hasMany(items).every(Boolean),
    probes: [...found.keys()].filter((number) => found[number]),
    errors,
  };
}`;
const WORKER = `import { answers } from "/answers.js";
postMessage(await answers());`;

test("a page and a Worker", { timeout: PATIENCE }, async () => {
  const { page, worker } = JSON.parse(await reportOf(PAGE));
  const expected = answersOf(await Filter.load(file), items);
  assert.deepEqual(page.figures, expected.figures);
  assert.equal(page.items, true);
  assert.deepEqual(page.probes, expected.probes_found);
  assert.equal(page.errors[0], "true: the file is damaged in its piece 0 of 16 MiB: its checksum differs");
  assert.equal(page.errors[1], "true: the file ends early, after 1000 bytes");
  assert.equal(page.errors[2], "true: /missing.bloom answered 404");
  assert.match(page.errors[3], /^true: this is no filter's file: it begins with 3c 21 44/);
  assert.deepEqual(worker, page);
});

// Somebody would sign up with a leaked password, or be kept from signing up with another one.
test("the sign-up page of docs/javascript.md", { timeout: PATIENCE }, async () => {
  const [page] = programs(join(PROJECT, "docs/javascript.md"), "html");
  const said = await reportOf(`<!DOCTYPE html>${page}<script type="module">
    const password = document.getElementById("password");
    const type = async (value) => {
      password.value = value;
      password.setCustomValidity("not checked yet");
      password.dispatchEvent(new Event("change"));
      while (password.validationMessage === "not checked yet") await new Promise((resolve) => setTimeout(resolve, 10));
      return password.validationMessage;
    };
    const said = [await type("item 7"), await type("probe of no item"), await type("item 2999")];
    fetch("/report", { method: "POST", body: JSON.stringify(said) });
  </script>`);
  assert.deepEqual(JSON.parse(said), ["This password was leaked.", "", "This password was leaked."]);
});

/** What a page reports when it is opened in Chromium. */
async function reportOf(page: string): Promise<string> {
  let report: (text: string) => void;
  const reported = new Promise<string>((resolve) => (report = resolve));
  const server = createServer(async (request: IncomingMessage, response) => {
    const [type, body] = request.url === "/page.html" ? ["text/html", page] : served(request.url!);
    if (request.method === "POST") report(Buffer.concat(await request.toArray()).toString());
    response.writeHead(type ? 200 : 404, { "content-type": type ?? "text/html" }).end(body);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const profile = mkdtempSync(join(tmpdir(), "libbloom-chromium-"));
  const { port } = server.address() as { port: number };
  const words = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"];
  const url = `http://127.0.0.1:${port}/page.html`;
  const browser = spawn(process.env.CHROMIUM ?? "chromium", [...words, `--user-data-dir=${profile}`, url], {
    stdio: ["ignore", "ignore", "pipe"],
    detached: true,
  });
  let log = "";
  browser.stderr.on("data", (text) => (log += text));
  const ended = once(browser, "exit").then(() => Promise.reject(new Error(`Chromium ended:\n${log}`)));
  try {
    return await Promise.race([reported, ended]);
  } finally {
    ended.catch(() => undefined);
    // With the processes that it started.
    process.kill(-browser.pid!, "SIGKILL");
    await ended.catch(() => undefined);
    server.closeAllConnections();
    server.close();
    rmSync(profile, { recursive: true, force: true, maxRetries: 10 });
  }
}

/** The type and the content of a path. */
function served(url: string): [type?: string, body?: string | Uint8Array] {
  const script = "text/javascript";
  if (url === "/answers.js") return [script, ANSWERS];
  if (url === "/worker.js") return [script, WORKER];
  if (url === "/filter.bloom" || url === "/leaked.bloom") return ["application/octet-stream", file];
  if (url === "/damaged.bloom") return ["application/octet-stream", damaged];
  if (url === "/cut.bloom") return ["application/octet-stream", file.subarray(0, 1000)];
  if (url === "/report") return ["text/plain", ""];
  const [, module] = /^\/(?:dist|libbloom)\/(\w+\.js)$/.exec(url) ?? [];
  if (module) return [script, readFileSync(join(HERE, "dist", module))];
  return [];
}
