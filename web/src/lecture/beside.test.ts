import { expect, it } from 'vitest';

import { placeCard } from './beside';

const view = { width: 1000, height: 500 };

it.each([
  ['at the right without a cell', null, 590],
  ['right of a cell', { left: 100, right: 150 }, 590],
  ['left of a cell that is at the right', { left: 700, right: 760 }, 10],
  ['at the further edge where neither has room', { left: 390, right: 595 }, 590],
])('is %s', (_, cell, left) =>
  expect(placeCard({ view, cell, panels: [], bottom: 500, card: 400 })).toEqual({ left, top: 8 }),
);

it('is below the matrices that it would cover, where there is room', () => {
  const cell = { left: 100, right: 150 };
  const above = { left: 400, right: 700, bottom: 200, isOwn: false };
  const beside = { left: 20, right: 300, bottom: 480, isOwn: true };
  const seen = { view, cell, bottom: 500, card: 400 };
  expect(placeCard({ ...seen, panels: [above, beside] })).toEqual({ left: 590, top: 210 });
  const wide = { ...beside, right: 800 }; // the cell is in it, and is not covered
  expect(placeCard({ ...seen, panels: [above, wide] })).toEqual({ left: 590, top: 210 });
  const low = { ...above, bottom: 400 };
  expect(placeCard({ ...seen, panels: [low, beside] })).toEqual({ left: 590, top: 8 });
});

it('is narrower where it fits beside the matrix of its cell then', () => {
  const cell = { left: 100, right: 150 };
  const panel = { left: 20, right: 700, bottom: 480, isOwn: true };
  const seen = { view, cell, bottom: 500, card: 400 };
  expect(placeCard({ ...seen, panels: [panel] })).toEqual({ left: 710, top: 8, width: 280 });
  const wider = { ...panel, right: 760 };
  expect(placeCard({ ...seen, panels: [wider] })).toEqual({ left: 590, top: 8 });
});

it('is below everything where there is room, and on a phone', () => {
  const cell = { left: 100, right: 150 };
  expect(placeCard({ view, cell, panels: [], bottom: 300, card: 400 })).toEqual({ top: 310 });
  const phone = { width: 300, height: 600 };
  expect(placeCard({ view: phone, cell, panels: [], bottom: 600, card: 138 })).toEqual({
    top: 330,
  });
});
