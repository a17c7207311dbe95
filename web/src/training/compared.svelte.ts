/** Other runs whose curves are drawn beside those of the watched one. */

import { SvelteMap } from 'svelte/reactivity';

import type { RunCurves } from '../lib/api';
import { describe, source } from '../lib/source';
import { curves, type Curve } from './metrics';

/** Curves that are still told apart, with those of the watched run. */
export const MOST_RUNS = 4;

export class Compared {
  problem = $state<string | null>(null);
  private readonly runs = new SvelteMap<string, RunCurves>();

  has(name: string): boolean {
    return this.runs.has(name);
  }

  get isFull(): boolean {
    return this.runs.size >= MOST_RUNS;
  }

  async toggle(name: string): Promise<void> {
    if (this.runs.delete(name)) return;
    try {
      this.runs.set(name, await source.watchRun(name));
      this.problem = null;
    } catch (error) {
      this.problem = describe(error);
    }
  }

  /** The curve of a measure in each of the other runs. */
  curvesOf(measure: string): Curve[] {
    return [...this.runs.values()].flatMap(({ name, metrics }) =>
      curves(metrics, [measure]).map(({ points }) => ({ name: `run:${name}`, points })),
    );
  }

  /** What these curves are called. */
  get names(): Record<string, string> {
    return Object.fromEntries([...this.runs.keys()].map((name) => [`run:${name}`, name]));
  }
}
