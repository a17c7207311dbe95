import { describe, expect, it } from 'vitest';

import type { Answer } from '../lib/api';
import { compare } from './answers';

function answer(fields: object): Answer {
  return { task: 'classify', text: '', classes: [], positions: [], ...fields } as unknown as Answer;
}

describe('what the model said before and after', () => {
  it('is the most probable class, whatever their order', () => {
    const before = answer({
      classes: [
        { text: 'sad', probability: 0.2 },
        { text: 'happy', probability: 0.8 },
      ],
    });
    const after = answer({ classes: [{ text: 'happy', probability: 0.7 }] });
    expect(compare(before, after)).toEqual({
      before: { text: 'happy', probability: 0.8 },
      after: { text: 'happy', probability: 0.7 },
      isSame: false,
    });
    expect(compare(before, before).isSame).toBe(true);
  });

  it('is token after token of what would be written, with a probability of a single one', () => {
    const position = (text: string) => ({ choices: [{ text, probability: 0.5 }] });
    const two = answer({ positions: [position('Ein'), position('Hund')] });
    const one = answer({ positions: [position('Ein')] });
    expect(compare(two, one)).toMatchObject({
      before: { text: 'Ein Hund', probability: null },
      after: { text: 'Ein', probability: 0.5 },
    });
    expect(compare(answer({ positions: [{ choices: [] }] }), two).before.text).toBe('');
  });

  it('is the shape of what a module gives', () => {
    expect(compare(answer({ text: '1×3' }), answer({ text: '1×3' })).isSame).toBe(true);
  });
});
