import { describe, expect, it } from 'vitest';

import { movedToken } from './tokens';
import {
  linesOf,
  linksFrom,
  scaleEnd,
  shareOf,
  strongest,
  summarise,
  weightAt,
  type Weights,
} from './weights';

function weights(rows: number[][]): Weights {
  const values = Float64Array.from(rows.flat());
  return { values, rows: rows.length, columns: rows[0].length };
}

const causal = weights([
  [1, 0, 0],
  [0.75, 0.25, 0],
  [0.125, 0.625, 0.25],
]);

it('is drawn as a share, also where it was set to more than all', () => {
  expect([-3, 0, 0.25, 1, 20].map(shareOf)).toEqual([0, 0, 0.25, 1, 1]);
});

it('ends a scale at the largest weight, and above an even spread', () => {
  expect(scaleEnd(causal)).toBe(1);
  expect(scaleEnd(weights([[0.7, 0.1, 0.1, 0.1]]))).toBe(0.7);
  expect(scaleEnd(weights([[0.25, 0.25, 0.25, 0.25]]))).toBe(0.5);
  expect(scaleEnd(weights([[0, 0]]))).toBe(1);
});

describe('links', () => {
  it('of a query are its strongest keys, without those of no weight', () => {
    expect(weightAt(causal, 2, 1)).toBe(0.625);
    expect(strongest(causal, 2, 2).map(({ key }) => key)).toEqual([1, 2]);
    expect(strongest(causal, 0, 5).map(({ key }) => key)).toEqual([0]);
  });

  it('are drawn weakest first; of many the strongest stay', () => {
    expect(linksFrom(causal, 0.25, 10).map(({ weight }) => weight)).toEqual([
      0.25, 0.25, 0.625, 0.75, 1,
    ]);
    expect(linksFrom(causal, 0, 2).map(({ weight }) => weight)).toEqual([0.75, 1]);
  });

  it('of a token go from it as a query and to it as a key', () => {
    expect(linesOf(causal, { side: 'query', place: 1 })).toEqual([
      { query: 1, key: 1, weight: 0.25 },
      { query: 1, key: 0, weight: 0.75 },
    ]);
    expect(linesOf(causal, { side: 'key', place: 1 }).map(({ query }) => query)).toEqual([1, 2]);
  });
});

describe('the summary of a head', () => {
  it('names the rule that catches most weight, over queries that have a choice', () => {
    const previous = weights([
      [1, 0, 0],
      [0.9, 0.1, 0],
      [0.1, 0.8, 0.1],
    ]);
    const { habit, share } = summarise(previous, true);
    expect(habit).toBe('previous');
    expect(share).toBeCloseTo((0.9 + 0.8) / 2);
  });

  it('names none where no rule catches half', () => {
    const even = weights([
      [0.25, 0.25, 0.25, 0.25],
      [0.25, 0.25, 0.25, 0.25],
    ]);
    const { habit, spread } = summarise(even, true);
    expect(habit).toBeNull();
    expect(spread).toBeCloseTo(4);
  });

  it('between two texts knows only the first and the last key', () => {
    const same = weights([
      [0.9, 0.1],
      [0.1, 0.9],
    ]);
    expect(summarise(same, true).habit).toBe('itself');
    expect(summarise(same, false)).toMatchObject({ habit: 'first', share: 0.5 });
  });

  it('names the token that all attend to, where no rule says it', () => {
    const row = [0.05, 0.05, 0.9, 0];
    const { habit, favourite } = summarise(weights([row, row, row, row]), true);
    expect(habit).toBeNull();
    expect(favourite?.key).toBe(2);
    expect(favourite?.share).toBeCloseTo(0.9);
    const even = [0.25, 0.25, 0.25, 0.25];
    expect(summarise(weights([even, even, even, even]), true).favourite).toBeNull();
  });

  it('leaves out queries that may attend to nothing', () => {
    const masked = weights([
      [0, 0],
      [0.5, 0.5],
    ]);
    expect(summarise(masked, true).spread).toBeCloseTo(2);
    expect(summarise(weights([[0, 0]]), true).spread).toBe(0);
  });
});

describe('arrow keys among tokens', () => {
  it('move within a column and across, and stop at the ends', () => {
    const sizes: [number, number] = [4, 2];
    const at = (place: number) => ({ side: 'query' as const, place });
    expect(movedToken('ArrowDown', at(3), sizes)).toEqual(at(3));
    expect(movedToken('ArrowUp', at(0), sizes)).toEqual(at(0));
    expect(movedToken('ArrowRight', at(3), sizes)).toEqual({ side: 'key', place: 1 });
    expect(movedToken('ArrowLeft', { side: 'key', place: 1 }, sizes)).toEqual(at(1));
    expect(movedToken('End', at(1), sizes)).toEqual(at(3));
    expect(movedToken('Home', at(1), sizes)).toEqual(at(0));
    expect(movedToken('x', at(1), sizes)).toBeNull();
  });
});
