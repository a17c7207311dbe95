import { describe, expect, it } from 'vitest';

import { parseLink } from '../lib/link';
import {
  BadPlaylist,
  belongs,
  formatPlaylist,
  LONGEST_NOTE,
  MOST_VIEWS,
  moved,
  noteOf,
  parsePlaylist,
  type PinnedView,
} from './playlist';

const VIEW: PinnedView = {
  link: '#/toy?text=I+am&step=encoder.scores&cell=0,1',
  title: 'scores',
  note: { en: 'Who looks at whom?', zh: '谁在看谁？' },
};

function fileOf(views: unknown, extra: object = {}): string {
  return JSON.stringify({ format: 'glassformer-playlist', version: 1, views, ...extra });
}

function problemOf(text: string): string {
  try {
    parsePlaylist(text);
  } catch (error) {
    if (error instanceof BadPlaylist) return error.reason;
    throw error;
  }
  return '';
}

describe('a file', () => {
  it('is read as it was written', () => {
    const views = [VIEW, { ...VIEW, link: '#/lesson/illustrated/4', title: '' }];
    expect(parsePlaylist(formatPlaylist(views))).toEqual(views);
  });

  it('may lack notes, and loses language and mode', () => {
    const [view] = parsePlaylist(fileOf([{ link: '#/toy?text=a&lang=zh&lecture=1', title: 'a' }]));
    expect(view).toEqual({ link: '#/toy?text=a', title: 'a', note: { en: '', zh: '' } });
  });

  it.each([
    ['notJson', '{'],
    ['notPlaylist', '[]'],
    ['notPlaylist', 'null'],
    ['notPlaylist', '{"format": "other", "views": []}'],
    ['newer', fileOf([], { version: 2 })],
    ['tooMany', fileOf(Array.from({ length: MOST_VIEWS + 1 }, () => VIEW))],
    ['badView', fileOf([{ link: 3, title: '' }])],
    ['badView', fileOf([null])],
    ['badView', fileOf([{ ...VIEW, note: { en: [] } }])],
    ['tooLong', fileOf([{ ...VIEW, note: { en: 'x'.repeat(LONGEST_NOTE + 1), zh: '' } }])],
    ['badLink', fileOf([{ ...VIEW, link: 'https://example.org/#/toy?text=a' }])],
    ['badLink', fileOf([{ ...VIEW, link: 'javascript:alert(1)' }])],
    ['badLink', fileOf([{ ...VIEW, link: '#/' }])],
    ['tooLarge', `"${'x'.repeat(1_000_001)}"`],
  ])('is refused: %s', (reason, text) => expect(problemOf(text)).toBe(reason));
});

it('moves a view', () => {
  expect(moved([1, 2, 3], 0, 1)).toEqual([2, 1, 3]);
  expect(moved([1, 2, 3], 2, -5)).toEqual([3, 1, 2]);
  expect(moved([1, 2, 3], 0, 9)).toEqual([2, 3, 1]);
});

it('takes the note of the other language where there is none', () => {
  expect(noteOf(VIEW, 'zh')).toBe('谁在看谁？');
  expect(noteOf({ ...VIEW, note: { en: 'a', zh: '' } }, 'zh')).toBe('a');
});

describe('a place', () => {
  const at = (hash: string) => parseLink(hash);

  it('belongs to a view of the same run, with another card or step', () => {
    const view = at(VIEW.link);
    expect(belongs(at('#/toy?text=I+am&step=logits'), view)).toBe(true);
    expect(belongs(at('#/toy?text=I+am&view=map'), view)).toBe(false);
    expect(belongs(at('#/toy?text=We+are'), view)).toBe(false);
  });

  it('belongs to a step of a lesson whatever trace is open', () => {
    const view = at('#/lesson/masked/2');
    expect(belongs({ ...view, origin: { kind: 'id', id: 'x' } }, view)).toBe(true);
    expect(belongs(at('#/lesson/masked/3'), view)).toBe(false);
  });
});
