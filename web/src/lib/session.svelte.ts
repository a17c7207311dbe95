/**
 * What the page shows: one open trace, one selected step, one selected cell, and the way there.
 *
 * Components read these fields; they do not talk to the server about traces themselves. The session
 * opens traces and selects steps, `cards` explains cells, `edits` sets numbers. The address bar
 * follows (`route.svelte.ts`), so that every state has a link: what belongs together is therefore
 * fetched first and then set at once.
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
import { RUN, type Item, type Tab, type TraceOrigin, type Walk } from './link';
import { Origins } from './origins';
import type { Place } from './place';
import { Requests } from './requests.svelte';
import {
  findStep,
  fitted,
  look,
  lookAt,
  opened,
  type Carded,
  type Shown,
  type Spot,
} from './screen';
import { describe, source } from './source';

export type View =
  | 'start'
  | 'map'
  | 'equation'
  | 'attention'
  | 'decoding'
  | 'walk'
  | 'training'
  | 'experiments'
  | 'claims'
  | 'audit';

export type { Place };

/** What an answer changes on the screen, all at once. */
export type Next = Partial<{ trace: TraceInfo; view: View; showsBefore: boolean } & Shown & Carded>;

export class Session extends Requests<Next> {
  models = $state.raw<ModelInfo[]>([]);
  /** Those that a text can be given to: not modules of the user's. */
  readers = $derived(this.models.filter(({ trace }) => trace === null));
  view = $state<View>('start');
  /** Whether the page is on its way to what the address says. */
  isVisiting = $state(false);
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
  /** What was made from the selected cell, step by step; null until `cards.findDependents`. */
  dependents = $state.raw<DependentInfo[] | null>(null);
  /** Why they could not be found, in the place of the list. */
  dependentsProblem = $state<string | null>(null);
  /** Whether the matrices show the numbers before the edits. */
  showsBefore = $state(false);

  /** A lesson tells of its own run as it was: an edit of it is looked at as an equation. */
  readonly isLesson = $derived.by(() => this.view === 'walk' && this.walk?.lesson !== RUN);

  /** The lesson of the walk and its step, from 0; null: the list of lessons. `run`: this trace. */
  walk = $state.raw<Walk | null>(null);
  /** What the views of claims and audits show; null: their lists. */
  item = $state.raw<Item | null>(null);
  /** Which experiment is looked at, and the text that the run is compared with. */
  tab = $state<Tab>('words');
  other = $state<string | null>(null);

  /** Cells explained, one after another. */
  readonly cards = new Cards(this);
  /** Where the newest selection leads, until it is on the screen. */
  private heading: { step: number; lead: number[] } | null = null;
  /** Numbers set to others, and back. */
  readonly edits: Edits;
  private readonly origins: Origins;

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
    view: View = 'equation',
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
      if (!signal.aborted && this.trace?.model !== model) this.other = null; // a text for another
      return next;
    });
  }

  /** Make the trace of a link without showing it. */
  async make(origin: TraceOrigin, signal: AbortSignal): Promise<TraceInfo> {
    if (origin.kind === 'id') return source.trace(origin.id, signal);
    return this.origins.make(origin, signal);
  }

  /** Open a trace that the server already has: of a lesson, of `glassformer.explore`. */
  async open(id: string, view: View = 'equation', spot: Spot | null = null): Promise<boolean> {
    return this.change('loading', async (signal) => {
      const trace = this.origins.remember(await source.trace(id, signal));
      return { view, ...(await opened(trace, spot, signal)) };
    });
  }

  /** Trace the watched run's model after an update, and look at a spot of it. */
  async openUpdate(update: number, spotIn: (trace: TraceInfo) => Spot): Promise<boolean> {
    return this.change('running', async (signal) => {
      const trace = this.origins.remember(await source.watchTrace(update, signal));
      return { view: 'equation', ...(await opened(trace, spotIn(trace), signal)) };
    });
  }

  /** Look at a spot of the open trace; where it has none of that name, stay. */
  async goTo(spot: Spot): Promise<void> {
    const trace = this.trace;
    if (trace === null || findStep(trace, spot.step) === null) return;
    await this.look((signal) => lookAt(trace, spot, signal));
  }

  /** A number with its card in the equation of its step. */
  async showEquation(place: Place): Promise<void> {
    this.view = 'equation';
    await this.cards.explain(place);
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

  /** Whether there is a model of this name that reads text. */
  canRun(name: string): boolean {
    return this.readers.some((model) => model.name === name);
  }

  /** The target that a run was asked for; null where the model produced it. */
  targetOf(trace: TraceInfo): string | null {
    return this.origins.targetOf(trace);
  }
}
