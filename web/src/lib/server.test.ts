import { afterEach, expect, it, vi } from 'vitest';

import { query, ServerSource } from './server';
import { describe as told, Refused } from './source';

const json = (body: unknown, status = 200) => new Response(JSON.stringify(body), { status });

function answering(...answers: Response[]) {
  const asked = vi.fn((_address: string, _options: RequestInit) =>
    Promise.resolve(answers.shift()!),
  );
  vi.stubGlobal('fetch', asked);
  return asked;
}

afterEach(() => vi.unstubAllGlobals());

it('a question is an address', async () => {
  const asked = answering(json({}), json({}));
  await new ServerSource().equation('a/b', 3, [0, 1]);
  await new ServerSource().card('t', { step: 2, index: [1, 0] }, 1);
  expect(asked.mock.calls.map(([address]) => address)).toEqual([
    'api/traces/a%2Fb/steps/3/equation?lead=0%2C1',
    'api/traces/t/cell?step=2&index=1%2C0&operand=1&language=en',
  ]);
  expect(query({ a: 0, b: null, c: undefined })).toBe('?a=0');
  expect(query({})).toBe('');
});

it('numbers come as bytes, as wide as the server says', async () => {
  const bytes = Float64Array.from([1, 2, 3, 4, 5, 6]);
  const headers = { 'X-Shape': '2,3', 'X-Dtype': 'float64' };
  answering(new Response(bytes, { headers }));
  const values = await new ServerSource().values('t', { step: 0, lead: [] });
  expect(values).toEqual({ rows: 2, columns: 3, data: bytes, unwritten: null });
});

it('memory that nothing wrote to is asked for where there is some, in pieces', async () => {
  const [rows, columns] = [3, 10_000];
  const headers = { 'X-Shape': `${rows},${columns}`, 'X-Unwritten': '1' };
  const flags = (row: number) => new Response(new Uint8Array(columns).fill(1, 0, row));
  const asked = answering(
    new Response(new Float32Array(rows * columns), { headers }),
    ...[0, 1, 2].map(flags),
  );
  const window = { rows: [5, 8], columns: [2, 10_002] } as const;
  const { unwritten } = await new ServerSource().values(
    't',
    { step: 0, lead: [] },
    { rows: [...window.rows], columns: [...window.columns] },
  );
  expect(asked.mock.calls.slice(1).map(([address]) => address)).toEqual(
    ['5%3A6', '6%3A7', '7%3A8'].map(
      (lines) => `api/traces/t/steps/0/unwritten?rows=${lines}&columns=2%3A10002`,
    ),
  );
  expect(unwritten).toHaveLength(rows * columns);
  expect(Array.from(unwritten!.keys()).filter((at) => unwritten![at] === 1)).toEqual([
    columns,
    2 * columns,
    2 * columns + 1,
  ]);
});

it('a refusal says what the server said', async () => {
  answering(json({ detail: 'too long' }, 422));
  const error: unknown = await new ServerSource().models().catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(Refused);
  expect(told(error)).toBe('too long');
});

it('a refusal without words has its status', async () => {
  answering(new Response('<html>', { status: 502, statusText: 'Bad Gateway' }));
  await expect(new ServerSource().models()).rejects.toThrow('502 Bad Gateway');
});

it('a trace that was dropped is asked for again under its new name', async () => {
  const asked = answering(json({ detail: 'dropped' }, 410), json({ steps: [] }));
  const source = new ServerSource();
  source.onDropped((id) => Promise.resolve(`${id}-again`));
  expect(await source.changes('old')).toEqual({ steps: [] });
  expect(asked.mock.calls.at(-1)?.[0]).toBe('api/traces/old-again/changes');
});

it('a server that does not answer is named as such', () => {
  expect(told(new TypeError('Failed to fetch'))).toContain('glassformer explore');
});
