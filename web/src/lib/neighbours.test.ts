import { describe, expect, it } from 'vitest';

import type { BranchInfo, StepInfo, TraceInfo } from './api';
import { branchesTo, inOtherLayers, inOtherParts, mainSteps, nextStep } from './neighbours';

const NAMES = [
  'encoder.blocks.0.attention.scores',
  'encoder.blocks.1.attention.scores',
  'decoder.blocks.0.attention.scores',
  'decoder.blocks.0.cross_attention.scores',
  'encoder.blocks.10.attention.scores',
  'logits',
];

function trace(): TraceInfo {
  const steps = NAMES.map((name, number) => ({ name, number, is_main: true, role: 'activation' }));
  const attention = [
    { module: 'encoder.blocks.0.attention', part: 'encoder', layer: 0 },
    { module: 'encoder.blocks.1.attention', part: 'encoder', layer: 1 },
    { module: 'decoder.blocks.0.attention', part: 'decoder', layer: 0 },
    { module: 'decoder.blocks.0.cross_attention', part: 'cross', layer: 0 },
  ];
  return { steps, attention } as unknown as TraceInfo;
}

const step = (number: number) => trace().steps[number];

describe('the same step', () => {
  it('in other layers is in the order of their numbers', () => {
    expect(inOtherLayers(trace(), step(1))).toEqual([
      { step: 0, key: '0' },
      { step: 1, key: '1' },
      { step: 4, key: '10' },
    ]);
    expect(inOtherLayers(trace(), step(2))).toEqual([]);
    expect(inOtherLayers(trace(), step(5))).toEqual([]);
  });

  it('in other parts is in the same layer, or in the last one that there is', () => {
    expect(inOtherParts(trace(), step(1))).toEqual([
      { step: 1, key: 'encoder' },
      { step: 2, key: 'decoder' },
      { step: 3, key: 'cross' },
    ]);
    expect(inOtherParts(trace(), step(5))).toEqual([]);
  });
});

describe('the steps that a reader goes through', () => {
  it('leave out parameters and bookkeeping, and end', () => {
    const whole = trace();
    whole.steps = whole.steps.map((one): StepInfo =>
      one.number === 1
        ? { ...one, is_main: false }
        : one.number === 3
          ? { ...one, role: 'parameter' }
          : one,
    );
    expect(mainSteps(whole)).toEqual([0, 2, 4, 5]);
    expect(nextStep(whole, 0, 1)).toBe(2);
    expect(nextStep(whole, 3, -1)).toBe(2);
    expect(nextStep(whole, 5, 1)).toBeNull();
    expect(nextStep(whole, 0, -1)).toBeNull();
  });
});

describe('the way through the tree', () => {
  it('goes from the root to the branch that holds a step', () => {
    const branch = (path: string, fields: Partial<BranchInfo> = {}) =>
      ({ path, steps: [], parameters: [], branches: [], ...fields }) as unknown as BranchInfo;
    const inner = branch('a.b', { parameters: [7] });
    const tree = branch('', {
      branches: [branch('z', { steps: [1] }), branch('a', { branches: [inner] })],
    });
    expect(branchesTo(tree, 7).map(({ path }) => path)).toEqual(['', 'a', 'a.b']);
    expect(branchesTo(tree, 99)).toEqual([]);
  });
});
