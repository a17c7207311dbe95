/** A slider over a number, and what of an answer to show while it moves. Pure. */

import type { Answer, AnswerPosition, Choice, Scale } from '../lib/api';

export interface Span {
  low: number;
  high: number;
  by: number;
}

const NOTCHES = 200;

/** How far a number may be moved: probabilities within 0…1, others as far as their step goes. */
export function spanOf(value: number, scale: Scale | null): Span {
  if (scale?.kind === 'probability' && value >= 0 && value <= 1) {
    return { low: 0, high: 1, by: 1 / NOTCHES };
  }
  const size = Number.isFinite(value) ? Math.abs(value) : 0;
  const far = rounded(Math.max(2 * size, 1.5 * (scale?.limit ?? 0)) || 1);
  return { low: -far, high: far, by: (2 * far) / NOTCHES };
}

/** The next of 1, 2, 5, 10, …: notches are then numbers that one would write. */
function rounded(size: number): number {
  const power = 10 ** Math.floor(Math.log10(size));
  return power * ([1, 2, 5].find((one) => one * power >= size) ?? 10);
}

/** A number on its notch, without the digits that only binary fractions have. */
export function onNotch(value: number, { by }: Span): number {
  const digits = Math.max(0, 1 - Math.floor(Math.log10(by)));
  return Number(value.toFixed(Math.min(digits, 20)));
}

/** The bars to show: where they are, and what they are before and now. */
export interface Bars {
  /** The token before the position; null for a classifier. */
  after: string | null;
  before: Choice[];
  now: Choice[];
}

/** A classifier's classes; of a text, the position whose first choice has changed most. */
export function barsOf(before: Answer, now: Answer): Bars | null {
  if (before.classes.length > 0) {
    return { after: null, before: before.classes, now: alike(before.classes, now.classes) };
  }
  const changes = before.positions.map((old, at) => changeOf(old, now.positions[at]));
  if (changes.length === 0) return null;
  const most = Math.max(...changes);
  const at = most > 0 ? changes.indexOf(most) : changes.length - 1;
  const [old, here] = [before.positions[at]!, now.positions[at]];
  const known = here?.choices ?? [];
  const shown = [...old.choices.slice(0, 3)];
  for (const choice of known) {
    if (shown.length < 5 && !shown.some(({ text }) => text === choice.text)) shown.push(choice);
  }
  return { after: old.after, before: old.choices, now: alike(shown, known) };
}

/** How far the likeliest token before and the likeliest now have moved together. */
function changeOf(old: AnswerPosition, now: AnswerPosition | undefined): number {
  const [first, here] = [old.choices[0], now?.choices[0]];
  if (first === undefined || now === undefined || here === undefined) return 0;
  const still = now.choices.find(({ text }) => text === first.text)?.probability ?? 0;
  const was = old.choices.find(({ text }) => text === here.text)?.probability ?? 0;
  return Math.abs(first.probability - still) + Math.abs(here.probability - was);
}

/** The choices in the order that they had, so that bars move and do not jump. */
function alike(order: Choice[], now: Choice[]): Choice[] {
  return order.map((old) => ({
    ...old,
    probability: now.find(({ text }) => text === old.text)?.probability ?? 0,
  }));
}
