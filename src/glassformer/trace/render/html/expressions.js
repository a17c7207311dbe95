// The trees of encoding.py: built from a template and holes, evaluated in float64, taken apart
// into operands, terms and definitions.

/** A template with its holes filled, in the order in which they were left. */
function buildTree(template, holes) {
  let next = 0;
  const built = (part) => (Array.isArray(part) ? build(part) : part);
  const build = (part) => {
    switch (part[0]) {
      case "n": return { kind: "n", value: Number(part[1]) };
      case "e": return { kind: "e", step: part[1], base: holes[next++], axes: part[2] };
      case "t": return { kind: "t", axes: part[1], cells: part[2], parts: part[3].map(built) };
      case "l": {
        const place = holes[next++];
        return { kind: "l", step: part[1], place, parts: part[2].map(built) };
      }
      case "o": return { kind: "o", operator: part[1], left: build(part[2]), right: build(part[3]) };
      case "f": return { kind: "f", name: part[1], inside: part[2].map(build) };
      case "r": return { kind: "r", reduction: part[1], body: build(part[2]), axes: part[3], rank: part[4] };
      case "c": return { kind: "c", condition: build(part[1]), yes: build(part[2]), no: build(part[3]) };
      case "v": return { kind: "v", dtype: part[1], body: build(part[2]) };
      default: return { kind: "d", symbol: part[1], body: build(part[2]) };
    }
  };
  return build(template);
}

/** erf to the last digits of float64: a series near 0, a continued fraction beyond. */
function erf(x) {
  const size = Math.abs(x);
  if (size < 2.5) {
    let term = size, sum = size;
    for (let n = 1; n < 200 && Math.abs(term) > 1e-18 * sum; n++) {
      term *= (-size * size) / n;
      sum += term / (2 * n + 1);
    }
    return (Math.sign(x) * 2 * sum) / Math.sqrt(Math.PI);
  }
  let fraction = 0;
  for (let n = 120; n > 0; n--) fraction = n / 2 / (size + fraction);
  return Math.sign(x) * (1 - Math.exp(-size * size) / ((size + fraction) * Math.sqrt(Math.PI)));
}

function roundEven(x) {
  const low = Math.floor(x);
  if (x - low !== 0.5) return Math.round(x);
  return low % 2 === 0 ? low : low + 1;
}

/** erfinv: a first guess, then Newton's steps. */
function erfinv(y) {
  if (Math.abs(y) >= 1) return Math.abs(y) === 1 ? y * Infinity : NaN;
  const log = Math.log1p(-y * y), middle = 2 / (Math.PI * 0.147) + log / 2;
  let x = Math.sign(y) * Math.sqrt(Math.sqrt(middle * middle - log / 0.147) - middle);
  for (let turn = 0; turn < 4; turn++) x -= (erf(x) - y) * Math.sqrt(Math.PI) / 2 * Math.exp(x * x);
  return x;
}

/** The logarithm of |Γ|: the asymptotic series, far enough out. */
function lgamma(x) {
  if (x <= 0 && Number.isInteger(x)) return Infinity;
  if (x < 0.5) return Math.log(Math.PI / Math.abs(Math.sin(Math.PI * x))) - lgamma(1 - x);
  let shift = 0;
  for (; x < 15; x++) shift += Math.log(x);
  const r = 1 / (x * x);
  const series = (1 / 12 - r * (1 / 360 - r * (1 / 1260 - r * (1 / 1680 - r / 1188)))) / x;
  return (x - 0.5) * Math.log(x) - x + Math.log(2 * Math.PI) / 2 + series - shift;
}

/** The slope of lgamma, likewise. */
function digamma(x) {
  if (x === 0) return Object.is(x, -0) ? Infinity : -Infinity;
  if (x < 0 && Number.isInteger(x)) return NaN;
  if (x < 0.5) return digamma(1 - x) - Math.PI / Math.tan(Math.PI * x);
  let shift = 0;
  for (; x < 15; x++) shift += 1 / x;
  const r = 1 / (x * x);
  return Math.log(x) - 0.5 / x - r * (1 / 12 - r * (1 / 120 - r * (1 / 252 - r * (1 / 240 - r / 132)))) - shift;
}

/** Bessel's I of order 0 or 1, by its power series. */
function bessel(x, order) {
  let term = order ? x / 2 : 1, sum = 0;
  for (let k = 1; term !== 0 && sum + term !== sum; k++) {
    sum += term;
    term *= (x * x) / 4 / (k * (k + order));
  }
  return sum;
}

/** x = m · 2ⁿ with ½ ≤ |m| < 1: [m, n]. */
function split(x) {
  if (x === 0 || !Number.isFinite(x)) return [x, 0];
  let n = Math.floor(Math.log2(Math.abs(x))) + 1, m = x / 2 ** n;
  if (Math.abs(m) >= 1) [m, n] = [m / 2, n + 1];
  if (Math.abs(m) < 0.5) [m, n] = [m * 2, n - 1];
  return [m, n];
}

const FUNCTIONS = {
  exp: Math.exp, exp2: (x) => 2 ** x, expm1: Math.expm1, log: Math.log, log2: Math.log2,
  log10: Math.log10, log1p: Math.log1p, sqrt: Math.sqrt, erf, sin: Math.sin, cos: Math.cos,
  tan: Math.tan, asin: Math.asin, acos: Math.acos, atan: Math.atan, atan2: Math.atan2,
  sinh: Math.sinh, cosh: Math.cosh, tanh: Math.tanh, neg: (x) => -x, abs: Math.abs,
  sign: (x) => Math.sign(x) || 0, floor: Math.floor, ceil: Math.ceil, trunc: Math.trunc, round: roundEven,
  max: Math.max, min: Math.min, not: (x) => Number(!x), isnan: (x) => Number(Number.isNaN(x)),
  isinf: (x) => Number(Math.abs(x) === Infinity), isfinite: (x) => Number(Number.isFinite(x)),
  copysign: (a, b) => (b < 0 || Object.is(b, -0) ? -Math.abs(a) : Math.abs(a)), erfinv, lgamma, digamma,
  i0: (x) => bessel(x, 0), i1: (x) => bessel(x, 1), mantissa: (x) => split(x)[0], exponent: (x) => split(x)[1],
};

const OPERATIONS = {
  "+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b, "/": (a, b) => a / b,
  "^": (a, b) => (a === 1 ? 1 : a ** b), "//": (a, b) => Math.floor(a / b),
  "%": (a, b) => a - b * Math.floor(a / b), "=": (a, b) => Number(a === b),
  "≠": (a, b) => Number(a !== b), "<": (a, b) => Number(a < b), "≤": (a, b) => Number(a <= b),
  ">": (a, b) => Number(a > b), "≥": (a, b) => Number(a >= b), and: (a, b) => Number(a && b && 1),
  or: (a, b) => Number(Boolean(a || b)), xor: (a, b) => Number(Boolean(a) !== Boolean(b)),
  "&": (a, b) => Number(BigInt(a) & BigInt(b)), "|": (a, b) => Number(BigInt(a) | BigInt(b)),
};

const WHOLE_TYPES = /^u?int/;
const scratch = new DataView(new ArrayBuffer(4));

function convert(dtype, value) {
  if (dtype === "bool") return Number(value !== 0);
  if (WHOLE_TYPES.test(dtype)) return Math.trunc(value);
  if (dtype === "float32") return Math.fround(value);
  if (dtype === "bfloat16" && Number.isFinite(value)) {
    // The upper half of a float32, rounded to even.
    scratch.setFloat32(0, value);
    const bits = scratch.getUint32(0);
    scratch.setUint32(0, ((bits + 0x7fff + ((bits >>> 16) & 1)) & 0xffff0000) >>> 0);
    return scratch.getFloat32(0);
  }
  return dtype === "float16" && Math.f16round ? Math.f16round(value) : value;
}

/** All values of a reduction's letters, the last running fastest. */
function* placesOf(axes, env) {
  const count = axes.reduce((n, [, size]) => n * size, 1);
  for (let term = 0; term < count; term++) {
    const at = { ...env };
    let rest = term;
    for (let axis = axes.length - 1; axis >= 0; axis--) {
      at[axes[axis][0]] = rest % axes[axis][1];
      rest = Math.floor(rest / axes[axis][1]);
    }
    yield at;
  }
}

function located(node, env) {
  if (node.kind === "l") return [node.step, node.place];
  if (node.kind === "e") {
    return [node.step, node.axes.reduce((at, [letter, , stride]) => at + stride * (env[letter] ?? 0), node.base)];
  }
  const term = node.axes.reduce((at, [letter, size]) => at * size + (env[letter] ?? 0), 0);
  return [node.cells[2 * term], node.cells[2 * term + 1]];
}

/** `look(step, place)` gives a number, `nameOf(step)` a step; both come from the page. */
class Expressions {
  constructor(look, stepOf, words) {
    this.look = look;
    this.stepOf = stepOf;
    this.words = words;
  }

  evaluate(node, env = {}) {
    switch (node.kind) {
      case "n": return node.value;
      case "e": case "t": case "l": return this.look(...located(node, env));
      case "o": return OPERATIONS[node.operator](this.evaluate(node.left, env), this.evaluate(node.right, env));
      case "f": return FUNCTIONS[node.name](...node.inside.map((part) => this.evaluate(part, env)));
      case "r": return this.reduce(node, env);
      case "c": return this.evaluate(this.evaluate(node.condition, env) ? node.yes : node.no, env);
      case "v": return convert(node.dtype, this.evaluate(node.body, env));
      default: // a named part is the same for every value of the letters
        if (node.known === undefined) node.known = this.evaluate(node.body, {});
        return node.known;
    }
  }

  gathered(node, env) {
    return Array.from(placesOf(node.axes, env), (at) => this.evaluate(node.body, at));
  }

  reduce(node, env) {
    const values = this.gathered(node, env);
    const order = () => values.map((_, place) => place);
    const up = order().sort((a, b) => values[a] - values[b] || a - b);
    const down = order().sort((a, b) => values[b] - values[a] || a - b);
    switch (node.reduction) {
      case "sum": return values.reduce((a, b) => a + b, 0);
      case "product": return values.reduce((a, b) => a * b, 1);
      case "max": return values.reduce((a, b) => Math.max(a, b));
      case "min": return values.reduce((a, b) => Math.min(a, b));
      case "any": return Number(values.some((x) => x !== 0));
      case "all": return Number(values.every((x) => x !== 0));
      case "argmax": return down[0];
      case "argmin": return up[0];
      case "last argmax": return values.lastIndexOf(values[down[0]]);
      case "last argmin": return values.lastIndexOf(values[up[0]]);
      case "largest": return values[down[node.rank]];
      case "smallest": return values[up[node.rank]];
      case "place largest": return down[node.rank];
      default: return up[node.rank];
    }
  }

  /** The cells that an expression reads, each once; of a choice, the chosen side. */
  operands(node) {
    const found = new Map();
    const walk = (part, env) => {
      switch (part.kind) {
        case "e": case "t": case "l": {
          const [step, place] = located(part, env);
          found.set(`${step}/${place}`, [step, place]);
          part.parts?.forEach((inner) => inner?.kind && walk(inner, env));
          break;
        }
        case "o": walk(part.left, env); walk(part.right, env); break;
        case "f": part.inside.forEach((inner) => walk(inner, env)); break;
        case "r": for (const at of placesOf(part.axes, env)) walk(part.body, at); break;
        case "c":
          walk(part.condition, env);
          walk(this.evaluate(part.condition, env) ? part.yes : part.no, env);
          break;
        case "v": case "d": walk(part.body, part.kind === "d" ? {} : env); break;
      }
    };
    walk(node, {});
    return [...found.values()];
  }

  /** The summands of an expression that is a sum: {value, node, env}. */
  terms(node) {
    const found = [];
    const walk = (part) => {
      if (part.kind === "o" && part.operator === "+") {
        walk(part.left);
        walk(part.right);
      } else if (part.kind === "r" && part.reduction === "sum") {
        for (const env of placesOf(part.axes, {})) {
          found.push({ value: this.evaluate(part.body, env), node: part.body, env });
        }
      } else {
        found.push({ value: this.evaluate(part), node: part, env: {} });
      }
    };
    walk(node);
    return found;
  }

  /** Σ|terms| of the sum that an expression is; factors and divisors reach every term. */
  sumOfTerms(node) {
    let size;
    if (node.kind === "o" && (node.operator === "+" || node.operator === "-")) {
      return this.sumOfTerms(node.left) + this.sumOfTerms(node.right);
    } else if (node.kind === "o" && node.operator === "*") {
      return this.sumOfTerms(node.left) * this.sumOfTerms(node.right);
    } else if (node.kind === "o" && node.operator === "/") {
      const divisor = Math.abs(this.evaluate(node.right));
      return divisor ? this.sumOfTerms(node.left) / divisor : 0;
    } else if (node.kind === "r" && node.reduction === "sum") {
      size = this.gathered(node, {}).reduce((total, term) => total + Math.abs(term), 0);
    } else {
      size = Math.abs(this.evaluate(node));
    }
    return Number.isFinite(size) ? size : 0;
  }

  /** The named parts (μ, σ², m), each after those it needs. */
  definitions(node) {
    const found = new Map();
    const walk = (part) => {
      for (const inner of [part.left, part.right, part.body, part.condition, part.yes, part.no]) {
        if (inner) walk(inner);
      }
      for (const inner of [...(part.inside ?? []), ...(part.parts ?? [])]) if (inner?.kind) walk(inner);
      if (part.kind === "d" && !found.has(part.symbol)) found.set(part.symbol, part);
    };
    walk(node);
    return [...found.values()];
  }

  symbols(node, rename, env = {}) {
    return new SymbolWriter(this, rename).write(node, 0, env);
  }

  numbers(node, { digits = 4, most = 8, env = {} } = {}) {
    const parts = new NumberWriter(this, digits, most).write(node, 0, env);
    const alone = parts.length === 1 && parts[0].text !== undefined && parts[0].text.startsWith("(-");
    return alone ? [{ ...parts[0], text: parts[0].text.slice(1, -1) }] : parts;
  }
}
