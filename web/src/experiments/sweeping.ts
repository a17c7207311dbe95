/** Rows of a sweep as tables: an encoder's layers have other positions than a decoder's. Pure. */

import type { SweepRow } from '../lib/api';

export interface SweepTable {
  places: string[];
  rows: SweepRow[];
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
