/** What a person typed as the new value of a cell: a number, or why it cannot be one. */

import { parseNumber, shortest } from '../matrix/numbers';

export type Refusal = 'edit.notNumber' | 'edit.notWhole' | 'edit.same';

/** Ids and other whole numbers may not become fractions. */
export function readEntry(text: string, now: number, isWhole: boolean): number | Refusal {
  const value = parseNumber(text);
  if (value === undefined) return 'edit.notNumber';
  if (isWhole && !(Number.isInteger(value) && value >= 0)) return 'edit.notWhole';
  return Object.is(value, now) ? 'edit.same' : value;
}

/** A number as one would type it: the fewest digits that give the same float32 back. */
export function typed(value: number): string {
  return String(shortest(Math.fround(value)));
}

export function isWholeType(dtype: string): boolean {
  return !dtype.includes('float');
}
