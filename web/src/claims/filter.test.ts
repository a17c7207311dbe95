import { describe, expect, it } from 'vitest';

import type { ClaimList, ClaimSummary } from '../lib/api';
import { counted, fitting, grouped, named, NO_FILTER, plain } from './filter';

function claim(id: string, more: Partial<ClaimSummary> = {}): ClaimSummary {
  return {
    id,
    group: 'Masks',
    says: `Claim ${id}`,
    texts: ['000'],
    rows: [],
    is_slow: false,
    n_switches: 0,
    verdict: null,
    ...more,
  };
}

const list: ClaimList = {
  can_measure: true,
  verdicts: [],
  texts: [],
  rows: [
    { id: 'G11', name: 'what leaks without a mask', claims: ['C74'], lessons: [], command: null },
  ],
  claims: [
    claim('C01', { verdict: 'holds', group: 'Basics' }),
    claim('C74', { rows: ['G11'], texts: ['002', '004'], n_switches: 2, verdict: 'holds' }),
    claim('C79', { says: 'Hidden scores are set to 0', texts: ['004'], verdict: 'fails' }),
  ],
};
const known = (one: ClaimSummary) => one.verdict;
const ids = (claims: ClaimSummary[]) => claims.map(({ id }) => id);

describe('the filter', () => {
  it('shows everything at first', () => {
    expect(ids(fitting(list, NO_FILTER, known))).toEqual(['C01', 'C74', 'C79']);
  });

  it('finds words of the claim, its rows and their names, all of them', () => {
    const found = (words: string) => ids(fitting(list, { ...NO_FILTER, words }, known));
    expect(found('hidden SCORES')).toEqual(['C79']);
    expect(found('g11')).toEqual(['C74']);
    expect(found('leaks')).toEqual(['C74']);
    expect(found('hidden leaks')).toEqual([]);
  });

  it('goes by text, verdict and switches', () => {
    expect(ids(fitting(list, { ...NO_FILTER, text: '004' }, known))).toEqual(['C74', 'C79']);
    expect(ids(fitting(list, { ...NO_FILTER, verdict: 'fails' }, known))).toEqual(['C79']);
    expect(ids(fitting(list, { ...NO_FILTER, switchable: true }, known))).toEqual(['C74']);
  });
});

it('counts verdicts', () => {
  expect([...counted(list.claims, known)]).toEqual([
    ['holds', 2],
    ['fails', 1],
  ]);
});

it('keeps groups in order', () => {
  expect(grouped(list.claims).map(({ title, claims }) => [title, ids(claims)])).toEqual([
    ['Basics', ['C01']],
    ['Masks', ['C74', 'C79']],
  ]);
});

it('finds claims and rows in either case', () => {
  expect(named(list, 'c74').claim?.id).toBe('C74');
  expect(named(list, 'g11').row?.claims).toEqual(['C74']);
  expect(named(list, 'nothing')).toEqual({ claim: null, row: null });
});

it('drops the marks of code', () => {
  expect(plain('the `mask` option')).toBe('the mask option');
});
