/**
 * What the page shows: one open trace, one selected step, one selected cell, and the way there.
 *
 * Components read these fields and call these methods; they do not talk to the server about
 * traces themselves. The address bar follows (`route.svelte.ts`), so that every state has a link:
 * what belongs together is therefore fetched first and then set at once. A card alone is shown as
 * soon as it is there: the equation around its cell follows, and the address with it.
 */

import {
  type CardInfo,
  type DependentInfo,
  type EditInput,
  type Equation,
  type ModelInfo,
  type TraceInfo,
} from './api';
import { Cards } from './cards';
import { Edits } from './edits';
import { painted } from './frames';
import { Origins } from './origins';
import { isSamePlace, type Place } from './place';
import { Requests } from './requests.svelte';
import {
  cellOf,
  findStep,
  fitted,
  look,
  lookAt,
  NO_CARD,
  opened,
  type Carded,
  type Shown,
  type Spot,
} from './screen';
import { describe, source } from './source';

export type View = 'start' | 'map' | 'attention' | 'decoding' | 'walk' | 'training';

export type { Place };

/** What an answer changes on the screen, all at once. */
export type Next = Partial<{ trace: TraceInfo; view: View; showsBefore: boolean } & Shown & Carded>;

export class Session extends Requests<Next> {
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
  /** Why they could not be found, in the place of the list. */
  dependentsProblem = $state<string | null>(null);
  /** Whether the matrices show the numbers before the edits. */
  showsBefore = $state(false);

  /** The lesson of the walk and its step, from 0; null: the list of lessons. `run`: this trace. */
  walk = $state.raw<{ lesson: string; step: number } | null>(null);

  private readonly cards = new Cards();
  /** Of the newest look for a card. */
  private presenting: AbortSignal | null = null;
  /** Where the newest selection leads, until it is on the screen. */
  private heading: { step: number; lead: number[] } | null = null;
  private readonly origins: Origins;
  /** Numbers set to others, and back. */
  readonly edits: Edits;

  /** `findOther`: what takes the place of a lesson's trace that the server no longer has. */
  constructor(findOther: (id: string) => Promise<string | null> = () => Promise.resolve(null)) {
    super();
    this.origins = new Origins((model) => this.canRun(model), findOther);
    this.edits = new Edits(this, this.origins);
    source.onDropped((id) =>
      this.origins.revive(id, (trace) => {
        if (this.trace?.id === id) this.trace = trace;
      }),
    );
  }

  /** The models come last: once they can be run, nothing of the start is on its way any more. */
  async loadModels(): Promise<void> {
    await this.attempt(new AbortController(), async (signal) => {
      const watched = source.watch(0).catch(() => null);
      const models = await source.models(signal);
      this.isWatching = (await watched) !== null;
      this.models = models;
      return {};
    });
  }

  /** Run a model over a text and show the trace, with edits if there are some to make. */
  async run(
    model: string,
    text: string,
    target: string | null = null,
    edits: EditInput[] = [],
    view: View = 'map',
    spot: Spot | null = null,
  ): Promise<boolean> {
    return this.change('running', async (signal) => {
      const origin = { model, text, target, edits };
      let problem: string | null = null;
      const trace = await this.origins.make(origin, signal, (error) => {
        problem = describe(error);
      });
      const next = { view, ...(await opened(trace, spot, signal)) };
      if (!signal.aborted) this.problem = problem; // of an edit: the run is good without it
      return next;
    });
  }

  /** Open a trace that the server already has: of a lesson, of `glassformer.explore`. */
  async open(id: string, view: View = 'map', spot: Spot | null = null): Promise<boolean> {
    return this.change('loading', async (signal) => {
      const trace = this.origins.remember(await source.trace(id, signal));
      return { view, ...(await opened(trace, spot, signal)) };
    });
  }

  /** Look at a spot of the open trace; where it has none of that name, stay. */
  async goTo(spot: Spot): Promise<void> {
    const trace = this.trace;
    if (trace === null || findStep(trace, spot.step) === null) return;
    await this.look((signal) => lookAt(trace, spot, signal));
  }

  /** Where the reader is or will be in a moment: quick steps count from there, and add up. */
  get ahead(): { step: number | null; lead: number[] } {
    return this.heading ?? this;
  }

  /** Select a step; the leading axes stay where they were if they fit. */
  async select(step: number, lead: number[] = this.ahead.lead): Promise<void> {
    const trace = this.trace;
    if (trace === null) return;
    const heading = { step, lead: fitted(trace, step, lead) };
    this.heading = heading;
    await this.look((signal) => look(trace, step, heading.lead, signal));
    if (this.heading === heading) this.heading = null;
  }

  /** Ask for a card that is about to be wanted. */
  anticipate(place: Place, operand: number | null = null): void {
    if (this.trace !== null) this.cards.askAhead(this.trace.id, place, operand);
  }

  /** Show a cell's card, and its step if another one is selected. */
  async explain(place: Place, operand: number | null = null): Promise<void> {
    const from = this.cell;
    const stays = from === null || (operand === null && isSamePlace(from, place));
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
    this.dependentsProblem = null;
    await painted(); // the card first: nobody has read it to its end yet
    if (this.cell !== cell) return;
    try {
      const dependents = await source.dependents(trace.id, cell);
      if (this.cell === cell) this.dependents = dependents;
    } catch (error) {
      if (this.cell === cell) this.dependentsProblem = describe(error);
    }
  }

  /** Ask for the card once more: its words are those of the page's language. */
  async reread(): Promise<void> {
    const { trace, cell } = this;
    if (trace === null || cell === null) return;
    await this.attempt(new AbortController(), async (signal) => {
      const card = await source.card(trace.id, cell, null, signal);
      return this.cell === cell && this.trace === trace ? { card } : {};
    });
  }

  closeCard(): void {
    if (this.presenting !== null) this.stopLooking(this.presenting); // nobody waits for one now
    Object.assign(this, NO_CARD);
  }

  private async present(place: Place, operand: number | null, trail: Place[]): Promise<void> {
    const trace = this.trace;
    if (trace === null) return;
    await this.look(async (signal) => {
      this.presenting = signal;
      // Both at once where the place is known; a cell of a view is that of another step.
      const early = operand === null ? this.around(trace, place, signal) : null;
      early?.catch(() => undefined);
      const card = await this.cards.ask(trace.id, place, operand, signal);
      const cell = cellOf(card);
      const isThere = early !== null && isSamePlace(cell, place);
      const around = isThere ? early : painted().then(() => this.around(trace, cell, signal));
      const [shown] = await Promise.all([around, this.showCard({ card, cell, trail }, signal)]);
      return shown ?? {};
    });
  }

  /** A card in a frame of its own, which the equation would hold up. */
  private async showCard(
    { card, cell, trail }: Omit<Carded, 'dependents'>,
    signal: AbortSignal,
  ): Promise<void> {
    if (signal.aborted) return;
    this.isFollowing = true;
    Object.assign(this, { card, cell, trail, dependents: null });
    await painted();
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
    return this.origins.targetOf(trace);
  }
}
