// The card of the chosen cell: its arithmetic in symbols and in numbers, its terms and operands.

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
  const texts = unravel(step.shape, state.cell).map((at, axis) => labelText(step, axis, at)).filter((text) => text !== undefined);
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
  const gap = difference(step, tree, value, again);
  parts.push(facts([
    [words("stored", { dtype: step.dtype }), formatNumber(value, 9)],
    [words("recomputed"), formatNumber(again, 17)],
    [words("difference"), gap === 0 ? "0" : gap.toExponential(1)],
  ]));
  if (!(gap <= step.tolerance)) parts.push(el("p", { class: "note wrong" }, words("not reproduced")));
  parts.push(el("label", { class: "exact" }, el("input", { type: "checkbox", checked: state.exact, onchange: (event) => {
    state.exact = event.target.checked;
    draw();
  } }), ` ${words("all digits")}`));
  return parts;
}

// Operands this far beyond the result are a mask's fill, as in evaluate.py.
const FILL = 1e6;

/** |stored − again| relative to max(|value|, Σ|terms|, largest |operand|), as evaluate.py has it. */
function difference(step, tree, value, again) {
  if (value === again || (Number.isNaN(value) && Number.isNaN(again))) return 0;
  const overflows = step.largest !== null && again * Math.sign(value) > step.largest;
  if (Math.abs(value) === Infinity && overflows) return 0;
  const gap = Math.abs(value - again);
  if (gap < step.smallest) return 0;
  if (!Number.isFinite(gap)) return Infinity;
  const limit = FILL * Math.max(1, Math.abs(again));
  const sizes = expressions.operands(tree).map(([at, cell]) => Math.abs(valuesOf(at)[cell])).filter((size) => size < limit);
  const scale = sizes.reduce((a, b) => Math.max(a, b), Math.max(Math.abs(again), expressions.sumOfTerms(tree)));
  return scale ? gap / scale : Infinity;
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
