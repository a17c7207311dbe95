/** Edits of the open run: each makes a new trace, shown in the place of the one before. */

import { fromNumber, type EditInput, type TraceInfo } from './api';
import type { Origins } from './origins';
import { carryPlace, type Place } from './place';
import { look, NO_CARD } from './screen';
import type { Next, Session } from './session.svelte';
import { source } from './source';

export class Edits {
  constructor(
    private readonly session: Session,
    private readonly origins: Origins,
  ) {}

  /** Set one number; everything downstream is recomputed. */
  async set(
    place: Place,
    value: number,
    from: TraceInfo | null = this.session.trace,
  ): Promise<boolean> {
    if (from === null) return false;
    const step = from.steps[place.step]!.name;
    return this.apply([{ step, index: place.index, value: fromNumber(value) }], from);
  }

  /** Make edits, of the run that is shown or of one before it. */
  async apply(edits: EditInput[], from: TraceInfo | null = this.session.trace): Promise<boolean> {
    if (from === null) return false;
    return this.session.change('editing', async (signal) =>
      this.carried(this.origins.remember(await source.edit(from.id, edits, signal)), signal),
    );
  }

  /** Back to the trace before the last edit. */
  async undo(): Promise<void> {
    const parent = this.session.trace?.parent;
    if (parent) await this.replaceBy(parent);
  }

  /** Back to the trace before any edit. */
  async reset(): Promise<void> {
    const { trace } = this.session;
    if (trace !== null && trace.root !== trace.id) await this.replaceBy(trace.root);
  }

  private async replaceBy(id: string): Promise<void> {
    await this.session.change('loading', async (signal) =>
      this.carried(this.origins.remember(await source.trace(id, signal)), signal),
    );
  }

  /** Another version of the same run: step, cell and trail stay, by name, where it has them. */
  private async carried(trace: TraceInfo, signal: AbortSignal): Promise<Next> {
    const { session } = this;
    const { trace: old, step, lead, cell, trail } = session;
    const carry = (place: Place) => carryPlace(place, old, trace);
    const kept = cell === null ? null : carry(cell);
    const name = step === null ? null : old?.steps[step]?.name;
    const there = trace.steps.find((one) => one.name === name)?.number ?? trace.first;
    const [shown, card] = await Promise.all([
      look(trace, there, lead, signal),
      kept === null ? null : source.card(trace.id, kept, null, signal),
    ]);
    // The reader went on or closed the card meanwhile: what was fetched is not what is looked at.
    if (session.step !== step || session.lead !== lead || session.cell !== cell) {
      return this.carried(trace, signal);
    }
    const way = trail.map(carry).filter((place) => place !== null);
    const part = card === null ? NO_CARD : { cell: kept, card, dependents: null, trail: way };
    return { trace, showsBefore: false, ...shown, ...part };
  }
}
