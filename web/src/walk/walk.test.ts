import { describe, expect, it } from 'vitest';

import type { LessonPart } from '../lib/api';
import {
  askedElsewhere,
  cellNumber,
  givenFor,
  inRows,
  placeIn,
  withLinks,
  type MatrixPart,
  type Part,
  type QuestionPart,
} from './parts';

const part = (kind: Part['kind']) => ({ kind }) as Part;

describe('the parts of a lesson', () => {
  it('stand side by side where formulas, matrices and tables follow one another', () => {
    const parts = ['text', 'matrix', 'table', 'formula', 'matrix', 'text'] as const;
    const rows = inRows(parts.map(part)).map((row) => row.map(({ kind }) => kind));
    expect(rows).toEqual([['text'], ['matrix', 'table', 'formula', 'matrix'], ['text']]);
    expect(inRows([])).toEqual([]);
  });

  it('have numbers that JSON lacks as words', () => {
    expect([1.5, 'NaN', 'inf', '-inf'].map((value) => cellNumber(value as never))).toEqual([
      1.5,
      NaN,
      Infinity,
      -Infinity,
    ]);
  });

  it('count in the step’s own rows and columns where a matrix is turned', () => {
    expect(placeIn({ turned: true } as MatrixPart, 1, 4)).toEqual([4, 1]);
    expect(placeIn({ turned: false } as MatrixPart, 1, 4)).toEqual([1, 4]);
  });

  it('name the question, of another step, that a hidden row answers', () => {
    const hides = (...asked: number[]) =>
      ({ kind: 'matrix', asked, step: 'c', at: [] }) as unknown as LessonPart;
    const asks = (question: number) =>
      ({ kind: 'question', question, given: [] }) as unknown as LessonPart;
    const steps = [{ parts: [hides(1), asks(1)] }, { parts: [hides(1), hides(2), asks(2)] }];
    expect(askedElsewhere(steps, 0)).toEqual([]);
    expect(askedElsewhere(steps, 1)).toEqual([{ question: 1, step: 1 }]);
  });

  it('give a question the matrices that its own step does not show, as they stood last', () => {
    const shows = (step: string, at: number[], ...asked: number[]) =>
      ({ kind: 'matrix', step, at, asked }) as unknown as LessonPart;
    const asks = (...given: QuestionPart['given']) =>
      ({ kind: 'question', question: 2, given }) as unknown as QuestionPart;
    const question = asks({ step: 'a', at: [0] }, { step: 'b', at: [] }, { step: 'x', at: [] });
    const [old, newer, own] = [shows('a', [0]), shows('a', [0], 1), shows('b', [])];
    const steps = [
      { parts: [old, shows('a', [1])] },
      { parts: [newer] },
      { parts: [own, question as unknown as LessonPart] },
    ];
    expect(givenFor(steps, 2, question)).toEqual([newer]);
    const first = { kind: 'question', question: 1, given: [] } as unknown as LessonPart;
    const asked = askedElsewhere([...steps.slice(0, 2), steps[2]!, { parts: [first] }], 2);
    expect(asked).toEqual([{ question: 1, step: 4 }]); // a row of what is given is hidden
  });

  it('lead to the lessons that their prose names, and to nothing else', () => {
    const lessons = [{ name: 'scaling', title: 'Scaling: why?' }];
    const pieces = withLinks('See “Scaling: why?” (scaling), not “scaling” (scaling).', lessons);
    expect(pieces).toEqual([
      { text: 'See ' },
      { text: '“Scaling: why?”', lesson: 'scaling' },
      { text: ', not “scaling” (scaling).' },
    ]);
    expect(withLinks('见“缩放”（scaling）一课', [{ name: 'scaling', title: '缩放' }])[1]).toEqual({
      text: '“缩放”',
      lesson: 'scaling',
    });
  });
});
