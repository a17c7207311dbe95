"use strict";
// The tensors of the page: their numbers and the trees of their cells, read when first needed.

function bytesOf(text) {
  const raw = atob(text);
  const array = new Uint8Array(raw.length);
  for (let at = 0; at < raw.length; at++) array[at] = raw.charCodeAt(at);
  return array.buffer;
}

/** How many holes a template of encoding.py leaves. */
function countHoles(template) {
  const sum = (trees) => trees.reduce((count, tree) => count + (Array.isArray(tree) ? countHoles(tree) : 0), 0);
  switch (template[0]) {
    case "n": return 0;
    case "e": return 1;
    case "t": return sum(template[3]);
    case "l": return 1 + sum(template[2]);
    case "f": return sum(template[2]);
    case "o": return sum(template.slice(2));
    case "c": return sum(template.slice(1));
    default: return countHoles(template[2]);
  }
}

class Tensors {
  constructor(steps) {
    this.steps = steps;
    this.read = new Map();
    this.cells = new Map();
  }

  /** The numbers of a step, null where they were left out. */
  values(number) {
    const values = this.steps[number]?.values;
    if (!values) return null;
    if (!this.read.has(number)) {
      const buffer = bytesOf(values.data);
      this.read.set(number, values.kind === "float32" ? new Float32Array(buffer) : new Float64Array(buffer));
    }
    return this.read.get(number);
  }

  /** The tree of a cell, null where there is none. */
  tree(number, cell) {
    const { cells, shape } = this.steps[number];
    if (!cells) return null;
    if (!this.cells.has(number)) {
      const which = cells.which ? new Int32Array(bytesOf(cells.which)) : null;
      const counts = cells.templates.map(countHoles);
      const starts = new Int32Array(shape.reduce((a, b) => a * b, 1) + 1);
      for (let at = 0; at + 1 < starts.length; at++) starts[at + 1] = starts[at] + counts[which ? which[at] : 0];
      this.cells.set(number, { which, starts, holes: new Int32Array(bytesOf(cells.holes)) });
    }
    const { which, starts, holes } = this.cells.get(number);
    return buildTree(cells.templates[which ? which[cell] : 0], holes.subarray(starts[cell], starts[cell + 1]));
  }
}
