import { expect, it } from 'vitest';

import { allot, allotHeights, countOnLines, largestThatFits, signWidth } from './layout';

const wish = (width: number, least = 232) => ({ width, least, signs: 36 });
const each = (least: number) => [least, least, least];
const countLines = (...asked: Parameters<typeof countOnLines>) => countOnLines(...asked).length;

it('panels get what they wish for if all fit side by side', () => {
  expect(allot(1000, [wish(200), wish(300)])).toEqual([200, 300]);
  expect(countLines(1000, [wish(200), wish(300)])).toBe(1);
});

it('what small ones leave over goes to the large ones', () => {
  expect(allot(1000, [wish(100), wish(2000), wish(2000)])).toEqual([100, 396, 396]);
});

it('they go to another line rather than become unreadable', () => {
  expect(countLines(500, [wish(2000), wish(2000)])).toBe(2);
  expect(allot(500, [wish(2000), wish(2000)])).toEqual([464, 464]);
});

it('they are whole on more lines, where a screen has room for these, before they are cut', () => {
  const [small, other] = [wish(480), wish(480)];
  expect(allot(700, [small, other], 2)).toEqual([480, 480]);
  expect(countLines(700, [small, other], 2)).toBe(2);
  expect(countLines(700, [small, other], 1)).toBe(1);
});

it('a heat map that no line holds whole stays beside the others', () => {
  expect(countLines(1100, [wish(1500), wish(1500)], 2)).toBe(1);
});

it('lines share the height of a screen; a low one leaves the rest to the others', () => {
  expect(countOnLines(700, [wish(300), wish(300), wish(500)], 2)).toEqual([2, 1]);
  expect(allotHeights(512, [400, 300, 200], [2, 1], each(250))).toEqual([300, 300, 200]);
  expect(allotHeights(900, [400, 300, 200], [2, 1], each(250))).toEqual([400, 400, 200]);
  expect(allotHeights(412, [400, 300, 900], [2, 1], each(250))).toEqual([200, 200, 200]);
  expect(allotHeights(512, [400, 300, 280], [2, 1], each(210))).toEqual([220, 220, 280]);
});

it('a heat map gets the width that its labels need, and the others share the rest', () => {
  expect(allot(1000, [wish(2000), wish(2000, 500)])).toEqual([428, 500]);
  expect(allot(1000, [wish(2000), wish(2000, 300)])).toEqual([464, 464]);
  expect(countLines(1000, [wish(2000), wish(2000, 300), wish(900, 300)], 2)).toBe(2);
  expect(countLines(1000, [wish(2000), wish(2000, 300), wish(900, 300)], 1)).toBe(1);
  expect(countLines(1000, [wish(2000), wish(2000, 800)])).toBe(2);
  expect(allot(300, [wish(2000, 500)])).toEqual([264]);
});

it('a line whose labels need the height leaves the others what theirs need', () => {
  expect(allotHeights(612, [500, 400, 300], [1, 1, 1], [250, 100, 100])).toEqual([250, 142, 196]);
});

it('signs take their room', () => {
  expect([signWidth(')'), signWidth('×'), signWidth('softmax(')]).toEqual([16, 26, 74]);
  expect(signWidth('条件')).toBe(signWidth('abcd'));
});

it('what fits grows until it fills the screen', () => {
  const box = { width: 900, height: 400 };
  expect(largestThatFits(box, [wish(200)], [100])).toBe(2);
  const grown = largestThatFits(box, [wish(250), wish(250)], [150, 150]) ?? 0;
  expect(grown).toBeGreaterThan(1.3); // side by side: 2 · 286 · 1.55 is nearly 900
  expect(grown * 2 * 286).toBeLessThanOrEqual(900);
  // on one line at nearly its size, rather than on two a little larger
  expect(largestThatFits(box, [wish(400), wish(400)], [150, 150])).toBe(1);
  const four = [wish(250), wish(250), wish(250), wish(250)];
  expect(largestThatFits(box, four, [100, 100, 100, 100])).toBeGreaterThan(1.2);
  expect(largestThatFits(box, four, [100, 100, 100, 100], 1)).toBe(null);
  expect(largestThatFits(box, [wish(1000)], [100])).toBe(null);
  expect(largestThatFits(box, [wish(200)], [500])).toBe(null);
});

it('what nearly fits becomes a little smaller rather than be cut', () => {
  const box = { width: 900, height: 400 };
  expect(largestThatFits(box, [wish(450), wish(450)], [150, 150], 1)).toBe(0.9);
  expect(largestThatFits(box, [wish(450), wish(450)], [150, 150], 1, 1)).toBe(null);
  expect(largestThatFits(box, [wish(480), wish(480)], [150, 150], 1)).toBe(null);
});
