// The matrix of the chosen step: a window of its cells, an overview where it is large, the keys.

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
  return labelText(step, axis, at) ?? String(at);
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
  const name = (at) => unravel(lead, at).map((position, axis) => (lead[axis] > 1 ? labelText(step, axis, position) ?? position : null))
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
