import { describe, expect, it } from 'vitest';

import type { StepInfo, TraceInfo } from '../lib/api';
import { cellNumber, inRows, placeIn, type MatrixPart, type Part } from './parts';
import { mainSteps, sentence } from './prose';

const part = (kind: Part['kind']) => ({ kind }) as Part;

describe('the parts of a lesson', () => {
  it('stand side by side where matrices and tables follow one another', () => {
    const parts = ['text', 'matrix', 'table', 'formula', 'matrix', 'text'] as const;
    const rows = inRows(parts.map(part)).map((row) => row.map(({ kind }) => kind));
    expect(rows).toEqual([['text'], ['matrix', 'table'], ['formula'], ['matrix'], ['text']]);
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
});

describe('a sentence about a step', () => {
  const step = (fields: Partial<StepInfo>): StepInfo =>
    ({
      short: 'scores',
      shape: [2, 3],
      op: 'matmul',
      role: 'activation',
      is_main: true,
      is_view: false,
      operands: [
        { step: 0, argument: 'self', shape: [2, 4] },
        { step: null, argument: 'other', shape: [4, 3] },
      ],
      ...fields,
    }) as StepInfo;
  const trace = { steps: [step({ short: 'queries', role: 'input' }), step({})] } as TraceInfo;

  it('names what was multiplied, and over how many terms', () => {
    const said = sentence(trace, step({}));
    expect(said).toContain('scores');
    expect(said).toContain('queries');
    expect(said).toContain('other');
    expect(said).toContain('4');
  });

  it('tells operators, inputs and views apart', () => {
    const said = [
      step({}),
      step({ op: '_safe_softmax' }),
      step({ op: 'addmm' }),
      step({ role: 'input' }),
      step({ is_view: true }),
      step({ op: 'unheard_of' }),
    ].map((one) => sentence(trace, one));
    expect(new Set(said).size).toBe(said.length);
    expect(said.at(-1)).toContain('unheard_of');
  });

  it('does not speak of two operands where there is one', () => {
    const one = step({ operands: step({}).operands.slice(0, 1) });
    expect(sentence(trace, one)).toBe(sentence(trace, { ...one, op: 'matmul' }));
    expect(sentence(trace, one)).toContain('matmul');
  });

  it('is told of computed steps that matter', () => {
    expect(mainSteps(trace)).toEqual([trace.steps[1]]);
  });
});
