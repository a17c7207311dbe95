/** Places in an audited example: numbers that are wrong, and how a link names one. */

import type { AuditInfo, AuditStepInfo } from '../lib/api';

export interface Spot {
  step: string;
  /** A place on each axis; null: the step itself. */
  index: number[] | null;
}

type Cell = AuditStepInfo['cells'][number];

/** What is wrong, in reading order: each wrong number, or the step where it prints none. */
export function wrongSpots({ steps }: AuditInfo): Spot[] {
  return steps
    .filter(({ verdict }) => verdict === 'wrong')
    .flatMap((step): Spot[] => {
      const wrong = step.cells
        .map((cell, n) => ({ cell, index: indexOf(n, step.shape) }))
        .filter(({ cell }) => cell.verdict === 'wrong')
        .map(({ index }) => ({ step: step.id, index }));
      return wrong.length > 0 ? wrong : [{ step: step.id, index: null }];
    });
}

/** The wrong place after or before another one, around the end. */
export function nextSpot(
  wrong: Spot[],
  steps: string[],
  now: Spot | null,
  by: 1 | -1,
): Spot | null {
  if (wrong.length === 0) return null;
  const at = now === null ? -1 : wrong.findIndex((spot) => isSame(spot, now));
  if (at >= 0) return wrong[(at + by + wrong.length) % wrong.length]!;
  if (now === null) return by > 0 ? wrong[0]! : wrong.at(-1)!;
  const after = wrong.findIndex((spot) => isAfter(spot, now, steps));
  const place = after < 0 ? wrong.length : after;
  return wrong[(by > 0 ? place : place - 1 + wrong.length) % wrong.length]!;
}

function isAfter(spot: Spot, now: Spot, steps: string[]): boolean {
  const [one, other] = [steps.indexOf(spot.step), steps.indexOf(now.step)];
  if (one !== other) return one > other;
  const [a, b] = [spot.index ?? [], now.index ?? []];
  const differs = a.findIndex((place, axis) => place !== b[axis]);
  return differs >= 0 && a[differs]! > (b[differs] ?? -1);
}

export function isSame(one: Spot, other: Spot): boolean {
  return one.step === other.step && one.index?.join() === other.index?.join();
}

/** The index of the n-th cell in reading order. */
export function indexOf(n: number, shape: number[]): number[] {
  const index: number[] = [];
  let rest = n;
  for (const size of [...shape].reverse()) {
    index.unshift(rest % size);
    rest = Math.floor(rest / size);
  }
  return index;
}

export interface Row {
  /** What it is called: a label, or its places before the last axis. */
  name: string;
  cells: { cell: Cell; index: number[] }[];
}

/** The cells of a step as rows of a table; columns in which nothing is printed are left out. */
export function tableOf(step: AuditStepInfo): { heads: string[]; rows: Row[] } {
  const width = Math.max(1, step.shape.at(-1) ?? 1);
  const all = step.cells.map((cell, n) => ({ cell, index: indexOf(n, step.shape) }));
  const count = Math.ceil(all.length / width);
  const lines = Array.from({ length: count }, (_, n) => all.slice(n * width, (n + 1) * width));
  const kept = Array.from({ length: width }, (_, n) => n).filter((n) =>
    lines.some((line) => line[n] !== undefined && line[n].cell.verdict !== null),
  );
  const isVector = step.shape.length < 2;
  const labels = isVector ? [] : step.rows;
  const names = isVector && step.columns.length === 0 ? step.rows : step.columns;
  return {
    heads: kept.map((n) => names[n] ?? (width > 1 ? String(n) : '')),
    rows: lines.map((line, n) => ({
      name: labels[n] ?? (isVector ? '' : (line[0]?.index.slice(0, -1).join(', ') ?? '')),
      cells: kept.flatMap((at) => line[at] ?? []),
    })),
  };
}

export function formatSpot({ step, index }: Spot): string {
  return index === null || index.length === 0 ? step : `${step}[${index.join(',')}]`;
}

export function parseSpot(text: string | undefined, audit: AuditInfo): Spot | null {
  const [, name = '', places] = /^([^[\]]+)(?:\[([\d, ]*)\])?$/.exec(text ?? '') ?? [];
  const step = audit.steps.find(({ id }) => id === name);
  if (step === undefined) return null;
  if (places === undefined) return { step: name, index: step.cells.length === 1 ? [] : null };
  const index = places.split(',').map(Number);
  const fits =
    index.length === step.shape.length && index.every((n, axis) => n < step.shape[axis]!);
  return { step: name, index: fits ? index : null };
}
