import { describe, expect, it } from 'vitest';

import type { Answer } from '../lib/api';
import { barsOf, onNotch, spanOf } from './live';

describe('how far a slider goes', () => {
  it('a probability stays one', () => {
    expect(spanOf(0.3, { kind: 'probability', limit: 1 })).toEqual({ low: 0, high: 1, by: 0.005 });
  });

  it('another number goes beyond itself and its neighbours, to a round number', () => {
    expect(spanOf(6, { kind: 'signed', limit: 6 })).toMatchObject({ low: -20, high: 20 });
    expect(spanOf(0.03, { kind: 'signed', limit: 0.01 })).toMatchObject({ low: -0.1, high: 0.1 });
    expect(spanOf(0, null)).toMatchObject({ low: -1, high: 1 });
    expect(spanOf(Infinity, { kind: 'signed', limit: 4 })).toMatchObject({ high: 10 });
  });

  it('its notches are numbers that one would write', () => {
    const span = spanOf(6, { kind: 'signed', limit: 6 });
    expect(onNotch(0.1 + 0.2, span)).toBe(0.3);
    expect(onNotch(-19.800000000000001, span)).toBe(-19.8);
  });
});

const choice = (text: string, probability: number) => ({ text, probability });
const answer = (fields: object) => ({ classes: [], positions: [], ...fields }) as unknown as Answer;

describe('the bars while a number moves', () => {
  it('of a classifier keep their order', () => {
    const before = answer({ classes: [choice('sad', 0.9), choice('happy', 0.1)] });
    const now = answer({ classes: [choice('happy', 0.7), choice('sad', 0.3)] });
    expect(barsOf(before, now)?.now).toEqual([choice('sad', 0.3), choice('happy', 0.7)]);
  });

  it('of a text are at the position that changed most', () => {
    const at = (after: string, ...choices: object[]) => ({ after, chosen: null, choices });
    const before = answer({
      positions: [at('<start>', choice('Ein', 0.9)), at('Ein', choice('Hund', 0.8))],
    });
    const now = answer({
      positions: [
        at('<start>', choice('Ein', 0.8)),
        at('Ein', choice('Hase', 0.6), choice('Hund', 0.2)),
      ],
    });
    expect(barsOf(before, now)).toMatchObject({
      after: 'Ein',
      now: [choice('Hund', 0.2), choice('Hase', 0.6)],
    });
    expect(barsOf(before, before)).toMatchObject({ after: 'Ein' });
    expect(barsOf(answer({}), answer({}))).toBeNull();
  });
});
