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
