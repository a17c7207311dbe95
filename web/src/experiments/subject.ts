/** The number that an experiment is about: the one whose card is open, else the model's answer. */

import type { CellRef, Choice, TraceInfo } from '../lib/api';
import type { Place } from '../lib/place';

export interface Subject extends Place {
  name: string;
  /** The class or token whose logit it is. */
  says: string | null;
  isAnswer: boolean;
}

/** What the answer rests on: the likeliest class, or the likeliest token at the last position. */
export function answerChoice(trace: TraceInfo, position: number | null = null): Choice | null {
  const { classes, positions, task } = trace.answer;
  if (classes.length > 0) return classes[0]!;
  const usual = task === 'generate' ? positions.length - 1 : 0;
  return positions[position ?? usual]?.choices[0] ?? null;
}

/** `position`: of an answer that is written token by token, the one that is asked about. */
export function subjectOf(
  trace: TraceInfo,
  cell: CellRef | null,
  position: number | null = null,
): Subject | null {
  const choice = answerChoice(trace, position);
  const asked = cell ?? choice?.cell ?? null;
  if (asked === null) return null;
  const { step, index, name } = asked;
  return { step, index, name, says: sayer(trace, asked), isAnswer: cell === null };
}

/** The class or token that a logit belongs to, where the answer names it. */
function sayer(trace: TraceInfo, { step, index }: Place): string | null {
  const { classes, positions } = trace.answer;
  const choices = [...classes, ...positions.flatMap((one) => one.choices)];
  const isIt = ({ cell }: Choice) => cell.step === step && String(cell.index) === String(index);
  return choices.find(isIt)?.text ?? null;
}
