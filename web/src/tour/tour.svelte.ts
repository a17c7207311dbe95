/**
 * The tour: 60 seconds on the toy. Answer → weights → “not” → set it to 0 → the answer turns.
 *
 * Each stop is a state of the page like any other (a run, its edits, a spot), so that going back is
 * going there again, and the address follows. It never starts by itself; that it was taken is
 * remembered.
 */

import type { EditInput } from '../lib/api';
import type { Key } from '../lib/i18n';
import type { Spot } from '../lib/screen';
import type { Session } from '../lib/session.svelte';

export const MODEL = 'toy';
export const TEXT = 'I am not happy';
const WEIGHTS = 'encoder.blocks.0.attention.weights';
/** How much “happy” attends to “not”. */
const CELL = [0, 0, 3, 2];
const SILENCED: EditInput[] = [{ step: WEIGHTS, index: CELL, value: 0 }];

export interface Stop {
  text: Key;
  /** The element in the light, by its `data-tour`. */
  target: 'answer' | 'equation' | 'card' | 'form';
  spot: Spot;
  edits: EditInput[];
}

const weights: Spot = { step: WEIGHTS, lead: [], cell: null };
const onNot: Spot = { ...weights, cell: CELL };

export const STOPS: readonly Stop[] = [
  { text: 'tour.answer', target: 'answer', spot: weights, edits: [] },
  { text: 'tour.weights', target: 'equation', spot: weights, edits: [] },
  { text: 'tour.not', target: 'card', spot: onNot, edits: [] },
  { text: 'tour.edit', target: 'card', spot: onNot, edits: SILENCED },
  { text: 'tour.turn', target: 'answer', spot: onNot, edits: SILENCED },
  { text: 'tour.yours', target: 'form', spot: weights, edits: [] },
];

export class Tour {
  /** The stop that is shown, from 0; null: no tour. */
  at = $state<number | null>(null);
  taken = $state(remembered());
  /** Counts the stops asked for: only the newest is shown. */
  private asked = 0;
  /** The stop on its way: quick steps count from there. */
  private heading: number | null = null;

  readonly stop = $derived(this.at === null ? null : STOPS[this.at]!);

  /** Whether there is anything to tour: a saved page has no toy. */
  canStart(session: Session): boolean {
    return session.canRun(MODEL);
  }

  start(session: Session): Promise<void> {
    return this.go(session, 0);
  }

  async go(session: Session, to: number): Promise<void> {
    if (to >= STOPS.length) return this.end();
    const { spot, edits } = STOPS[Math.max(0, to)]!;
    const asked = ++this.asked;
    this.heading = Math.max(0, to);
    const isThere = await session.run(MODEL, TEXT, null, edits, 'equation', spot);
    if (asked !== this.asked) return;
    if (!isThere) return this.end();
    this.at = this.heading;
    this.heading = null;
    if (this.at === STOPS.length - 1) this.remember();
  }

  next(session: Session): Promise<void> {
    return this.go(session, (this.heading ?? this.at ?? -1) + 1);
  }

  back(session: Session): Promise<void> {
    return this.go(session, (this.heading ?? this.at ?? 1) - 1);
  }

  end(): void {
    this.asked += 1;
    this.at = this.heading = null;
  }

  private remember(): void {
    this.taken = true;
    try {
      localStorage.setItem('glassformer.tour', 'taken');
    } catch {
      // storage is switched off: it is offered again next time
    }
  }
}

function remembered(): boolean {
  try {
    return localStorage.getItem('glassformer.tour') === 'taken';
  } catch {
    return false;
  }
}

export const tour = new Tour();
