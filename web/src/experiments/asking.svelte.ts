/** One experiment at a time: asked again when its question changes, cancelled when nobody looks. */

import type { Experiment, Experiments } from '../lib/experiments';
import { describe, source } from '../lib/source';

export class Asking<K extends Experiment> {
  answer = $state.raw<Experiments[K]['answer'] | null>(null);
  problem = $state<string | null>(null);
  isBusy = $state(false);
  private current: AbortController | null = null;

  constructor(private readonly what: K) {}

  async ask(trace: string, request: Experiments[K]['request']): Promise<void> {
    this.current?.abort();
    const controller = new AbortController();
    this.current = controller;
    [this.isBusy, this.problem] = [true, null];
    try {
      const answer = await source.experiment(trace, this.what, request, controller.signal);
      if (this.current === controller) this.answer = answer;
    } catch (error) {
      if (this.current === controller) [this.answer, this.problem] = [null, describe(error)];
    }
    if (this.current === controller) [this.isBusy, this.current] = [false, null];
  }

  /** Nobody waits for it any more. */
  stop(): void {
    this.current?.abort();
    [this.current, this.isBusy] = [null, false];
  }
}
