/**
 * Neighbours of a step: the same one in another layer or part of the model, the next, the one before.
 */

import type { AttentionInfo, BranchInfo, StepInfo, TraceInfo } from './api';

/** A step under the name of where it is. */
export interface Neighbour {
  step: number;
  /** The layer's number, or the part's. */
  key: string;
}

/** The same step in each layer, in order: `encoder.blocks.0.attention.scores`, `….1.…`. */
export function inOtherLayers(trace: TraceInfo, step: StepInfo): Neighbour[] {
  const found = /^(.*?\.)?(\d+)\.(.+)$/.exec(step.name);
  if (found === null) return [];
  const [, before = '', , after = ''] = found;
  const alike = trace.steps.flatMap(({ name, number }) => {
    if (!name.startsWith(before) || !name.endsWith(`.${after}`)) return [];
    const key = name.slice(before.length, name.length - after.length - 1);
    return /^\d+$/.test(key) ? [{ step: number, key }] : [];
  });
  return alike.length > 1 ? alike.sort((one, other) => Number(one.key) - Number(other.key)) : [];
}

/** The same step of attention in encoder, decoder and between them, in the same layer if it is there. */
export function inOtherParts(trace: TraceInfo, step: StepInfo): Neighbour[] {
  const here = attentionOf(trace, step);
  if (here === null) return [];
  const rest = step.name.slice(here.module.length);
  const parts = new Map<string, Neighbour>();
  for (const part of ['encoder', 'decoder', 'cross'] as const) {
    const layers = trace.attention.filter((one) => one.part === part);
    const layer = layers.find((one) => one.layer === here.layer) ?? layers.at(-1);
    const found = trace.steps.find(
      ({ name }) => layer !== undefined && name === layer.module + rest,
    );
    if (found !== undefined) parts.set(part, { step: found.number, key: part });
  }
  return parts.size > 1 ? [...parts.values()] : [];
}

/** The attention layer that a step belongs to. */
export function attentionOf(trace: TraceInfo, step: StepInfo): AttentionInfo | null {
  return trace.attention.find(({ module }) => step.name.startsWith(`${module}.`)) ?? null;
}

/** The steps that a reader goes through, in the order in which they were computed. */
export function mainSteps(trace: TraceInfo): number[] {
  return trace.steps
    .filter(({ role, is_main }) => is_main && role !== 'parameter')
    .map(({ number }) => number);
}

/** The main step after (`by` 1) or before (−1) another one; null at the ends. */
export function nextStep(trace: TraceInfo, step: number, by: 1 | -1): number | null {
  const steps = mainSteps(trace);
  const further = steps.filter((one) => (by > 0 ? one > step : one < step));
  return (by > 0 ? further[0] : further.at(-1)) ?? null;
}

/** The branches from the root to the one that holds a step or a parameter. */
export function branchesTo(tree: BranchInfo, step: number): BranchInfo[] {
  if (tree.steps.includes(step) || tree.parameters.includes(step)) return [tree];
  for (const branch of tree.branches) {
    const found = branchesTo(branch, step);
    if (found.length > 0) return [tree, ...found];
  }
  return [];
}
