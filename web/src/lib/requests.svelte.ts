/**
 * The page's requests: the newest one wins, and stale responses are dropped.
 *
 * There are two sorts. A *change* goes to another trace: it may take long, the page says so and
 * offers to cancel it. A *look* goes to another place of the open trace: quick, and no end to a
 * change that is on its way.
 */

import { describe } from './source';

type Work = 'running' | 'editing' | 'loading';

/** `Next`: what an answer changes on the screen, all at once. */
export class Requests<Next extends object> {
  /** What is being computed for us, or null; `cancel` ends it. */
  busy = $state<Work | null>(null);
  problem = $state<string | null>(null);
  /** Whether the rest of what is being shown is still loading. */
  isFollowing = $state(false);

  private running: AbortController | null = null;
  private looking: AbortController | null = null;

  /** Stay where we are: drop all pending responses. */
  cancel(): void {
    this.running?.abort();
    this.stopLooking();
  }

  /** End the look that is on its way; where one is named, only if it is that one. */
  stopLooking(named: AbortSignal | null = null): void {
    if (named === null || named === this.looking?.signal) this.looking?.abort();
  }

  /** Go to another trace. */
  async change(what: Work, work: (signal: AbortSignal) => Promise<Next>): Promise<boolean> {
    this.running?.abort();
    const controller = new AbortController();
    this.running = controller;
    this.busy = what;
    this.problem = null;
    const isDone = await this.attempt(controller, work);
    if (this.running === controller) {
      this.running = null;
      this.busy = null;
    }
    return isDone;
  }

  /** Go to another place of this trace. */
  async look(work: (signal: AbortSignal) => Promise<Next>): Promise<void> {
    this.looking?.abort();
    const controller = new AbortController();
    this.looking = controller;
    this.problem = null;
    await this.attempt(controller, work);
    if (this.looking === controller) this.isFollowing = false;
  }

  /**
   * Do something that may fail; a failure becomes the line on the screen. Where the reader has not
   * asked for it, it takes no line away that the reader may not have read.
   */
  async attempt(
    controller: AbortController,
    work: (signal: AbortSignal) => Promise<Next>,
  ): Promise<boolean> {
    const { signal } = controller;
    try {
      const next = await work(signal);
      if (signal.aborted) return false;
      if (controller === this.running) this.stopLooking(); // that looks into the trace before
      Object.assign(this, next);
      return true;
    } catch (error) {
      if (!signal.aborted) this.problem = describe(error);
      return false;
    }
  }
}
