/** Rows of a sweep as tables: an encoder's layers have other positions than a decoder's. Pure. */

import type { SweepRow } from '../lib/api';
import { formatSigned } from '../matrix/numbers';

export interface SweepTable {
  places: string[];
  rows: SweepRow[];
}

/** The rounding of a few float32 operations, relative to the number that they make. */
const ROUNDING = 8 * 2 ** -24;

/** A change with its sign; one that is within the rounding of the number itself is none. */
export function effectText(effect: number, before: number): string {
  return Math.abs(effect) <= ROUNDING * Math.abs(before) ? '≈ 0' : formatSigned(effect, 2);
}

export function tablesOf(rows: readonly SweepRow[]): SweepTable[] {
  const tables: SweepTable[] = [];
  for (const row of rows) {
    const places = row.squares.map(({ place }) => place);
    const last = tables.at(-1);
    if (last !== undefined && JSON.stringify(last.places) === JSON.stringify(places)) {
      last.rows.push(row);
    } else tables.push({ places, rows: [row] });
  }
  return tables;
}
