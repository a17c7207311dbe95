/** Cards, asked for ahead where one is about to be wanted: a button goes down before it comes up. */

import { source } from './source';
import type { CardInfo } from './api';
import type { Place } from './place';
import { setting } from './setting.svelte';

export class Cards {
  private ahead: { key: string; card: Promise<CardInfo> } | null = null;

  /** The newest alone is kept. */
  askAhead(trace: string, place: Place, operand: number | null): void {
    const ahead = { key: keyOf(trace, place, operand), card: source.card(trace, place, operand) };
    this.ahead = ahead;
    ahead.card.catch(() => {
      if (this.ahead === ahead) this.ahead = null; // whoever wants it asks again
    });
  }

  /** A card, from the server or on its way already; that one is given out once. */
  ask(trace: string, place: Place, operand: number | null, signal: AbortSignal): Promise<CardInfo> {
    const { ahead } = this;
    this.ahead = null;
    if (ahead?.key === keyOf(trace, place, operand)) return ahead.card;
    return source.card(trace, place, operand, signal);
  }
}

function keyOf(trace: string, { step, index }: Place, operand: number | null): string {
  return `${trace}/${step}/${index}/${operand}/${setting.language}`;
}
