import { describe, expect, it } from 'vitest';

import type { AuditInfo, AuditStepInfo } from '../lib/api';
import { formatSpot, indexOf, nextSpot, parseSpot, tableOf, wrongSpots } from './places';

type Verdict = AuditStepInfo['verdict'];

function step(id: string, verdict: Verdict, shape: number[], marks: string): AuditStepInfo {
  const verdicts: Record<string, Verdict | null> = {
    '+': 'agrees', '-': 'wrong', '.': null,
  }; // prettier-ignore
  return {
    id,
    title: id,
    formula: null,
    quoted: null,
    verdict,
    finding: '',
    slip: null,
    right: null,
    causes: [],
    shape,
    rows: [],
    columns: [],
    cells: [...marks].map((mark, n) => ({
      text: String(n),
      verdict: verdicts[mark] ?? null,
      right: null,
    })),
  };
}

const audit: AuditInfo = {
  id: 'x',
  name: 'x',
  title: 'x',
  counted: '',
  verdicts: [],
  steps: [
    step('given', 'agrees', [2], '++'),
    step('scores', 'wrong', [2, 2], '+-+-'),
    step('code', 'wrong', [], ''),
    step('one', 'wrong', [], '-'),
  ],
};
const ids = audit.steps.map(({ id }) => id);

describe('wrong numbers', () => {
  const wrong = wrongSpots(audit);

  it('are listed in reading order; a step without numbers stands for itself', () => {
    expect(wrong.map(formatSpot)).toEqual(['scores[0,1]', 'scores[1,1]', 'code', 'one']);
  });

  it('are stepped through, around the end', () => {
    const go = (from: string | undefined, by: 1 | -1) =>
      formatSpot(nextSpot(wrong, ids, parseSpot(from, audit), by)!);
    expect(go(undefined, 1)).toBe('scores[0,1]');
    expect(go(undefined, -1)).toBe('one');
    expect(go('scores[0,1]', 1)).toBe('scores[1,1]');
    expect(go('one', 1)).toBe('scores[0,1]');
    expect(go('scores[0,1]', -1)).toBe('one');
    expect(go('scores[1,0]', 1)).toBe('scores[1,1]'); // from a number that is right
    expect(go('scores[1,0]', -1)).toBe('scores[0,1]');
    expect(go('given', 1)).toBe('scores[0,1]');
  });

  it('may be none', () => {
    expect(nextSpot([], ids, null, 1)).toBeNull();
  });
});

it('counts places row by row', () => {
  expect(indexOf(5, [2, 3])).toEqual([1, 2]);
  expect(indexOf(0, [])).toEqual([]);
});

it('reads only places that there are', () => {
  expect(parseSpot('scores[1,1]', audit)).toEqual({ step: 'scores', index: [1, 1] });
  expect(parseSpot('scores[7,1]', audit)).toEqual({ step: 'scores', index: null });
  expect(parseSpot('one', audit)).toEqual({ step: 'one', index: [] });
  expect(parseSpot('nothing', audit)).toBeNull();
});

it('makes a table, without columns in which nothing is printed', () => {
  const { heads, rows } = tableOf({
    ...step('t', 'agrees', [2, 3], '+.++.+'),
    rows: ['a', 'b'],
    columns: ['x', 'y', 'z'],
  });
  expect(heads).toEqual(['x', 'z']);
  expect(rows.map(({ name, cells }) => [name, ...cells.map(({ cell }) => cell.text)])).toEqual([
    ['a', '0', '2'],
    ['b', '3', '5'],
  ]);
});
