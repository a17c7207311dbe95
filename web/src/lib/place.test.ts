import { expect, it } from 'vitest';

import type { TraceInfo } from './api';
import { carryPlace, fits, isSamePlace } from './place';
import { findStep, fitted } from './screen';

const trace = (...steps: [string, number[]][]) =>
  ({ steps: steps.map(([name, shape], number) => ({ number, name, shape })) }) as TraceInfo;

const before = trace(['a', [2]], ['scores', [1, 2, 3, 3]]);

it('a place is carried to another run by the name of its step', () => {
  const place = { step: 1, index: [0, 1, 2, 2] };
  const after = trace(['new', [1]], ['a', [2]], ['scores', [1, 2, 3, 3]]);
  expect(carryPlace(place, before, after)).toEqual({ ...place, step: 2 });
  expect(carryPlace(place, before, trace(['scores', [1, 2, 3, 2]]))).toBeNull();
  expect(carryPlace(place, before, trace(['a', [2]]))).toBeNull();
  expect(carryPlace(place, null, after)).toBeNull();
});

it('places are the same by step and index', () => {
  expect(isSamePlace({ step: 1, index: [0, 1] }, { step: 1, index: [0, 1] })).toBe(true);
  expect(isSamePlace({ step: 1, index: [0, 1] }, { step: 1, index: [1, 0] })).toBe(false);
  expect([fits([1], [2]), fits([2], [2]), fits([], [2])]).toEqual([true, false, false]);
});

it('leading places fit the step that they are carried to', () => {
  expect(fitted(before, 1, [5])).toEqual([0, 0]);
  expect(fitted(before, 1, [0, 9])).toEqual([0, 1]);
  expect(fitted(before, 0, [3, 4])).toEqual([]);
});

it('a step is found by name or number', () => {
  expect(findStep(before, 'scores')?.number).toBe(1);
  expect(findStep(before, 0)?.name).toBe('a');
  expect(findStep(before, null)).toBeNull();
});
