/** The small pictures of steps, fetched in batches when their rows come into view. */

import { source } from '../lib/source';
import type { Thumbnail } from '../lib/api';

const BATCH = 64;

export class Pictures {
  private readonly found = $state<Record<number, Thumbnail>>({});
  /** How many batches have come: to be read by what draws pictures later than it asks for them. */
  arrived = $state(0);
  private readonly asked = new Set<number>();
  private waiting: number[] = [];

  constructor(private readonly trace: string) {}

  get(step: number): Thumbnail | undefined {
    return this.found[step];
  }

  /** Have these ready soon; those asked for within one frame are fetched together. */
  want(steps: number[]): void {
    const fresh = steps.filter((step) => !this.asked.has(step));
    if (fresh.length === 0) return;
    fresh.forEach((step) => this.asked.add(step));
    if (this.waiting.length === 0) requestAnimationFrame(() => void this.fetch());
    this.waiting.push(...fresh);
  }

  private async fetch(): Promise<void> {
    const steps = this.waiting;
    this.waiting = [];
    for (let start = 0; start < steps.length; start += BATCH) {
      const batch = steps.slice(start, start + BATCH);
      try {
        for (const one of await source.thumbnails(this.trace, batch)) this.found[one.step] = one;
        this.arrived += 1;
      } catch {
        batch.forEach((step) => this.asked.delete(step)); // the next look asks again
      }
    }
  }
}
