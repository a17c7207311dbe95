/**
 * The arithmetic of a window onto a matrix: sizes of cells, what is visible, what is under a point.
 *
 * A zoom level is a rung of a ladder: pixels per cell, below 1 for a matrix seen from afar. Rows
 * and columns are drawn larger than that where there is room, so that their labels can be read.
 */

import { lecture } from '../lib/lecture.svelte';

/** Pixels per cell; the last rung is the exact level, whose width depends on the numbers. */
export const RUNGS = [
  1 / 8,
  1 / 6,
  1 / 4,
  1 / 3,
  0.4,
  1 / 2,
  0.6,
  0.7,
  0.8,
  1,
  2,
  3,
  4,
  6,
  8,
  12,
  16,
  24,
  34,
  Infinity,
] as const;
export const EXACT_RUNG = RUNGS.length - 1;
/** Of exact numbers: closer where all rows fit then. */
const LEAST_ROW = 19;
export const ROW_HEIGHT = 24;
/** No column of exact numbers is narrower, in pixels. */
export const NARROWEST = 40;
/** The part of a matrix that must be in sight for it to start with exact numbers. */
export const MOST_OF_THEM = 0.85;
/** So few numbers are worth reading even if one has to scroll. */
const FEW = 36;
/** Cells grow to this size in the direction in which there is room for all of them. */
const roomySize = () => (lecture.isOn ? 56 : 30);

export interface Sizes {
  rows: number;
  columns: number;
  /** Of a cell, in pixels. */
  width: number;
  height: number;
}

export interface Box {
  width: number;
  height: number;
}

/** Ends excluded. */
export interface Window {
  top: number;
  bottom: number;
  left: number;
  right: number;
}

export interface Scroll {
  x: number;
  y: number;
}

/**
 * The size of a cell on a rung, `box` being the room for cells.
 *
 * `exact` is the width that exact numbers need; it takes looking at thousands of them, which a
 * heat map of a large matrix must not wait for: it is asked only where it matters. Labels lie flat
 * over exact numbers, which leaves `flat` more pixels of height; their rows are at most `highest`.
 */
export function cellSize(
  rung: number,
  rows: number,
  columns: number,
  box: Box,
  exact: () => number,
  flat = 0,
  highest = ROW_HEIGHT,
): Sizes {
  if (rung === EXACT_RUNG) {
    const close = Math.floor((box.height + flat) / Math.max(1, rows));
    const height = close < LEAST_ROW ? ROW_HEIGHT : Math.min(close, highest);
    return { rows, columns, width: exact(), height };
  }
  return { rows, columns, ...heatSize(rung, rows, columns, box) };
}

function heatSize(rung: number, rows: number, columns: number, box: Box): Box {
  const side = RUNGS[rung];
  const roomy = (room: number, count: number) =>
    Math.max(side, Math.min(roomySize(), Math.floor(room / Math.max(1, count))));
  return { width: roomy(box.width, columns), height: roomy(box.height, rows) };
}

/** The rung to start with: exact numbers if most of them show, else the whole as a heat map. */
export function startingRung(
  rows: number,
  columns: number,
  box: Box,
  exact: () => number,
  lowest: number,
  flat = 0,
): number {
  if (rows * columns <= FEW) return EXACT_RUNG;
  const isMostShown = (width: number) =>
    Math.min(rows, (box.height + flat) / LEAST_ROW) * Math.min(columns, box.width / width) >=
    MOST_OF_THEM * rows * columns;
  if (isMostShown(NARROWEST) && isMostShown(exact())) return EXACT_RUNG;
  return fittingRung(rows, columns, box, lowest);
}

/** The highest rung on which the heat map fits its box; the lowest allowed one if none does. */
function fittingRung(rows: number, columns: number, box: Box, lowest: number): number {
  for (let rung = EXACT_RUNG - 1; rung > lowest; rung--) {
    const { width, height } = heatSize(rung, rows, columns, box);
    if (width * columns <= box.width && height * rows <= box.height) return rung;
  }
  return lowest;
}

/** The cells that a scrolled box shows, `spare` more on each side. */
export function visible(sizes: Sizes, scroll: Scroll, box: Box, spare = 0): Window {
  const { rows, columns, width, height } = sizes;
  return {
    top: clamp(Math.floor(scroll.y / height) - spare, 0, rows),
    bottom: clamp(Math.ceil((scroll.y + box.height) / height) + spare, 0, rows),
    left: clamp(Math.floor(scroll.x / width) - spare, 0, columns),
    right: clamp(Math.ceil((scroll.x + box.width) / width) + spare, 0, columns),
  };
}

/** The cell under a point of the box, or null beside the matrix. */
export function cellAt(
  sizes: Sizes,
  scroll: Scroll,
  x: number,
  y: number,
): [number, number] | null {
  const row = Math.floor((y + scroll.y) / sizes.height);
  const column = Math.floor((x + scroll.x) / sizes.width);
  const inside = row >= 0 && row < sizes.rows && column >= 0 && column < sizes.columns;
  return inside ? [row, column] : null;
}

/** The scroll position nearest to the present one at which a cell is wholly visible. */
export function scrollTo(
  sizes: Sizes,
  scroll: Scroll,
  box: Box,
  row: number,
  column: number,
): Scroll {
  const near = (at: number, size: number, from: number, room: number) =>
    at * size < from ? at * size : (at + 1) * size > from + room ? (at + 1) * size - room : from;
  return {
    x: Math.max(0, near(column, sizes.width, scroll.x, box.width)),
    y: Math.max(0, near(row, sizes.height, scroll.y, box.height)),
  };
}

/** The scroll position that keeps the same cell under a point when cells change size. */
export function zoomedScroll(
  before: Sizes,
  after: Sizes,
  scroll: Scroll,
  x: number,
  y: number,
): Scroll {
  return {
    x: Math.max(0, ((scroll.x + x) / before.width) * after.width - x),
    y: Math.max(0, ((scroll.y + y) / before.height) * after.height - y),
  };
}

/** Distance between numbered ticks so that they stand at least `room` pixels apart: 1, 2, 5, 10 … */
export function tickStep(size: number, room: number): number {
  for (let power = 1; ; power *= 10) {
    for (const factor of [1, 2, 5]) if (factor * power * size >= room) return factor * power;
  }
}

/** Where a key of the ARIA grid pattern takes the active cell; null for any other key. */
export function moved(
  key: string,
  control: boolean,
  [row, column]: readonly [number, number],
  { rows, columns }: { rows: number; columns: number },
  page: number,
): [number, number] | null {
  const [lastRow, lastColumn] = [rows - 1, columns - 1];
  const to = (r: number, c: number): [number, number] => [
    clamp(r, 0, lastRow),
    clamp(c, 0, lastColumn),
  ];
  switch (key) {
    case 'ArrowUp':
      return to(control ? 0 : row - 1, column);
    case 'ArrowDown':
      return to(control ? lastRow : row + 1, column);
    case 'ArrowLeft':
      return to(row, control ? 0 : column - 1);
    case 'ArrowRight':
      return to(row, control ? lastColumn : column + 1);
    case 'Home':
      return to(control ? 0 : row, 0);
    case 'End':
      return to(control ? lastRow : row, lastColumn);
    case 'PageUp':
      return to(row - page, column);
    case 'PageDown':
      return to(row + page, column);
    default:
      return null;
  }
}

export function clamp(value: number, low: number, high: number): number {
  return Math.max(low, Math.min(high, value));
}
