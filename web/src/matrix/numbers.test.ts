import { describe, expect, it } from 'vitest';

import {
  EXACT,
  formatNumber,
  HUNDREDTHS,
  formatShape,
  formatShare,
  formatShares,
  formatSigned,
  parseNumber,
  typeset,
} from './numbers';

describe('a number for readers', () => {
  it.each([
    [0, '0'],
    [-3, '−3'],
    [0.123456, '0.1235'],
    [1234.5678, '1235'],
    [123456, '123456'],
    [1234567.5, '1.235e+06'],
    [0.00001234, '1.234e−05'],
    [-0.5, '−0.5'],
    [NaN, 'NaN'],
    [-Infinity, '−∞'],
  ])('%d is %s', (value, text) => expect(formatNumber(value)).toBe(text));

  it('can be restored from nine digits if it is a float32', () => {
    for (const value of [0.1, -1e-20, 3.4e38, 1 / 3].map(Math.fround)) {
      expect(Math.fround(parseNumber(formatNumber(value, EXACT))!)).toBe(value);
    }
  });

  it('has no more digits than restore it', () => {
    for (const text of ['−2.6', '0.1', '1e−20', '123456.78', '−0.33333334', '123456792']) {
      expect(formatNumber(Math.fround(parseNumber(text)!), EXACT)).toBe(text);
    }
    expect(formatNumber(-2.6, EXACT)).toBe('−2.6');
    expect(formatNumber(1 / 3, EXACT)).toBe('0.333333333');
  });

  it('has two decimals where shares have little room', () => {
    const shares = [0.9791, 0.0002, 0, 1];
    expect(shares.map((share) => formatNumber(share, HUNDREDTHS))).toEqual([
      '0.98',
      '0.00',
      '0',
      '1',
    ]);
  });

  it('has signs, shares and shapes', () => {
    expect([0.113, -2, 0, -0].map((value) => formatSigned(value))).toEqual([
      '+0.113',
      '−2',
      '0',
      '0',
    ]);
    expect([formatShare(0.98), formatShare(0.02), formatShare(0)]).toEqual(['98%', '2.0%', '0%']);
    expect([formatShare(0.0006), formatShare(0.0004)]).toEqual(['0.1%', '< 0.1%']);
    expect(formatShares(0.98, 0.02)).toEqual(['98%', '2.0%']);
    expect(formatShares(0.9812, 0.9808)).toEqual(['98.12%', '98.08%']);
    expect(formatShares(0.98, 0.98 + 1e-9)).toEqual(['98%', '98%']);
    expect(formatShape([3, 4])).toBe('3 × 4');
  });
});

it('hyphens before numbers become minus signs, others stay', () => {
  expect(typeset('0.5 × (-2) + 1e-3')).toBe('0.5 × (−2) + 1e−3');
  expect(typeset('to-do, a[0] -1')).toBe('to-do, a[0] −1');
});

describe('a typed number', () => {
  it.each([
    ['0,5', 0.5],
    ['−2', -2],
    [' 1e-3 ', 0.001],
    ['.5', 0.5],
    ['-∞', -Infinity],
    ['inf', Infinity],
  ])('%j is %d', (text, value) => expect(parseNumber(text)).toBe(value));

  it.each(['', 'abc', '1.2.3', '1e', '0x10', '1 2'])('%j is none', (text) =>
    expect(parseNumber(text)).toBeUndefined(),
  );
});
