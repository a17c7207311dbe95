/** The parts of a lesson as TypeScript knows them; the server sends what `Lesson.to_dict()` says. */

import type { LessonName, LessonPart, Scale } from '../lib/api';
import { t } from '../lib/i18n';
import { formatNumber, typeset } from '../matrix/numbers';

export interface Prose {
  kind: 'text';
  text: string;
}

export interface Remark {
  kind: 'remark';
  verdict: 'agrees' | 'wrong' | 'follows' | 'unchecked' | 'given';
  text: string;
}

export interface Definition {
  symbol: string;
  symbols: string;
  numbers: string;
  value: string;
}

export interface Formula {
  kind: 'formula';
  trace: string | null;
  number: number | null;
  index: number[];
  name: string;
  symbols: string;
  numbers: string;
  value: string;
  /** The equation and those of its named parts in LaTeX, side by side. */
  tex: string[][];
  /** The line of PyTorch that computed it; empty where none is shown. */
  code: string;
  where: Definition[];
}

export interface MatrixPart {
  kind: 'matrix';
  /** The name of the step that it shows. */
  step: string;
  trace: string | null;
  number: number | null;
  caption: string;
  at: number[];
  /** Whether rows and columns of the step are exchanged here: parameters stand as x · W. */
  turned: boolean;
  marked: [number, number] | null;
  /** Rows that a question of the same step asks for. */
  hidden: number[];
  /** For each of these rows the number of the question that asks for it. */
  asked: number[];
  rows: string[];
  columns: string[];
  values: (number | 'NaN' | 'inf' | '-inf')[][];
  /** Places of memory that nothing wrote to. */
  unwritten: [number, number][];
  /** Whether it says yes and no, as a mask does. */
  is_boolean: boolean;
  scale: Scale | null;
}

export interface TablePart {
  kind: 'table';
  caption: string;
  heads: string[];
  rows: string[][];
}

/** A row of a matrix that the reader computes. */
export interface QuestionPart {
  kind: 'question';
  question: number;
  text: string;
  labels: string[];
  answers: string[];
  /** The matrices that they are computed from, by step and leading places. */
  given: { step: string; at: number[] }[];
}

/** A drawing of ours; it is shown as a picture, so nothing in it can act on the page. */
export interface FigurePart {
  kind: 'figure';
  name: string;
  caption: string;
  svg: string;
}

export type Part = Prose | Remark | Formula | MatrixPart | TablePart | FigurePart | QuestionPart;

export function partOf(part: LessonPart): Part {
  return part as unknown as Part;
}

/** A cell that a part points to. */
export interface Target {
  trace: string;
  step: number;
  /** Axes of a batch of one may be missing at the front, and a vector has a row too many. */
  index: number[];
}

export const MARKS: Record<Remark['verdict'], string> = {
  agrees: '✓',
  wrong: '✗',
  follows: '↳',
  unchecked: '?',
  given: '·',
};

/** The step's own row and column of a number in the matrix, and the other way round. */
export function placeIn(part: MatrixPart, row: number, column: number): [number, number] {
  return part.turned ? [column, row] : [row, column];
}

export function cellNumber(value: MatrixPart['values'][number][number]): number {
  if (typeof value === 'number') return value;
  return value === 'NaN' ? NaN : value === 'inf' ? Infinity : -Infinity;
}

/** Three digits of numbers that stand close together; yes and no as captions have them. */
export function cellText(value: number, isBoolean = false): string {
  if (isBoolean) return value === 0 ? '·' : '✓';
  return formatNumber(value, 3);
}

/** The titles of lessons in one line. */
export function titlesOf(lessons: LessonName[]): string {
  return lessons.map(({ title }) => title).join(t('course.comma'));
}

/** What a question is computed from and its own step does not show: as steps before it showed them. */
export function givenFor(
  steps: readonly { parts: readonly LessonPart[] }[],
  at: number,
  { given }: QuestionPart,
): MatrixPart[] {
  const shown = (step: number) =>
    (steps[step]?.parts ?? []).map(partOf).filter((part) => part.kind === 'matrix');
  return given.flatMap((wanted) => {
    const isIt = (part: MatrixPart) =>
      part.step === wanted.step && part.at.join() === wanted.at.join();
    for (let step = at; step >= 0; step--) {
      const found = shown(step).find(isIt);
      if (found !== undefined) return step === at ? [] : [found];
    }
    return [];
  });
}

/** A question whose rows a step hides although another step asks it; `step` counts from 1. */
export interface AskedElsewhere {
  question: number;
  step: number;
}

export function askedElsewhere(
  steps: readonly { parts: readonly LessonPart[] }[],
  at: number,
): AskedElsewhere[] {
  const own = (steps[at]?.parts ?? []).map(partOf);
  const matrices = own.flatMap((part) =>
    part.kind === 'matrix' ? [part] : part.kind === 'question' ? givenFor(steps, at, part) : [],
  );
  const hidden = new Set(matrices.flatMap(({ asked }) => asked));
  return steps.flatMap(({ parts }, step) =>
    parts
      .map(partOf)
      .filter((part) => part.kind === 'question')
      .filter(({ question }) => step !== at && hidden.has(question))
      .map(({ question }) => ({ question, step: step + 1 })),
  );
}

/** Prose in pieces: lessons named in it, `“title” (name)`, are links. */
export function withLinks(
  text: string,
  lessons: readonly LessonName[],
): { text: string; lesson?: string }[] {
  const pieces: { text: string; lesson?: string }[] = [];
  let from = 0;
  for (const found of text.matchAll(/“([^”]+)” ?[(（]([a-z-]+)[)）]/g)) {
    const [whole, title, name] = found;
    if (!lessons.some((lesson) => lesson.name === name && lesson.title === title)) continue;
    pieces.push({ text: text.slice(from, found.index) }, { text: `“${title}”`, lesson: name });
    from = found.index + whole.length;
  }
  return [...pieces, { text: text.slice(from) }];
}

/** Parts in rows: formulas, matrices and tables that follow one another stand side by side. */
export function inRows(parts: Part[]): Part[][] {
  const rows: Part[][] = [];
  for (const part of parts) {
    const last = rows.at(-1);
    if (last?.[0] !== undefined && isBlock(part) && isBlock(last[0])) last.push(part);
    else rows.push([part]);
  }
  return rows;
}

function isBlock({ kind }: Part): boolean {
  return kind === 'matrix' || kind === 'table' || kind === 'formula';
}

export { typeset };
