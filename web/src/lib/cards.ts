/**
 * The cells of the open trace, explained one after another: the card, the way to it, what follows.
 *
 * A card is shown as soon as it is there; the equation around its cell follows, and the address
 * with it.
 */

import type { CardInfo, TraceInfo } from './api';
import { painted } from './frames';
import { isSamePlace, type Place } from './place';
import { cellOf, look, NO_CARD, type Carded, type Shown } from './screen';
import type { Session } from './session.svelte';
import { setting } from './setting.svelte';
import { describe, source } from './source';

export class Cards {
  /** A card that was asked for ahead: a button goes down before it comes up. */
  private ahead: { key: string; card: Promise<CardInfo> } | null = null;
  /** Of the newest look for a card. */
  private presenting: AbortSignal | null = null;

  constructor(private readonly session: Session) {}

  /** Ask for a card that is about to be wanted; the newest alone is kept. */
  anticipate(place: Place, operand: number | null = null): void {
    const { trace } = this.session;
    if (trace === null) return;
    const card = source.card(trace.id, place, operand);
    const ahead = { key: keyOf(trace.id, place, operand), card };
    this.ahead = ahead;
    card.catch(() => {
      if (this.ahead === ahead) this.ahead = null; // whoever wants it asks again
    });
  }

  /** Show a cell's card, and its step if another one is selected. */
  async explain(place: Place, operand: number | null = null): Promise<void> {
    const { cell: from, trail } = this.session;
    const stays = from === null || (operand === null && isSamePlace(from, place));
    await this.present(place, operand, stays ? trail : [...trail, from]);
  }

  /** One place back along the trail, or to any earlier one of it. */
  async back(to: number = this.session.trail.length - 1): Promise<void> {
    const { trail } = this.session;
    const place = trail[to];
    if (place !== undefined) await this.present(place, null, trail.slice(0, to));
  }

  /** Ask what was made from the selected cell. */
  async findDependents(): Promise<void> {
    const { session } = this;
    const { trace, cell } = session;
    if (trace === null || cell === null) return;
    session.dependentsProblem = null;
    await painted(); // the card first: nobody has read it to its end yet
    if (session.cell !== cell) return;
    try {
      const dependents = await source.dependents(trace.id, cell);
      if (session.cell === cell) session.dependents = dependents;
    } catch (error) {
      if (session.cell === cell) session.dependentsProblem = describe(error);
    }
  }

  /** Ask for the card once more: its words are those of the page's language. */
  async reread(): Promise<void> {
    const { session } = this;
    const { trace, cell } = session;
    if (trace === null || cell === null) return;
    await session.attempt(new AbortController(), async (signal) => {
      const card = await source.card(trace.id, cell, null, signal);
      return session.cell === cell && session.trace === trace ? { card } : {};
    });
  }

  close(): void {
    if (this.presenting !== null) this.session.stopLooking(this.presenting); // nobody waits for it
    Object.assign(this.session, NO_CARD);
  }

  private async present(place: Place, operand: number | null, trail: Place[]): Promise<void> {
    const { session } = this;
    const { trace } = session;
    if (trace === null) return;
    await session.look(async (signal) => {
      this.presenting = signal;
      // Both at once where the place is known; a cell of a view is that of another step.
      const early = operand === null ? this.around(trace, place, signal) : null;
      early?.catch(() => undefined);
      const card = await this.ask(trace.id, place, operand, signal);
      const cell = cellOf(card);
      const isThere = early !== null && isSamePlace(cell, place);
      const around = isThere ? early : painted().then(() => this.around(trace, cell, signal));
      const [shown] = await Promise.all([around, this.show({ card, cell, trail }, signal)]);
      return shown ?? {};
    });
  }

  /** A card, from the server or on its way already; that one is given out once. */
  private ask(
    trace: string,
    place: Place,
    operand: number | null,
    signal: AbortSignal,
  ): Promise<CardInfo> {
    const { ahead } = this;
    this.ahead = null;
    if (ahead?.key === keyOf(trace, place, operand)) return ahead.card;
    return source.card(trace, place, operand, signal);
  }

  /** A card in a frame of its own, which the equation would hold up. */
  private async show(carded: Omit<Carded, 'dependents'>, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    this.session.isFollowing = true;
    Object.assign(this.session, carded, { dependents: null });
    await painted();
  }

  /** The equation that a cell stands in, if it is not the one on the screen. */
  private async around(
    trace: TraceInfo,
    { step, index }: Place,
    signal: AbortSignal,
  ): Promise<Shown | null> {
    const lead = index.slice(0, -2);
    const isHere = step === this.session.step && String(lead) === String(this.session.lead);
    return isHere ? null : look(trace, step, lead, signal);
  }
}

function keyOf(trace: string, { step, index }: Place, operand: number | null): string {
  return `${trace}/${step}/${index}/${operand}/${setting.language}`;
}
