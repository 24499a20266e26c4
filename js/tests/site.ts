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

test("search finds a command", { timeout: PATIENCE }, async () => {
  hasSearch = true;
  await withPage(1280, async (page, go) => {
    await go("");
    await page.press("/", 191, "/");
    await page.until(`document.activeElement.matches(".md-search__input")`);
    await page.type("BF.SHRINK");
    await page.until(`document.querySelector(".md-search-result__link")`);
    const first = await page.value<string>(`document.querySelector(".md-search-result__link").href`);
    assert.equal(new URL(first).pathname, `${BASE}docs/commands/bf.shrink/`);
    await page.click(".md-search-result__link");
    await page.until(`document.querySelector("h1")?.innerText.startsWith("BF.SHRINK")`);
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

    for (const wrong of ["", "-3", "many", "1e99", "0"]) {
      await fill(page, "items", wrong || " ");
      assert.match(await page.text("#items-wrong"), /^A whole number from 1 to /);
      assert.equal(await page.value(`document.getElementById("result").hidden`), true);
    }
    await fill(page, "items", "5");
    for (const wrong of ["1", "0", "2 in 7", "30 %"]) {
      await fill(page, "rate", wrong);
      assert.match(await page.text("#rate-wrong"), /^Above 0/, wrong);
    }
    await fill(page, "rate", "1/1000");
    assert.equal((await command()).trim(), "BF.RESERVE seen 0.001 5 WINDOW 86400");
    assert.equal(await page.value(`document.querySelectorAll("[aria-invalid]").length`), 0);
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

/** The least contrast of a text and what lies under it, and fields without a name. */
const ACCESS = `(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const over = (colours) => {
    canvas.reset();
    for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((part) => (part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const low = [];
  for (const element of document.querySelectorAll(".md-content *, .md-nav *")) {
    const text = [...element.childNodes].filter((node) => node.nodeType === 3 && node.textContent.trim()).length;
    if (!text || !element.checkVisibility({ opacityProperty: true })) continue;
    const grounds = [];
    for (let up = element; up; up = up.parentElement) grounds.unshift(getComputedStyle(up).backgroundColor);
    const ground = ["white", ...grounds];
    const [one, other] = [over(ground), over([...ground, getComputedStyle(element).color])].map(light);
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5) low.push(element.tagName + "." + element.className + " " + element.textContent.slice(0, 30) + " " + contrast.toFixed(2));
  }
  const fields = document.querySelectorAll(".md-content :is(input, select, textarea)");
  return { low, nameless: [...fields].filter((field) => field.labels.length === 0).map((field) => field.id) };
})()`;

test("texts have contrast, and fields have names", { timeout: PATIENCE }, async () => {
  await withPage(1280, async (page, go) => {
    for (const scheme of ["light", "dark"] as const) {
      await page.show(1280, 800, scheme);
      for (const path of ["", "watch/", "calculator/", "docs/commands/bf.plan/"]) {
        await go(path);
        assert.deepEqual(await page.value(ACCESS), { low: [], nameless: [] }, `${path} ${scheme}`);
      }
    }
  });
});
