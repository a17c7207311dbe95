import { expect, it } from 'vitest';

import { Newest } from './newest';

function asking() {
  const waiting: { wish: number; answer: (text: string) => void; signal: AbortSignal }[] = [];
  const taken: [string, number][] = [];
  const failed: unknown[] = [];
  const newest = new Newest<number, string>(
    (wish, signal) => new Promise((answer) => waiting.push({ wish, answer, signal })),
    (answer, wish) => taken.push([answer, wish]),
    (error) => failed.push(error),
  );
  return { newest, waiting, taken, failed };
}

const settled = () => new Promise((done) => setTimeout(done));

it('asks one thing at a time, and then the newest', async () => {
  const { newest, waiting, taken } = asking();
  for (const wish of [1, 2, 3]) newest.want(wish);
  expect(waiting.map(({ wish }) => wish)).toEqual([1]);
  waiting[0]!.answer('one');
  await settled();
  expect(waiting.map(({ wish }) => wish)).toEqual([1, 3]);
  waiting[1]!.answer('three');
  await settled();
  expect(taken).toEqual([
    ['one', 1],
    ['three', 3],
  ]);
});

it('a stop cancels the request and forgets the wish; a later one is asked', async () => {
  const { newest, waiting, taken } = asking();
  newest.want(1);
  newest.want(2);
  newest.stop();
  expect(waiting[0]!.signal.aborted).toBe(true);
  newest.want(4);
  waiting[0]!.answer('late');
  waiting[1]!.answer('four');
  await settled();
  expect(taken).toEqual([['four', 4]]);
  expect(waiting).toHaveLength(2);
});

it('a failure is told, and the next wish asked all the same', async () => {
  const failed: unknown[] = [];
  const taken: number[] = [];
  const newest = new Newest<number, number>(
    (wish) => (wish === 1 ? Promise.reject(new Error('no')) : Promise.resolve(wish)),
    (answer) => taken.push(answer),
    (error) => failed.push(error),
  );
  newest.want(1);
  newest.want(2);
  await settled();
  expect(failed).toHaveLength(1);
  expect(taken).toEqual([2]);
});
