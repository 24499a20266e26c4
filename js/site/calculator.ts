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

const LETTERS: Record<string, number> = { "": 1, k: 1e3, m: 1e6, b: 1e9, g: 1e9, t: 1e12 };

/** A whole number: 250000, 250,000, 10M or 1e9. */
function wholeNumber(field: string, { least, most }: { least: number; most: number }): number {
  const text = element<HTMLInputElement>(field).value.replace(/[\s,_']/g, "").toLowerCase();
  const [, digits, letter] = /^(\d+(?:\.\d+)?(?:e\+?\d+)?)([kmbgt]?)$/.exec(text) ?? [];
  const number = Math.round(Number(digits) * LETTERS[letter]);
  if (number >= least && number <= most) return number;
  throw new Wrong(field, `A whole number from ${shown(least)} to ${shown(most)}`);
}

/** A rate: 0.01, 1 %, 1e-6 or 1/1000. */
function errorRate(): number {
  const text = element<HTMLInputElement>("rate").value.replace(/\s/g, "").replace(",", ".").toLowerCase();
  const [, number, over, percent] = /^(\d*\.?\d+(?:e-?\d+)?)(?:\/(\d+))?(%?)$/.exec(text) ?? [];
  // A hundredth of a number that is not one in binary would be 0.0010000000000000002.
  const rate = Number((Number(number) / Number(over ?? 1) / (percent ? 100 : 1)).toPrecision(12));
  if (rate >= ERROR_RATES.least && rate <= ERROR_RATES.most) return rate;
  throw new Wrong("rate", `Above 0, and at most ${ERROR_RATES.most}, which is ${100 * ERROR_RATES.most} %`);
}

/** The filter, the command's words for it, and the numbers of items to show. */
function described(): { spec: Plan; words: string[]; items: number[] } {
  const kind = form.querySelector<HTMLInputElement>("[name=growth]:checked")!.value;
  for (const box of form.querySelectorAll<HTMLElement>("[data-for]")) {
    box.hidden = !box.dataset.for!.split(" ").includes(kind);
  }
  const items = wholeNumber("items", CAPACITIES);
  const rate = errorRate();
  const growth: Plan["growth"] = kind === "window" ? "reserved" : (kind as Plan["growth"]);
  const capacity = growth === "growing" ? wholeNumber("first", { least: CAPACITIES.least, most: items }) : items;
  const expansion = kind === "reserved" || kind === "growing" ? wholeNumber("expansion", EXPANSIONS) : 2;
  const spec: Plan = { errorRate: rate, capacity, growth, expansion };
  const words = [`${rate}`, `${capacity}`];
  if (expansion !== 2) words.push("EXPANSION", `${expansion}`);
  if (growth === "fixed") words.push("NONSCALING");
  if (growth === "growing") words.push("GROWING");
  if (kind !== "window") return { spec, words, items: growth === "growing" ? steps(capacity, items) : [1, 10, 100].map((times) => times * items) };
  words.push("WINDOW", element<HTMLSelectElement>("window").value);
  return { spec: { ...spec, slices: USUAL_SLICES }, words, items: [items, 2 * items, 10 * items] };
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
    const { spec, words, items } = described();
    const stages = items.map((number) => stageAt(spec, number)).filter((stage) => stage !== undefined);
    // Of as many items as the reader named.
    const stage = stages.find((one) => one.items === items[0]);
    if (!stage) throw new Wrong("expansion", "The filter would need more than 16 layers: more items at first, or a larger expansion");
    element("size").textContent = memory(stage.bytes);
    element("each").textContent = `for ${shown(stage.items)} items: ${digits(stage.bitsPerItem, 3)} bits an item`;
    const wrong = digits(1e6 * spec.errorRate, 3);
    element("meaning").textContent =
      spec.errorRate >= 1e-6
        ? `Of a million queries for items that are not there, at most about ${wrong} get a yes. Items that are there always do.`
        : `Of ${(1 / spec.errorRate).toExponential(1)} queries for items that are not there, at most about one gets a yes. Items that are there always do.`;
    result.querySelector("pre code")!.textContent = `BF.RESERVE seen ${words.join(" ")}`;
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
show();
