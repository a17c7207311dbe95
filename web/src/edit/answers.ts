/** What the model said before and after the edits. */

import type { Answer, AnswerPosition, Choice } from '../lib/api';
import { t } from '../lib/i18n';
import { formatShares } from '../matrix/numbers';

export interface Said {
  text: string;
  /** Of the class or of the next token, in words; null for a text, whose tokens have one each. */
  share: string | null;
}

/** A token of a text, with its probabilities in words. */
export interface TokenChange {
  text: string;
  before: string;
  after: string;
}

export interface Comparison {
  before: Said;
  after: Said;
  /** Of a translation, the token whose probability changed most. */
  token: TokenChange | null;
  isSame: boolean;
}

export function compare(before: Answer, after: Answer): Comparison {
  const [old, now] = [bestOf(before), bestOf(after)];
  const shares = old && now ? formatShares(old.probability, now.probability) : [null, null];
  const one = { text: textOf(before, old), share: shares[0] };
  const other = { text: textOf(after, now), share: shares[1] };
  const token = before.task === 'translate' ? mostChanged(before, after) : null;
  const isSame = one.text === other.text && one.share === other.share && token === null;
  return { before: one, after: other, token, isSame };
}

/** A classifier's class, or a language model's next token. */
function bestOf({ task, classes, positions }: Answer): Choice | undefined {
  if (task === 'generate') return positions.at(-1)?.choices[0];
  return classes.toSorted((a, b) => b.probability - a.probability)[0];
}

function textOf(answer: Answer, best: Choice | undefined): string {
  if (answer.undecided) return t('answer.undecided');
  return answer.task === 'generate' && best !== undefined ? best.text : answer.text;
}

/** The probability of the token that stands at a position, or of the best where none does. */
export function shareOf({ chosen, choices }: AnswerPosition): number {
  const found = chosen === null ? choices[0] : choices.find(({ text }) => text === chosen);
  return found?.probability ?? 0;
}

function mostChanged(before: Answer, after: Answer): TokenChange | null {
  const tokens = before.positions.flatMap((was, at) => {
    const now = after.positions[at];
    const text = was.chosen ?? was.choices[0]?.text;
    const shares = [was, now].map((one) => one?.choices.find((choice) => choice.text === text));
    const [old, is] = shares.map((choice) => choice?.probability);
    // what is no candidate any more has no probability that could be told
    if (text === undefined || old === undefined || is === undefined) return [];
    return [{ text, before: old, after: is }];
  });
  const change = (token: (typeof tokens)[number]) => Math.abs(token.after - token.before);
  const most = tokens.toSorted((a, b) => change(b) - change(a))[0];
  if (most === undefined) return null;
  const [was, is] = formatShares(most.before, most.after);
  return was === is ? null : { text: most.text, before: was, after: is };
}
