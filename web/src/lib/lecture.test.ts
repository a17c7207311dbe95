import { expect, it } from 'vitest';

import { scaleFor } from './lecture.svelte';

const TINY = 11.5;

it.each([
  [1920, 1080],
  [1440, 900],
  [1366, 768],
  [1280, 720],
  [960, 540],
])('has type of 24 px and more at %i × %i', (width, height) =>
  expect(scaleFor({ width, height }) * TINY).toBeGreaterThanOrEqual(24),
);

it('grows with the screen', () => {
  const hd = scaleFor({ width: 1920, height: 1080 });
  expect(scaleFor({ width: 3840, height: 2160 })).toBeCloseTo(2 * hd, 1);
  expect(scaleFor({ width: 3840, height: 1080 })).toBe(hd); // it must fit in both directions
});

it('leaves room on a phone', () => {
  expect(scaleFor({ width: 390, height: 844 })).toBe(1.25);
});
