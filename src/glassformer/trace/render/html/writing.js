// Expressions as text, in symbols and in numbers: a list of strings and of {text, step, place}
// links.

const ATOM = 9;
const STRENGTH = {
  or: 0, xor: 0, and: 0, "|": 0, "&": 0, "+": 2, "-": 2, "*": 3, "/": 3, "//": 3, "%": 3, "^": 4,
};
const SUBSCRIPTS = { k: "ₖ", l: "ₗ", m: "ₘ", n: "ₙ", j: "ⱼ", p: "ₚ", s: "ₛ" };

/** Which of the largest (or smallest) a reduction takes: ` #2`. */
function rankOf(node) {
  return node.reduction.includes("est") ? ` #${node.rank + 1}` : "";
}

/** What both texts share; they differ in how leaves, choices and reductions are written. */
class Writer {
  constructor(expressions) {
    this.own = expressions;
    this.times = "·";
  }

  write(node, outer, env) {
    const [parts, strength] = this.piece(node, env);
    return strength < outer ? ["(", ...parts, ")"] : parts;
  }

  piece(node, env) {
    switch (node.kind) {
      case "n": return this.constant(node.value);
      case "o": return this.operation(node, env);
      case "f": return this.call(node, env);
      case "r": return this.reduction(node, env);
      case "c": return this.choice(node, env);
      case "v": return [[`${node.dtype}(`, ...this.write(node.body, 0, env), ")"], ATOM];
      default: return this.leaf(node, env);
    }
  }

  operation(node, env) {
    const signs = { "*": this.times, "-": "−", "//": "÷", "%": "mod" };
    const sign = signs[node.operator] ?? node.operator;
    const strength = STRENGTH[node.operator] ?? 1;
    const tight = ["-", "/", "//", "%", "^"].includes(node.operator) ? 1 : 0;
    const spaced = sign === "^" || sign === "·" ? sign : ` ${sign} `;
    const left = this.write(node.left, strength, env);
    return [[...left, spaced, ...this.write(node.right, strength + tight, env)], strength];
  }

  call(node, env) {
    const inside = node.inside.map((part) => this.write(part, 0, env));
    if (node.name === "neg") return [["−", ...this.write(node.inside[0], 3, env)], 2];
    if (node.name === "sqrt") return [["√(", ...inside[0], ")"], ATOM];
    if (node.name === "abs") return [["|", ...inside[0], "|"], ATOM];
    const joined = inside.flatMap((parts, place) => (place ? [", ", ...parts] : parts));
    return [[`${node.name}(`, ...joined, ")"], ATOM];
  }

  constant(value) {
    const text = formatNumber(value, this.digits ?? 4);
    return [[text], text.startsWith("-") ? 2 : ATOM];
  }
}

class SymbolWriter extends Writer {
  constructor(expressions, rename) {
    super(expressions);
    this.rename = rename;
  }

  leaf(node, env) {
    if (node.kind === "d") return [[node.symbol], ATOM];
    const [number, place] = located(node, env);
    const step = this.own.stepOf(number);
    if (node.parts?.length) return [this.looked(node, step, place, env), ATOM];
    const running = node.axes.filter(([letter, size]) => !(letter in env) && size > 1);
    return [[this.entry(step, place, running, node.kind === "e")], ATOM];
  }

  looked(node, step, place, env) {
    const index = unravel(step.shape, place);
    const name = this.rename(step.name);
    const parts = node.parts.flatMap((part, axis) => {
      const comma = axis ? ", " : "";
      if (part === null || typeof part === "number") return [comma + (part ?? index[axis])];
      return typeof part === "string" ? [comma + (env[part] ?? part)] : [comma, ...this.write(part, 0, env)];
    });
    return [`${name}[`, ...parts, "]"];
  }

  entry(step, place, running, regular) {
    const name = this.rename(step.name);
    const whole = `view(${name})[…]`;
    if (!regular && running.length) return whole;
    const base = unravel(step.shape, place);
    const parts = base.map(String);
    const last = [...base]; // where the letters so far take each axis: several may share one
    const split = new Set(); // the axes of a letter that runs over more than one
    for (const [letter, size, stride] of running) {
      const moves = along(step.shape, place, size, stride);
      for (const [axis, at] of moves.entries()) {
        if (at.every((position) => position === base[axis])) continue;
        const fresh = last[axis] === base[axis];
        const pace = at[1] - base[axis];
        const even = at.every((position, k) => position === base[axis] + pace * k);
        const digit = even || !fresh ? null : digitOf(at, letter);
        if (split.has(axis) || (!even && digit === null)) return whole;
        if (digit !== null) split.add(axis);
        last[axis] += Math.max(...at) - base[axis];
        if (last[axis] >= step.shape[axis]) return whole;
        parts[axis] = digit ?? added(fresh && !base[axis] ? "" : parts[axis], pace, letter);
      }
    }
    return parts.length ? `${name}[${parts.join(", ")}]` : name;
  }

  reduction(node, env) {
    const letters = node.axes.map(([letter]) => SUBSCRIPTS[letter] ?? `_${letter}`).join("");
    if (node.reduction === "sum" || node.reduction === "product") {
      const sign = node.reduction === "sum" ? "Σ" : "Π";
      return [[`${sign}${letters} `, ...this.write(node.body, 3, env)], 2];
    }
    return [[`${node.reduction}${rankOf(node)}${letters}(`, ...this.write(node.body, 0, env), ")"], ATOM];
  }

  choice(node, env) {
    const [condition, yes, no] = [node.condition, node.yes, node.no].map((part) => this.write(part, 0, env));
    const parts = { condition, yes, no };
    // The phrase with its marks left in: what stands between them is text, each mark a formula.
    const phrase = this.own.words("choice", { condition: "{condition}", yes: "{yes}", no: "{no}" });
    return [phrase.split(/\{(\w+)\}/).flatMap((part, at) => (at % 2 ? parts[part] : [part])), 0];
  }
}

// For each axis of a shape the positions of `size` places that lie `stride` apart.
function along(shape, place, size, stride) {
  const indices = Array.from({ length: size }, (_, k) => unravel(shape, place + stride * k));
  return shape.map((_, axis) => indices.map((index) => index[axis]));
}

// "3+2k", "4−k": a letter that runs evenly along an axis, after what stands there already.
function added(before, pace, letter) {
  const stepped = Math.abs(pace) === 1 ? letter : `${Math.abs(pace)}${letter}`;
  if (pace < 0) return `${before || 0}−${stepped}`;
  return before ? `${before}+${stepped}` : stepped;
}

// "k÷64", "k mod 64" or "k÷64 mod 12": a letter that runs over more than one axis.
function digitOf(positions, letter) {
  const repeats = positions.findIndex((position) => position !== positions[0]);
  const slow = positions.map((_, k) => Math.floor(k / repeats));
  const whole = repeats > 1 ? `${letter}÷${repeats}` : letter;
  if (positions.every((position, k) => position === positions[0] + slow[k])) {
    return positions[0] ? `${positions[0]}+${whole}` : whole;
  }
  const size = Math.max(...positions) + 1;
  return positions.every((position, k) => position === slow[k] % size) ? `${whole} mod ${size}` : null;
}

class NumberWriter extends Writer {
  constructor(expressions, digits, most) {
    super(expressions);
    this.times = "×";
    this.digits = digits;
    this.most = most;
  }

  leaf(node, env) {
    const text = formatNumber(this.own.evaluate(node, env), this.digits);
    const shown = text.startsWith("-") ? `(${text})` : text;
    if (node.kind === "d") return [[shown], ATOM];
    const [step, place] = located(node, env);
    return [[{ text: shown, step, place }], ATOM];
  }

  choice(node, env) {
    return this.piece(this.own.evaluate(node.condition, env) ? node.yes : node.no, env);
  }

  reduction(node, env) {
    const kind = node.reduction;
    const places = [...placesOf(node.axes, env)];
    const values = places.map((at) => this.own.evaluate(node.body, at));
    const shown = largestTerms(values, this.most, kind);
    const joint = { sum: " + ", product: " × " }[kind] ?? ", ";
    const parts = shown.map((term) => this.write(node.body, 3, places[term]));
    if (shown.length < values.length) {
      const others = new Set(shown);
      const rest = values.filter((_, term) => !others.has(term));
      const note = this.own.words("others", { count: rest.length });
      const sum = formatNumber(rest.reduce((a, b) => a + b, 0), this.digits);
      parts.push(kind === "sum" ? [`(${note}: ${sum})`] : [`… ${note}`]);
    }
    const joined = parts.flatMap((part, place) => (place ? [joint, ...part] : part));
    if (kind === "sum" || kind === "product") return [joined, parts.length > 1 ? 2 : 3];
    return [[`${kind}${rankOf(node)}(`, ...joined, ")"], ATOM];
  }
}
