// The npm package as it would be published: what is in it, how large it is, and that it can be used.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
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
  const lines = sources.flatMap((name) => readFileSync(join(HERE, "src", name), "utf8").trimEnd().split("\n"));
  assert.ok(lines.length <= 1700, `${lines.length} lines`);
});

// A page that loads a filter would load more code than it may.
test("it is small for browsers, and needs nothing of Node.js", async () => {
  const options = { bundle: true, minify: true, write: false, format: "esm", platform: "browser" } as const;
  const { outputFiles } = await build({ entryPoints: [join(installed, "dist/index.js")], ...options });
  const bytes = gzipSync(outputFiles[0].contents, { level: 9 }).length;
  assert.ok(bytes <= MOST_BYTES, `${bytes} bytes`);
  assert.ok(bytes > 1000);
});

// A release would have a package that names nobody to ask.
test("a release says where it comes from", () => {
  const env = { ...process.env, REPOSITORY_URL: "https://example.com/libbloom", SITE_URL: "https://example.org/" };
  const words = [join(PROJECT, "scripts/npm.mjs"), "released"];
  const packed = execFileSync(process.execPath, words, { cwd: folder, env, encoding: "utf8" }).trim();
  const { repository, homepage } = JSON.parse(run("tar", ["-xzOf", packed, "package/package.json"]));
  assert.deepEqual([repository.url, homepage], ["git+https://example.com/libbloom.git", "https://example.org/"]);
});

// Whoever takes the package from a checkout would get one without code.
test("npm pack of a clean checkout has the code", () => {
  const checkout = join(folder, "checkout");
  mkdirSync(checkout);
  for (const name of ["src", "package.json"]) cpSync(join(HERE, name), join(checkout, name), { recursive: true });
  symlinkSync(join(HERE, "node_modules"), join(checkout, "node_modules"));
  run("npm", ["pack", "--silent"], checkout);
  const [packed] = readdirSync(checkout).filter((name) => name.endsWith(".tgz"));
  assert.match(run("tar", ["-tzf", join(checkout, packed)]), /^package\/dist\/redis\.js$/m);
});

test("a program can use it, with its types", async () => {
  const { path, figures } = cases().whole[2];
  mkdirSync(join(folder, "node_modules/@types"), { recursive: true });
  for (const name of ["@types/node", "undici-types"])
    symlinkSync(join(HERE, "node_modules", name), join(folder, "node_modules", name));
  writeFileSync(
    join(folder, "program.mts"),
    `import { createReadStream } from "node:fs";
    import { open, readFile } from "node:fs/promises";
    import { Readable } from "node:stream";
    import { Filter, FormatError, type Item } from "libbloom";
    const path = ${JSON.stringify(path)};
    const items: Item[] = ["item 0", new Uint8Array(3)];
    const filter: Filter = await Filter.load(await readFile(path), { atMost: 1e6 });
    await Filter.load(createReadStream(path));
    await Filter.load(Readable.toWeb(createReadStream(path)));
    await Filter.load((await open(path)).readableWebStream());
    await Filter.load(new Blob([await readFile(path)]));
    await Filter.load(Promise.resolve(new Response(await readFile(path))));
    await Filter.load((await crypto.subtle.digest("SHA-256", new Uint8Array(1)))).catch(() => undefined);
    new Blob([filter.toBytes()]);
    const answers: boolean[] = [filter.has(items[0]), ...filter.hasMany(new Set(items))];
    const wrong = () => [
      // @ts-expect-error: no item
      filter.has(7),
      // @ts-expect-error: no list
      filter.hasMany("item"),
      // @ts-expect-error: no source
      Filter.load(new URL("file:///filter.bloom")),
    ];
    console.log(JSON.stringify([filter.size, answers, new FormatError("x") instanceof Error, wrong.length]));
    process.exit();\n`,
  );
  writeFileSync(join(folder, "old.cjs"), `console.log(require("libbloom/package.json").name, require("libbloom").Filter.name);`);
  const compiler = join(HERE, "node_modules/typescript/bin/tsc");
  const options = ["--strict", "--target", "es2022", "--types", "node", "--skipLibCheck", "false"];
  for (const [module, resolution, ...lib] of [
    ["nodenext", "nodenext"],
    ["node16", "node16", "--lib", "es2022"],
    ["esnext", "bundler", "--lib", "es2022,dom"],
  ]) {
    const words = [...options, "--module", module, "--moduleResolution", resolution, ...lib, "program.mts"];
    run(process.execPath, [compiler, ...words]);
    const said = JSON.parse(run(process.execPath, ["program.mjs"]));
    assert.deepEqual(said, [figures[0], [true, true, false], true, 0], module);
  }
  assert.equal(run(process.execPath, ["--no-warnings", "old.cjs"]), "libbloom Filter\n");
});
