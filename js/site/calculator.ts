/** The calculator of the site: site/pages/calculator.md. */

import { CAPACITIES, ERROR_RATES, EXPANSIONS } from "../dist/sizing.js";
import { type Plan, type Stage, stageAt, USUAL_SLICES } from "./plan.js";

const element = <E extends HTMLElement>(id: string): E => document.getElementById(id) as E;
const form = element<HTMLFormElement>("calculator-form");

/** What is wrong with a field. */
class Wrong extends Error {
  constructor(
    readonly field: string,
    message: string,
  ) {
    super(message);
  }
}

const EXPONENTS: Record<string, number> = { k: 3, m: 6, b: 9, g: 9, t: 12 };

const written = (field: string): string => element<HTMLInputElement>(field).value.replace(/[\s_']/g, "").toLowerCase();

/** A whole number: 250000, 250,000, 1.5M, 1,5M or 1e9. A comma before three digits groups them, any other is a decimal comma. */
function wholeNumber(field: string, { least, most }: { least: number; most: number }): number {
  const text = written(field);
  const isGrouped = /^[1-9]\d{0,2}(,\d{3})+(?![\d,])/.test(text);
  const plain = isGrouped ? text.replaceAll(",", "") : text.replace(",", ".");
  const [, digits, exponent, letter] = /^(\d+(?:\.\d+)?)(?:e\+?(\d+)|([kmbgt]))?$/.exec(plain) ?? [];
  const number = Number(`${digits}e${exponent ?? EXPONENTS[letter] ?? 0}`);
  if (Number.isInteger(number) && number >= least && number <= most) return number;
  throw new Wrong(field, `A whole number from ${shown(least)} to ${shown(most)}`);
}

/** A rate: 0.01, 1 %, 1e-6 or 1/1000. */
function rateOf(field: string): number {
  const text = written(field).replace(",", ".");
  const [, number, over, percent] = /^(\d*\.?\d+(?:e-?\d+)?)(?:\/(\d+))?(%?)$/.exec(text) ?? [];
  // A hundredth of a number that is not one in binary would be 0.0010000000000000002.
  const rate = Number((Number(number) / Number(over ?? 1) / (percent ? 100 : 1)).toPrecision(12));
  if (rate >= ERROR_RATES.least && rate <= ERROR_RATES.most) return rate;
  throw new Wrong(field, `Above 0, and at most ${ERROR_RATES.most}, which is ${100 * ERROR_RATES.most} %`);
}

/** The filter, how each language says it, and the numbers of items to show. */
function described(): { spec: Plan; codes: string[]; items: number[] } {
  const kind = form.querySelector<HTMLInputElement>("[name=growth]:checked")!.value;
  for (const box of form.querySelectorAll<HTMLElement>("[data-for]")) {
    box.hidden = !box.dataset.for!.split(" ").includes(kind);
    for (const field of box.querySelectorAll<HTMLInputElement>("input, select")) field.disabled = box.hidden;
  }
  const items = wholeNumber("items", CAPACITIES);
  const errorRate = rateOf("rate");
  const growth = kind === "window" ? "reserved" : (kind as Plan["growth"]);
  const capacity = growth === "growing" ? wholeNumber("first", { least: CAPACITIES.least, most: items }) : items;
  const expansion = kind === "reserved" || kind === "growing" ? wholeNumber("expansion", EXPANSIONS) : 2;
  const spec: Plan = { errorRate, capacity, growth, expansion };
  const window = kind === "window" ? Number(element<HTMLSelectElement>("window").value) : undefined;
  const codes = codesOf(spec, window);
  if (window) return { spec: { ...spec, slices: USUAL_SLICES }, codes, items: [items, 2 * items, 10 * items] };
  return { spec, codes, items: growth === "growing" ? steps(capacity, items) : [1, 10, 100].map((times) => times * items) };
}

/** What makes the filter: a command, and the same in Python, Rust and JavaScript, in the order of the page. */
function codesOf({ errorRate, capacity, growth, expansion }: Plan, window?: number): string[] {
  const number = shown(capacity).replaceAll(",", "_");
  /** The options that differ from the usual ones, in the words of a language. */
  const options = (expands: string, fixed: string, grows: string, forgets: string): string =>
    [expansion !== 2 && expands, growth === "fixed" && fixed, growth === "growing" && grows, window && forgets].filter(Boolean).join("");
  const words = options(` EXPANSION ${expansion}`, " NONSCALING", " GROWING", ` WINDOW ${window}`);
  const named = options(`, expansion=${expansion}`, ", fixed=True", ", growing=True", `, window=${window}`);
  const calls = options(`.expansion(${expansion})`, ".fixed()", ".growing()", `.window(Duration::from_secs(${window}))`);
  const fields = options(`, expansion: ${expansion}`, ", fixed: true", ", growing: true", "");
  const duration = window ? "use std::time::Duration;\n\n" : "";
  return [
    `BF.RESERVE seen ${errorRate} ${capacity}${words}`,
    `from libbloom import Filter\n\nseen = Filter(${number}, ${errorRate}${named})`,
    `${duration}use libbloom::Filter;\n\nlet mut seen = Filter::builder(${number}, ${errorRate})${calls}.build()?;`,
    window
      ? `// The package makes no windows, a server does.\nawait client.bloom.reserve("seen", ${errorRate}, ${number}, { WINDOW: ${window} });`
      : `import { Filter } from "libbloom";\n\nconst seen = Filter.create({ capacity: ${number}, errorRate: ${errorRate}${fields} });`,
  ];
}

/** The fields as the address of this page has them, and as it is given to others. */
function readAddress(): void {
  for (const [name, value] of new URLSearchParams(location.search)) {
    const field = form.elements.namedItem(name);
    if (field instanceof RadioNodeList || field instanceof HTMLInputElement) field.value = value;
    if (field instanceof HTMLSelectElement && [...field.options].some((option) => option.value === value)) field.value = value;
  }
}

function address(): string {
  return `?${new URLSearchParams([...new FormData(form)] as string[][])}`;
}

/** Numbers of items from the first layer's to the last, the last one first. */
function steps(capacity: number, items: number): number[] {
  const between: number[] = [];
  for (let number = capacity; number < items && between.length < 4; number *= 10) between.push(number);
  return [items, ...between.reverse()];
}

const shown = (number: number): string => number.toLocaleString("en");
const digits = (number: number, significant: number): string =>
  number.toLocaleString("en", { maximumSignificantDigits: significant });

/** Bytes, in units of 1,000. */
function memory(bytes: number): string {
  const units = ["bytes", "kB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  let number = bytes;
  for (; number >= 999.5 && unit < units.length - 1; unit += 1) number /= 1000;
  return `${digits(number, 3)} ${units[unit]}`;
}

function rateText(rate: number): string {
  return rate >= 1e-4 ? `${digits(100 * rate, 3)} %` : rate.toExponential(2);
}

function row({ items, bytes, layers, bitsPerItem, errorRate: rate }: Stage): HTMLTableRowElement {
  const line = document.createElement("tr");
  const cells = [shown(items), memory(bytes), shown(bytes), bitsPerItem.toFixed(2), `${layers}`, rateText(rate)];
  line.append(...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
  return line;
}

function show(): void {
  for (const note of form.querySelectorAll(".wrong")) note.textContent = "";
  for (const input of form.querySelectorAll("input")) input.removeAttribute("aria-invalid");
  const result = element("result");
  try {
    const { spec, codes, items } = described();
    const stages = items.map((number) => stageAt(spec, number)).filter((stage) => stage !== undefined);
    // Of as many items as the reader named.
    const stage = stages.find((one) => one.items === items[0]);
    if (!stage) throw new Wrong("expansion", "The filter would need more than 16 layers: more items at first, or a larger expansion");
    element("size").textContent = memory(stage.bytes);
    element("each").textContent = `for ${shown(stage.items)} items: ${digits(stage.bitsPerItem, 3)} bits per item`;
    const wrong = digits(1e6 * spec.errorRate, 3);
    element("meaning").textContent =
      spec.errorRate >= 1e-6
        ? `Of a million queries for items that are not there, at most about ${wrong} get a yes. Items that are there always do.`
        : `Of ${(1 / spec.errorRate).toExponential(1)} queries for items that are not there, at most about one gets a yes. Items that are there always do.`;
    for (const [at, code] of result.querySelectorAll("pre code").entries()) code.textContent = codes[at];
    element<HTMLAnchorElement>("link").href = address();
    element("stages").replaceChildren(...stages.sort((one, other) => one.items - other.items).map(row));
    result.hidden = false;
  } catch (error) {
    if (!(error instanceof Wrong)) throw error;
    element(`${error.field}-wrong`).textContent = error.message;
    element(error.field).setAttribute("aria-invalid", "true");
    result.hidden = true;
  }
}

form.addEventListener("input", show);
form.addEventListener("submit", (event) => event.preventDefault());
readAddress();
show();
