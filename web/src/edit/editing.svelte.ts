/** Which cell is being edited: one at a time, wherever on the page the edit was begun. */

import { describe, source } from '../lib/source';
import type { CardInfo } from '../lib/api';
import type { Place, Session } from '../lib/session.svelte';

class Editing {
  card = $state.raw<CardInfo | null>(null);
  /** Counts the starts: only the newest may open the box. */
  private starts = 0;

  /** Ask for a new value of a cell; with `operand`, the index counts in that operand. */
  async start(session: Session, place: Place, operand: number | null = null): Promise<void> {
    const { trace } = session;
    if (trace === null) return;
    const start = ++this.starts;
    try {
      if (session.isLesson) await session.showEquation(place);
      const card = await source.card(trace.id, place, operand);
      if (start === this.starts) this.card = card;
    } catch (error) {
      if (start === this.starts) session.problem = describe(error);
    }
  }

  stop(): void {
    this.card = null;
  }
}

export const editing = new Editing();
