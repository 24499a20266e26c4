/** The page of the site on which one can watch a filter: site/pages/watch.md. */

import { Filter } from "../dist/filter.js";
import { nextShape, rateOf } from "../dist/sizing.js";

const WORDS =
  "apple river stone cloud garden window candle forest bridge silver honey winter basket copper meadow pencil rabbit " +
  "sailor thunder violet wagon yellow anchor butter castle dragon engine feather guitar hammer island jacket kettle " +
  "lantern marble needle orange pepper quilt ribbon saddle tunnel umbrella valley whistle acorn beacon cactus dolphin " +
  "eagle falcon ginger harbor insect jungle kitten ladder magnet nectar oyster parrot rocket shadow tiger velvet walnut " +
  "zebra almond barrel canyon desert ember fabric glacier hazel ivory jasmine lemon mirror nutmeg olive pebble raven " +
  "spruce timber urchin vapor willow yarn zenith bamboo cherry drum elbow flute";

const words = WORDS.split(" ");
/** Words that nobody adds, unless a reader does: pairs of others. */
const others = words.flatMap((first) => words.filter((second) => second !== first).map((second) => `${first} ${second}`));
const AT_ONCE = 10;

const element = <E extends HTMLElement>(id: string): E => document.getElementById(id) as E;
const form = element<HTMLFormElement>("watch-form");
const field = element<HTMLInputElement>("word");
const bits = element("bits");

const SPEC = { errorRate: 0.05, capacity: 80, seed: 1n, fixed: true };
const shape = nextShape({ ...SPEC, growth: "fixed", expansion: 0 }, []);

let filter: Filter;
let added: string[];
/** Which word set a bit. */
let setBy: Map<number, string>;
/** False positives that were shown. */
let shown: Set<string>;

function reset(): void {
  filter = Filter.create(SPEC);
  added = [];
  setBy = new Map();
  shown = new Set();
  bits.replaceChildren(...Array.from({ length: 8 * filter.sizeInBytes }, () => document.createElement("i")));
}

/** The places of a filter's set bits. */
function setBits(of: Filter): Set<number> {
  const [, [, data] = [0, new Uint8Array(0)]] = of.chunks();
  const places = Array.from({ length: 8 * data.length }, (_, place) => place);
  return new Set(places.filter((place) => ((data[place >> 3] >> (place & 7)) & 1) === 1));
}

/** The places of the bits that a word sets: those of a filter of nothing else. */
function placesOf(word: string): number[] {
  const alone = Filter.create(SPEC);
  alone.add(word);
  return [...setBits(alone)];
}

/** Adds a word, and says what that did. */
function add(word: string): string {
  const places = placesOf(word);
  const set = setBits(filter);
  const unset = places.filter((place) => !set.has(place));
  if (added.includes(word)) return `“${word}” was there already.`;
  if (unset.length === 0) return `“${word}” is a false positive: all of its bits were set already, by ${settersOf(places)}. Nothing changes.`;
  if (isFull()) return `The filter is full: it is made for ${filter.capacity} words. “${word}” is refused.`;
  filter.add(word);
  added.push(word);
  for (const place of unset) setBy.set(place, word);
  const before = places.length - unset.length;
  return `“${word}” is new. It set ${count(unset.length, "bit")}${before ? `; ${before} of its ${places.length} were set already, by ${settersOf(places, word)}` : ""}.`;
}

function isFull(): boolean {
  return filter.size >= filter.capacity;
}

function ask(word: string): string {
  const places = placesOf(word);
  const set = setBits(filter);
  const unset = places.filter((place) => !set.has(place)).length;
  if (!filter.has(word)) return `“${word}”: certainly not there. ${unset} of its ${places.length} bits ${unset === 1 ? "is" : "are"} not set.`;
  if (added.includes(word)) return `“${word}”: probably there. All of its ${places.length} bits are set, and it was indeed added.`;
  return `“${word}”: probably there, says the filter. But nobody added it: a false positive. Its bits were set by ${settersOf(places)}.`;
}

function addMore(): string {
  const next = words.filter((word) => !added.includes(word) && !filter.has(word));
  if (next.length === 0) return "There are no further words.";
  if (isFull()) return add(next[0]);
  const more = next.slice(0, Math.min(AT_ONCE, filter.capacity - filter.size));
  for (const word of more) add(word);
  field.value = "";
  return `Added ${more.join(", ")}.`;
}

function find(): string {
  const found = falsePositives();
  const next = found.find((word) => !shown.has(word)) ?? found[0];
  if (!next) return `None of ${others.length.toLocaleString("en")} other words gets a yes. Add more words first.`;
  shown.add(next);
  field.value = next;
  return ask(next);
}

function falsePositives(): string[] {
  return others.filter((word) => filter.has(word) && !added.includes(word));
}

/** The words that set these bits, except one. */
function settersOf(places: number[], but?: string): string {
  const setters = places.map((place) => setBy.get(place)).filter((word) => word && word !== but);
  const each = [...new Set(setters)].map((word) => `“${word}”`);
  return each.length < 2 ? each.join("") : `${each.slice(0, -1).join(", ")} and ${each.at(-1)}`;
}

const count = (number: number, name: string): string => `${number} ${name}${number === 1 ? "" : "s"}`;
const percent = (part: number): string => `${(100 * part).toLocaleString("en", { maximumSignificantDigits: 2 })} %`;

/** Shows the filter, and which bits a word has. */
function show(said?: string): void {
  if (said) element("said").textContent = said;
  const places = new Set(field.value ? placesOf(field.value) : []);
  const set = setBits(filter);
  for (const [place, cell] of [...bits.children].entries()) {
    cell.className = `${set.has(place) ? "set" : ""} ${places.has(place) ? "seen" : ""}`.trim();
  }
  if (!said) return;
  const total = 8 * filter.sizeInBytes;
  const wrong = falsePositives().length;
  element("size").textContent = `${filter.size} of ${filter.capacity}`;
  element("fill").textContent = `${set.size} of ${total} (${percent(set.size / total)})`;
  element("rate").textContent = percent(rateOf(shape, filter.size));
  element("measured").textContent = `${percent(wrong / others.length)} (${wrong.toLocaleString("en")} of ${others.length.toLocaleString("en")})`;
  element("added").textContent = added.length ? added.join(", ") : "nothing yet";
  bits.setAttribute("aria-label", `The bits of the filter: ${set.size} of ${total} are set.`);
}

const ACTIONS: Record<string, () => string | undefined> = {
  add: () => (field.value ? add(field.value) : undefined),
  ask: () => (field.value ? ask(field.value) : undefined),
  more: addMore,
  find,
  reset: () => {
    reset();
    field.value = "";
    return "The filter is empty.";
  },
};

form.addEventListener("submit", (event) => {
  event.preventDefault();
  act((event.submitter as HTMLButtonElement | null)?.value ?? "add");
  field.select();
});
form.addEventListener("click", ({ target }) => {
  if (target instanceof HTMLButtonElement && target.type === "button") act(target.value);
});
field.addEventListener("input", () => show());

function act(name: string): void {
  const said = ACTIONS[name]();
  if (said) show(said);
  else field.focus();
}

reset();
show(element("said").textContent!);
