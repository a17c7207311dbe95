import { describe, expect, it } from 'vitest';

import type { TraceInfo } from './api';
import { setting } from './setting.svelte';
import { Refused } from './source';
import { cellAt, indexOf, inflated, placeOf, StaticSource, type Embedded } from './static';

async function deflated(bytes: BlobPart): Promise<string> {
  const stream = new Blob([bytes]).stream().pipeThrough(new CompressionStream('deflate'));
  const packed = new Uint8Array(await new Response(stream).arrayBuffer());
  return btoa(String.fromCharCode(...packed));
}

const packed = (data: unknown) => deflated(JSON.stringify(data));
const numbers = async (values: number[]) => ({
  dtype: 'float32' as const,
  data: await deflated(Float32Array.from(values)),
});

/** y = x W with x 1 × 2 and W 2 × 2; step 3 is y turned over, and W's numbers have no labels. */
const info = {
  id: 'saved',
  labels: [['I', 'am']],
  steps: [
    {
      number: 0,
      short: 'x',
      role: 'input',
      dtype: 'float32',
      shape: [1, 2],
      labels: [null, 0],
      operands: [],
    },
    {
      number: 1,
      short: 'W',
      role: 'parameter',
      dtype: 'float32',
      shape: [2, 2],
      labels: [null, null],
      operands: [],
    },
    {
      number: 2,
      short: 'y',
      role: 'activation',
      dtype: 'float32',
      shape: [1, 2],
      labels: [null, null],
      operands: [{ shape: [1, 2] }, { shape: [2, 2] }],
    },
    {
      number: 3,
      short: 'yT',
      role: 'activation',
      dtype: 'float32',
      shape: [2, 1],
      labels: [null, null],
      operands: [],
    },
  ],
} as unknown as TraceInfo;

const nothing = {
  equations: [null],
  operands: [],
  shows: null,
  cards: null,
  dependents: null,
  paths: null,
  reads: [],
  symbols: {},
  names: null,
  meanings: { lesson: null, paper: null, en: ['what it is'], zh: ['这是什么'] },
  cell_meanings: null,
};
const rows = { step: 0, base: 0, sizes: [2], strides: [1] };
const sum = (column: number) => ({
  n_terms: 3,
  shown: [],
  factors: [
    { ...rows, names: ['Q[0]', 'Q[1]'] },
    { step: 1, base: column, sizes: [2], strides: [2] },
  ],
  products: null,
  after: [0.5],
});

const embedded: Embedded = {
  title: null,
  left: { steps: 0, values: [], numbers: 0, cells: 0, cell_steps: 0 },
  trace: await packed({
    trace: info,
    symbols: ['x', 'W', 'y', 'yT'],
    thumbnails: [{ step: 1 }, { step: 2 }],
    changes: { steps: [] },
  }),
  values: { 0: await numbers([2, -3]), 1: await numbers([1, 2, 3, 4]), 2: await numbers([-7, -8]) },
  steps: {
    0: await packed({
      ...nothing,
      cards: { shared: { tex: ['x_{', '}'], sum: null }, each: {}, zh: {} },
    }),
    2: await packed({
      ...nothing,
      cell_meanings: { en: ['the first', 'the second'], zh: ['一', '二'] },
      equations: [{ step: 2 }],
      operands: [rows, { pairs: [1, 0, 1, 2, 1, 1, 1, 3] }],
      cards: {
        shared: { operands: [{ $: [0, 1] }] },
        each: { exact: ['-7', '-8'], formula: ['if', 'f'], sum: [sum(0), sum(1)] },
        zh: { formula: { 0: '若' } },
      },
      dependents: [[], [{ step: 3, cells: [{ $: [3, 0, 'NaN', 'Kt[0]'] }] }]],
      reads: [0],
      symbols: { 2: 'y′' },
    }),
    3: await packed({ ...nothing, shows: { step: 2, base: 0, sizes: [2, 1], strides: [1, 1] } }),
  },
};

const source = () => new StaticSource(embedded);

describe('cells', () => {
  it('have places row by row', () => {
    expect(placeOf([2, 3], [1, 2])).toBe(5);
    expect(indexOf([2, 3], 5)).toEqual([1, 2]);
    expect([placeOf([], []), indexOf([], 0)]).toEqual([0, []]);
    expect(cellAt({ step: 4, base: 10, sizes: [2, 3], strides: [1, 2] }, 5)).toEqual([4, 15]);
    expect(cellAt({ pairs: [1, 7, 2, 8] }, 1)).toEqual([2, 8]);
  });

  it('are unpacked from zlib in base64', async () => {
    expect(new Float32Array(await inflated((await numbers([1.5])).data))).toEqual(
      Float32Array.from([1.5]),
    );
  });
});

describe('a saved page', () => {
  it('answers matrices, windows of them, and operands as their operator saw them', async () => {
    const whole = await source()
      .values('saved', { step: 1, lead: [] })
      .catch((error: unknown) => error);
    expect(whole).toBeInstanceOf(Refused); // W is in the file only as an operand
    const turned = await source().values('saved', { step: 2, lead: [], operand: 1 });
    expect([...turned.data]).toEqual([1, 3, 2, 4]);
    const window = { rows: [1, 2], columns: [0, 1] } as {
      rows: [number, number];
      columns: [number, number];
    };
    const part = await source().values('saved', { step: 2, lead: [], operand: 1 }, window);
    expect([part.rows, part.columns, ...part.data]).toEqual([1, 1, 2]);
    expect([...(await source().values('saved', { step: 3, lead: [] })).data]).toEqual([-7, -8]);
  });

  it('puts cells in the place of references, with names, labels and numbers', async () => {
    const card = await source().card('saved', { step: 2, index: [0, 1] });
    expect(card.cell).toMatchObject({ name: 'y′[1]', value: -8, role: 'activation' });
    expect(card.operands[0]).toMatchObject({ name: 'x[1]', value: -3, labels: [null, 'am'] });
  });

  it('finds the cell behind a view and behind an operand', async () => {
    expect((await source().card('saved', { step: 3, index: [1, 0] })).cell.name).toBe('y′[1]');
    const operand = await source().card('saved', { step: 2, index: [0, 1] }, 0);
    expect(operand).toMatchObject({ exact: '-3', recomputed: -3, tex: 'x_{1}' });
  });

  it('speaks Chinese where a card has words', async () => {
    setting.language = 'zh';
    expect((await source().card('saved', { step: 2, index: [0, 0] })).formula).toBe('若');
    expect((await source().card('saved', { step: 2, index: [0, 1] })).formula).toBe('f');
    setting.language = 'en';
  });

  it('lists all terms of a sum from its factors', async () => {
    const page = await source().terms('saved', { step: 2, index: [0, 1] }, { order: 'index' });
    expect(page.terms.map(({ value }) => value)).toEqual([4, -12, 0.5]);
    expect(page.terms[1]).toMatchObject({ symbols: 'Q[1]·W[1, 1]', numbers: '(−3) × 4' });
    const largest = await source().terms('saved', { step: 2, index: [0, 1] }, { limit: 1 });
    expect(largest.terms.map(({ value }) => value)).toEqual([-12]);
  });

  it('says what a step and a number are for, in the language asked for', async () => {
    const step = { step: 2, index: null, lead: [] };
    expect((await source().meaning('saved', step, 'zh')).text).toBe('这是什么');
    const cell = { step: 2, index: [0, 1], lead: [] };
    expect((await source().meaning('saved', cell, 'en')).text).toBe('the second');
    const without = source().meaning('saved', { ...cell, step: 1, index: [0, 0] }, 'en');
    await expect(without).rejects.toBeInstanceOf(Refused);
  });

  it('says what was left out, and what it cannot do', async () => {
    const asked = [
      () => source().card('saved', { step: 1, index: [0, 0] }),
      () => source().equation('saved', 0, []),
      () => source().dependents('saved', { step: 0, index: [0, 0] }),
      () => source().trace('other'),
      () => source().edit(),
    ];
    for (const ask of asked) await expect(ask()).rejects.toBeInstanceOf(Refused);
    expect(Object.values(source().can)).toEqual([false, false, false, false]);
    const [found] = await source().dependents('saved', { step: 2, index: [0, 1] });
    expect(found?.cells[0]).toMatchObject({ name: 'Kt[0]', value: 'NaN' });
  });
});
