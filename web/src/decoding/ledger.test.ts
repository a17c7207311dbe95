import { expect, it } from 'vitest';

import type { CandidateInfo, DecodeAnswer } from '../lib/api';
import { bars, endOf, firstDropped, lastKept, parentOf, pathTo, placesKept, wayTo } from './ledger';
import { visible, why } from './why';

function candidate(text: string, parent: number, total: number, fate: CandidateInfo['fate']) {
  return {
    text,
    parent,
    total,
    fate,
    score: total / 2,
    log_probability: -0.5,
    draw_probability: null,
  };
}

/** Two beams: `A` leads, but `B C` ends best. */
const answer = {
  steps: [
    {
      beams: [''],
      candidates: [
        candidate('A', 0, -0.1, 'kept'),
        candidate('x', 0, -0.2, 'dropped'),
        candidate('B', 0, -0.3, 'kept'),
      ],
    },
    {
      beams: ['A', 'B'],
      candidates: [candidate('C', 1, -0.4, 'ended'), candidate('D', 0, -0.9, 'dropped')],
    },
  ],
  results: [['B C', -0.2]],
} as unknown as DecodeAnswer;

it('parents are counted among the candidates that went on', () => {
  expect(placesKept(answer.steps[0]!)).toEqual([0, 2]);
  expect(parentOf(answer.steps, { step: 1, place: 0 })).toEqual({ step: 0, place: 2 });
  expect(parentOf(answer.steps, { step: 0, place: 0 })).toBeNull();
});

it('a result is found by its score, and the way to it', () => {
  expect(endOf(answer, 0)).toEqual({ step: 1, place: 0 });
  expect(endOf(answer, 1)).toBeNull();
  expect(pathTo(answer.steps, { step: 1, place: 0 })).toHaveLength(2);
  expect([...wayTo(answer, 0)]).toEqual(['0:2', '1:0']);
});

it('the margin lies between the last that went on and the first that did not', () => {
  expect(firstDropped(answer.steps[0]!)?.text).toBe('x');
  expect(lastKept(answer.steps[0]!)?.text).toBe('B');
  expect(bars(answer.steps[1]!).map(({ before, after }) => [before, after])).toEqual([
    [Math.exp(-0.5), 1],
    [Math.exp(-0.5), 0],
  ]);
});

it('the reasons name the numbers of the ledger', () => {
  const settings = { search: 'beam', beam: 2, max_new: 9, length_penalty: 0.6 };
  const search = { answer, settings, way: wayTo(answer, 0) } as unknown as Parameters<
    typeof why
  >[0];
  const lines = why(search, { step: 0, place: 0 }).join(' ');
  for (const number of ['−0.1', '−0.2', '−0.3']) expect(lines).toContain(number);
  expect(why(search, { step: 1, place: 0 }).join(' ')).toContain('−0.4');
});

it('spaces of a token show', () => {
  expect([' a ', '\n', ''].map(visible)).toEqual(['␣a␣', '⏎', '∅']);
});
