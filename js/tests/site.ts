// The site in a real Chromium, served under a folder of a host, as GitHub Pages does: `make test-site`.

import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync, readFileSync, readdirSync, statSync } from "node:fs";
import { createServer, type Server as HttpServer } from "node:http";
import { extname, join } from "node:path";
import test, { after, before } from "node:test";
import { Chromium, type Page } from "./chromium.js";
import { stageAt } from "../build/plan.js";
import { PATIENCE, PROJECT } from "./support.js";

const SITE = join(PROJECT, ".build/site");
const BASE = "/a/folder/";
const TYPES: Record<string, string> = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".css": "text/css",
  ".json": "application/json",
  ".svg": "image/svg+xml",
  ".png": "image/png",
};
const PHONE = 360;

/** The addresses of all pages, below the site's. */
const pages = readdirSync(SITE, { recursive: true, encoding: "utf8" })
  .filter((name) => /(^|\/)index\.html$/.test(name))
  .map((name) => name.replace(/index\.html$/, ""))
  .sort();

/** The worker of the search makes an index for each page, which takes long, so that only one test has it. */
const SEARCH = /\/workers\/search\./;
let hasSearch = false;

let server: HttpServer;
let browser: Chromium;
let origin: string;

before(async () => {
  server = createServer((request, response) => {
    const { pathname } = new URL(request.url!, "http://host");
    let file = pathname.startsWith(BASE) ? join(SITE, decodeURIComponent(pathname.slice(BASE.length))) : "";
    if (file && existsSync(file) && statSync(file).isDirectory()) file = join(file, "index.html");
    if (!file || !existsSync(file)) return response.writeHead(404).end();
    const isLeftOut = SEARCH.test(pathname) && !hasSearch;
    response.writeHead(200, { "content-type": TYPES[extname(file)] ?? "text/plain" });
    response.end(isLeftOut ? "" : readFileSync(file));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  origin = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
  browser = new Chromium();
});
after(async () => {
  await browser?.stop();
  server.closeAllConnections();
  server.close();
});

/** Opens a page of the site, and checks at the end that nothing went wrong, and that nobody else was asked. */
async function withPage(width: number, work: (page: Page, go: (path: string) => Promise<void>) => Promise<void>) {
  const page = await browser.open();
  await page.show(width, 800);
  await work(page, (path) => page.go(`${origin}${BASE}${path}`));
  assert.deepEqual(page.errors, []);
  assert.deepEqual(
    page.requests.filter((url) => !url.startsWith(`${origin}${BASE}`) && !/^(data|blob):/.test(url)),
    [],
  );
  assert.ok(page.requests.length > 0);
}

test("pages fit a phone, and each link leads somewhere", { timeout: PATIENCE }, async () => {
  assert.ok(pages.length > 60, `${pages.length}`);
  const anchors = new Map<string, Set<string>>();
  const links: Array<[from: string, to: URL]> = [];
  const wide: string[] = [];
  await withPage(PHONE, async (page, go) => {
    for (const path of pages) {
      await go(path);
      const { ids, hrefs, width } = await page.value<{ ids: string[]; hrefs: string[]; width: number }>(`({
        ids: [...document.querySelectorAll("[id]")].map((element) => element.id),
        hrefs: [...document.querySelectorAll("a[href], link[href]")].map((element) => element.href),
        width: document.documentElement.scrollWidth,
      })`);
      if (width > PHONE) wide.push(`${path}: ${width}`);
      anchors.set(`${BASE}${path}`, new Set(ids));
      for (const href of hrefs) links.push([path, new URL(href)]);
    }
  });
  assert.deepEqual(wide, []);
  const inside = links.filter(([, to]) => to.origin === origin);
  assert.ok(inside.length > 20 * pages.length);
  const dead = inside.filter(([, { pathname, hash }]) => {
    const ids = anchors.get(pathname);
    // The top of a page needs no element.
    if (ids) return hash.length > 1 && !ids.has(decodeURIComponent(hash.slice(1)));
    return !pathname.startsWith(BASE) || !existsSync(join(SITE, pathname.slice(BASE.length)));
  });
  assert.deepEqual(
    dead.map(([from, to]) => `${from}: ${to.pathname}${to.hash}`),
    [],
  );
});

// A new page would be written, and nobody would find it.
test("the navigation is the list of docs/README.md", async () => {
  const index = readFileSync(join(PROJECT, "docs/README.md"), "utf8");
  const sections = index.split("\n## ").slice(1);
  await withPage(1280, async (page, go) => {
    await go("docs/");
    const shownSections = await page.value<string[]>(
      `[...document.querySelectorAll(".md-nav--primary > ul > li")].map((one) => one.querySelector(".md-nav__link").innerText.trim())`,
    );
    const headings = sections.map((section) => section.slice(0, section.indexOf("\n")));
    assert.deepEqual(shownSections, ["Start", "Try", ...headings, "All pages"]);
    const shown = await page.value<string[]>(
      `[...document.querySelectorAll(".md-nav--primary a.md-nav__link")].map((link) => new URL(link.href).pathname)`,
    );
    const listed = [...index.matchAll(/\]\(([^)#]+)\.md/g)].map(
      ([, link]) => new URL(`${link}/`.replace("README/", ""), `${origin}${BASE}docs/`).pathname,
    );
    // Single commands stand below the list of all commands.
    const own = [...new Set(listed)].filter((path) => !/\/commands\/./.test(path));
    assert.ok(own.length > 20);
    assert.deepEqual(
      [...new Set(shown)].filter((path) => own.includes(path)),
      own,
    );
    assert.ok(shown.indexOf(`${BASE}docs/commands/bf.shrink/`) > shown.indexOf(`${BASE}docs/commands/`));
  });
});

test("search finds a command by its bare name first, and no program", { timeout: PATIENCE }, async () => {
  hasSearch = true;
  const names = pages.flatMap((path) => /^docs\/commands\/(bf\.(\w+))\/$/.exec(path)?.slice(1) ?? []);
  assert.ok(names.length > 30);
  await withPage(1280, async (page, go) => {
    await go("");
    await page.press("/", 191, "/");
    await page.until(`document.activeElement.matches(".md-search__input")`);
    const first = `document.querySelector(".md-search-result__link")?.pathname`;
    for (const name of ["BF.SHRINK", ...names]) {
      await page.value(`document.querySelector(".md-search__input").select()`);
      await page.type(name);
      await page.press("End", 35);
      const own = `${BASE}docs/commands/bf.${name.replace(/^bf\./i, "").toLowerCase()}/`;
      await page.until(`${first} === "${own}"`, `${name} finds ${own}`);
    }
    const { docs } = await page.value<{ docs: Array<{ location: string }> }>(`fetch("search/search_index.json").then((answer) => answer.json())`);
    assert.deepEqual(docs.filter(({ location }) => /\.(py|ts|rs|java|lua|yml)\//.test(location)), []);
    await page.click(".md-search-result__link");
    await page.until(`document.querySelector("h1")?.innerText.startsWith("BF.")`);
  });
  hasSearch = false;
});

test("light and dark, as the system has it or as the reader chooses", { timeout: PATIENCE }, async () => {
  await withPage(1280, async (page, go) => {
    const isDark = async () => {
      const colour = await page.value<string>("getComputedStyle(document.body).backgroundColor");
      return colour.match(/[\d.]+/g)!.slice(0, 3).every((part) => Number(part) < 80);
    };
    await go("docs/sizing/");
    assert.equal(await isDark(), false);
    await page.show(1280, 800, "dark");
    await page.until(isDark, "dark, as the system has it");
    // The next choice is light.
    await page.click("form.md-header__option label:not([hidden])");
    await page.until(async () => !(await isDark()), "light, as chosen");
    await go("docs/windows/");
    assert.equal(await isDark(), false);
    await page.click("form.md-header__option label:not([hidden])");
    await page.until(isDark, "dark, as chosen");
  });
});

/** Sets a field as a reader does. */
async function fill(page: Page, id: string, text: string): Promise<void> {
  await page.value(`document.getElementById("${id}").select()`);
  await page.click(`#${id}`);
  await page.value(`document.getElementById("${id}").select()`);
  await page.type(text);
}

test("the calculator", { timeout: PATIENCE }, async () => {
  await withPage(1280, async (page, go) => {
    await go("calculator/");
    const command = () => page.text("#result pre code");
    const rows = () =>
      page.value<string[][]>(
        `[...document.querySelectorAll("#stages tr")].map((row) => [...row.cells].map((cell) => cell.textContent))`,
      );
    assert.equal((await command()).trim(), "BF.RESERVE seen 0.01 1000000");
    const spec = { errorRate: 0.01, capacity: 1_000_000, growth: "reserved", expansion: 2 } as const;
    const { bytes } = stageAt(spec, 1_000_000)!;
    assert.equal((await rows())[0][2], bytes.toLocaleString("en"));

    await fill(page, "items", "10M");
    await fill(page, "rate", "0.1 %");
    await page.click("[value=fixed]");
    assert.equal((await command()).trim(), "BF.RESERVE seen 0.001 10000000 NONSCALING");
    assert.equal((await rows()).length, 1);

    await page.click("[value=growing]");
    await fill(page, "first", "1000");
    await fill(page, "expansion", "4");
    assert.equal((await command()).trim(), "BF.RESERVE seen 0.001 1000 EXPANSION 4 GROWING");
    const grown = stageAt({ errorRate: 0.001, capacity: 1000, growth: "growing", expansion: 4 }, 10_000_000)!;
    assert.equal((await rows()).at(-1)![2], grown.bytes.toLocaleString("en"));

    // With the keyboard alone.
    await page.value(`document.querySelector("[value=growing]").focus()`);
    await page.press("ArrowDown", 40);
    assert.equal((await command()).trim(), "BF.RESERVE seen 0.001 10000000 WINDOW 86400");
    const window = stageAt({ errorRate: 0.001, capacity: 10_000_000, growth: "reserved", expansion: 2, slices: 8 }, 10_000_000)!;
    assert.equal((await rows())[0][2], window.bytes.toLocaleString("en"));

    for (const wrong of ["", "-3", "many", "1e99", "0", "1.4", "1,5", "1,234,56", "1.2345k"]) {
      await fill(page, "items", wrong || " ");
      assert.match(await page.text("#items-wrong"), /^A whole number from 1 to /);
      assert.equal(await page.value(`document.getElementById("result").hidden`), true);
    }
    await fill(page, "items", "5");
    for (const wrong of ["1", "0", "2 in 7", "30 %"]) {
      await fill(page, "rate", wrong);
      assert.match(await page.text("#rate-wrong"), /^Above 0/, wrong);
    }
    for (const [text, rate] of [["1/1000", "0.001"], ["0,1 %", "0.001"], ["0,001", "0.001"], ["1e-9", "1e-9"]]) {
      await fill(page, "rate", text);
      assert.equal((await command()).trim(), `BF.RESERVE seen ${rate} 5 WINDOW 86400`);
    }
    for (const [text, items] of [["250,000", 250_000], ["1,234,567", 1_234_567], ["1,5M", 1_500_000], ["1.1M", 1_100_000], ["0,5 k", 500], ["1e9", 1e9]]) {
      await fill(page, "items", `${text}`);
      assert.equal((await command()).trim(), `BF.RESERVE seen 1e-9 ${items} WINDOW 86400`);
    }
    assert.equal(await page.value(`document.querySelectorAll("[aria-invalid]").length`), 0);

    // Whoever opens the link sees the same.
    const link = await page.value<string>(`document.getElementById("link").search`);
    await go("calculator/");
    await go(`calculator/${link}`);
    assert.equal((await command()).trim(), "BF.RESERVE seen 1e-9 1000000000 WINDOW 86400");
    await go("calculator/?items=20&rate=1%25&growth=growing&first=10&expansion=4&window=7&other=1");
    const codes = await page.value<string[]>(`[...document.querySelectorAll("#result pre code")].map((code) => code.textContent)`);
    assert.deepEqual(codes, [
      "BF.RESERVE seen 0.01 10 EXPANSION 4 GROWING",
      "from libbloom import Filter\n\nseen = Filter(10, 0.01, expansion=4, growing=True)",
      "use libbloom::Filter;\n\nlet mut seen = Filter::builder(10, 0.01).expansion(4).growing().build()?;",
      'import { Filter } from "libbloom";\n\nconst seen = Filter.create({ capacity: 10, errorRate: 0.01, expansion: 4, growing: true });',
    ]);
  });
});

test("the filter that one can watch", { timeout: PATIENCE }, async () => {
  await withPage(PHONE, async (page, go) => {
    await go("watch/");
    const ones = () => page.value<number>(`document.querySelectorAll("#bits .set").length`);
    const said = () => page.text("#said");
    assert.equal(await ones(), 0);
    await page.click("#word");
    await page.type("hello");
    assert.equal(await page.value(`document.querySelectorAll("#bits .seen").length`), 4);
    await page.press("Enter", 13, "\r");
    await page.until(`document.querySelectorAll("#bits .set").length === 4`);
    assert.equal(await said(), "“hello” is new. It set 4 bits.");
    await page.click("[value=ask]");
    assert.match(await said(), /^“hello”: probably there\..* it was indeed added\.$/);
    await fill(page, "word", "world");
    await page.click("[value=ask]");
    assert.match(await said(), /^“world”: certainly not there\./);
    await page.click("[value=find]");
    assert.match(await said(), /^None of [\d,]+ other words/);
    const filled = async () => {
      await page.click("[value=more]");
      return (await said()).startsWith("The filter is full");
    };
    await page.until(filled, "the filter is full");
    assert.equal(await page.text("#size"), "80 of 80");
    const set = await ones();
    assert.ok(set > 200 && set < 320, `${set}`);
    await page.click("[value=find]");
    assert.match(await said(), /nobody added it: a false positive\. Its bits were set by “/);
    const measured = parseFloat(await page.text("#measured"));
    assert.ok(measured > 3 && measured < 7, `${measured}`);
    await page.click("[value=reset]");
    assert.equal(await ones(), 0);
    assert.equal(await page.value("document.documentElement.scrollWidth"), PHONE);
  });
});

const AXE = readFileSync(join(PROJECT, "js/node_modules/axe-core/axe.min.js"), "utf8");
const READ_ALOUD = ["", "watch/", "calculator/", "docs/", "docs/tutorial/", "docs/sizing/", "docs/commands/", "docs/commands/bf.plan/", "docs/configuration/", "404.html"];

test("whoever cannot see well, or has pages read aloud, has all of them", { timeout: PATIENCE }, async () => {
  await withPage(1280, async (page, go) => {
    for (const scheme of ["light", "dark"] as const) {
      await page.show(1280, 800, scheme);
      for (const path of READ_ALOUD) {
        await go(path);
        await page.value(`${AXE}; undefined`);
        const findings = `axe.run().then(({ violations }) => violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => id + ": " + html)))`;
        assert.deepEqual(await page.value(findings), [], `${path} ${scheme}`);
      }
    }
  });
});
