/**
 * What the page shows: one open trace, one selected step, one selected cell, and the way there.
 *
 * Components read these fields and call these methods; they do not talk to the server about
 * traces themselves. The address bar follows (`route.svelte.ts`), so that every state has a link:
 * what belongs together is therefore fetched first and then set at once.
 */

import * as api from './api';
import type { CardInfo, DependentInfo, EditInput, Equation, ModelInfo, TraceInfo } from './api';

export type View = 'start' | 'map' | 'attention' | 'decoding' | 'walk' | 'training';

/** A cell of the open trace. */
export interface Place {
  step: number;
  index: number[];
}

/** What a trace was made from: enough to make it again. */
interface Origin {
  model: string;
  text: string;
  target: string | null;
  edits: EditInput[];
}

/** A step on the screen. */
interface Shown {
  step: number;
  lead: number[];
  equation: Equation;
}

type Work = 'running' | 'editing' | 'loading';

export class Session {
  models = $state.raw<ModelInfo[]>([]);
  /** Those that a text can be given to: not modules of the user's. */
  readers = $derived(this.models.filter(({ task }) => task !== 'module'));
  view = $state<View>('start');
  /** Whether the server watches a training run. */
  isWatching = $state(false);

  trace = $state.raw<TraceInfo | null>(null);
  step = $state<number | null>(null);
  /** The places of the axes before the last two of the selected step: batch, head. */
  lead = $state.raw<number[]>([]);
  equation = $state.raw<Equation | null>(null);

  cell = $state.raw<Place | null>(null);
  card = $state.raw<CardInfo | null>(null);
  /** The cells that were looked at on the way to this one, oldest first. */
  trail = $state.raw<Place[]>([]);
  /** What was made from the selected cell, step by step; null until `findDependents`. */
  dependents = $state.raw<DependentInfo[] | null>(null);
  /** Whether the matrices show the numbers before the edits. */
  showsBefore = $state(false);

  /** The lesson of the walk and its step, from 0; null: the list of lessons. `run`: this trace. */
  walk = $state.raw<{ lesson: string; step: number } | null>(null);

  /** What the server is doing for us, or null; `cancel` ends it. */
  busy = $state<Work | null>(null);
  problem = $state<string | null>(null);

  private running: AbortController | null = null;
  /** Counts what was asked for, so that a late answer does not overwrite a newer one. */
  private asked = 0;
  private readonly origins = new Map<string, Origin>();
  private readonly revivals = new Map<string, Promise<string | null>>();

  constructor() {
    api.onDropped((id) => this.revive(id));
  }

  async loadModels(): Promise<void> {
    this.models = (await this.attempt('loading', (signal) => api.models(signal))) ?? [];
    this.isWatching = await api.watch(0).then(
      (found) => found !== null,
      () => false,
    );
  }

  /** Run a model over a text and show the trace, with edits if there are some to make. */
  async run(
    model: string,
    text: string,
    target: string | null = null,
    edits: EditInput[] = [],
    view: View = 'map',
  ): Promise<boolean> {
    const trace = await this.attempt('running', (signal) =>
      make({ model, text, target, edits }, signal),
    );
    if (trace === undefined) return false;
    this.origins.set(trace.root, { model, text, target, edits: [] });
    return this.show(trace, view);
  }

  /** Open a trace that the server already has: of a lesson, of `glassformer.explore`. */
  async open(id: string, view: View = 'map'): Promise<boolean> {
    const trace = await this.attempt('loading', (signal) => api.trace(id, signal));
    return trace !== undefined && this.show(trace, view);
  }

  /** Select a step; the leading axes stay where they were if they fit. */
  async select(step: number, lead: number[] | null = null): Promise<void> {
    const trace = this.trace;
    if (trace === null) return;
    const turn = ++this.asked;
    const shown = await this.attempt('loading', (signal) =>
      look(trace, step, lead ?? this.lead, signal),
    );
    if (shown !== undefined && turn === this.asked) Object.assign(this, shown);
  }

  /** Show a cell's card, and its step if another one is selected. */
  async explain(place: Place, operand: number | null = null): Promise<void> {
    const from = this.cell;
    const stays = from === null || (operand === null && isSame(from, place));
    const trail = stays ? this.trail : [...this.trail, from];
    await this.present(place, operand, trail);
  }

  /** One place back along the trail, or to any earlier one of it. */
  async back(to: number = this.trail.length - 1): Promise<void> {
    const place = this.trail[to];
    if (place !== undefined) await this.present(place, null, this.trail.slice(0, to));
  }

  /** Ask what was made from the selected cell. */
  async findDependents(): Promise<void> {
    const { trace, cell } = this;
    if (trace === null || cell === null) return;
    const found = await this.attempt('loading', (signal) => api.dependents(trace.id, cell, signal));
    if (found !== undefined && this.cell === cell) this.dependents = found;
  }

  closeCard(): void {
    this.cell = null;
    this.card = null;
    this.dependents = null;
    this.trail = [];
  }

  /** Set one number; everything downstream is computed anew, on the server. */
  async edit(place: Place, value: number): Promise<boolean> {
    const trace = this.trace;
    if (trace === null) return false;
    const name = trace.steps[place.step]!.name;
    const edits = [{ step: name, index: place.index, value: api.fromNumber(value) }];
    const edited = await this.attempt('editing', (signal) => api.edit(trace.id, edits, signal));
    return edited !== undefined && this.replace(edited);
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

  private async show(trace: TraceInfo, view: View): Promise<boolean> {
    this.remember(trace);
    const shown = await this.attempt('loading', (signal) => look(trace, trace.first, [], signal));
    if (shown === undefined) return false;
    this.asked++;
    this.closeCard();
    Object.assign(this, { trace, view, showsBefore: false, ...shown });
    return true;
  }

  private async replaceBy(id: string): Promise<void> {
    const trace = await this.attempt('loading', (signal) => api.trace(id, signal));
    if (trace !== undefined) await this.replace(trace);
  }

  /** Another version of the same run: step, cell and trail stay. */
  private async replace(trace: TraceInfo): Promise<boolean> {
    this.remember(trace);
    const { cell, lead } = this;
    const step = this.step !== null && this.step < trace.steps.length ? this.step : trace.first;
    const next = await this.attempt('loading', async (signal) => {
      const card = cell === null ? null : api.card(trace.id, cell, null, signal);
      return { ...(await look(trace, step, lead, signal)), card: await card };
    });
    if (next === undefined) return false;
    this.asked++;
    Object.assign(this, { trace, dependents: null, showsBefore: false, ...next });
    return true;
  }

  private async present(place: Place, operand: number | null, trail: Place[]): Promise<void> {
    const trace = this.trace;
    if (trace === null) return;
    const turn = ++this.asked;
    const next = await this.attempt('loading', async (signal) => {
      // Both at once where the place is known; a cell of a view is that of another step.
      const early = operand === null ? this.around(trace, place, signal) : null;
      early?.catch(() => undefined);
      const card = await api.card(trace.id, place, operand, signal);
      const isThere = early !== null && isSame(card.cell, place);
      const shown = await (isThere ? early : this.around(trace, card.cell, signal));
      const { step, index } = card.cell;
      return { card, cell: { step, index }, dependents: null, trail, ...shown };
    });
    if (next !== undefined && turn === this.asked) Object.assign(this, next);
  }

  /** The equation that a cell stands in, if it is not the one on the screen. */
  private async around(
    trace: TraceInfo,
    { step, index }: Place,
    signal: AbortSignal,
  ): Promise<Shown | null> {
    const lead = index.slice(0, -2);
    const isHere = step === this.step && String(lead) === String(this.lead);
    return isHere ? null : look(trace, step, lead, signal);
  }

  /** Whether there is a model of this name that reads text. */
  canRun(name: string): boolean {
    return this.readers.some((model) => model.name === name);
  }

  /** The target that a run was asked for; null where the model produced it. */
  targetOf(trace: TraceInfo): string | null {
    return this.origins.get(trace.root)?.target ?? null;
  }

  /** Keep what a trace and those before it were made from. */
  private remember(trace: TraceInfo): void {
    const { model, text, edits } = trace;
    if (!this.canRun(model)) return; // a module, a lesson
    const origin = { model, text, target: this.targetOf(trace), edits };
    this.origins.set(trace.id, origin);
    if (!this.origins.has(trace.root)) this.origins.set(trace.root, { ...origin, edits: [] });
  }

  /** The server dropped a trace to make room: run it again, and go on as if nothing was. */
  private revive(id: string): Promise<string | null> {
    const origin = this.origins.get(id);
    if (origin === undefined) return Promise.resolve(null);
    let revival = this.revivals.get(id);
    if (revival === undefined) {
      revival = make(origin).then((trace) => {
        this.remember(trace);
        if (this.trace?.id === id) this.trace = trace;
        return trace.id;
      });
      this.revivals.set(id, revival);
      const forget = () => this.revivals.delete(id);
      revival.then(forget, forget);
    }
    return revival;
  }

  /** Do something that may take long or fail; a failure becomes the line on the screen. */
  private async attempt<T>(
    what: Work,
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

/** Run a model, then make the edits one by one, so that each can be undone. */
async function make(origin: Origin, signal?: AbortSignal): Promise<TraceInfo> {
  const { model, text, target, edits } = origin;
  let trace = await api.createTrace({ model, text, target }, signal);
  for (const { step, index, value } of edits) {
    trace = await api.edit(trace.id, [{ step, index, value }], signal);
  }
  return trace;
}

async function look(
  trace: TraceInfo,
  step: number,
  lead: number[],
  signal: AbortSignal,
): Promise<Shown> {
  const wanted = fitted(lead, trace.steps[step]!.shape.slice(0, -2));
  return { step, lead: wanted, equation: await api.equation(trace.id, step, wanted, signal) };
}

/** Leading places that fit a shape: missing ones are 0, too large ones are cut. */
function fitted(lead: number[], sizes: number[]): number[] {
  return sizes.map((size, axis) => Math.min(lead[axis] ?? 0, Math.max(0, size - 1)));
}

function isSame(one: Place, other: Place): boolean {
  return one.step === other.step && String(one.index) === String(other.index);
}
