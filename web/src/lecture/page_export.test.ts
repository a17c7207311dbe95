import { expect, it } from 'vitest';

import type { TraceInfo } from '../lib/api';
import type { TraceOrigin } from '../lib/link';
import type { Session } from '../lib/session.svelte';
import { requestFor } from './page_export';
import type { PinnedView } from './playlist';

const trace = {
  id: 'abc',
  first: 0,
  steps: [
    { name: 'scores', number: 0, shape: [1, 2, 4, 4], operands: [] },
    { name: 'logits', number: 1, shape: [1, 2], operands: [] },
  ],
} as unknown as TraceInfo;

const made: TraceOrigin[] = [];
const session = {
  make: (origin: TraceOrigin) => {
    made.push(origin);
    return Promise.resolve(trace);
  },
} as unknown as Session;

const view = (link: string): PinnedView => ({ link, title: link, note: { en: '', zh: '' } });

it('asks for what the views show, once each, and names what it leaves out', async () => {
  const links = [
    '#/toy?text=a&step=scores&cell=0,1,2,3',
    '#/toy?text=a&step=logits&cell=0,1,2,3&of=scores',
    '#/toy?text=a&view=map',
    '#/en-de?text=b&view=decoding',
    '#/lesson/order/2?set=encoding%3Drotary',
    '#/lesson/order/3?set=encoding%3Drotary',
    '#/toy?text=a&view=experiments',
    '#/lesson',
    '#/training',
  ];
  const told: number[] = [];
  const { request, leftOut } = await requestFor(
    links.map(view),
    session,
    new AbortController().signal,
    (n) => told.push(n),
  );
  expect(leftOut).toEqual(links.slice(6));
  expect(told).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
  expect(request.views.map(({ link }) => link)).toEqual([
    '#/trace/saved-0?step=scores&cell=0,1,2,3',
    '#/trace/saved-0?step=logits&cell=0,1,2,3&of=scores',
    '#/trace/saved-0?view=map',
    '#/trace/saved-1?view=decoding',
    '#/lesson/order/2?set=encoding%3Drotary',
    '#/lesson/order/3?set=encoding%3Drotary',
  ]);
  expect(request.traces?.[0]?.places).toEqual([
    { step: 0, lead: [0, 1], index: [0, 1, 2, 3], of: null },
    { step: 1, lead: [], index: [0, 1, 2, 3], of: 0 },
    { step: 0, lead: [0, 0], index: null, of: null },
  ]);
  expect(request.lessons).toEqual([{ name: 'order', settings: ['encoding=rotary'] }]);
  expect(request.searches).toMatchObject([{ model: 'en-de', text: 'b', search: 'beam', beam: 4 }]);
});

it('asks for no more than the server takes, and for each search and lesson once', async () => {
  const texts = Array.from({ length: 18 }, (_, n) => `#/en-de?text=${n}&view=decoding`);
  const again = '#/en-de?text=3&view=decoding';
  const lessons = Array.from({ length: 17 }, (_, n) => `#/lesson/lesson-${n}/1`);
  const second = '#/lesson/lesson-2/2'; // of a lesson that is there already
  const links = [...texts, again, ...lessons, second];
  const { signal } = new AbortController();
  const { request, leftOut } = await requestFor(links.map(view), session, signal, () => undefined);
  expect(leftOut).toEqual([texts[16], texts[17], lessons[16]]);
  expect([request.traces, request.searches, request.lessons].map((one) => one?.length)).toEqual([
    16, 16, 16,
  ]);
  expect(request.views).toHaveLength(links.length - 3);
});
