import { expect, it } from 'vitest';

import {
  areUpright,
  columnHeaderHeight,
  exactWidth,
  headers,
  placeName,
  rowHeaders,
  rowHeaderWidth,
  textWidth,
} from './headers';

it('a Chinese character is twice as wide', () => expect(textWidth('我am')).toBe(4));

it('labels stand where there is room, else numbered ticks', () => {
  const words = ['I', 'am', 'not'];
  expect(headers(words, 0, 3, 20, 3)).toEqual([
    { at: 0, text: 'I' },
    { at: 1, text: 'am' },
    { at: 2, text: 'not' },
  ]);
  expect(headers(null, 0, 100, 4, 100).map(({ at }) => at)).toEqual([
    0, 10, 20, 30, 40, 50, 60, 70, 80, 90,
  ]);
});

it('labels of close rows stand beside each second or third one, and beside the marked one', () => {
  const words = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];
  const at = (size: number, marked: number | null) =>
    rowHeaders(words, 0, 7, size, 7, marked).map(({ text }) => text);
  expect(at(11, null)).toEqual(words);
  expect(at(6, null)).toEqual(['a', 'c', 'e', 'g']);
  expect(at(4, 2)).toEqual(['c', 'g']);
  expect(at(6, 3)).toEqual(['a', 'd', 'g']);
  expect(rowHeaders(null, 0, 100, 4, 100, 3).map(({ at }) => at)).toHaveLength(20);
});

it('a tick that would run over the end is left out', () => {
  expect(headers(null, 0, 101, 4, 101).at(-1)?.at).toBe(90);
});

it('room for headers follows the longest label within bounds', () => {
  expect(rowHeaderWidth(null, 1000)).toBe(3 * 7 + 14);
  expect(rowHeaderWidth(['a'], 1)).toBe(28);
  expect(rowHeaderWidth(['a'.repeat(99)], 1)).toBe(100);
  expect(columnHeaderHeight(['abcdef'], true)).toBe(6 * 7 + 10);
  expect(columnHeaderHeight(['abcdef'], false)).toBe(20);
});

it('labels are turned upright where they are too narrow to lie and wide enough to stand', () => {
  const upright = (text: string, ...widths: number[]) =>
    widths.map((width) => areUpright(['a', text], width));
  expect(upright('through', 8, 9, 39, 40)).toEqual([false, true, true, false]);
  expect(upright('b', 8, 9)).toEqual([false, false]); // letters always lie
  expect(upright('不', 15, 16)).toEqual([true, false]);
  expect(areUpright(null, 20)).toBe(false);
});

it('exact cells are as wide as their longest number, a place is named by its token', () => {
  expect(exactWidth(['1'])).toBe(40);
  expect(exactWidth(['−0.123456'])).toBe(Math.ceil(9 * 7.25) + 14);
  expect([placeName(['I'], 0), placeName(['I'], 1), placeName(null, 2)]).toEqual(["'I'", '1', '2']);
});
