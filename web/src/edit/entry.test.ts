import { expect, it } from 'vitest';

import { isWholeType, readEntry, typed } from './entry';

it('a number is taken, and anything else says why not', () => {
  expect(readEntry('0,5', 1, false)).toBe(0.5);
  expect(readEntry('x', 1, false)).toBe('edit.notNumber');
  expect(readEntry('1.5', 1, true)).toBe('edit.notWhole');
  expect(readEntry('-1', 1, true)).toBe('edit.notWhole');
  expect(readEntry('1', 1, true)).toBe('edit.same');
  expect(Object.is(readEntry('-0', 0, false), -0)).toBe(true);
});

it('a float32 is typed with the fewest digits that restore it', () => {
  expect(typed(Math.fround(0.1))).toBe('0.1');
  expect(typed(Math.fround(1 / 3))).toBe('0.33333334');
  for (const value of [1e-8, 123456.78, -2.5].map(Math.fround)) {
    expect(Math.fround(Number(typed(value)))).toBe(value);
  }
});

it('ids are whole', () => {
  expect(['int64', 'bool', 'float32', 'bfloat16'].map(isWholeType)).toEqual([
    true,
    true,
    false,
    false,
  ]);
});
