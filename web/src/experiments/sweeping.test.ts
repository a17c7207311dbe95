import { expect, it } from 'vitest';

import type { Answer, SweepRow, TraceInfo } from '../lib/api';
import { groundOf, largestOf } from './shares';
import { answerChoice, subjectOf } from './subject';
import { tablesOf } from './sweeping';

it('layers over other positions are another table', () => {
  const row = (layer: number, ...places: string[]) =>
    ({ layer, squares: places.map((place) => ({ place })) }) as unknown as SweepRow;
  const found = tablesOf([row(0, 'A', 'dog'), row(1, 'A', 'dog'), row(2, 'Ein', 'Hund')]);
  expect(found.map(({ rows }) => rows.map(({ layer }) => layer))).toEqual([[0, 1], [2]]);
  expect(tablesOf([])).toEqual([]);
});

it('colours are shares of the largest, whichever its sign', () => {
  expect(largestOf([1, -4, NaN, Infinity])).toBe(4);
  expect(largestOf([0])).toBe(1);
  expect(groundOf(-4, 4)).toContain('--negative) 42%');
  expect(groundOf(2, 4)).toContain('--positive) 21%');
  expect(groundOf(NaN, 4)).toContain(' 0%');
});

it('an experiment is about the open card, else about the answer', () => {
  const cell = (index: number[]) => ({ step: 9, index, name: `z[${index}]` });
  const choices = [{ text: 'Hund', probability: 0.9, cell: cell([0, 1, 7]) }];
  const positions = [
    { choices: [{ text: 'Ein', probability: 1, cell: cell([0, 0, 3]) }] },
    { choices },
  ];
  const trace = (task: string) =>
    ({ answer: { task, classes: [], positions } as unknown as Answer }) as TraceInfo;
  expect(answerChoice(trace('translate'))?.text).toBe('Ein');
  expect(answerChoice(trace('generate'))?.text).toBe('Hund');
  expect(answerChoice(trace('translate'), 1)?.text).toBe('Hund');
  expect(subjectOf(trace('generate'), null)).toMatchObject({ says: 'Hund', isAnswer: true });
  const card = { ...cell([0, 0, 3]), role: 'activation', value: 1, labels: [] } as never;
  expect(subjectOf(trace('generate'), card)).toMatchObject({ says: 'Ein', isAnswer: false });
});
