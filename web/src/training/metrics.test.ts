import { describe, expect, it } from 'vitest';

import { lossCurves, pace, readable, scoreNames, type Metric } from './metrics';

const metrics: Metric[] = [
  { step: 10, loss: 3.5, tokens_per_s: 100, train_seconds: 5 },
  { step: 20, loss: null, valid_loss: 3.1, valid_accuracy: 0.5, valid_note: 'ok' },
  { step: 30, loss: 2.5, tokens_per_s: 120, train_seconds: 12 },
];

describe('metrics', () => {
  it('become curves of the numbers that there are', () => {
    expect(lossCurves(metrics)).toEqual([
      {
        name: 'loss',
        points: [
          { x: 10, y: 3.5 },
          { x: 30, y: 2.5 },
        ],
      },
      { name: 'valid_loss', points: [{ x: 20, y: 3.1 }] },
    ]);
    expect(lossCurves([])).toEqual([]);
  });

  it('name the scores of the validation set, but not its loss', () => {
    expect(scoreNames(metrics)).toEqual(['valid_accuracy']);
    expect(readable('valid_token_accuracy')).toBe('token accuracy');
  });

  it('tell how long the rest will take at the pace so far', () => {
    expect(pace(metrics, 90)).toEqual({
      step: 30,
      tokensPerSecond: 120,
      secondsLeft: 24,
      loss: 2.5,
    });
    expect(pace(metrics, null).secondsLeft).toBeNull();
    expect(pace(metrics, 20).secondsLeft).toBe(0);
    expect(pace([], 90)).toEqual({ step: 0, tokensPerSecond: null, secondsLeft: null, loss: null });
  });
});
