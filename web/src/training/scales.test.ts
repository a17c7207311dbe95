import { expect, it } from 'vitest';

import { axisOver, clock, tickText } from './scales';

it('ticks are round and enclose what is shown', () => {
  expect(axisOver(0.13, 0.97)).toEqual({
    low: 0,
    high: 1,
    ticks: [0, 0.2, 0.4, 0.6000000000000001, 0.8, 1],
  });
  expect(axisOver(-3, 12).ticks).toEqual([-5, 0, 5, 10, 15]);
  expect(axisOver(5, 5)).toMatchObject({ low: 4.4, high: 5.6000000000000005 });
  expect(axisOver(NaN, 1)).toEqual({ low: 0, high: 1, ticks: [0, 1] });
});

it('a tick has no more digits than it needs', () => {
  const axis = axisOver(0.13, 0.97);
  expect(axis.ticks.map((tick) => tickText(tick, axis))).toEqual([
    '0.0',
    '0.2',
    '0.4',
    '0.6',
    '0.8',
    '1.0',
  ]);
  expect(tickText(-5, axisOver(-3, 12))).toBe('−5');
  expect(tickText(20_000, axisOver(0, 20_000))).toBe('20K');
});

it('seconds read as a clock', () => {
  expect([0, 61, 3725, -4].map(clock)).toEqual(['0:00', '1:01', '1:02:05', '0:00']);
});
