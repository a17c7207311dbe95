import { describe, expect, it } from 'vitest';

import type { CardInfo, CellRef } from '../lib/api';
import { asLatex, asMarkdown, relation } from './copying';

function cell(name: string, value: CellRef['value']): CellRef {
  return { step: 0, index: [0], name, role: 'activation', value, labels: [null] };
}

function card(fields: Partial<CardInfo>): CardInfo {
  return {
    cell: cell('S[0, 1]', 1.5),
    exact: '1.5',
    formula: 'Σₖ Q[0, k]·K[1, k]',
    tex: 'S_{0,1} = Q K',
    numbers: '1 × 1.5',
    definitions: [],
    sum: null,
    recomputed: 1.5,
    reproduced: true,
    operands: [],
    source: null,
    is_given: false,
    ...fields,
  } as CardInfo;
}

describe('a card to copy', () => {
  it('is LaTeX with powers of ten spelt out', () => {
    expect(asLatex(card({ exact: '1.5e-07' }))).toBe('S_{0,1} = Q K = 1.5 \\times 10^{-7}');
    expect(asLatex(card({ exact: '2e+12' }))).toContain('2 \\times 10^{12}');
    expect(asLatex(card({ exact: '-∞' }))).toContain('= -\\infty');
  });

  it('never says "=" where the rule does not reproduce the number', () => {
    const wrong = card({ reproduced: false });
    expect(relation(wrong)).toBe('≠');
    expect(asLatex(wrong)).toContain('\\neq');
    expect(asMarkdown(wrong, 'float32')).toContain('`≠ 1 × 1.5`');
  });

  it('is Markdown with the definitions and the source line', () => {
    const told = asMarkdown(
      card({
        definitions: [{ symbol: 'μ', symbols: 'Σ x', numbers: '1 + 2', pieces: [], value: 3 }],
        source: { file: 'm.py', line: 7, text: '  s = q @ k', before: [], after: [] },
      }),
      'float32',
    );
    expect(told.split('\n\n')).toEqual([
      '**S[0, 1]** = 1.5 (float32)',
      '`= Σₖ Q[0, k]·K[1, k]`',
      '`= 1 × 1.5`',
      '`μ = Σ x = 1 + 2`',
      'float64: 1.5',
      '`m.py:7`: `s = q @ k`\n',
    ]);
  });

  it('of a given number has no arithmetic', () => {
    const given = card({ formula: '', numbers: '', is_given: true });
    expect(asMarkdown(given, 'int64')).toBe('**S[0, 1]** = 1.5 (int64)\n');
  });
});
