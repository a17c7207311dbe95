import { describe, expect, it } from 'vitest';

import type { Answer } from '../lib/api';
import { compare } from './answers';

function answer(fields: object): Answer {
  return { task: 'classify', text: '', classes: [], positions: [], ...fields } as unknown as Answer;
}

describe('what the model said before and after', () => {
  it('is the most probable class, whatever their order', () => {
    const before = answer({
      text: 'happy',
      classes: [
        { text: 'sad', probability: 0.2 },
        { text: 'happy', probability: 0.8 },
      ],
    });
    const after = answer({ text: 'happy', classes: [{ text: 'happy', probability: 0.7 }] });
    expect(compare(before, after)).toEqual({
      before: { text: 'happy', share: '80%' },
      after: { text: 'happy', share: '70%' },
      token: null,
      isSame: false,
    });
    expect(compare(before, before).isSame).toBe(true);
  });

  it('is all gaps of a text that were filled, and that nothing is decided', () => {
    const filled = answer({ text: 'a … b', classes: [{ text: 'a', probability: 0.5 }] });
    const undecided = answer({ undecided: true, classes: [{ text: 'a', probability: 0.5 }] });
    expect(compare(filled, undecided)).toMatchObject({
      before: { text: 'a … b' },
      after: { text: 'undecided' },
    });
  });

  const position = (chosen: string | null, probability: number, best = chosen ?? '.') => ({
    chosen,
    choices: [
      { text: best, probability: best === chosen ? probability : 0.9 },
      { text: chosen, probability },
    ],
  });

  it('is the whole translation, and the token whose probability changed most', () => {
    const before = answer({
      task: 'translate',
      text: 'Ein Hund',
      positions: [position('Ein', 0.9), position('␣Hund', 0.8), position(null, 0.95)],
    });
    const after = answer({
      task: 'translate',
      text: 'Ein Hund',
      positions: [position('Ein', 0.89), position('␣Hund', 0.02, '␣Mann'), position(null, 0.9)],
    });
    expect(compare(before, after)).toEqual({
      before: { text: 'Ein Hund', share: null },
      after: { text: 'Ein Hund', share: null },
      token: { text: '␣Hund', before: '80%', after: '2.0%' },
      isSame: false,
    });
    const alike = answer({ ...before, positions: [position('Ein', 0.9 + 1e-9)] });
    expect(compare(before, alike)).toMatchObject({ token: null, isSame: true });
  });

  it('is the next token of a language model, not what it would write earlier', () => {
    const before = answer({
      task: 'generate',
      positions: [position('be', 0.1, 'or'), position(null, 0.9, 'not')],
    });
    const positions = [position('be', 0.9), position(null, 0.9004, 'not')];
    positions[1]!.choices[0]!.probability = 0.9004;
    expect(compare(before, answer({ ...before, positions }))).toEqual({
      before: { text: 'not', share: '90.00%' },
      after: { text: 'not', share: '90.04%' },
      token: null,
      isSame: false,
    });
  });

  it('is the shape of what a module gives', () => {
    expect(compare(answer({ text: '1×3' }), answer({ text: '1×3' })).isSame).toBe(true);
  });
});
