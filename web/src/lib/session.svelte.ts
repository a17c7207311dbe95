/**
 * What the page shows: one open trace, one selected step, one selected cell, and the way there.
 *
 * Components read these fields and call these methods; they do not talk to the server about
 * traces themselves. The address bar follows (`route.ts`), so that every state has a link.
 */

import * as api from './api';
import type { CardInfo, Equation, ModelInfo, TraceInfo } from './api';

export type View = 'start' | 'map' | 'attention' | 'decoding' | 'walk' | 'training';

/** A cell of the open trace. */
export interface Place {
  step: number;
  index: number[];
}

export class Session {
  models = $state.raw<ModelInfo[]>([]);
  view = $state<View>('start');

  trace = $state.raw<TraceInfo | null>(null);
  step = $state<number | null>(null);
  /** The places of the axes before the last two of the selected step: batch, head. */
  lead = $state.raw<number[]>([]);
  equation = $state.raw<Equation | null>(null);

  cell = $state.raw<Place | null>(null);
  card = $state.raw<CardInfo | null>(null);
  /** The cells that were looked at on the way to this one, oldest first. */
  trail = $state.raw<Place[]>([]);

  /** The lesson of the walk and its step, from 0; null: the list of lessons. `run`: this trace. */
  walk = $state.raw<{ lesson: string; step: number } | null>(null);

  /** What the server is doing for us, or null; `cancel` ends it. */
  busy = $state<'running' | 'editing' | 'loading' | null>(null);
  problem = $state<string | null>(null);

  private running: AbortController | null = null;

  async loadModels(): Promise<void> {
    this.models = (await this.attempt('loading', (signal) => api.models(signal))) ?? [];
  }

  /** Run a model over a text and show the trace. */
  async run(model: string, text: string, target: string | null = null): Promise<boolean> {
    const trace = await this.attempt('running', (signal) =>
      api.createTrace({ model, text, target }, signal),
    );
    if (trace === undefined) return false;
    await this.show(trace);
    return true;
  }

  /** Open a trace that the server already has: of a lesson, of `glassformer.explore`. */
  async open(id: string, view: View = 'map'): Promise<boolean> {
    const trace = await this.attempt('loading', (signal) => api.trace(id, signal));
    if (trace === undefined) return false;
    await this.show(trace, view);
    return true;
  }

  /** Select a step; the leading axes stay where they were if they fit. */
  async select(step: number, lead: number[] | null = null): Promise<void> {
    const trace = this.trace;
    if (trace === null) return;
    const wanted = fitted(lead ?? this.lead, trace.steps[step].shape.slice(0, -2));
    const equation = await this.attempt('loading', (signal) =>
      api.equation(trace.id, step, wanted, signal),
    );
    if (equation === undefined) return;
    this.step = step;
    this.lead = wanted;
    this.equation = equation;
  }

  /** Show a cell's card, and its step if another one is selected. */
  async explain(place: Place, operand: number | null = null): Promise<void> {
    const card = await this.fetchCard(place, operand);
    if (card === undefined) return;
    if (this.cell !== null) this.trail = [...this.trail, this.cell];
    await this.present(card);
  }

  /** One place back along the trail. */
  async back(): Promise<void> {
    const last = this.trail.at(-1);
    if (last === undefined) return;
    const card = await this.fetchCard(last, null);
    if (card === undefined) return;
    this.trail = this.trail.slice(0, -1);
    await this.present(card);
  }

  closeCard(): void {
    this.cell = null;
    this.card = null;
    this.trail = [];
  }

  /** Set one number; everything downstream is computed anew, on the server. */
  async edit(place: Place, value: number): Promise<boolean> {
    const trace = this.trace;
    if (trace === null) return false;
    const edits = [{ step: trace.steps[place.step].name, index: place.index, value }];
    const edited = await this.attempt('editing', (signal) => api.edit(trace.id, edits, signal));
    if (edited === undefined) return false;
    await this.replace(edited);
    return true;
  }

  /** Back to the trace before the last edit. */
  async undo(): Promise<void> {
    const parent = this.trace?.parent;
    if (parent) await this.replaceBy(parent);
  }

  /** Back to the trace before any edit. */
  async reset(): Promise<void> {
    const trace = this.trace;
    if (trace !== null && trace.root !== trace.id) await this.replaceBy(trace.root);
  }

  cancel(): void {
    this.running?.abort();
  }

  private async show(trace: TraceInfo, view: View = 'map'): Promise<void> {
    this.trace = trace;
    this.closeCard();
    this.lead = [];
    this.view = view;
    await this.select(trace.first);
  }

  private async replaceBy(id: string): Promise<void> {
    const trace = await this.attempt('loading', (signal) => api.trace(id, signal));
    if (trace !== undefined) await this.replace(trace);
  }

  /** Another version of the same run: step, cell and trail stay. */
  private async replace(trace: TraceInfo): Promise<void> {
    const { step, cell } = this;
    this.trace = trace;
    if (step !== null && step < trace.steps.length) await this.select(step);
    if (cell !== null) {
      const card = await this.fetchCard(cell, null);
      if (card !== undefined) this.card = card;
    }
  }

  private async present(card: CardInfo): Promise<void> {
    const { step, index } = card.cell;
    this.cell = { step, index };
    this.card = card;
    const lead = index.slice(0, -2);
    if (step !== this.step || String(lead) !== String(this.lead)) await this.select(step, lead);
  }

  private async fetchCard(place: Place, operand: number | null): Promise<CardInfo | undefined> {
    const trace = this.trace;
    if (trace === null) return undefined;
    return this.attempt('loading', (signal) => api.card(trace.id, place, operand, signal));
  }

  /** Do something that may take long or fail; a failure becomes the line on the screen. */
  private async attempt<T>(
    what: 'running' | 'editing' | 'loading',
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T | undefined> {
    const controller = new AbortController();
    this.running = controller;
    this.busy = what;
    this.problem = null;
    try {
      return await work(controller.signal);
    } catch (error) {
      if (!controller.signal.aborted) this.problem = api.describe(error);
      return undefined;
    } finally {
      if (this.running === controller) {
        this.running = null;
        this.busy = null;
      }
    }
  }
}

/** Leading places that fit a shape: missing ones are 0, too large ones are cut. */
function fitted(lead: number[], sizes: number[]): number[] {
  return sizes.map((size, axis) => Math.min(lead[axis] ?? 0, Math.max(0, size - 1)));
}
