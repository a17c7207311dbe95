import { expect, it } from 'vitest';

import type { AttentionInfo, StepInfo, TraceInfo } from '../lib/api';
import { isOff, writtenBy } from './heads';

const steps = [{ labels: [null, null, 'tokens', 'tokens'] } as unknown as StepInfo];

function layer(part: AttentionInfo['part']): AttentionInfo {
  return { part, layer: 0, module: '', weights: 0, n_heads: 1 } as AttentionInfo;
}

function traced(...parts: AttentionInfo['part'][]): TraceInfo {
  return { steps, attention: parts.map(layer) } as unknown as TraceInfo;
}

it('a decoder that reads a source writes the next token of its target', () => {
  const translator = traced('encoder', 'decoder', 'cross');
  const words = ['<start>', 'Ein', 'Hund'];
  expect(writtenBy(translator, layer('cross'), words)).toEqual(['Ein', 'Hund', null]);
  expect(writtenBy(translator, layer('encoder'), words)).toEqual([null, null, null]);
});

it('a language model is given its text: it may have written another', () => {
  expect(writtenBy(traced('decoder'), layer('decoder'), ['To', 'be'])).toEqual([null, null]);
});

it('a head whose context was set to 0 as a whole is off', () => {
  const step = { module: 'a', short: 'context', labels: [null, 0, null, null] };
  const traceWith = (index: (number | null)[], value: number) =>
    ({
      steps: [
        { ...step, short: 'weights', name: 'a.weights' },
        { ...step, name: 'a.context' },
      ],
      labels: [['head 0', 'head 1']],
      edits: [{ step: 'a.context', index, value, to: 'value' }],
    }) as unknown as TraceInfo;
  const head = { layer: layer('encoder'), head: 1 };
  expect(isOff(traceWith([null, 1, null, null], 0), head)).toBe(true);
  expect(isOff(traceWith([null, 0, null, null], 0), head)).toBe(false);
  expect(isOff(traceWith([null, 1, 2, null], 0), head)).toBe(false);
  expect(isOff(traceWith([null, 1, null, null], 1), head)).toBe(false);
});
