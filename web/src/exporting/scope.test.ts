import { describe, expect, it } from 'vitest';

import type { TraceInfo } from '../lib/api';
import { sizeText, stepsOf } from './scope';

const trace = {
  steps: [
    { number: 0, module: '', operands: [] },
    { number: 1, module: 'a', operands: [{ step: 0 }] },
    { number: 2, module: 'a', operands: [{ step: 1 }, { step: 0 }, { step: 1 }, { step: null }] },
  ],
} as unknown as TraceInfo;

describe('what is exported', () => {
  it('is a step with what it was made from, a module, or all of it', () => {
    expect(stepsOf(trace, 2, 'step')).toEqual([0, 1, 2]);
    expect(stepsOf(trace, 2, 'module')).toEqual([1, 2]);
    expect(stepsOf(trace, 2, 'trace')).toEqual([]);
    expect(stepsOf(trace, null, 'step')).toEqual([]);
  });

  it('has a size that people read', () => {
    expect([999, 1000, 1_250_000].map(sizeText)).toEqual(['999 B', '1.0 kB', '1.3 MB']);
  });
});
