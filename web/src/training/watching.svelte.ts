/** The training run that the server watches, asked for again and again while it goes on. */

import { describe, source } from '../lib/source';
import type { WatchInfo } from '../lib/api';
import type { Metric } from './metrics';

const EVERY = 1000;

export class Watching {
  info = $state.raw<WatchInfo | null>(null);
  metrics = $state.raw<Metric[]>([]);
  /** Whether the server has said that there is no run. */
  isNone = $state(false);
  problem = $state<string | null>(null);

  private next = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isOn = false;

  /** Ask until the run is over; returns what ends it. */
  start(): () => void {
    this.isOn = true;
    void this.ask();
    return () => {
      this.isOn = false;
      clearTimeout(this.timer);
    };
  }

  private async ask(): Promise<void> {
    try {
      this.take(await source.watch(this.next));
      this.problem = null;
    } catch (error) {
      this.problem = describe(error);
    }
    const isOver = this.isNone || (this.info !== null && this.info.state !== 'running');
    if (this.isOn && !isOver) this.timer = setTimeout(() => void this.ask(), EVERY);
  }

  private take(info: WatchInfo | null): void {
    this.isNone = info === null;
    if (info === null) return;
    const isAnew = info.next < this.next; // the run went back to a state before these metrics
    const before = isAnew ? [] : this.metrics;
    if (isAnew || info.metrics.length > 0) this.metrics = [...before, ...info.metrics];
    this.next = info.next;
    this.info = info;
  }
}
