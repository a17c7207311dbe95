// The page as a whole: header, footer, and following the address.

function drawFooter() {
  const { left } = data;
  const lines = data.notes[state.lang].map((note) => el("li", {}, note));
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
  state.step = steps[step] ? step : data.start;
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
