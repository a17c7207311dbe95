import { describe, expect, test } from 'vitest';

import { Play } from './play.svelte';
import type { Box } from './scene';

const rows = ['tokens', 'attention', 'answer'].map((name, at) => ({ name, at }) as Box);

function loaded(isStill = false): Play {
  const play = new Play(() => isStill);
  play.load(rows);
  return play;
}

/** Frames of 16 ms for some time. */
function run(play: Play, milliseconds: number): void {
  for (let now = 1; now <= milliseconds; now += 16) play.tick(now);
}

describe('play', () => {
  test('goes up row by row and stops at the top', () => {
    const play = loaded();
    expect(play.row).toBeNull();
    play.start();
    expect(play.row).toBe(rows[0]);
    run(play, 1000);
    expect(play.row).toBe(rows[1]);
    expect(play.share).toBeGreaterThan(0);
    expect(play.share).toBeLessThan(0.5);
    run(play, 4000);
    expect([play.isRunning, play.row, play.share]).toEqual([false, rows[2], 1]);
  });

  test('is twice as far at twice the speed', () => {
    const [slow, fast] = [loaded(), loaded()];
    fast.speed = 2;
    for (const play of [slow, fast]) {
      play.start();
      run(play, 600);
    }
    expect(fast.at! / slow.at!).toBeCloseTo(2);
  });

  test('pauses, and steps on and back', () => {
    const play = loaded();
    play.step(1);
    expect(play.row).toBe(rows[0]);
    play.step(1);
    expect([play.row, play.isRunning]).toEqual([rows[1], false]);
    play.step(-1);
    play.step(-1);
    expect(play.row).toBe(rows[0]);
    play.toggle();
    expect(play.isRunning).toBe(true);
    play.toggle();
    run(play, 5000);
    expect(play.row).toBe(rows[0]);
    play.stop();
    expect(play.row).toBeNull();
  });

  test('starts again after the end, and shows whole rows where motion is unwelcome', () => {
    const play = loaded(true);
    play.step(-1);
    expect([play.row, play.share]).toEqual([rows[2], 1]);
    play.at = rows.length;
    play.start();
    expect([play.row, play.share]).toEqual([rows[0], 1]);
  });
});
