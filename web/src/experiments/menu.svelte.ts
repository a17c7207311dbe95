/** The menu of what can be done to a part of the run: which cell it is about, and where it opens. */

import type { CellRef } from '../lib/api';
import type { Place } from '../lib/place';
import type { Session } from '../lib/session.svelte';
import { describe, source } from '../lib/source';

class RegionMenuState {
  cell = $state.raw<CellRef | null>(null);
  at = $state.raw<{ x: number; y: number }>({ x: 0, y: 0 });
  /** Whether it is about the head of the cell and what the head is in, not about the cell. */
  isOfHead = $state(false);
  /** Counts the openings: only the newest may show. */
  private openings = 0;

  /** Open it for a cell; with `operand`, the index counts in that operand of the step. */
  async open(
    session: Session,
    place: Place,
    at: { x: number; y: number },
    operand: number | null = null,
    isOfHead = false,
  ): Promise<void> {
    const { trace } = session;
    if (trace === null || !source.can.experiment) return;
    const opening = ++this.openings;
    try {
      if (session.isLesson) await session.showEquation(place);
      const { cell } = await source.card(trace.id, place, operand);
      if (opening === this.openings) [this.cell, this.at, this.isOfHead] = [cell, at, isOfHead];
    } catch (error) {
      if (opening === this.openings) session.problem = describe(error);
    }
  }

  close(): void {
    this.openings++;
    this.cell = null;
  }
}

export const menu = new RegionMenuState();
