import { describe, expect, it } from 'vitest';

import {
  colour,
  colourTable,
  css,
  entryOf,
  gradient,
  INFINITE,
  N_COLOURS,
  NOT_A_NUMBER,
  PLAIN,
} from './colours';

const signed = { kind: 'signed', limit: 2 } as const;
const shares = { kind: 'probability', limit: 1 } as const;

describe('the entry of a number', () => {
  it('diverges about 0 out to the limit', () => {
    expect([-3, -2, 0, 2, 9].map((value) => entryOf(value, signed))).toEqual([
      0,
      0,
      (N_COLOURS - 1) / 2,
      N_COLOURS - 1,
      N_COLOURS - 1,
    ]);
  });

  it('runs from 0 to 1 for shares, and is plain without a scale', () => {
    expect([0, 1].map((value) => entryOf(value, shares))).toEqual([0, N_COLOURS - 1]);
    expect(entryOf(5, null)).toBe(PLAIN);
  });

  it('is one of its own for what has no place on a scale', () => {
    expect(entryOf(NaN, signed)).toBe(NOT_A_NUMBER);
    expect(entryOf(NaN, null)).toBe(NOT_A_NUMBER);
    expect(entryOf(-Infinity, shares)).toBe(INFINITE);
  });
});

it.each([signed, shares, null])('colouring in one go agrees with each entry (%j)', (scale) => {
  const values = Float64Array.from([-9, -2, -0.3, 0, 0.25, 0.5, 1, 2, NaN, Infinity, -Infinity]);
  const table = colourTable(scale, false);
  const pixels = new Uint32Array(values.length);
  colour(values, scale, table, pixels);
  const isClear = (value: number) => scale?.kind === 'probability' && value === 0; // hatched
  expect([...pixels]).toEqual(
    [...values].map((value) => (isClear(value) ? 0 : table.packed[entryOf(value, scale)])),
  );
});

it('runs up to the limit of a head', () => {
  expect(entryOf(0.12, { kind: 'probability', limit: 0.12 })).toBe(N_COLOURS - 1);
});

it('a table is made once, and its inks read well on its ends', () => {
  expect(colourTable(signed, false)).toBe(colourTable({ kind: 'signed', limit: 7 }, false));
  const { colours, inks } = colourTable(shares, false);
  expect(css(colours[0]!)).toBe('rgb(0 34 78)');
  expect([inks[0], inks[N_COLOURS - 1]]).toEqual(['#fff', '#000']);
  expect(gradient(colourTable(shares, false))).toContain('rgb(254 232 56)');
});
