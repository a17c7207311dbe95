/** What the screen shows of a trace: a step with its equation, and a cell's card beside it. */

import * as api from './api';
import type { CardInfo, DependentInfo, Equation, TraceInfo } from './api';
import { fits, isSamePlace, type Place } from './carrying';

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

/** Where to look in a trace that may not be open yet, as a link says it. */
export interface Spot {
  /** The name of a step. */
  step: string | null;
  lead: number[];
  cell: number[] | null;
}

export const NO_CARD: Carded = { cell: null, card: null, dependents: null, trail: [] };

/** A step of a trace; the leading axes as wanted, as far as they fit. */
export async function look(
  trace: TraceInfo,
  step: number,
  lead: number[],
  signal: AbortSignal,
): Promise<Shown> {
  const wanted = fitted(lead, trace.steps[step]!.shape.slice(0, -2));
  return { step, lead: wanted, equation: await api.equation(trace.id, step, wanted, signal) };
}

/** A spot of a trace: its step, with the card of its cell; the first step where there is none. */
export async function lookAt(
  trace: TraceInfo,
  spot: Spot | null,
  signal: AbortSignal,
): Promise<Shown & Carded> {
  const step = findStep(trace, spot);
  if (spot === null || step === null) {
    return { ...NO_CARD, ...(await look(trace, trace.first, [], signal)) };
  }
  if (spot.cell === null || !fits(spot.cell, step.shape)) {
    return { ...NO_CARD, ...(await look(trace, step.number, spot.lead, signal)) };
  }
  return lookAtCell(trace, { step: step.number, index: spot.cell }, signal);
}

async function lookAtCell(
  trace: TraceInfo,
  place: Place,
  signal: AbortSignal,
): Promise<Shown & Carded> {
  const around = ({ step, index }: Place) => look(trace, step, index.slice(0, -2), signal);
  const [shown, card] = await Promise.all([around(place), api.card(trace.id, place, null, signal)]);
  const { step, index } = card.cell; // of a view: that of another step
  const there = isSamePlace(card.cell, place) ? shown : await around(card.cell);
  return { ...NO_CARD, ...there, card, cell: { step, index } };
}

/** The step that a spot names, or null. */
export function findStep(trace: TraceInfo, spot: Spot | null): TraceInfo['steps'][number] | null {
  return trace.steps.find(({ name }) => name === spot?.step) ?? null;
}

/** Leading places that fit a shape: missing ones are 0, too large ones are cut. */
function fitted(lead: number[], sizes: number[]): number[] {
  return sizes.map((size, axis) => Math.min(lead[axis] ?? 0, Math.max(0, size - 1)));
}
