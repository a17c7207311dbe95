// The list of steps: by module, with a field to find one.

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
