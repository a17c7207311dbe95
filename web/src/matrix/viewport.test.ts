import { describe, expect, it } from 'vitest';

import {
  cellAt,
  cellSize,
  clamp,
  EXACT_RUNG,
  moved,
  RUNGS,
  scrollTo,
  startingRung,
  tickStep,
  visible,
  zoomedScroll,
} from './viewport';

const box = { width: 400, height: 300 };
const sizes = { rows: 100, columns: 50, width: 20, height: 10 };

describe('cells on a rung', () => {
  it('are as wide as exact numbers on the last rung', () => {
    const exact = { rows: 3, columns: 4, width: 61, height: 24 };
    expect(cellSize(EXACT_RUNG, 3, 4, box, () => 61)).toEqual(exact);
  });

  it('grow where there is room, up to 30 pixels, without asking for exact widths', () => {
    const refuse = () => expect.fail('no exact width is needed');
    expect(cellSize(RUNGS.indexOf(4), 10, 40, box, refuse)).toMatchObject({
      width: 10,
      height: 30,
    });
  });

  it('start exact for few numbers and as a whole heat map for many', () => {
    expect(startingRung(6, 6, box, () => 400, 0)).toBe(EXACT_RUNG);
    expect(startingRung(12, 10, box, () => 40, 0)).toBe(EXACT_RUNG);
    expect(RUNGS[startingRung(300, 400, box, () => 60, 0)]).toBe(1);
    expect(RUNGS[startingRung(3000, 4000, box, () => 60, 0)]).toBeLessThan(1);
  });
});

describe('a scrolled box', () => {
  it('shows the cells that it touches, and spare ones up to the ends', () => {
    const window = visible(sizes, { x: 30, y: 5 }, { width: 100, height: 40 });
    expect(window).toEqual({ top: 0, bottom: 5, left: 1, right: 7 });
    const spare = visible(sizes, { x: 30, y: 5 }, { width: 100, height: 40 }, 3);
    expect(spare).toEqual({ top: 0, bottom: 8, left: 0, right: 10 });
  });

  it('knows the cell under a point', () => {
    expect(cellAt(sizes, { x: 30, y: 5 }, 15, 10)).toEqual([1, 2]);
    expect(cellAt(sizes, { x: 0, y: 0 }, 50 * 20, 0)).toBeNull();
  });

  it('moves as little as makes a cell visible', () => {
    const near = { x: 0, y: 0 };
    expect(scrollTo(sizes, near, box, 2, 3)).toEqual(near);
    expect(scrollTo(sizes, near, box, 40, 30)).toEqual({ x: 31 * 20 - 400, y: 41 * 10 - 300 });
    expect(scrollTo(sizes, { x: 500, y: 500 }, box, 0, 0)).toEqual(near);
  });

  it('keeps the cell under the pointer when cells change size', () => {
    const after = { ...sizes, width: 40, height: 20 };
    const scroll = zoomedScroll(sizes, after, { x: 100, y: 50 }, 10, 5);
    expect(cellAt(after, scroll, 10, 5)).toEqual(cellAt(sizes, { x: 100, y: 50 }, 10, 5));
  });
});

describe('keys', () => {
  const shape = { rows: 4, columns: 3 };

  it.each([
    ['ArrowUp', false, [0, 1]],
    ['ArrowDown', true, [3, 1]],
    ['ArrowLeft', false, [1, 0]],
    ['Home', false, [1, 0]],
    ['End', true, [3, 2]],
    ['PageDown', false, [3, 1]],
  ] as const)('%s (control: %s) leads to %j', (key, control, to) => {
    expect(moved(key, control, [1, 1], shape, 10)).toEqual(to);
  });

  it('are left alone if they are none of the grid', () => {
    expect(moved('x', false, [1, 1], shape, 10)).toBeNull();
  });
});

it('ticks stand 1, 2, 5 or 10 … apart', () => {
  expect([34, 17, 7, 1].map((size) => tickStep(size, 34))).toEqual([1, 2, 5, 50]);
  expect(clamp(7, 0, 5)).toBe(5);
});
