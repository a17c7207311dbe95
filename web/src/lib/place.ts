/** Places of a trace, and where they are in another trace of the same run. */

import type { TraceInfo } from './api';

/** A cell of a trace. */
export interface Place {
  step: number;
  index: number[];
}

export function isSamePlace(one: Place, other: Place): boolean {
  return one.step === other.step && String(one.index) === String(other.index);
}

export function fits(index: number[], shape: number[]): boolean {
  return index.length === shape.length && index.every((at, axis) => at < shape[axis]!);
}

/**
 * The same cell of another trace, or null where it has none: an edit may have changed the way that
 * the program took, and then steps have other numbers and other shapes.
 */
export function carryPlace(place: Place, from: TraceInfo | null, to: TraceInfo): Place | null {
  const name = from?.steps[place.step]?.name;
  const step = to.steps.find((one) => one.name === name);
  if (step === undefined || !fits(place.index, step.shape)) return null;
  return { step: step.number, index: place.index };
}
