/**
 * A search and what it found: settings in, ledger out, asked for anew when something changes.
 *
 * One for the page, so that settings stay when another view is looked at.
 */

import { describe, source } from '../lib/source';
import type { DecodeAnswer, DecodeRequest, TraceInfo } from '../lib/api';
import { wayTo, type Spot } from './ledger';
import { INITIAL, type Settings } from './settings';

/** Long enough for a slider to come to rest, short enough to feel live. */
const REST = 200;

export class Decoding {
  model = $state<string | null>(null);
  text = $state('');
  settings = $state.raw<Settings>(INITIAL);

  answer = $state.raw<DecodeAnswer | null>(null);
  /** What the answer was made with: sentences about it must not use newer settings. */
  made = $state.raw<Settings | null>(null);
  /** Whether something newer is on its way, or will be as soon as the settings are at rest. */
  busy = $state(false);
  problem = $state<string | null>(null);

  spot = $state.raw<Spot>({ step: 0, place: 0 });
  /** The candidates on the way to the best result. */
  readonly way = $derived(this.answer === null ? new Set<string>() : wayTo(this.answer, 0));

  private followed: string | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private running: AbortController | null = null;

  /** Take up the text of a trace, once: afterwards the view's own box is in charge. */
  follow(trace: TraceInfo | null): void {
    if (trace === null || trace.root === this.followed) return;
    this.followed = trace.root;
    const isWriter = trace.task === 'translate' || trace.task === 'generate';
    this.model = isWriter ? trace.model : null;
    this.answer = null;
    this.stop();
    if (!isWriter) return;
    this.text = trace.text;
    this.ask(0);
  }

  change(settings: Partial<Settings>): void {
    this.settings = { ...this.settings, ...settings };
    this.ask();
  }

  /** Search as soon as nothing has changed for a moment. */
  ask(after = REST): void {
    this.stop();
    this.busy = true;
    this.timer = setTimeout(() => void this.run(), after);
  }

  private stop(): void {
    clearTimeout(this.timer);
    this.running?.abort();
    this.running = null;
    this.busy = false;
  }

  /** Select a candidate; the nearest one where there is none. */
  select(step: number, place: number): void {
    const steps = this.answer?.steps ?? [];
    if (steps.length === 0) return;
    const at = Math.min(Math.max(step, 0), steps.length - 1);
    const last = steps[at].candidates.length - 1;
    this.spot = { step: at, place: Math.min(Math.max(place, 0), last) };
  }

  /** Go to a step, to the candidate there that leads to the best result. */
  goTo(step: number): void {
    const steps = this.answer?.steps ?? [];
    const at = Math.min(Math.max(step, 0), steps.length - 1);
    const place = steps[at]?.candidates.findIndex((_, place) => this.way.has(`${at}:${place}`));
    this.select(at, place === undefined || place < 0 ? 0 : place);
  }

  private async run(): Promise<void> {
    if (this.model === null || this.text.trim() === '') return this.stop();
    const controller = new AbortController();
    const settings = this.settings;
    this.running = controller;
    try {
      const answer = await source.decode(this.request(this.model), controller.signal);
      if (controller.signal.aborted) return;
      this.answer = answer;
      this.made = settings;
      this.problem = null;
      this.goTo(this.spot.step);
    } catch (error) {
      if (controller.signal.aborted) return;
      this.problem = describe(error);
      this.answer = null;
    } finally {
      if (this.running === controller) this.stop();
    }
  }

  private request(model: string): DecodeRequest {
    return { model, text: this.text, ...this.settings } as DecodeRequest;
  }
}

export const decoding = new Decoding();
