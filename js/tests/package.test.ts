// The npm package as it would be published: what is in it, how large it is, and that it can be used.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { after, before } from "node:test";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { cases, HERE, PROJECT } from "./support.js";

const MOST_BYTES = 15_000;
const folder = mkdtempSync(join(tmpdir(), "libbloom-package-"));
const installed = join(folder, "node_modules/libbloom");
const run = (program: string, words: string[], cwd = folder) => execFileSync(program, words, { cwd, encoding: "utf8" });

before(() => {
  const packed = run(process.execPath, [join(PROJECT, "scripts/npm.mjs"), "packed"]).trim();
  mkdirSync(installed, { recursive: true });
  run("tar", ["-xzf", packed, "-C", installed, "--strip-components=1"]);
});
after(() => rmSync(folder, { recursive: true }));

test("it has what users need, and nothing else", () => {
  const modules = readdirSync(join(HERE, "src"))
    .filter((name) => name.endsWith(".ts"))
    .map((name) => name.slice(0, -3));
  const files = modules.flatMap((name) => [`${name}.d.ts`, `${name}.js`]);
  assert.deepEqual(readdirSync(join(installed, "dist")).sort(), files.sort());
  assert.deepEqual(readdirSync(installed).sort(), [
    "LICENSE",
    "README.md",
    "dist",
    "libbloom.cdx.json",
    "package.json",
  ]);
  const manifest = JSON.parse(readFileSync(join(installed, "package.json"), "utf8"));
  const [, version] = /^version = "(.*)"$/m.exec(readFileSync(join(PROJECT, "Cargo.toml"), "utf8"))!;
  assert.equal(manifest.version, version);
  for (const unwanted of ["dependencies", "devDependencies", "scripts"]) assert.equal(manifest[unwanted], undefined);
});

test("its bill of materials is of these files", () => {
  const bill = JSON.parse(readFileSync(join(installed, "libbloom.cdx.json"), "utf8"));
  const { components } = bill.metadata.component;
  assert.deepEqual(
    components.map(({ name }: { name: string }) => name.slice(5)),
    readdirSync(join(installed, "dist")).sort(),
  );
  for (const { name, hashes } of components) {
    const sum = createHash("sha256")
      .update(readFileSync(join(installed, name)))
      .digest("hex");
    assert.equal(hashes[0].content, sum, name);
  }
});

test("the same sources give the same bytes", () => {
  const again = run(process.execPath, [join(PROJECT, "scripts/npm.mjs"), "again"]).trim();
  assert.deepEqual(readFileSync(join(folder, again)), readFileSync(join(folder, again.replace("again", "packed"))));
});

// Whoever takes the package over would have more to read than one evening allows.
test("it is short", () => {
  const sources = readdirSync(join(HERE, "src")).filter((name) => name.endsWith(".ts"));
  const lines = sources.flatMap((name) => readFileSync(join(HERE, "src", name), "utf8").split("\n"));
  const code = lines.filter((line) => !/^\s*(\/\/|\/?\*|$)/.test(line));
  assert.ok(code.length <= 1360, `${code.length} lines`);
});

// A page that loads a filter would load more code than it may.
test("it is small for browsers, and needs nothing of Node.js", async () => {
  const options = { bundle: true, minify: true, write: false, format: "esm", platform: "browser" } as const;
  const { outputFiles } = await build({ entryPoints: [join(installed, "dist/index.js")], ...options });
  const bytes = gzipSync(outputFiles[0].contents, { level: 9 }).length;
  assert.ok(bytes <= MOST_BYTES, `${bytes} bytes`);
  assert.ok(bytes > 1000);
});

test("a program can use it, with its types", async () => {
  const { path, figures } = cases().whole[2];
  writeFileSync(
    join(folder, "program.mts"),
    `import { readFile } from "node:fs/promises";
    import { Filter, FormatError, type Item } from "libbloom";
    const items: Item[] = ["item 0", new Uint8Array(3)];
    const filter: Filter = await Filter.load(await readFile(${JSON.stringify(path)}), { atMost: 1e6 });
    const answers: boolean[] = [filter.has(items[0]), ...filter.hasMany(items)];
    // @ts-expect-error: no item
    const wrong = () => filter.has(7);
    console.log(JSON.stringify([filter.size, answers, new FormatError("x") instanceof Error]));\n`,
  );
  mkdirSync(join(folder, "node_modules/@types"), { recursive: true });
  symlinkSync(join(HERE, "node_modules/@types/node"), join(folder, "node_modules/@types/node"));
  const compiler = join(HERE, "node_modules/typescript/bin/tsc");
  run(process.execPath, [
    compiler,
    "--strict",
    "--module",
    "nodenext",
    "--target",
    "es2022",
    "--types",
    "node",
    "program.mts",
  ]);
  assert.deepEqual(JSON.parse(run(process.execPath, ["program.mjs"])), [figures[0], [true, true, false], true]);
});
