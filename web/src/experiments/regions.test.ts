import { expect, it } from 'vitest';

import { sayEdit } from '../edit/words';
import type { TraceInfo } from '../lib/api';
import { editOf, regionsOf } from './regions';

const step = (number: number, short: string, shape: number[], labels: (number | null)[]) => ({
  number,
  short,
  name: `encoder.blocks.1.attention.${short}`,
  module: 'encoder.blocks.1.attention',
  role: 'activation',
  dtype: 'float32',
  shape,
  labels,
});

const trace = {
  labels: [
    ['head 0', 'head 1', 'head 2', 'head 3'],
    ['A', 'dog'],
  ],
  steps: [
    step(0, 'weights', [1, 4, 2, 2], [null, 0, 1, 1]),
    step(1, 'context', [1, 4, 2, 8], [null, 0, 1, null]),
    {
      ...step(2, 'ids', [1, 2], [null, 1]),
      module: '',
      name: 'ids',
      role: 'input',
      dtype: 'int64',
    },
  ],
} as unknown as TraceInfo;

it('a cell of attention stands in a row, a column, a head, a step and a layer', () => {
  const found = regionsOf(trace, { step: 0, index: [0, 3, 1, 0] }, null);
  expect(found.map(({ key, name }) => [key, name])).toEqual([
    ['number', 'this number'],
    ['row', 'row “dog”'],
    ['column', 'column “A”'],
    ['head', 'head 4'],
    ['step', 'all of weights'],
    ['layer', 'encoder layer 2'],
  ]);
  expect(found.map(({ step: name, index }) => `${name.split('.').at(-1)}[${index}]`)).toEqual([
    'weights[0,3,1,0]',
    'weights[0,3,1,]',
    'weights[0,3,,0]',
    'context[,3,,]',
    'weights[,,,]',
    '1[]',
  ]);
});

it('ids can only come from another run', () => {
  expect(regionsOf(trace, { step: 2, index: [0, 1] }, null)).toEqual([]);
  const [word] = regionsOf(trace, { step: 2, index: [0, 1] }, 'A cat');
  expect(word?.puts).toEqual(['other']);
});

it('what was done is said in words', () => {
  const regions = regionsOf(trace, { step: 0, index: [0, 3, 1, 0] }, 'A cat');
  const head = regions.find(({ key }) => key === 'head')!;
  const said = (['off', 'mean', 'data', 'other'] as const).map((put) =>
    sayEdit(editOf(head, put, 'A cat'), trace),
  );
  expect(said).toEqual([
    'head 4 of encoder layer 2 off',
    'head 4 of encoder layer 2 = its mean over the positions',
    'head 4 of encoder layer 2 = its mean over the example texts',
    'head 4 of encoder layer 2 from “A cat”',
  ]);
  expect(sayEdit({ step: 'encoder.blocks.1', index: [], value: 0 }, trace)).toBe(
    'encoder layer 2 off',
  );
  expect(sayEdit({ step: trace.steps[0]!.name, index: [0, 0, 0, 0], value: 0.5 }, trace)).toBe(
    'weights[0, 0, 0, 0] = 0.5',
  );
});
