/** What the model said before and after the edits, as two short texts. */

import type { Answer } from '../lib/api';
import { t } from '../lib/i18n';

export interface Said {
  text: string;
  /** Of the class that is named, or of the first token that differs. */
  probability: number | null;
}

export interface Comparison {
  before: Said;
  after: Said;
  isSame: boolean;
}

export function compare(before: Answer, after: Answer): Comparison {
  const [old, now] = [said(before), said(after)];
  return {
    before: old,
    after: now,
    isSame: old.text === now.text && old.probability === now.probability,
  };
}

/** A classifier's class with its probability; what others would write, token after token. */
function said(answer: Answer): Said {
  if (answer.classes.length > 0) {
    const best = answer.classes.reduce((a, b) => (b.probability > a.probability ? b : a));
    const text = answer.undecided ? t('answer.undecided') : best.text;
    return { text, probability: best.probability };
  }
  if (answer.positions.length > 0) {
    const tokens = answer.positions.map(({ choices }) => choices[0]?.text ?? '');
    const first = answer.positions[0]?.choices[0];
    return {
      text: tokens.join(' ').trim(),
      probability: answer.positions.length === 1 ? (first?.probability ?? null) : null,
    };
  }
  return { text: answer.text, probability: null };
}
