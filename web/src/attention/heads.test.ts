import { expect, it } from 'vitest';

import type { AttentionInfo, StepInfo, TraceInfo } from '../lib/api';
import { writtenBy } from './heads';

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
