/** What stands beside the rows and above the columns, and how much room it needs. */

import { lecture } from '../lib/lecture.svelte';
import { clamp, NARROWEST, tickStep } from './viewport';

const CHARACTER = 7;
/** Where lines are so close, labels are set in smaller type, which a lecture does not have. */
export const TIGHT = 14;
const roomForLabel = () => (lecture.isOn ? TIGHT : 9);
const ROOM_FOR_TICK = 34;
const ROOM_FOR_ROW_TICK = 16;
/** From one label of a row to the next, in the smaller type. */
const ROW_LABEL = 11;
const INDEX_HEIGHT = 20;

export interface Header {
  at: number;
  text: string;
}

/** As many characters wide as the text looks: CJK characters count twice. */
export function textWidth(text: string): number {
  let width = 0;
  for (const character of text) width += (character.codePointAt(0) ?? 0) >= 0x2e80 ? 2 : 1;
  return width;
}

function longest(labels: readonly string[]): number {
  return labels.reduce((most, label) => Math.max(most, textWidth(label)), 1);
}

export function rowHeaderWidth(labels: readonly string[] | null, rows: number): number {
  if (labels === null) return String(Math.max(0, rows - 1)).length * CHARACTER + 14;
  return clamp(longest(labels) * CHARACTER + 14, 28, 100);
}

export function columnHeaderHeight(labels: readonly string[] | null, isUpright: boolean): number {
  if (labels === null || !isUpright) return INDEX_HEIGHT;
  return clamp(longest(labels) * CHARACTER + 10, INDEX_HEIGHT, 76);
}

/** The width of a column over which the longest label is whole, within reason. */
export function labelWidth(labels: readonly string[] | null): number {
  return labels === null ? 0 : Math.min(longest(labels) * CHARACTER + 10, 96);
}

/** Whether labels over the columns are turned upright: too narrow to lie, wide enough to stand. */
export function areUpright(labels: readonly string[] | null, width: number): boolean {
  if (labels === null || !hasLabels(width)) return false;
  return width < Math.min(ROOM_FOR_TICK + 6, longest(labels) * CHARACTER + 2);
}

/** Whether rows or columns of this size have labels, if there are any. */
export function hasLabels(size: number): boolean {
  return size >= roomForLabel();
}

/**
 * The headers of the places `from` to `to`: labels where there is room, else numbered ticks.
 *
 * A tick whose number would run over the end of all `count` places is left out.
 */
export function headers(
  labels: readonly string[] | null,
  from: number,
  to: number,
  size: number,
  count: number,
  roomForTick: number = ROOM_FOR_TICK,
): Header[] {
  const labelled = labels !== null && hasLabels(size);
  const step = labelled ? 1 : tickStep(size, roomForTick);
  const found: Header[] = [];
  for (let at = Math.ceil(from / step) * step; at < to; at += step) {
    const text = labelled ? (labels[at] ?? String(at)) : String(at);
    const isCut =
      step > 1 && (count - at) * size < Math.min(roomForTick, text.length * CHARACTER + 5);
    if (!isCut) found.push({ at, text });
  }
  return found;
}

/**
 * The headers of rows. Where labels would overlap, each second or third row has one, and the marked
 * row always.
 */
export function rowHeaders(
  labels: readonly string[] | null,
  from: number,
  to: number,
  size: number,
  count: number,
  marked: number | null,
): Header[] {
  if (labels === null) return headers(null, from, to, size, count, ROOM_FOR_ROW_TICK);
  const line = lecture.isOn ? TIGHT : ROW_LABEL;
  const step = Math.max(1, Math.ceil(line / size));
  const isFree = (at: number) => marked === null || Math.abs(at - marked) * size >= line;
  const found: Header[] = [];
  for (let at = from; at < to; at++) {
    if (at === marked || (at % step === 0 && isFree(at))) {
      found.push({ at, text: labels[at] ?? String(at) });
    }
  }
  return found;
}

/** Pixels that an exact cell needs for the longest of some numbers. */
export function exactWidth(texts: Iterable<string>): number {
  let most = 3;
  for (const text of texts) most = Math.max(most, text.length);
  return clamp(Math.ceil(most * 7.25) + 14, NARROWEST, 136);
}

/** A row or a column by its name: `'am'` for a token, its number otherwise. */
export function placeName(labels: readonly string[] | null, at: number): string {
  const label = labels?.[at];
  return label === undefined ? String(at) : `'${label}'`;
}
