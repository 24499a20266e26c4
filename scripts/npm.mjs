#!/usr/bin/env node
// Packs js/dist, which `make js/build/ready` makes, as the npm package: libbloom-VERSION.tgz.
//
// usage: scripts/npm.mjs FOLDER
//
// The same sources give the same bytes. In the package is what users need, and a bill of materials. $REPOSITORY_URL and
// $SITE_URL, which the release sets, are named in its manifest.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const folder = process.argv[2];
if (!folder || process.argv.length !== 3) {
  console.error("usage: scripts/npm.mjs FOLDER");
  process.exit(2);
}
const project = fileURLToPath(new URL("..", import.meta.url));
const {
  devDependencies: _,
  scripts: __,
  ...manifest
} = JSON.parse(readFileSync(join(project, "js/package.json"), "utf8"));
const { name, version, license, dependencies = {} } = manifest;
const { REPOSITORY_URL, SITE_URL } = process.env;
if (REPOSITORY_URL) {
  const repository = { type: "git", url: `git+${REPOSITORY_URL}.git`, directory: "js" };
  Object.assign(manifest, { repository, homepage: SITE_URL || `${REPOSITORY_URL}#readme` });
}
const stage = mkdtempSync(join(tmpdir(), "libbloom-npm-"));
try {
  cpSync(join(project, "js/dist"), join(stage, "dist"), { recursive: true });
  for (const file of ["js/README.md", "LICENSE"]) cpSync(join(project, file), join(stage, file.replace("js/", "")));
  write("package.json", manifest);
  write("libbloom.cdx.json", bill());
  mkdirSync(folder, { recursive: true });
  const words = ["pack", stage, "--pack-destination", resolve(folder), "--silent"];
  console.log(join(folder, execFileSync("npm", words, { encoding: "utf8" }).trim()));
} finally {
  rmSync(stage, { recursive: true });
}

function write(file, content) {
  writeFileSync(join(stage, file), `${JSON.stringify(content, null, 2)}\n`);
}

/** What the package is made of, as CycloneDX. */
function bill() {
  if (Object.keys(dependencies).length > 0) throw new Error("the bill of materials knows of no dependencies");
  const reference = `pkg:npm/${name}@${version}`;
  const files = readdirSync(join(stage, "dist")).sort();
  const sum = (file) =>
    createHash("sha256")
      .update(readFileSync(join(stage, "dist", file)))
      .digest("hex");
  return {
    bomFormat: "CycloneDX",
    specVersion: "1.5",
    version: 1,
    metadata: {
      component: {
        type: "library",
        "bom-ref": reference,
        name,
        version,
        purl: reference,
        licenses: [{ expression: license }],
        components: files.map((file) => ({
          type: "file",
          name: `dist/${file}`,
          hashes: [{ alg: "SHA-256", content: sum(file) }],
        })),
      },
    },
    components: [],
    dependencies: [{ ref: reference, dependsOn: [] }],
  };
}
