/** Where candidates stand in the picture of a ledger, in pixels. */

import type { DecodeStep } from '../lib/api';
import { key, parentOf, type Spot } from './ledger';

export const COLUMN = 128;
export const GAP = 28;
export const ROW = 44;
export const HEAD = 28;
/** The first column holds the beginning, from which all first candidates come. */
const START = 56;

export interface Shown {
  spot: Spot;
  /** The place among the candidates that are drawn, counted from the top. */
  row: number;
}

export interface Line {
  id: string;
  path: string;
  isBest: boolean;
  isDropped: boolean;
}

/** The candidates of each step that are drawn, in order. */
export function shown(steps: DecodeStep[], withDropped: boolean): Shown[][] {
  return steps.map(({ candidates }, step) =>
    candidates
      .flatMap(({ fate }, place) => (withDropped || fate !== 'dropped' ? [place] : []))
      .map((place, row) => ({ spot: { step, place }, row })),
  );
}

export function left(step: number): number {
  return START + GAP + step * (COLUMN + GAP);
}

export function top(row: number): number {
  return HEAD + row * ROW;
}

export function size(columns: Shown[][]): { width: number; height: number } {
  const rows = Math.max(1, ...columns.map((column) => column.length));
  return { width: left(columns.length), height: top(rows) };
}

/** The steps whose columns lie in a scrolled window, two more on each side. */
export function visibleSteps(scroll: number, width: number, n: number): [number, number] {
  const first = Math.floor((scroll - START - GAP) / (COLUMN + GAP)) - 2;
  const last = Math.ceil((scroll + width - START - GAP) / (COLUMN + GAP)) + 2;
  return [Math.max(0, first), Math.min(n, Math.max(last, 0))];
}

/** Lines from candidates to what they continue, those to the best result last: on top. */
export function lines(
  steps: DecodeStep[],
  columns: Shown[][],
  way: Set<string>,
  [first, last]: [number, number],
): Line[] {
  const rows = new Map(columns.flat().map(({ spot, row }) => [key(spot), row]));
  const drawn = columns.slice(first, last).flatMap((column) =>
    column.map(({ spot, row }): Line => {
      const parent = parentOf(steps, spot);
      const from = parent === null ? 0 : (rows.get(key(parent)) ?? 0);
      const x0 = parent === null ? START : left(parent.step) + COLUMN;
      return {
        id: key(spot),
        path: curve(x0, middle(from), left(spot.step), middle(row)),
        isBest: way.has(key(spot)),
        isDropped: steps[spot.step].candidates[spot.place].fate === 'dropped',
      };
    }),
  );
  return drawn.sort((a, b) => Number(a.isBest) - Number(b.isBest));
}

function middle(row: number): number {
  return top(row) + ROW / 2 - 2;
}

function curve(x0: number, y0: number, x1: number, y1: number): string {
  const bend = (x1 - x0) / 2;
  return `M${x0} ${y0}C${x0 + bend} ${y0} ${x1 - bend} ${y1} ${x1} ${y1}`;
}

/** The candidate that a key leads to: sideways to another step, up and down within one. */
export function moved(key: string, columns: Shown[][], { step, place }: Spot): Spot | null {
  const row = columns[step].findIndex((one) => one.spot.place === place);
  const to: Record<string, [number, number]> = {
    ArrowRight: [step + 1, row],
    ArrowLeft: [step - 1, row],
    ArrowDown: [step, row + 1],
    ArrowUp: [step, row - 1],
    Home: [0, row],
    End: [columns.length - 1, row],
  };
  const next = to[key];
  const column = next === undefined ? undefined : columns[next[0]];
  if (next === undefined || column === undefined) return null;
  return column[Math.min(Math.max(next[1], 0), column.length - 1)].spot;
}
