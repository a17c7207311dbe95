
// The page: a list of steps, the matrix of the chosen one, the card of the chosen cell. Where one
// is stands in the address (#/step/place), so the browser's own back button follows the trail.
// Text goes onto the page as text, never as markup.

(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const place = (id) => document.getElementById(id);
  const state = { lang: data.lang, step: 0, lead: 0, cell: null, top: 0, left: 0, sorted: false, all: false, exact: false };
  const trail = [];

  // --- what is known ---

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

  // --- making elements ---

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
  const shapeText = (shape) => shape.join("×") || "1";
  const digits = () => (state.exact ? 9 : 4);

  /** What a usual name means in the field, in the reader's language; nothing for other names. */
  function term(name) {
    const bare = name.split(".").filter((part) => !/^\d+$/.test(part)).pop() ?? "";
    return data.words[state.lang][`term: ${bare.replace(/^_+/, "")}`];
  }

  const meaning = (name) => (term(name) ? el("span", { class: "meaning" }, term(name)) : null);
  const operator = (step) => (term(step.op) && term(step.op) !== step.op ? `${step.op} (${term(step.op)})` : step.op);

  // --- colours ---

  function between(stops, share) {
    const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    return stops[low].map((part, channel) => Math.round(part + (stops[low + 1][channel] - part) * (at - low)));
  }

  function colourOf(scale, value) {
    if (!scale || !Number.isFinite(value)) return null;
    const [kind, limit] = scale;
    return between(data.colours[kind], kind === "signed" ? (value / limit + 1) / 2 : value);
  }

  const inkOn = ([red, green, blue]) => (0.299 * red + 0.587 * green + 0.114 * blue > 140 ? "#000" : "#fff");

  // --- the list of steps ---

  function drawList() {
    const find = el("input", {
      type: "search", id: "find", placeholder: words("find"), "aria-label": words("find"), oninput: filter,
    });
    const group = (key, numbers, open) => {
      const known = numbers.filter((number) => steps[number]);
      if (!known.length) return null;
      const items = known.map((number) => item(number, steps[number].name));
      return el("details", { open }, el("summary", {}, words(key), el("span", { class: "count" }, ` ${known.length}`)), el("ul", {}, items));
    };
    const { outputs, inputs, tree, parameters, constants } = data.groups;
    const list = el("div", { class: "list" },
      group("inputs", inputs, true), ...branch(tree, true), group("output", outputs, true),
      group("parameters", parameters, false), group("constants", constants, false));
    place("steps").replaceChildren(
      el("details", { class: "drawer", open: window.innerWidth > 760 }, el("summary", {}, words("step")), find, list));
    mark();
  }

  function branch(node, top) {
    const own = node.steps.filter((number) => steps[number]);
    const short = (name) => (node.path && name.startsWith(`${node.path}.`) ? name.slice(node.path.length + 1) : name);
    const first = (inner) => Math.min(...inner.steps, ...inner.branches.map(first));
    const parts = [
      ...own.map((number) => [number, item(number, short(steps[number].name))]),
      ...node.branches.map((inner) => [first(inner), el("li", {}, branch(inner, false))]),
    ].sort((a, b) => a[0] - b[0]);
    if (!parts.length) return [];
    const items = el("ul", {}, parts.map(([, made]) => made));
    return top ? [items] : [el("details", { open: true }, el("summary", {}, node.name), items)];
  }

  function item(number, name) {
    return el("li", { "data-name": steps[number].name.toLowerCase() },
      el("a", { href: address(number), "data-step": number, class: `role-${steps[number].role}` },
        el("span", { class: "name" }, name, state.lang === "en" ? null : meaning(steps[number].name)), el("span", { class: "shape" }, shapeText(steps[number].shape))));
  }

  function filter(event) {
    const wanted = event.target.value.trim().toLowerCase();
    place("steps").querySelectorAll("li[data-name]").forEach((line) => {
      line.hidden = !line.dataset.name.includes(wanted);
    });
  }

  function mark() {
    place("steps").querySelectorAll("a").forEach((link) => {
      if (Number(link.dataset.step) === state.step) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    });
  }

  // --- the matrix ---

  const sizes = (step) => {
    const columns = step.shape.length ? step.shape[step.shape.length - 1] : 1;
    const rows = step.shape.length > 1 ? step.shape[step.shape.length - 2] : 1;
    return { rows, columns, slices: step.shape.slice(0, -2).reduce((a, b) => a * b, 1) };
  };

  function windowSize(step) {
    const { rows, columns } = sizes(step);
    const room = Math.max(3, Math.floor((place("step").clientWidth - 96) / (state.exact ? 116 : 78)));
    return { high: Math.min(rows, 24), wide: Math.min(columns, room) };
  }

  const label = (step, back, at) => {
    const axis = step.shape.length - back;
    if (axis < 0) return "";
    return step.labels[axis]?.[at] ?? String(at);
  };

  function drawStep() {
    const step = steps[state.step];
    const parts = [
      el("h2", {}, step.name, meaning(step.name)),
      el("p", { class: "facts" }, `${shapeText(step.shape)} · ${step.op === step.role ? "" : `${operator(step)} · `}${words(step.role)} · ${step.dtype}`),
    ];
    if (step.expanded) parts.push(el("p", { class: "facts" }, words("expanded")));
    if (step.line) parts.push(el("p", { class: "source" }, el("span", { class: "place" }, step.place), " ", el("code", {}, step.line)));
    parts.push(links("made from", step.uses), links("used by", readers[state.step]));
    const values = valuesOf(state.step);
    if (!values) parts.push(el("p", { class: "note" }, words("no values")));
    else if (!values.length) parts.push(el("p", { class: "note" }, words("empty")));
    else parts.push(slicePicker(step), overview(step, values), el("div", { class: "scroll" }, grid(step, values)), legend(step));
    place("step").replaceChildren(...parts.filter(Boolean));
  }

  function links(key, numbers) {
    const known = [...new Set(numbers)].filter((number) => steps[number]);
    if (!known.length) return null;
    const shown = known.slice(0, 12).map((number) => stepLink(number, shorten(steps[state.step])(steps[number].name)));
    const more = known.length > 12 ? ` … ${words("others", { count: known.length - 12 })}` : "";
    return el("p", { class: "links" }, el("span", { class: "what" }, `${words(key)} `), shown.flatMap((link, at) => (at ? [", ", link] : [link])), more);
  }

  function slicePicker(step) {
    const { slices } = sizes(step);
    if (slices < 2) return null;
    const lead = step.shape.slice(0, -2);
    const name = (at) => unravel(lead, at).map((position, axis) => (lead[axis] > 1 ? step.labels[axis]?.[position] ?? position : null))
      .filter((part) => part !== null).join(" · ");
    const options = Array.from({ length: Math.min(slices, 2000) }, (_, at) => el("option", { value: at, selected: at === state.lead }, name(at)));
    return el("label", { class: "slice" }, `${words("slice")} `, el("select", {
      onchange: (event) => { state.lead = Number(event.target.value); drawStep(); },
    }, options));
  }

  /** The whole slice as a picture, where the table shows a part; a click moves the table there. */
  function overview(step, values) {
    const { rows, columns } = sizes(step);
    const { high, wide } = windowSize(step);
    if (rows <= high && columns <= wide) return null;
    const across = Math.min(columns, 640), down = Math.min(rows, 320);
    const canvas = el("canvas", { width: across, height: down, "aria-hidden": "true" });
    const context = canvas.getContext("2d");
    const picture = context.createImageData(across, down);
    for (let y = 0; y < down; y++) {
      for (let x = 0; x < across; x++) {
        const row = Math.floor((y * rows) / down), column = Math.floor((x * columns) / across);
        const colour = colourOf(step.scale, values[(state.lead * rows + row) * columns + column]) ?? [150, 150, 150];
        picture.data.set([...colour, 255], 4 * (y * across + x));
      }
    }
    context.putImageData(picture, 0, 0);
    canvas.addEventListener("click", (event) => {
      const box = canvas.getBoundingClientRect();
      state.top = clamp(Math.floor(((event.clientY - box.top) / box.height) * rows - high / 2), rows - high);
      state.left = clamp(Math.floor(((event.clientX - box.left) / box.width) * columns - wide / 2), columns - wide);
      drawStep();
    });
    const frame = el("div", { class: "frame", style: `left:${(100 * state.left) / columns}%;top:${(100 * state.top) / rows}%;` +
      `width:${(100 * wide) / columns}%;height:${(100 * high) / rows}%` });
    const note = `${state.top}–${state.top + high - 1} / ${rows} × ${state.left}–${state.left + wide - 1} / ${columns}`;
    return el("figure", { class: "overview" }, el("div", { class: "picture" }, canvas, frame), el("figcaption", {}, note));
  }

  const clamp = (at, most) => Math.max(0, Math.min(at, most));

  function grid(step, values) {
    const { rows, columns } = sizes(step);
    const { high, wide } = windowSize(step);
    state.top = clamp(state.top, rows - high);
    state.left = clamp(state.left, columns - wide);
    const start = state.lead * rows * columns;
    const down = Array.from({ length: high }, (_, at) => state.top + at);
    const across = Array.from({ length: wide }, (_, at) => state.left + at);
    const head = el("tr", { role: "row", "aria-rowindex": 1 }, el("td", { role: "presentation" }),
      across.map((column) => el("th", { role: "columnheader", scope: "col", "aria-colindex": column + 2 }, label(step, 1, column))));
    const inside = state.cell !== null && down.includes(Math.floor((state.cell - start) / columns)) &&
      across.includes((state.cell - start) % columns) ? state.cell : start + state.top * columns + state.left;
    const body = down.map((row) => el("tr", { role: "row", "aria-rowindex": row + 2 },
      el("th", { role: "rowheader", scope: "row" }, label(step, 2, row)),
      across.map((column) => gridCell(step, values, start + row * columns + column, column, inside))));
    return el("table", {
      role: "grid", "aria-label": step.name, "aria-rowcount": rows + 1, "aria-colcount": columns + 1,
      onkeydown: (event) => move(event, step),
    }, el("thead", {}, head), el("tbody", {}, body));
  }

  function shownValue(step, value) {
    if (step.dtype === "bool") return value ? "✓" : "·";
    return formatNumber(value, digits());
  }

  function gridCell(step, values, at, column, inside) {
    const value = values[at];
    const colour = colourOf(step.scale, value);
    const kind = Number.isNaN(value) ? "nan" : Number.isFinite(value) ? "" : "infinite";
    return el("td", {
      role: "gridcell", tabindex: at === inside ? 0 : -1, "data-at": at, class: kind, "aria-colindex": column + 2,
      "aria-selected": at === state.cell ? "true" : "false",
      style: colour ? `background:rgb(${colour});color:${inkOn(colour)}` : null,
      onclick: () => { location.hash = address(state.step, at); },
    }, shownValue(step, value));
  }

  function move(event, step) {
    const at = Number(event.target.dataset?.at);
    if (Number.isNaN(at)) return;
    const { rows, columns } = sizes(step);
    const start = state.lead * rows * columns;
    let row = Math.floor((at - start) / columns), column = (at - start) % columns;
    const page = windowSize(step).high;
    const moves = {
      ArrowUp: () => row--, ArrowDown: () => row++, ArrowLeft: () => column--, ArrowRight: () => column++,
      PageUp: () => { row -= page; }, PageDown: () => { row += page; },
      Home: () => { column = 0; if (event.ctrlKey) row = 0; },
      End: () => { column = columns - 1; if (event.ctrlKey) row = rows - 1; },
    };
    if (event.key === "Enter" || event.key === " ") location.hash = address(state.step, at);
    else if (event.key === "Backspace") history.back();
    else if (moves[event.key]) {
      moves[event.key]();
      row = clamp(row, rows - 1);
      column = clamp(column, columns - 1);
      focusCell(step, start + row * columns + column);
    } else return;
    event.preventDefault();
  }

  /** Put the keyboard on a cell, the table moved so that it is in sight. */
  function focusCell(step, at) {
    const sought = () => place("step").querySelector(`[data-at="${at}"]`);
    if (!sought()) {
      bringIntoSight(step, at);
      drawStep();
    }
    place("step").querySelectorAll('td[tabindex="0"]').forEach((cell) => cell.setAttribute("tabindex", "-1"));
    sought().setAttribute("tabindex", "0");
    sought().focus();
  }

  function bringIntoSight(step, at) {
    const { rows, columns } = sizes(step);
    const { high, wide } = windowSize(step);
    state.lead = Math.floor(at / (rows * columns));
    const row = Math.floor(at / columns) % rows, column = at % columns;
    if (row < state.top || row >= state.top + high) state.top = clamp(row - Math.floor(high / 2), rows - high);
    if (column < state.left || column >= state.left + wide) state.left = clamp(column - Math.floor(wide / 2), columns - wide);
  }

  function legend(step) {
    if (!step.scale) return null;
    const [kind, limit] = step.scale;
    const stops = data.colours[kind].map((colour) => `rgb(${colour})`).join(",");
    const ends = kind === "signed" ? [formatNumber(-limit), "0", formatNumber(limit)] : ["0", "1"];
    return el("div", { class: "legend" }, el("div", { class: "scale", style: `background:linear-gradient(90deg,${stops})` }),
      el("div", { class: "ends" }, ends.map((end) => el("span", {}, end))));
  }

  // --- the card ---

  function drawCard() {
    const card = place("card");
    if (state.cell === null || !valuesOf(state.step)) {
      card.replaceChildren(el("p", { class: "hint" }, words("choose a cell")), el("p", { class: "hint" }, words("keys")));
      return;
    }
    const step = steps[state.step];
    const value = valuesOf(state.step)[state.cell];
    const name = cellName(step, state.cell);
    const rename = shorten(step);
    const parts = [
      trailLine(),
      el("h2", { title: name }, rename(name)),
      el("p", { class: "value" }, shownValue(step, value), tokens(step)),
      el("p", { class: "facts" }, step.op === step.role ? words(step.role) : `${operator(step)} · ${words(step.role)}`),
    ];
    const tree = treeOf(state.step, state.cell);
    if (tree) parts.push(...arithmetic(step, tree, value, rename));
    else parts.push(el("p", { class: "note" }, reason(step)), facts([[words("stored", { dtype: step.dtype }), formatNumber(value, 9)]]));
    if (step.line) parts.push(el("p", { class: "source" }, el("span", { class: "place" }, step.place), el("br"), el("code", {}, step.line)));
    card.replaceChildren(...parts.filter(Boolean));
    place("said").textContent = `${name}, ${formatNumber(value)}`;
  }

  /** The texts of the cell's positions, where they have any. */
  function tokens(step) {
    const texts = unravel(step.shape, state.cell).map((at, axis) => step.labels[axis]?.[at]).filter((text) => text !== undefined);
    return texts.length ? el("span", { class: "tokens" }, texts.map((text) => el("span", { class: "token" }, text))) : null;
  }

  function reason(step) {
    if (step.opaque) return words("no rule", { op: step.op });
    return step.role === "activation" ? words("no card") : words("given");
  }

  function arithmetic(step, tree, value, rename) {
    const options = { digits: digits() };
    const block = (key, content) => el("div", { class: "block" }, el("h3", {}, words(key)), content);
    const parts = [block("in symbols", el("p", { class: "formula" }, written(expressions.symbols(tree, rename))))];
    parts.push(block("in numbers", el("p", { class: "formula" }, written(expressions.numbers(tree, options)), ` = ${formatNumber(expressions.evaluate(tree), digits())}`)));
    const named = expressions.definitions(tree).map((part) => el("p", { class: "formula" },
      `${part.symbol} = `, written(expressions.symbols(part.body, rename)), el("br"), " = ", written(expressions.numbers(part.body, options)),
      ` = ${formatNumber(expressions.evaluate(part), digits())}`));
    if (named.length) parts.push(block("where", named));
    const terms = expressions.terms(tree);
    if (terms.length > 1) parts.push(termTable(terms, rename));
    else parts.push(operandList(tree, rename));
    const again = expressions.evaluate(tree);
    parts.push(facts([
      [words("stored", { dtype: step.dtype }), formatNumber(value, 9)],
      [words("recomputed"), formatNumber(again, 17)],
      [words("difference"), difference(tree, terms, value, again)],
    ]));
    parts.push(el("label", { class: "exact" }, el("input", { type: "checkbox", checked: state.exact, onchange: (event) => {
      state.exact = event.target.checked;
      draw();
    } }), ` ${words("all digits")}`));
    return parts;
  }

  /** |stored − again| relative to max(|value|, Σ|terms|, largest |operand|). */
  function difference(tree, terms, value, again) {
    if (Object.is(value, again) || (Number.isNaN(value) && Number.isNaN(again))) return "0";
    const sizes = expressions.operands(tree).map(([step, at]) => Math.abs(valuesOf(step)[at])).filter(Number.isFinite);
    const sum = terms.reduce((total, term) => total + Math.abs(term.value), 0);
    const scale = Math.max(Math.abs(value), Number.isFinite(sum) ? sum : 0, ...sizes);
    return (Math.abs(value - again) / (scale || 1)).toExponential(1);
  }

  function termTable(terms, rename) {
    const most = state.all ? terms.length : 8;
    const values = terms.map((term) => term.value);
    let shown = largestTerms(values, most);
    if (state.sorted) shown = [...shown].sort((a, b) => Math.abs(values[b]) - Math.abs(values[a]));
    const largest = Math.max(...shown.map((at) => Math.abs(values[at])).filter(Number.isFinite)) || 1;
    const rows = shown.map((at) => {
      const share = Math.min(1, Math.abs(values[at]) / largest);
      const bar = el("span", { class: values[at] < 0 ? "bar below" : "bar", style: `width:${Math.round(100 * share)}%` });
      return el("tr", {}, el("td", { class: "number" }, formatNumber(values[at], digits())), el("td", { class: "bars" }, bar),
        el("td", { class: "formula" }, written(expressions.numbers(terms[at].node, { digits: digits(), env: terms[at].env })),
          el("span", { class: "quiet" }, expressions.symbols(terms[at].node, rename, terms[at].env).join(""))));
    });
    const hidden = new Set(shown);
    const rest = values.filter((_, at) => !hidden.has(at));
    if (rest.length) {
      rows.push(el("tr", {}, el("td", { class: "number" }, formatNumber(rest.reduce((a, b) => a + b, 0), digits())), el("td"),
        el("td", {}, words("others", { count: rest.length }))));
    }
    const choose = (key, change) => el("button", { type: "button", onclick: () => { change(); drawCard(); } }, key);
    return el("div", { class: "block" }, el("h3", {}, words(rest.length ? "largest terms" : "terms")),
      el("table", { class: "terms" }, rows),
      terms.length > 2 ? choose(words(state.sorted ? "in order" : "largest first"), () => { state.sorted = !state.sorted; }) : null,
      rest.length ? choose(words("show all", { count: terms.length }), () => { state.all = true; }) : null);
  }

  function operandList(tree, rename) {
    const operands = expressions.operands(tree);
    if (!operands.length) return null;
    const most = state.all ? operands.length : 16;
    const items = operands.slice(0, most).map(([step, at]) => el("li", {}, cellLink(step, at, rename(cellName(steps[step], at))),
      ` = ${steps[step].dtype === "bool" ? Boolean(valuesOf(step)[at]) : shownValue(steps[step], valuesOf(step)[at])}`));
    const more = operands.length > most
      ? el("button", { type: "button", onclick: () => { state.all = true; drawCard(); } }, words("show all", { count: operands.length })) : null;
    return el("div", { class: "block" }, el("h3", {}, words("operands")), el("ul", { class: "operands" }, items), more);
  }

  function facts(lines) {
    return el("dl", {}, lines.flatMap(([key, text]) => [el("dt", {}, key), el("dd", {}, text)]));
  }

  function trailLine() {
    if (trail.length < 2) return null;
    const shown = trail.slice(-4, -1).map(([step, at]) => cellLink(step, at, cellName(steps[step], at)));
    return el("p", { class: "trail" }, el("button", { type: "button", onclick: () => history.back() }, `← ${words("back")}`), " ",
      shown.flatMap((link) => [link, " ← "]), el("b", {}, cellName(steps[state.step], state.cell)));
  }

  // --- the rest ---

  function drawFooter() {
    const { left } = data;
    const lines = data.notes.map((note) => el("li", {}, note));
    if (left.cells) lines.push(el("li", {}, words("left out cells", { count: left.cells, steps: left["cell steps"] })));
    if (left.values.length) {
      const names = left.values.slice(0, 8).join(", ") + (left.values.length > 8 ? ", …" : "");
      lines.push(el("li", {}, words("left out values", { steps: left.values.length, count: left.numbers, names })));
    }
    if (left.steps) lines.push(el("li", {}, words("left out steps", { count: left.steps })));
    place("footer").replaceChildren(...(lines.length ? [el("h2", {}, words("notes")), el("ul", {}, lines)] : []),
      el("p", { class: "hint" }, words("keys")));
  }

  function drawHeader() {
    document.documentElement.lang = state.lang === "zh" ? "zh-CN" : state.lang;
    place("title").textContent = data.title ?? words("title");
    document.title = data.title ?? words("title");
    place("language").textContent = words("language");
    place("language").lang = state.lang === "zh" ? "en" : "zh-CN";
    place("theme").setAttribute("aria-label", words("theme"));
    place("steps").setAttribute("aria-label", words("step"));
    place("card").setAttribute("aria-label", words("value"));
  }

  function draw() {
    drawStep();
    drawCard();
    mark();
  }

  function follow() {
    const [, step, cell] = location.hash.split("/").map(Number);
    const first = data.groups.tree && steps.findIndex((known) => known && known.role === "activation");
    state.step = steps[step] ? step : Math.max(0, first);
    const count = valuesOf(state.step)?.length ?? 0;
    state.cell = Number.isInteger(cell) && cell >= 0 && cell < count ? cell : null;
    state.all = false;
    if (state.cell === null) Object.assign(state, { top: 0, left: 0, lead: 0 });
    else {
      bringIntoSight(steps[state.step], state.cell);
      const known = trail.findIndex(([a, b]) => a === state.step && b === state.cell);
      if (known >= 0) trail.length = known + 1;
      else trail.push([state.step, state.cell]);
    }
    draw();
    if (state.cell !== null) {
      place("step").querySelector(`[data-at="${state.cell}"]`)?.focus({ preventScroll: true });
      if (window.innerWidth <= 760) place("card").scrollIntoView({ block: "start" });
    }
  }

  place("language").addEventListener("click", () => {
    state.lang = state.lang === "zh" ? "en" : "zh";
    drawHeader();
    drawList();
    draw();
    drawFooter();
  });
  place("theme").addEventListener("click", () => {
    const dark = getComputedStyle(document.documentElement).colorScheme.trim() === "dark";
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    place("theme").setAttribute("aria-pressed", String(!dark));
  });
  window.addEventListener("hashchange", follow);
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width) drawStep();
    width = window.innerWidth;
  });
  drawHeader();
  drawList();
  drawFooter();
  follow();
})();
