import { expect, it } from 'vitest';

import { termsOf } from './terms';

const cell = { step: 0, index: [0], name: 'x', role: 'activation', value: 1, labels: [] } as const;

function piecesOf(...texts: (string | number)[]) {
  return texts.map((text) => ({
    text: String(text),
    cell: typeof text === 'number' ? { ...cell, index: [0], labels: [] } : null,
  }));
}

it('a plus begins a term, wherever the pieces end', () => {
  const given = piecesOf('exp(', 0, ' − 6) + exp(', 6, ' − 6) + ', 1);
  const found = termsOf(given).map((term) => term.map(({ text }) => text));
  expect(found).toEqual([
    ['exp(', '0', ' − 6)'],
    ['+ exp(', '6', ' − 6)'],
    ['+ ', '1'],
  ]);
  expect(found.map((term) => term.join('')).join(' ')).toBe(given.map(({ text }) => text).join(''));
});

it('nothing has no terms', () => expect(termsOf([])).toEqual([]));
