/**
 * The tokens on their way up: which row of the picture they are in, and how far through it.
 *
 * `at` runs from 0 to the number of rows; where motion is unwelcome it goes in whole steps.
 */

import type { Box } from './scene';

const LONGEST_MS = 24_000;
const ROW_MS = 900;

export const SPEEDS = [0.5, 1, 2, 4] as const;

export class Play {
  /** Null: nothing is played, everything is shown. */
  at = $state<number | null>(null);
  isRunning = $state(false);
  speed = $state<(typeof SPEEDS)[number]>(1);
  rows = $state.raw<readonly Box[]>([]);

  private last = 0;

  constructor(private readonly isStill: () => boolean) {}

  get row(): Box | null {
    if (this.at === null) return null;
    return this.rows[Math.min(this.rows.length - 1, Math.floor(this.at))] ?? null;
  }

  /** How far the tokens are through the row, from 0 to 1. */
  get share(): number {
    if (this.at === null || this.at >= this.rows.length) return 1;
    return this.isStill() ? 1 : this.at - Math.floor(this.at);
  }

  load(rows: readonly Box[]): void {
    this.rows = rows;
    this.stop();
  }

  /** Pause, or go on; `first` is the row to begin with where nothing is played yet. */
  toggle(first: Box | null = null): void {
    if (this.isRunning) this.isRunning = false;
    else this.start(first);
  }

  start(first: Box | null = null): void {
    if (this.rows.length === 0) return;
    const from = first === null ? 0 : Math.max(0, this.rows.indexOf(first));
    if (this.at === null || this.at >= this.rows.length) this.at = from;
    this.isRunning = true;
    this.last = 0;
  }

  stop(): void {
    this.isRunning = false;
    this.at = null;
  }

  /** One row on or back; it pauses. */
  step(by: 1 | -1): void {
    this.isRunning = false;
    const here = this.at === null ? (by > 0 ? -1 : this.rows.length) : Math.floor(this.at);
    this.at = Math.min(this.rows.length - 1, Math.max(0, here + by));
  }

  /** Called in each frame with its time in milliseconds. */
  tick(now: number): void {
    if (!this.isRunning || this.at === null) return;
    const passed = this.last === 0 ? 0 : Math.min(100, now - this.last);
    this.last = now;
    const each = Math.min(ROW_MS, LONGEST_MS / this.rows.length) / this.speed;
    this.at = Math.min(this.rows.length, this.at + passed / each);
    if (this.at >= this.rows.length) this.isRunning = false;
  }
}
