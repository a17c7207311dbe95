/**
 * What can be said of one head's weights, computed from the weights alone.
 *
 * `values` are the weights row by row: one row for each query, one column for each key. Rows add
 * up to 1, or to 0 where a query may attend to nothing.
 */

import type { MatrixScale } from '../matrix/colours';

export interface Weights {
  values: Float32Array | Float64Array;
  rows: number;
  columns: number;
}

export interface Link {
  query: number;
  key: number;
  weight: number;
}

/** Where a head can look by a rule that holds for every token. */
export type Habit = 'itself' | 'previous' | 'next' | 'first' | 'last';

export interface Summary {
  /** The rule that catches most weight, with the mean over the queries that it applies to. */
  habit: Habit | null;
  share: number;
  /** Without a habit, the key that gets most of every query's weight, if there is one. */
  favourite: { key: number; share: number } | null;
  /** The number of keys that an even spread with the same entropy would have, mean over queries. */
  spread: number;
}

/** Below this share a habit would say more than the weights do. */
const WORTH_SAYING = 0.5;

export function weightAt(weights: Weights, query: number, key: number): number {
  return weights.values[query * weights.columns + key];
}

/**
 * Where a head's own scale ends: at its largest weight, and not below twice an equal share, so that
 * a head that spreads its weight evenly has a middle colour everywhere and not the strongest.
 */
export function scaleEnd(weights: Weights): number {
  let most = 0;
  for (const weight of weights.values) if (weight > most) most = weight;
  return most > 0 ? Math.max(most, Math.min(1, 2 / weights.columns)) : 1;
}

/** Up to where colours go: each head or each row to its largest weight, or all to 1. */
export type ScaleEnd = 'head' | 'row' | 'absolute';

export function scaleOf(weights: Weights, end: ScaleEnd): MatrixScale {
  if (end === 'absolute') return { kind: 'probability', limit: 1 };
  const { values, rows, columns } = weights;
  const limits = Array.from({ length: rows }, (_, row) =>
    scaleEnd({ values: values.subarray(row * columns, (row + 1) * columns), rows: 1, columns }),
  );
  return { kind: 'probability', limit: scaleEnd(weights), ...(end === 'row' ? { limits } : {}) };
}

/** The strongest keys of a query, strongest first. */
export function strongest(weights: Weights, query: number, n: number): Link[] {
  const row = Array.from({ length: weights.columns }, (_, key) => ({
    query,
    key,
    weight: weightAt(weights, query, key),
  }));
  return row
    .filter((link) => link.weight > 0)
    .sort((a, b) => b.weight - a.weight)
    .slice(0, n);
}

/** The links of at least some weight, the weakest first, so that the strongest are drawn on top. */
export function linksFrom(weights: Weights, least: number, most: number): Link[] {
  const links: Link[] = [];
  for (let query = 0; query < weights.rows; query++) {
    for (let key = 0; key < weights.columns; key++) {
      const weight = weightAt(weights, query, key);
      if (weight >= least && weight > 0) links.push({ query, key, weight });
    }
  }
  links.sort((a, b) => a.weight - b.weight);
  return links.slice(-most);
}

/** What a head does, in two numbers; `isSelf`: queries and keys are the same tokens. */
export function summarise(weights: Weights, isSelf: boolean): Summary {
  const habits: Habit[] = isSelf
    ? ['itself', 'previous', 'next', 'first', 'last']
    : ['first', 'last'];
  let habit: Habit | null = null;
  let share = 0;
  for (const candidate of habits) {
    const mean = meanAt(weights, candidate);
    if (mean !== null && mean > share) [habit, share] = [candidate, mean];
  }
  if (share < WORTH_SAYING) habit = null;
  const favourite = habit === null ? favouriteOf(weights) : null;
  return { habit, share, favourite, spread: meanSpread(weights) };
}

function favouriteOf(weights: Weights): Summary['favourite'] {
  const shares = Array.from({ length: weights.columns }, (_, key) => {
    let sum = 0;
    for (let query = 0; query < weights.rows; query++) sum += weightAt(weights, query, key);
    return sum / weights.rows;
  });
  const share = Math.max(...shares);
  return share < WORTH_SAYING ? null : { key: shares.indexOf(share), share };
}

/** The mean weight of a habit's key, over the queries that have such a key and more to choose. */
function meanAt(weights: Weights, habit: Habit): number | null {
  let sum = 0;
  let count = 0;
  for (let query = 0; query < weights.rows; query++) {
    const key = keyOf(habit, query, weights.columns);
    if (key < 0 || key >= weights.columns || choices(weights, query) < 2) continue;
    sum += weightAt(weights, query, key);
    count++;
  }
  return count < 2 ? null : sum / count;
}

function keyOf(habit: Habit, query: number, columns: number): number {
  switch (habit) {
    case 'itself':
      return query;
    case 'previous':
      return query - 1;
    case 'next':
      return query + 1;
    case 'first':
      return 0;
    case 'last':
      return columns - 1;
  }
}

/** How many keys have any weight: a causal mask leaves the first query one. */
function choices(weights: Weights, query: number): number {
  let count = 0;
  for (let key = 0; key < weights.columns; key++) if (weightAt(weights, query, key) > 0) count++;
  return count;
}

function meanSpread(weights: Weights): number {
  let sum = 0;
  let count = 0;
  for (let query = 0; query < weights.rows; query++) {
    let entropy = 0;
    let total = 0;
    for (let key = 0; key < weights.columns; key++) {
      const weight = weightAt(weights, query, key);
      total += weight;
      if (weight > 0) entropy -= weight * Math.log(weight);
    }
    if (total === 0) continue;
    sum += Math.exp(entropy);
    count++;
  }
  return count === 0 ? 0 : sum / count;
}

/** A weight as a part of all that a query has to give; one that was set by hand may be any number. */
export function shareOf(weight: number): number {
  return Math.min(1, Math.max(0, weight));
}

/** All links of one token, from it or to it, weakest first. */
export function linesOf(
  weights: Weights,
  { side, place }: { side: 'query' | 'key'; place: number },
): Link[] {
  const n = side === 'query' ? weights.columns : weights.rows;
  return Array.from({ length: n }, (_, other) => {
    const [query, key] = side === 'query' ? [place, other] : [other, place];
    return { query, key, weight: weightAt(weights, query, key) };
  })
    .filter(({ weight }) => weight > 0)
    .sort((a, b) => a.weight - b.weight);
}
