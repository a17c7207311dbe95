/** Panels of an equation as matrices: rows and columns as drawn, and back to indices. */

import type { PanelInfo, Region, TraceInfo } from '../lib/api';
import type { CellAt } from '../matrix/grid.svelte';

/** Rows and columns as drawn: a vector is one row, a single number 1 × 1. */
export function drawnShape({ shape, transposed }: PanelInfo): [number, number] {
  const rows = shape.length > 1 ? shape[shape.length - 2] : 1;
  const columns = shape.length > 0 ? shape[shape.length - 1] : 1;
  return transposed ? [columns, rows] : [rows, columns];
}

/** The index of a drawn cell in the panel's own shape. */
export function indexOf(panel: PanelInfo, [row, column]: CellAt): number[] {
  const [i, j] = panel.transposed ? [column, row] : [row, column];
  if (panel.shape.length === 0) return [];
  return panel.shape.length === 1 ? [j] : [...panel.lead, i, j];
}

/** Where an index is drawn, or null if it is in another slice. */
export function drawnAt(panel: PanelInfo, index: readonly number[]): CellAt | null {
  if (String(index.slice(0, -2)) !== String(panel.shape.length > 1 ? panel.lead : [])) return null;
  const [i, j] = index.length > 1 ? index.slice(-2) : [0, index[0] ?? 0];
  return panel.transposed ? [j, i] : [i, j];
}

/** A region of the panel's slice as drawn. */
export function drawnRegion(panel: PanelInfo, { rows, columns }: Region) {
  return panel.transposed ? { rows: columns, columns: rows } : { rows, columns };
}

export function isInSlice(panel: PanelInfo, region: Region): boolean {
  return String(region.lead) === String(panel.shape.length > 1 ? panel.lead : []);
}

/** The labels of the rows and of the columns as drawn. */
export function drawnLabels(
  panel: PanelInfo,
  trace: TraceInfo,
): [readonly string[] | null, readonly string[] | null] {
  const labels = [panel.rows, panel.columns].map((place) =>
    place === null ? null : (trace.labels[place] ?? null),
  );
  return panel.transposed ? [labels[1], labels[0]] : [labels[0], labels[1]];
}

/** A panel with the signs that stand before it, and after the last one; they are never torn apart. */
export interface Group {
  before: string[];
  panel: PanelInfo;
  after: string[];
}

/** `softmax(`, S, `)`, `=`, A → `softmax( S )`, `= A`: a closing bracket belongs to what it closes. */
export function grouped(parts: readonly (PanelInfo | string)[]): Group[] {
  const groups: Group[] = [];
  let waiting: string[] = [];
  for (const part of parts) {
    const last = groups.at(-1);
    if (typeof part !== 'string') {
      groups.push({ before: waiting, panel: part, after: [] });
      waiting = [];
    } else if (/^[)\],]/.test(part) && last !== undefined) last.after.push(part);
    else waiting.push(part);
  }
  groups.at(-1)?.after.push(...waiting);
  return groups;
}
