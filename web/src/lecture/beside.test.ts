import { expect, it } from 'vitest';

import { placeCard } from './beside';

const view = { width: 1000, height: 500 };

it.each([
  ['at the right without a cell', null, { left: 590 }],
  ['right of a cell', { left: 100, right: 150 }, { left: 590 }],
  ['left of a cell that is at the right', { left: 700, right: 760 }, { left: 10 }],
  ['at the further edge where neither has room', { left: 390, right: 595 }, { left: 590 }],
])('is %s', (_, cell, expected) =>
  expect(placeCard({ view, cell, bottom: 500, card: 400 })).toEqual(expected),
);

it('is below everything where there is room, and on a phone', () => {
  const cell = { left: 100, right: 150 };
  expect(placeCard({ view, cell, bottom: 300, card: 400 })).toEqual({ top: 310 });
  const phone = { width: 300, height: 600 };
  expect(placeCard({ view: phone, cell, bottom: 600, card: 138 })).toEqual({ top: 330 });
});
