/**
 * The ledger of a search as a picture: which candidate stands where, which continues which, and
 * which lie on the way to the best result.
 */

import type { CandidateInfo, DecodeAnswer, DecodeStep } from '../lib/api';

/** A candidate by its step and its place there. */
export interface Spot {
  step: number;
  place: number;
}

/** The place in the step before of the candidate that this one continues; null: the beginning. */
export function parentOf(steps: DecodeStep[], spot: Spot): Spot | null {
  if (spot.step === 0) return null;
  const { parent } = steps[spot.step].candidates[spot.place];
  const place = placesKept(steps[spot.step - 1])[parent];
  return place === undefined ? null : { step: spot.step - 1, place };
}

/** The places of the candidates from which beams go on, in the order in which they are counted. */
export function placesKept(step: DecodeStep): number[] {
  return step.candidates.flatMap((candidate, place) => (candidate.fate === 'kept' ? [place] : []));
}

/** From the first step to this candidate. */
export function pathTo(steps: DecodeStep[], spot: Spot): Spot[] {
  const path = [spot];
  for (let before = parentOf(steps, spot); before !== null; before = parentOf(steps, before)) {
    path.unshift(before);
  }
  return path;
}

/** Where a result ended: the candidate with its score. */
export function endOf(answer: DecodeAnswer, result: number): Spot | null {
  const score = answer.results[result]?.[1];
  if (score === undefined) return null;
  let best: Spot | null = null;
  let closest = Infinity;
  answer.steps.forEach(({ candidates }, step) => {
    candidates.forEach((candidate, place) => {
      const isLast = step === answer.steps.length - 1;
      if (candidate.fate !== 'ended' && !(isLast && candidate.fate === 'kept')) return;
      const distance = Math.abs(candidate.score - score);
      if (distance <= closest) [best, closest] = [{ step, place }, distance];
    });
  });
  return closest <= 1e-6 * Math.max(1, Math.abs(score)) ? best : null;
}

/** The candidates on the way to a result, as `step:place`. */
export function wayTo(answer: DecodeAnswer, result: number): Set<string> {
  const end = endOf(answer, result);
  return new Set(end === null ? [] : pathTo(answer.steps, end).map(key));
}

export function key(spot: Spot): string {
  return `${spot.step}:${spot.place}`;
}

/** The best candidate that was dropped, which says by how much the worst survivor won. */
export function firstDropped(step: DecodeStep): CandidateInfo | null {
  return step.candidates.find((candidate) => candidate.fate === 'dropped') ?? null;
}

/** The last one that went on. */
export function lastKept(step: DecodeStep): CandidateInfo | null {
  return step.candidates.findLast((candidate) => candidate.fate !== 'dropped') ?? null;
}

/** The candidates of a step, most likely to be drawn first, as `p` by the model and as drawn. */
export function bars(
  step: DecodeStep,
): { candidate: CandidateInfo; before: number; after: number }[] {
  return step.candidates.map((candidate) => ({
    candidate,
    before: Math.exp(candidate.log_probability),
    after: candidate.draw_probability ?? (candidate.fate === 'dropped' ? 0 : 1),
  }));
}
