import { describe, expect, it } from 'vitest';

import { formatLink, parseLink, type Link } from './link';

const LINKS = [
  '#/',
  '#/?lang=zh',
  '#/lesson',
  '#/lesson/illustrated/4',
  '#/lesson/order/2?set=encoding%3Drotary',
  '#/decoding',
  '#/training',
  '#/trace/a%2Fb?step=scores&lead=0,1&cell=0,1,2,3',
  '#/en-de?text=A+dog.&step=encoder.scores&cell=0,1&of=encoder.weights&view=attention',
  '#/en-de?text=A+dog.&target=Ein+Hund.&edits=scores[0,1]%3D-2.5%3Bweights[]%3DNaN&step=scores',
  '#/toy?text=I+am&view=walk&at=3',
  '#/toy?text=I+am&other=you+are&edits=a[*,2,*]%3Dother&view=experiments&tab=sweep',
  '#/toy?text=I+am&step=encoder.scores&view=map',
  '#/toy?text=I+am&lang=zh&lecture=1',
];

it.each(LINKS)('%s is written as it was read', (hash) =>
  expect(formatLink(parseLink(hash))).toBe(hash),
);

describe('what a link says', () => {
  it('is a run with its edits', () => {
    const { origin, step, cell } = parseLink(
      '#/toy?text=a&edits=s[1,2]=3;t[0]=-Infinity&step=s&cell=1,2',
    );
    expect(origin).toEqual({
      kind: 'run',
      model: 'toy',
      text: 'a',
      target: null,
      edits: [
        { step: 's', index: [1, 2], value: 3 },
        { step: 't', index: [0], value: '-Infinity' },
      ],
    });
    expect([step, cell]).toEqual(['s', [1, 2]]);
  });

  it('counts the steps of a lesson from 1', () => {
    expect(parseLink('#/lesson/by-hand/3').walk).toEqual({ lesson: 'by-hand', step: 2 });
    expect(parseLink('#/lesson/by-hand/x').walk).toEqual({ lesson: 'by-hand', step: 0 });
  });

  it('is the start where it makes no sense', () => {
    for (const hash of ['', '#', '#/toy', '#/toy?text=', '#/%E0%A4%A']) {
      expect(parseLink(hash)).toMatchObject({ view: 'start', origin: null });
    }
    expect(parseLink('#/trace/x?cell=-1,a&lead=1.5&lang=fr')).toMatchObject({
      cell: null,
      lead: [],
      language: null,
      lecture: false,
    });
  });
});

it('the first slice and the map need no words in a link', () => {
  const link: Link = { ...parseLink('#/trace/x'), lead: [0, 0], view: 'equation' };
  expect(formatLink(link)).toBe('#/trace/x');
});
