import { expect, test } from 'vitest';
import { beatAfter, beatsOf, drawingAt } from './animation';

const MOVING = '<svg xmlns="http://www.w3.org/2000/svg" class="gf gf-3" width="10"></svg>';
const STILL = '<svg xmlns="http://www.w3.org/2000/svg" class="gf" width="10"></svg>';

test('a drawing says how many beats it has', () => {
  expect(beatsOf(MOVING)).toBe(3);
  expect(beatsOf(STILL)).toBe(0);
});

test('a class stops it at a beat, and its ground is clear', () => {
  expect(drawingAt(MOVING, 2)).toContain('class="gf gf-clear gf-at-2 gf-3"');
  expect(drawingAt(MOVING, null)).toContain('class="gf gf-clear gf-3"');
  expect(drawingAt(STILL, null)).toContain('class="gf gf-clear"');
});

test('pausing keeps the beat that is shown', () => {
  expect(beatAfter(0, 3)).toBe(1);
  expect(beatAfter(1.5, 3)).toBe(2);
  expect(beatAfter(5, 3)).toBe(3); // the finished figure rests
  expect(beatAfter(7.1, 3)).toBe(1); // and starts again
});
