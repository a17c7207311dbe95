import { describe, expect, it } from 'vitest';

import { cellNumber, inRows, placeIn, type MatrixPart, type Part } from './parts';

const part = (kind: Part['kind']) => ({ kind }) as Part;

describe('the parts of a lesson', () => {
  it('stand side by side where formulas, matrices and tables follow one another', () => {
    const parts = ['text', 'matrix', 'table', 'formula', 'matrix', 'text'] as const;
    const rows = inRows(parts.map(part)).map((row) => row.map(({ kind }) => kind));
    expect(rows).toEqual([['text'], ['matrix', 'table', 'formula', 'matrix'], ['text']]);
    expect(inRows([])).toEqual([]);
  });

  it('have numbers that JSON lacks as words', () => {
    expect([1.5, 'NaN', 'inf', '-inf'].map((value) => cellNumber(value as never))).toEqual([
      1.5,
      NaN,
      Infinity,
      -Infinity,
    ]);
  });

  it('count in the step’s own rows and columns where a matrix is turned', () => {
    expect(placeIn({ turned: true } as MatrixPart, 1, 4)).toEqual([4, 1]);
    expect(placeIn({ turned: false } as MatrixPart, 1, 4)).toEqual([1, 4]);
  });
});
