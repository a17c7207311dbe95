/**
 * The module tree as a list of rows: what is unfolded, in the order in which it was computed.
 *
 * A module's parameters stand first, folded into one row; bookkeeping steps are left out unless all
 * are wanted; a search lists what fits, wherever it is.
 */

import type { BranchInfo, StepInfo, TraceInfo } from '../lib/api';

interface Place {
  /** Unique among all rows of a trace. */
  key: string;
  level: number;
  /** Its place among its siblings, from 1, and how many there are. */
  position: number;
  siblings: number;
  /** The key of the row that it is under; null at the top. */
  parent: string | null;
}

export type Row = Place &
  (
    | { kind: 'branch'; branch: BranchInfo; isOpen: boolean }
    | { kind: 'parameters'; branch: BranchInfo; isOpen: boolean }
    | { kind: 'step'; step: StepInfo }
  );

export interface Folding {
  /** Rows that the reader folded or unfolded himself, by key. */
  toggled: ReadonlyMap<string, boolean>;
  /** Whether bookkeeping steps are shown. */
  all: boolean;
}

type Child =
  | { at: number; kind: 'branch'; branch: BranchInfo }
  | { at: number; kind: 'parameters'; branch: BranchInfo }
  | { at: number; kind: 'step'; step: StepInfo };

export function rowsOf(trace: TraceInfo, folding: Folding): Row[] {
  const rows: Row[] = [];
  addChildren(trace, trace.tree, folding, { level: 1, parent: null }, rows);
  return rows;
}

/** Steps whose name, symbol or operator holds the text; parameters and bookkeeping too. */
export function searchRows(trace: TraceInfo, text: string): Row[] {
  const wanted = text.trim().toLowerCase();
  const listed = new Set(stepsWithin(trace.tree)); // a saved page may hold only some of the steps
  const found = trace.steps.filter(
    ({ number, name, symbol, op }) =>
      listed.has(number) &&
      [name, symbol ?? '', op].some((one) => one.toLowerCase().includes(wanted)),
  );
  return found.map((step, at) => ({
    kind: 'step',
    step,
    key: stepKey(step.number),
    level: 1,
    position: at + 1,
    siblings: found.length,
    parent: null,
  }));
}

export function branchKey(branch: BranchInfo): string {
  return `branch ${branch.path}`;
}

export function parametersKey(branch: BranchInfo): string {
  return `parameters ${branch.path}`;
}

export function stepKey(step: number): string {
  return `step ${step}`;
}

/** All steps within a branch. */
export function stepsWithin(branch: BranchInfo): number[] {
  return [...branch.parameters, ...branch.steps, ...branch.branches.flatMap(stepsWithin)];
}

function addChildren(
  trace: TraceInfo,
  branch: BranchInfo,
  folding: Folding,
  under: { level: number; parent: string | null },
  rows: Row[],
): void {
  const children = childrenOf(trace, branch, folding);
  children.forEach((child, at) => {
    const place = { ...under, position: at + 1, siblings: children.length };
    if (child.kind === 'step') {
      rows.push({ ...place, kind: 'step', step: child.step, key: stepKey(child.step.number) });
      return;
    }
    const isBranch = child.kind === 'branch';
    const key = isBranch ? branchKey(child.branch) : parametersKey(child.branch);
    const isOpen = folding.toggled.get(key) ?? (isBranch && child.branch.is_open);
    rows.push({ ...place, kind: child.kind, branch: child.branch, key, isOpen });
    if (!isOpen) return;
    const inside = { level: under.level + 1, parent: key };
    if (isBranch) addChildren(trace, child.branch, folding, inside, rows);
    else addParameters(trace, child.branch, inside, rows);
  });
}

function addParameters(
  trace: TraceInfo,
  branch: BranchInfo,
  under: { level: number; parent: string | null },
  rows: Row[],
): void {
  branch.parameters.forEach((number, at) => {
    const place = { ...under, position: at + 1, siblings: branch.parameters.length };
    rows.push({ ...place, kind: 'step', step: trace.steps[number]!, key: stepKey(number) });
  });
}

/** Parameters first, then steps and sub-modules by when they began. */
function childrenOf(trace: TraceInfo, branch: BranchInfo, folding: Folding): Child[] {
  const children: Child[] = [];
  if (branch.parameters.length > 0) children.push({ at: -1, kind: 'parameters', branch });
  for (const number of branch.steps) {
    const step = trace.steps[number]!;
    if (step.is_main || folding.all) children.push({ at: number, kind: 'step', step });
  }
  for (const inner of branch.branches) {
    children.push({ at: firstStep(inner), kind: 'branch', branch: inner });
  }
  return children.sort((one, other) => one.at - other.at);
}

function firstStep(branch: BranchInfo): number {
  return Math.min(Infinity, ...branch.steps, ...branch.branches.map(firstStep));
}
