import { describe, expect, it } from 'vitest';

import {
  corners,
  tileCount,
  tileShape,
  TileStore,
  transpose,
  type MatrixPlace,
  difference,
} from './tiles';

const place: MatrixPlace = { trace: 't', step: 1, operand: null, lead: [0], transposed: false };

const numbers = (count: number) => ({ values: new Float32Array(count), unwritten: null });

describe('tiles', () => {
  it('hold a small matrix whole and cut a large one into at most half a million numbers', () => {
    expect(tileShape(3, 4)).toEqual({ rows: 3, columns: 4 });
    for (const [rows, columns] of [
      [1, 10_000_000],
      [10_000_000, 1],
      [5000, 5000],
    ] as const) {
      const shape = tileShape(rows, columns);
      expect(shape.rows * shape.columns).toBeLessThanOrEqual(2 ** 19);
      const across = Math.ceil(rows / shape.rows) * Math.ceil(columns / shape.columns);
      expect(tileCount(rows, columns)).toBe(across);
    }
  });

  it('are named by the corners that a window touches', () => {
    const window = { top: 5, bottom: 11, left: 0, right: 4 };
    const found = corners(window, { rows: 5, columns: 4 });
    expect(found).toEqual([
      [5, 0],
      [10, 0],
    ]);
  });

  it('are turned over without changing their kind', () => {
    const turned = transpose(Float32Array.from([1, 2, 3, 4, 5, 6]), 2, 3);
    expect(turned).toEqual(Float32Array.from([1, 4, 2, 5, 3, 6]));
    expect(transpose(new Float64Array(2), 1, 2)).toBeInstanceOf(Float64Array);
  });
});

describe('the store', () => {
  it('fetches a tile once, also while it is on its way', async () => {
    let asked = 0;
    const store = new TileStore(() => {
      asked += 1;
      return Promise.resolve(numbers(4));
    });
    const both = [store.load(place, 0, 0, 2, 2), store.load(place, 0, 0, 2, 2)];
    expect(store.peek(place, 0, 0)).toBeUndefined();
    const [one, other] = await Promise.all(both);
    expect(one).toBe(other);
    expect(await store.load(place, 0, 0, 2, 2)).toBe(one);
    expect(asked).toBe(1);
  });

  it('forgets the tile that was looked at longest ago', async () => {
    const store = new TileStore(() => Promise.resolve(numbers(4)), 40);
    await store.load(place, 0, 0, 2, 2);
    await store.load(place, 2, 0, 2, 2);
    store.peek(place, 0, 0);
    await store.load(place, 4, 0, 2, 2);
    expect([0, 2, 4].map((top) => store.peek(place, top, 0) !== undefined)).toEqual([
      true,
      false,
      true,
    ]);
  });

  it('asks again after a failure', async () => {
    let asked = 0;
    const store = new TileStore(() => {
      asked += 1;
      return asked === 1 ? Promise.reject(new Error('gone')) : Promise.resolve(numbers(1));
    });
    await expect(store.load(place, 0, 0, 1, 1)).rejects.toThrow('gone');
    expect((await store.load(place, 0, 0, 1, 1)).values).toHaveLength(1);
  });
});

it('the difference of two runs is cell by cell, and equal infinities are equal', () => {
  const found = difference(Float32Array.of(1, 5, Infinity), Float32Array.of(3, 5, Infinity));
  expect([...found]).toEqual([-2, 0, 0]);
});
