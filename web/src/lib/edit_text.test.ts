import { expect, it } from 'vitest';

import { formatEdits, parseEdits, plainEdit } from './edit_text';

const WRITTEN = [
  's[1,2]=3',
  't[0]=-Infinity',
  'encoder.context[*,3,*,*]=0',
  'encoder.blocks.1[]=0',
  'a[0,2,*]=mean;a[0,3,*]=data',
  'a[*,2,*]=other',
  'a[*,2,*]=other:x%3B%20%5B1%5D%3D2',
];

it.each(WRITTEN)('%s is written as it was read', (text) =>
  expect(formatEdits(parseEdits(text, 'B'), 'B')).toBe(text),
);

it('a region is a whole axis, and what is put there', () => {
  expect(parseEdits('a[0,*]=mean', null)).toEqual([{ step: 'a', index: [0, null], to: 'mean' }]);
  expect(parseEdits('a[*]=other', 'B')).toEqual([
    { step: 'a', index: [null], to: 'other', text: 'B' },
  ]);
});

it('the text of another run is written where it is not the one at hand', () => {
  const edits = parseEdits('a[*]=other', 'B; or C');
  expect(formatEdits(edits, 'D')).toBe('a[*]=other:B%3B%20or%20C');
  expect(parseEdits(formatEdits(edits, 'D'), 'D')).toEqual(edits);
});

it('what makes no sense is left out', () => {
  const none = ['', 'a', 'a[1]', 'a[x]=1', 'a[1*]=1', 'a[1,]=1', 'a[*]=other', 'a[*]=other:%'];
  expect(parseEdits(none.join(';'), null)).toEqual([]);
  expect(parseEdits('a[*]=sideways', null)).toEqual([]);
});

it('an edit of the server is made again from its plain form', () => {
  const told = {
    step: 'a',
    index: [0, null],
    value: 0,
    to: 'value',
    text: null,
    before: 3,
  } as const;
  expect(plainEdit({ ...told, index: [...told.index] })).toEqual({
    step: 'a',
    index: [0, null],
    value: 0,
  });
});
