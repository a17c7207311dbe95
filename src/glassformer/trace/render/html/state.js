// What the page knows (the data in it, and where the reader is), and how its elements are made.
// Where one is stands in the address (#/step/place), so the browser's own back button follows the
// trail. Text goes onto the page as text, never as markup.

const data = JSON.parse(document.getElementById("data").textContent);
const place = (id) => document.getElementById(id);
const state = { lang: data.lang, step: 0, lead: 0, cell: null, top: 0, left: 0, sorted: false, all: false, exact: false };
const trail = [];

const steps = data.steps;
const tensors = new Tensors(steps);
const valuesOf = (number) => tensors.values(number);
const treeOf = (number, cell) => tensors.tree(number, cell);

function words(key, values = {}) {
  const text = data.words[state.lang][key];
  return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name]));
}

const expressions = new Expressions((step, at) => valuesOf(step)[at], (step) => steps[step], words);
const readers = steps.map(() => []);
steps.forEach((step, number) => step?.uses.forEach((used) => readers[used].push(number)));

function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return made;
}

const address = (step, cell) => `#/${step}${cell === null || cell === undefined ? "" : `/${cell}`}`;
const stepLink = (number, text) => el("a", { href: address(number), class: `role-${steps[number].role}` }, text);
const cellLink = (step, cell, text) =>
  steps[step]
    ? el("a", { href: address(step, cell), class: `role-${steps[step].role}`, title: cellName(steps[step], cell) }, text)
    : text;
const written = (parts) => parts.map((part) => (typeof part === "string" ? part : cellLink(part.step, part.place, part.text)));
const shorten = (step) => (full) => (step.module && full.startsWith(`${step.module}.`) ? full.slice(step.module.length + 1) : full);
/** What a position is called: a token's text, or the number of a head in the reader's language. */
function labelText(step, axis, at) {
  const label = step.labels[axis]?.[at];
  return typeof label === "object" ? words("head", label) : label;
}

const shapeText = (shape) => shape.join("×") || "1";
const digits = () => (state.exact ? 9 : 4);

/** What a usual name means in the field, in the reader's language; nothing for other names. */
function term(name) {
  const bare = name.split(".").filter((part) => !/^\d+$/.test(part)).pop() ?? "";
  return data.words[state.lang][`term: ${bare.replace(/^_+/, "")}`];
}

const meaning = (name) => (term(name) ? el("span", { class: "meaning" }, term(name)) : null);
const operator = (step) => (term(step.op) && term(step.op) !== step.op ? `${step.op} (${term(step.op)})` : step.op);
