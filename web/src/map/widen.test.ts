import { expect, test } from 'vitest';

import type { MapBoxInfo, MapInfo } from '../lib/api';
import { widened } from './widen';

function box(kind: MapBoxInfo['kind'], x: number, width: number): MapBoxInfo {
  const rest = { name: '', step: null, layer: null, tower: 0, n_more: 0, parent: null };
  return { ...rest, kind, x, y: 0, width, height: 2000 };
}

/** Two towers of 800 with columns from 500 to 740, and a step in the left half of the second. */
const info: MapInfo = {
  width: 1750,
  height: 2000,
  boxes: [box('tower', 0, 800), box('tower', 950, 800), box('step', 1100, 56)],
  arrows: [{ kind: 'memory', source: 0, target: 1, points: [[800, 9], [950, 9]] }], // prettier-ignore
  columns: [540, 1490].map((x) => ({
    ...{ kind: 'encoder', x, pitch: 80, texts: ['a', 'b', 'c'], n_tokens: 3 },
  })),
  heat: [],
  arcs: [],
};

test('columns take the width that a high picture leaves; the rest keeps its size', () => {
  const wide = widened(info, { width: 1440, height: 700 });
  const [first, second, step] = wide.boxes;
  const pitch = wide.columns[0]!.pitch;
  expect(pitch).toBeGreaterThan(160);
  expect(first!.width).toBeCloseTo(800 + 3 * (pitch - 80));
  expect(second!.x - first!.x - first!.width).toBeCloseTo(150); // the way between the towers
  expect(step!.width).toBeCloseTo(56);
  expect(step!.x - second!.x).toBeCloseTo(150);
  expect(wide.columns[1]!.x - second!.x).toBeCloseTo(500 + pitch / 2);
  expect(wide.arrows[0]!.points).toEqual([
    [first!.x + first!.width, 9],
    [second!.x, 9],
  ]);
  expect(wide.width).toBeCloseTo(second!.x + second!.width);
  expect(0.72 * first!.width).toBeLessThanOrEqual(1440); // one tower can still be read
});

test('a picture that fills the width stays as it is', () => {
  expect(widened(info, { width: 390, height: 500 })).toBe(info);
  expect(widened({ ...info, columns: [] }, { width: 1440, height: 700 })).toEqual({
    ...info,
    columns: [],
  });
  expect(widened(info, { width: 0, height: 0 })).toBe(info);
});
