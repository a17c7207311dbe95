/** What the screen shows of a trace: a step with its equation, and a cell's card beside it. */

import { source } from './source';
import type { CardInfo, DependentInfo, Equation, StepInfo, TraceInfo } from './api';
import { fits, isSamePlace, type Place } from './place';

/** A step on the screen. */
export interface Shown {
  step: number;
  /** The places of the axes before the last two: batch, head. */
  lead: number[];
  equation: Equation;
}

/** A cell on the screen, and the way to it. */
export interface Carded {
  cell: Place | null;
  card: CardInfo | null;
  dependents: DependentInfo[] | null;
  trail: Place[];
}

/** Where to look in a trace that may not be open yet, as a link or a lesson says it. */
export interface Spot {
  /** A step by its name or by its number. */
  step: string | number | null;
  lead: number[];
  cell: number[] | null;
  /** The operand of the step that the cell is counted in. */
  operand?: number | null;
  /** The step that the cell is of, by name, where another one is on the screen beside its card. */
  of?: string | null;
}

export const NO_CARD: Carded = { cell: null, card: null, dependents: null, trail: [] };

/** A step of a trace; the leading axes as wanted, as far as they fit. */
export async function look(
  trace: TraceInfo,
  step: number,
  lead: number[],
  signal: AbortSignal,
): Promise<Shown> {
  const wanted = fitted(trace, step, lead);
  return { step, lead: wanted, equation: await source.equation(trace.id, step, wanted, signal) };
}

/** A spot of a trace: its step, with the card of its cell; the first step where there is none. */
export async function lookAt(
  trace: TraceInfo,
  spot: Spot | null,
  signal: AbortSignal,
): Promise<Shown & Carded> {
  const step = findStep(trace, spot?.step);
  if (spot === null || step === null) {
    return { ...NO_CARD, ...(await look(trace, trace.first, [], signal)) };
  }
  const place = placeOf(trace, step, spot);
  if (place === null) {
    return { ...NO_CARD, ...(await look(trace, step.number, spot.lead, signal)) };
  }
  if (place.step === step.number) return lookAtCell(trace, place, spot.operand ?? null, signal);
  const [shown, card] = await Promise.all([
    look(trace, step.number, spot.lead, signal),
    source.card(trace.id, place, null, signal),
  ]);
  return { ...NO_CARD, ...shown, card, cell: cellOf(card) };
}

/** A trace to open, at the spot that was asked for or else at its first step. */
export async function opened(
  trace: TraceInfo,
  spot: Spot | null,
  signal: AbortSignal,
): Promise<{ trace: TraceInfo; showsBefore: boolean } & Shown & Carded> {
  return { trace, showsBefore: false, ...(await lookAt(trace, spot, signal)) };
}

async function lookAtCell(
  trace: TraceInfo,
  place: Place,
  operand: number | null,
  signal: AbortSignal,
): Promise<Shown & Carded> {
  const around = ({ step, index }: Place) => look(trace, step, index.slice(0, -2), signal);
  const [early, card] = await Promise.all([
    operand === null ? around(place) : null,
    source.card(trace.id, place, operand, signal),
  ]);
  const cell = cellOf(card);
  const isThere = early !== null && isSamePlace(cell, place);
  return { ...NO_CARD, ...(isThere ? early : await around(cell)), card, cell };
}

/** The cell that a card is about: asked for that of a view or an operand, the server finds its own. */
export function cellOf({ cell: { step, index } }: CardInfo): Place {
  return { step, index };
}

/** The step of a trace that has a name or a number, or null. */
export function findStep(trace: TraceInfo, step: string | number | null | undefined) {
  return trace.steps.find(({ name, number }) => step === name || step === number) ?? null;
}

/** What a spot shows of a trace: its step, the slice of it, and the cell of its card. */
export function shownAt(
  trace: TraceInfo,
  spot: Spot,
): { step: number; lead: number[]; cell: Place | null } {
  const step = findStep(trace, spot.step) ?? trace.steps[trace.first]!;
  const cell = placeOf(trace, step, spot);
  const lead = cell?.step === step.number ? cell.index.slice(0, -2) : spot.lead;
  return { step: step.number, lead: fitted(trace, step.number, lead), cell };
}

/** The cell that a spot names, or null where the trace has none there. */
function placeOf(trace: TraceInfo, step: StepInfo, { cell, operand, of }: Spot): Place | null {
  const owner = of ? findStep(trace, of) : step;
  const shape = typeof operand === 'number' ? owner?.operands[operand]?.shape : owner?.shape;
  if (cell === null || !owner || !shape) return null;
  const index = filled(cell, shape);
  return fits(index, shape) ? { step: owner.number, index } : null;
}

/** An index with a place on each axis: a batch may be missing at its front, a vector has no row. */
function filled(index: number[], shape: number[]): number[] {
  const missing = shape.slice(0, Math.max(0, shape.length - index.length)).map(() => 0);
  return [...missing, ...index.slice(Math.max(0, index.length - shape.length))];
}

/** Leading places that fit a step: missing ones are 0, too large ones are cut. */
export function fitted(trace: TraceInfo, step: number, lead: number[]): number[] {
  const sizes = trace.steps[step]!.shape.slice(0, -2);
  return sizes.map((size, axis) => Math.min(lead[axis] ?? 0, Math.max(0, size - 1)));
}
